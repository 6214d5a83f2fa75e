"""Journals in MongoDB; see `_shared/document_store.py` for how they are stored.

PREFIX_runs     _id the run                       its document
PREFIX_entries  _id the run, NUL, seq in 19 digits   an entry
PREFIX_bodies   _id the run, NUL, name, NUL, part    a large body, in parts: one holds 16 MB
PREFIX_hours    _id hour, NUL, flow, NUL, number     statistics, in several places: many add to them

A run's document has its row of the heads index as `h`, with a short name for each field.
"""

from __future__ import annotations

import re
import secrets
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.extras import missing_extra
from holdfast.heads import Position, RunHead
from holdfast.model import MAX_ID_BYTES
from holdfast.seams import on_fork
from holdfast.store import RunFilter, Survives
from holdfast.stores._shared.address import (
    check_user_part,
    has_secret_options,
    masked,
)
from holdfast.stores._shared.document import Item, pack_row, unpack_row
from holdfast.stores._shared.document_index import IndexedDocumentStore, Row
from holdfast.stores._shared.documents import Swap
from holdfast.stores._shared.errors import Translated
from holdfast.stores._shared.fields import digits

try:
    import pymongo
    from pymongo import errors as px
    from pymongo.read_preferences import ReadPreference
    from pymongo.uri_parser import parse_uri
    from pymongo.write_concern import WriteConcern
except ModuleNotFoundError as error:
    raise missing_extra("mongodb", error, "this store") from error

CONNECT_MILLISECONDS: Final = 5_000
ANSWER_MILLISECONDS: Final = 30_000  # unless the URL has a time of its own
_PART: Final = 8 << 20
_MOST: Final = 1 << 63  # and the least of a number of 64 bits is below zero
_PLACES: Final = 8
_LAST_HOUR: Final = 10**10 - 1
_NAMES: Final = (
    "o",
    "c",
    "s",
    "f",
    "t",
    "w",
    "p",
    "h",
    "d",
    "q",
    "l",
    "n",
)  # as `RunHead` has them
_INDEXES: Final = ("o", "so", "fso", "wo", "to", "ho", "lo", "d")
_LOST: Final = (px.ConnectionFailure, px.ExecutionTimeout, px.WTimeoutError, px.WriteConcernError)


class MongoDBStore(IndexedDocumentStore):
    """Journals in a MongoDB database, for any number of processes anywhere.

    `where` is a URL, whose path names the database, or a client of your own, which stays yours to
    close. Every save waits for the journals of a majority of the servers. Entries of different
    runs, and more than about a hundred of one run, are not saved atomically.
    """

    lasting = "use a persistent storage engine, and grant `clusterMonitor` so that it can be seen"

    def __init__(
        self, where: str | pymongo.MongoClient[Any], *, database: str = "", prefix: str = "holdfast"
    ) -> None:
        super().__init__()
        if isinstance(where, str):
            check_user_part(where)
            _check_url(where)
        self._url = where if isinstance(where, str) else None
        self._client: Any = None if isinstance(where, str) else where
        self._name = database
        self._prefix = prefix
        self.url = (
            masked(where) if isinstance(where, str) else f"mongodb://{database or 'holdfast'}"
        )
        on_fork(self._disconnect)

    def survives(self) -> Survives:
        self._check_open()
        try:
            with self._translated():
                status = self._database().command("serverStatus")
        except StoreUnavailableError:
            raise
        except (HoldfastError, NotImplementedError):  # not allowed to ask
            return "nothing"
        return "power-loss" if status.get("storageEngine", {}).get("persistent") else "nothing"

    def exists(self) -> bool:
        self._check_open()
        with self._translated():
            return f"{self._prefix}_runs" in self._database().list_collection_names()

    def close(self) -> None:
        super().close()
        if self._url is not None and self._client is not None:
            self._client.close()
            self._client = None

    # documents

    def _get(self, run: str) -> bytes | None:
        with self._translated():
            found = self._in("runs").find_one({"_id": run}, {"d": 1})
            return None if found is None else _bytes(found["d"])

    def _swap(self, run: str, old: int, new: Swap) -> bool:
        document: dict[str, Any] = {"v": new.version, "d": new.packed, "t": new.top}
        if new.changed or not old:
            document["h"] = None if new.row is None else _fields(new.row)
        with self._translated(run):
            if old:
                wanted = {"_id": run, "v": old}
                done = self._in("runs").update_one(wanted, {"$set": document})
                return bool(done.matched_count)
            try:
                self._in("runs").insert_one({"_id": run, **document})
            except px.DuplicateKeyError:
                return False
            return True

    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        wanted = {"_id": {"$gte": low, "$gt": above, "$lt": high}}
        with self._translated():
            found = self._in("runs").find(wanted, {"t": 1}).sort("_id", 1).limit(limit)
            return [(row["_id"], _bytes(row["t"])) for row in found]

    # the heads index

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        if where.type is not None:
            return super().counts(where)
        self._ready()
        return self._grouped(_wanted(where), "s")

    def holders(self) -> dict[str, int]:
        self._ready()
        return self._grouped({"h.h": {"$gt": ""}}, "h")

    def _grouped(self, wanted: dict[str, Any], name: str) -> dict[str, int]:
        steps = [{"$match": wanted}, {"$group": {"_id": f"$h.{name}", "n": {"$sum": 1}}}]
        with self._translated():
            found = self._in("runs").aggregate(steps)
            return {str(row["_id"]): int(row["n"]) for row in found}

    def _page(self, where: RunFilter, before: Position | None, limit: int) -> list[Row]:
        wanted = _wanted(where)
        if before is not None:
            opened, run = before
            same = {"h.o": opened, "_id": {"$lt": run}}
            wanted = {"$and": [wanted, {"$or": [{"h.o": {"$lt": opened}}, same]}]}
        with self._translated():
            found = self._in("runs").find(wanted, {"h": 1, "t": 1})
            newest = found.sort([("h.o", -1), ("_id", -1)]).limit(limit)
            return [(_row(row["_id"], row["h"]), _bytes(row["t"])) for row in newest]

    def _due(self, now: int, flows: Collection[str] | None, limit: int) -> list[RunHead]:
        wanted: dict[str, Any] = {"h.d": {"$lte": now, "$gte": -_MOST}}
        if flows is not None:
            wanted["$or"] = [{"h.f": {"$in": sorted(flows)}}, {"h.p": {"$gt": ""}}]
        with self._translated():
            found = self._in("runs").find(wanted, {"h": 1})
            earliest = found.sort([("h.d", 1), ("_id", 1)]).limit(limit)
            return [_row(row["_id"], row["h"]) for row in earliest]

    def _row(self, run: str) -> RunHead | None:
        with self._translated():
            found = self._in("runs").find_one({"_id": run}, {"h": 1})
            try:
                return _row(run, found["h"]) if found and found.get("h") else None
            except (KeyError, TypeError, ValueError):
                return None

    def _add(self, hour: int, flow: str, numbers: Mapping[str, int]) -> None:
        name = f"{hour:010}\x00{flow}\x00{secrets.randbelow(_PLACES)}"
        with self._translated():
            hours = self._in("hours").with_options(write_concern=WriteConcern(1))
            hours.update_one({"_id": name}, {"$inc": dict(numbers)}, upsert=True)

    def _hours(self, first: int, end: int) -> Iterable[tuple[int, str, Mapping[str, int]]]:
        wanted = {"_id": {"$gte": f"{first:010}\x00", "$lt": f"{min(end, _LAST_HOUR):010}\x00"}}
        with self._translated():
            found = list(self._in("hours").find(wanted))
            for row in found:
                hour, flow, _ = row.pop("_id").split("\x00")
                yield int(hour), flow, {name: int(number) for name, number in row.items()}

    def _is_complete(self) -> bool:
        with self._translated():
            for fields in _INDEXES:
                self._in("runs").create_index([(f"h.{name}", 1) for name in fields])
            return self._in("hours").find_one({"_id": "index"}) is not None

    def _say_complete(self) -> None:
        with self._translated():
            self._in("hours").replace_one({"_id": "index"}, {"format": 1}, upsert=True)

    # entries

    def _put(self, run: str, item: Item) -> None:
        wanted = {"_id": _key(run, item.seq), "m": {"$lt": item.trims}}
        row = {"m": item.trims, "f": item.fields, "b": item.body, "o": item.blob}
        with self._translated():
            try:
                self._in("entries").update_one(wanted, {"$set": row}, upsert=True)
            except px.DuplicateKeyError:
                return  # the one that is there is as new, or newer

    def _items(
        self, run: str, low: int, high: int, limit: int, *, newest_first: bool, bodies: bool
    ) -> list[Item]:
        wanted = {"_id": {"$gte": _key(run, low), "$lte": _key(run, high)}}
        fields = {"m": 1, "f": 1, "o": 1} | ({"b": 1} if bodies else {})
        with self._translated():
            found = self._in("entries").find(wanted, fields)
            return [
                Item(int(row["_id"][-19:]), int(row["m"]), _bytes(row["f"]), _bytes(row.get("b", b"")), row["o"])
                for row in found.sort("_id", -1 if newest_first else 1).limit(limit)
            ]  # fmt: skip

    def _delete(self, run: str, seqs: Collection[int]) -> None:
        with self._translated():
            self._in("entries").delete_many({"_id": {"$in": [_key(run, seq) for seq in seqs]}})

    # large bodies

    def _put_blob(self, run: str, name: str, body: bytes) -> None:
        with self._translated():
            for part, at in enumerate(range(0, len(body), _PART)):
                row = {"_id": f"{run}\x00{name}\x00{part:06}", "b": body[at : at + _PART]}
                self._in("bodies").insert_one(row)

    def _get_blob(self, run: str, name: str) -> bytes | None:
        with self._translated():
            found = self._in("bodies").find(_parts(run, name)).sort("_id", 1)
            parts = [_bytes(row["b"]) for row in found]
        return b"".join(parts) if parts else None

    def _delete_blob(self, run: str, name: str) -> None:
        with self._translated():
            self._in("bodies").delete_many(_parts(run, name))

    # the client

    def _in(self, collection: str) -> Any:
        return self._database()[f"{self._prefix}_{collection}"].with_options(
            write_concern=WriteConcern("majority", j=True, wtimeout=ANSWER_MILLISECONDS),
            read_preference=ReadPreference.PRIMARY,
        )

    def _database(self) -> Any:
        if self._client is None:
            limits: dict[str, Any] = {"serverSelectionTimeoutMS": CONNECT_MILLISECONDS}
            if self._url is not None and not re.search(
                r"[?&](?:socketT|t)imeoutMS=", self._url, re.IGNORECASE
            ):
                limits["socketTimeoutMS"] = ANSWER_MILLISECONDS
            self._client = pymongo.MongoClient(self._url, **limits)
        if self._name:
            return self._client[self._name]
        return self._client.get_default_database("holdfast")

    def _disconnect(self) -> None:
        if self._url is not None:
            self._client = None  # a child can't use its parent's client

    def _translated(self, run: str | None = None) -> AbstractContextManager[None]:
        """Let no driver error escape. With a run, a lost reply leaves the outcome unknown."""
        strange = (KeyError, TypeError, ValueError)  # a document that holdfast did not write
        return Translated(self.url, (px.PyMongoError, *strange), partial(self._translate, run))

    def _translate(self, run: str | None, error: Exception) -> HoldfastError:
        text = f"{self.url}: {error}"
        if isinstance(error, px.ServerSelectionTimeoutError | px.WaitQueueTimeoutError):
            return StoreUnavailableError(text)
        if isinstance(error, _LOST):
            return StoreUnavailableError(text) if run is None else OutcomeUnknownError(run, text)
        if isinstance(error, px.PyMongoError | UnicodeError):
            return StoreError(text)
        return CheckpointCorruptedError(self.url, None, repr(error))


def _check_url(url: str) -> None:
    """Raise `ValueError` for a URL that the driver would refuse at the first call."""
    if url.startswith("mongodb+srv:"):  # to parse it, the driver asks a name server
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # they come again when it connects
            parse_uri(url)
    except (px.PyMongoError, ValueError, TypeError) as error:
        if has_secret_options(url):  # the message may repeat it
            raise ValueError("pymongo can't read it; check its options") from None
        raise ValueError(str(error)) from None


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r:.99} should be bytes")
    return bytes(value)


def _fields(row: RunHead) -> dict[str, Any]:
    """A row as the database finds it."""
    found = dict(zip(_NAMES, pack_row(row), strict=True))
    return {name: value for name, value in found.items() if value is not None}


def _row(run: str, fields: object) -> RunHead:
    if not isinstance(fields, dict):
        raise TypeError(f"{fields!r:.99} is not a row")
    row = unpack_row(run, [_plain(fields.get(name)) for name in _NAMES])
    assert row is not None
    return row


def _plain(value: object) -> object:
    """Numbers of 64 bits have a type of their own."""
    return int(value) if isinstance(value, int) else value


def _wanted(where: RunFilter) -> dict[str, Any]:
    """The filter as a query, except for the type of heads."""
    low = -_MOST if where.since is None else where.since
    opened = {"$gte": low} | ({} if where.until is None else {"$lt": where.until})
    wanted: dict[str, Any] = {"h.o": opened}
    if where.wanted_statuses is not None:
        wanted["h.s"] = {"$in": list(where.wanted_statuses)}
    for name, value in (
        ("f", where.flow),
        ("t", where.thread),
        ("w", where.owner),
        ("h", where.holder),
    ):
        if value is not None:
            wanted[f"h.{name}"] = value
    if where.labels:
        wanted["h.l"] = {"$all": list(where.labels)}
    if where.asking:
        wanted["h.q"] = {"$gt": 0}
    if where.roots:
        wanted["h.p"] = None
    if where.prefix:
        last = where.prefix + chr(0x10FFFF) * MAX_ID_BYTES
        wanted["_id"] = {"$gte": where.prefix, "$lt": last}
    return wanted


def _key(run: str, seq: int) -> str:
    return f"{run}\x00{digits(seq)}"


def _parts(run: str, name: str) -> dict[str, Any]:
    return {"_id": {"$gte": f"{run}\x00{name}\x00", "$lt": f"{run}\x00{name}\x01"}}
