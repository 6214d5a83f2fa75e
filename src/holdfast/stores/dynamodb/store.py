"""Journals in one DynamoDB table; see `_shared/document_store.py` for how they are stored.

pk rNN   sk the run       its document; NN of 4 by a hash, so that no partition has them all
pk e RUN sk seq, 19 digits   an entry
pk b RUN sk name, part       a large body, in parts: an item holds 400 KB
pk tNN   sk hour, flow       statistics, in several places: many add to them
pk i     sk format           says that every document has its row of the heads index

That row is `h` of the document. The secondary index `newest` finds it by `ho`: when the run was
opened, and its id; `due` by `hd`: when it is due, and its id. They may be a moment behind.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urlsplit
from zlib import crc32

import ormsgpack

from holdfast.changes import Change, poll_heads
from holdfast.heads import Position, RunHead
from holdfast.scanning import due_among, fits
from holdfast.store import PAGE, RunFilter, Survives
from holdfast.stores._shared.document import Item, pack_row, unpack_row
from holdfast.stores._shared.document_index import Row
from holdfast.stores._shared.documents import Swap
from holdfast.stores._shared.fields import digits
from holdfast.stores.dynamodb.table import DUE, NEWEST, Table, wire

SHARDS: Final = 4
_PART: Final = 350_000
_POLLED: Final = 25  # heads a second: every read is paid for
_ZERO: Final = 1 << 63
_AT_ONCE: Final = 100  # items that one request may get
_LAST_HOUR: Final = 10**10 - 1


class DynamoDBStore(Table):
    """Journals in a DynamoDB table, for any number of processes anywhere.

    The table is created if it is missing, and paid per request. Boto3 finds the credentials. Or give
    `client`, a DynamoDB client of your own. Entries of different runs, and more than about a
    hundred of one run, are not saved atomically.
    """

    lasting = "use Amazon's own service; what others survive is not known"

    inline_bytes = 8 << 10  # a write is paid for by the kilobyte
    heavy_bytes = 16 << 10
    document_bytes = 390_000  # of an item, and it has more to hold

    def __init__(
        self,
        table: str = "holdfast",
        *,
        region: str | None = None,
        endpoint: str | None = None,
        client: Any = None,
    ) -> None:
        if endpoint is not None and "@" in endpoint:
            raise ValueError(
                "endpoint must not contain a user; give credentials to boto3, as in AWS_ACCESS_KEY_ID"
            )
        super().__init__(table, region, endpoint, client)
        self.url = f"dynamodb://{table}" + (f"?region={region}" if region else "")

    def survives(self) -> Survives:
        self._check_open()
        with self._translated():
            host = urlsplit(self._db.meta.endpoint_url).hostname or ""
        # Amazon stores what it acknowledged on disks in several places.
        amazons = host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))
        return "power-loss" if amazons else "nothing"

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        return poll_heads(self, mark, _POLLED)

    def exists(self) -> bool:
        self._check_open()
        with self._translated():
            return self._has_table(self._connected())

    def close(self) -> None:
        super().close()
        client, self._client = self._client, None
        if client is not None and self._given is None:
            client.close()

    # documents

    def _get(self, run: str) -> bytes | None:
        with self._translated():
            key = wire(pk=_shard(run), sk=run)
            found = self._db.get_item(TableName=self._table, Key=key, ConsistentRead=True)
            document: bytes | None = found["Item"]["d"]["B"] if "Item" in found else None
        return document

    def _swap(self, run: str, old: int, new: Swap) -> bool:
        item = wire(pk=_shard(run), sk=run, v=new.version, d=new.packed, t=new.top)
        item |= wire(**_found_by(new.row)) if new.row is not None else {}
        with self._translated(run):
            if old:
                return self._put_if("v = :old", item, wire(**{":old": old}))
            return self._put_if("attribute_not_exists(pk)", item)

    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        pages = []
        for shard in range(SHARDS):
            found = self._query(f"r{shard:02}", max(low, above), high, "sk, t", limit + 1)
            with self._translated():
                tops = [(i["sk"]["S"], i["t"]["B"]) for i in found]
            tops = [top for top in tops if above < top[0] < high]
            pages.append(tops[:limit])
        return list(islice(merge(*pages), limit))

    # the heads index

    def _page(self, where: RunFilter, before: Position | None, limit: int) -> list[Row]:
        found: list[Row] = []
        rows = self._newest(where, before, limit)
        while len(found) < limit and (page := list(islice(rows, limit - len(found)))):
            # What was found may be a moment old, and what it is now counts.
            now = self._rows_of([row.run for row in page])
            found += [now[row.run] for row in page if row.run in now]
        return found

    def _rows(self, where: RunFilter) -> Iterator[RunHead]:
        return self._newest(where, None, PAGE) if where.type is None else super()._rows(where)

    def _newest(self, where: RunFilter, before: Position | None, limit: int) -> Iterator[RunHead]:
        low = "0" if where.since is None else _digits(where.since)
        high = ":" if where.until is None else _digits(where.until)
        if before is not None:
            high = min(high, _digits(before[0]) + before[1])
        rows = self._merged(NEWEST, low, high, limit, forward=False)
        return (
            row for row in rows if fits(where, row) and (before is None or row.position < before)
        )

    def _due(self, now: int, flows: Collection[str] | None, limit: int) -> list[RunHead]:
        rows = self._merged(DUE, "0", _digits(now + 1), limit, forward=True)
        return list(islice(due_among(rows, now, flows), limit))

    def _merged(
        self, index: str, low: str, high: str, limit: int, *, forward: bool
    ) -> Iterator[RunHead]:
        """The rows of all shards that an index finds, in its order."""
        shards = [
            self._found(index, f"r{shard:02}", low, high, limit, forward) for shard in range(SHARDS)
        ]
        return (row for _, row in merge(*shards, key=itemgetter(0), reverse=not forward))

    def _found(
        self, index: str, pk: str, low: str, high: str, limit: int, forward: bool
    ) -> Iterator[tuple[str, RunHead]]:
        name = "ho" if index == NEWEST else "hd"
        last = ""
        while True:
            page = self._query(
                pk, low, high, f"sk, {name}, h", limit + 1, forward=forward, index=index
            )
            with self._translated():
                keys = [(item[name]["S"], item) for item in page]
            for key, item in keys:
                row = _row(item)
                if key != last and row is not None:
                    yield key, row
            if len(page) <= limit:
                return
            last = keys[-1][0]
            low, high = (last, high) if forward else (low, last)

    def _rows_of(self, runs: Sequence[str]) -> dict[str, Row]:
        """Rows as they are now, by run, of those that have one."""
        found: dict[str, Row] = {}
        for at in range(0, len(runs), _AT_ONCE):
            keys = [wire(pk=_shard(run), sk=run) for run in runs[at : at + _AT_ONCE]]
            for item in self._get_all(keys, "sk, t, h"):
                row = _row(item)
                if row is not None:
                    with self._translated():
                        found[row.run] = row, item["t"]["B"]
        return found

    def _row(self, run: str) -> RunHead | None:
        with self._translated():
            key = wire(pk=_shard(run), sk=run)
            found = self._db.get_item(TableName=self._table, Key=key, ConsistentRead=True)
            item = found.get("Item", {})
        row = _row(item)
        if row is None or wire(**_found_by(row)) != {
            name: item[name] for name in ("h", "ho", "hd") if name in item
        }:
            return None
        return row

    def _add(self, hour: int, flow: str, numbers: Mapping[str, int]) -> None:
        values = {f":{name}": number for name, number in numbers.items()}
        with self._translated():
            self._db.update_item(
                TableName=self._table,
                Key=wire(pk=f"t{secrets.randbelow(SHARDS):02}", sk=f"{hour:010}:{flow}"),
                UpdateExpression="ADD " + ", ".join(f"{name} :{name}" for name in numbers),
                ExpressionAttributeValues=wire(**values),
            )

    def _hours(self, first: int, end: int) -> Iterable[tuple[int, str, Mapping[str, int]]]:
        for shard in range(SHARDS):
            low, high = f"{first:010}:", f"{min(end, _LAST_HOUR):010}"
            found = self._query(f"t{shard:02}", low, high, "")
            with self._translated():
                for item in found:
                    hour, _, flow = item["sk"]["S"].partition(":")
                    numbers = {name: int(n["N"]) for name, n in item.items() if "N" in n}
                    yield int(hour), flow, numbers

    def _is_complete(self) -> bool:
        with self._translated():
            key = wire(pk="i", sk="format")
            return "Item" in self._db.get_item(TableName=self._table, Key=key, ConsistentRead=True)

    def _say_complete(self) -> None:
        with self._translated():
            self._db.put_item(TableName=self._table, Item=wire(pk="i", sk="format", v=1))

    # entries

    def _put(self, run: str, item: Item) -> None:
        row = wire(
            pk=f"e{run}", sk=digits(item.seq), m=item.trims, f=item.fields, b=item.body, o=item.blob
        )
        with self._translated():
            self._put_if("attribute_not_exists(pk) OR m < :m", row, {":m": row["m"]})

    def _items(
        self, run: str, low: int, high: int, limit: int, *, newest_first: bool, bodies: bool
    ) -> list[Item]:
        fields = "sk, m, f, o" + (", b" if bodies else "")
        found = self._query(
            f"e{run}", digits(low), digits(high), fields, limit, forward=not newest_first
        )
        with self._translated():
            return [
                Item(
                    seq=int(i["sk"]["S"]),
                    trims=int(i["m"]["N"]),
                    fields=i["f"]["B"],
                    body=i["b"]["B"] if bodies else b"",
                    blob=i["o"]["S"],
                )
                for i in found
            ]

    def _delete(self, run: str, seqs: Collection[int]) -> None:
        with self._translated():
            for seq in seqs:
                self._delete_key(f"e{run}", digits(seq))

    # large bodies

    def _put_blob(self, run: str, name: str, body: bytes) -> None:
        with self._translated():
            for part, at in enumerate(range(0, len(body), _PART)):
                item = wire(pk=f"b{run}", sk=f"{name}:{part:06}", b=body[at : at + _PART])
                self._db.put_item(TableName=self._table, Item=item)

    def _get_blob(self, run: str, name: str) -> bytes | None:
        parts = self._query(f"b{run}", f"{name}:", f"{name};", "b")
        with self._translated():
            return b"".join(part["b"]["B"] for part in parts) if parts else None

    def _delete_blob(self, run: str, name: str) -> None:
        found = self._query(f"b{run}", f"{name}:", f"{name};", "sk")
        with self._translated():
            # The last first, so that what is left never looks whole.
            for part in reversed(found):
                self._delete_key(f"b{run}", part["sk"]["S"])


def _shard(run: str) -> str:
    return f"r{crc32(run.encode()) % SHARDS:02}"


def _digits(number: int) -> str:
    """A number of 64 bits as text that sorts as it does."""
    return f"{min(max(number + _ZERO, 0), 10**20 - 1):020}"


def _found_by(row: RunHead) -> dict[str, str | bytes]:
    """The attributes of a row."""
    found: dict[str, str | bytes] = {
        "h": ormsgpack.packb(pack_row(row)),
        "ho": _digits(row.opened) + row.run,
    }
    if row.due is not None:
        found["hd"] = _digits(row.due) + row.run
    return found


def _row(item: Mapping[str, Any]) -> RunHead | None:
    """The row of an item; None if it has none that can be read."""
    try:
        return unpack_row(item["sk"]["S"], ormsgpack.unpackb(item["h"]["B"]))
    except (KeyError, ValueError, TypeError):
        return None
