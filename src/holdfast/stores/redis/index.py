"""The heads index on a Redis server or cluster (see `holdfast.heads`).

Scripts keep the rows and the statistics with the entries that they come from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import ormsgpack

from holdfast.heads import Position, RunHead, Tally, change_of, fold, hours
from holdfast.model import Entry, Status
from holdfast.scanning import due_among, of_hours
from holdfast.store import PAGE, RunFilter, Store
from holdfast.stores.redis import index_scripts
from holdfast.stores.redis.keys import SHARDS, Keys, seq_text
from holdfast.stores.redis.link import Link

_ZERO: Final = 1 << 63
_DIGITS: Final = 20
TRIES: Final = 100
_MOST: Final = (Status.COMPLETED.value,)  # what most runs are, so that others filters come first

Found = tuple[Entry, RunHead | None]


class IndexedStore(Store):
    """What a `RedisStore` answers from its index: rows by their places, in sorted sets."""

    _link: Link
    _keys: Keys

    @abstractmethod
    def _look(self, names: Sequence[str]) -> list[Found]:
        """Heads and rows of the runs that have not expired, in the order of their names."""

    @abstractmethod
    def _names(self, prefix: str, after: str, limit: int) -> Iterator[list[str]]:
        """The ids of all shards in order, in pages."""

    @abstractmethod
    def _sizes(self, names: Sequence[str]) -> Iterator[Iterator[tuple[Entry, int]]]:
        """For each run, its entries and the lengths of their bodies."""

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        self._link.check_open()
        ends = [_number(where.until)] if where.until is not None else []
        if before is not None:
            ends.append(_number(before[0]) + before[1].encode())
        low = b"" if where.since is None else _number(where.since)
        found: list[tuple[RunHead, Entry]] = []
        for names in self._newest(_kinds(where), low, min(ends, default=b"\xff"), limit):
            pairs = [(row, head) for head, row in self._look(names) if row is not None]
            found += [pair for pair in pairs if where.lists(*pair)]
            if len(found) >= limit:
                break
        return found[:limit]

    def row(self, run: str) -> RunHead | None:
        self._link.check_open()
        return next((row for _, row in self._look([run])), None)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        self._link.check_open()
        found: list[RunHead] = []
        for names in self._earliest(b"d", _number(now + 1), limit):
            rows = [row for _, row in self._look(names) if row is not None]
            found += due_among(rows, now, flows)
            if len(found) >= limit:
                break
        return found[:limit]

    def holders(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for shard in range(SHARDS):
            low = b"[h"
            while True:
                page = self._link.command(
                    "ZRANGEBYLEX", self._keys.of_shard(shard, b"i"), low, b"(i", "LIMIT", 0, PAGE
                )
                found.update(place[1:].partition(b"\0")[0].decode() for place in page)
                if len(page) < PAGE:
                    break
                low = b"(" + page[-1]
        return dict(found)

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        self._sweep()
        counted: Counter[str] = Counter()
        if where._replace(status=None, statuses=(), flow=None) != RunFilter():
            before: Position | None = None
            while page := self.listed(where, before=before):
                counted.update(row.status for row, _ in page)
                before = page[-1][0].position
            return dict(counted)
        wanted = where.wanted_statuses
        for stored in self._counted():
            for what, number in stored:
                flow, is_one, status = what.decode().rpartition("\0")
                if not is_one or (where.flow is not None and flow != f"={where.flow}"):
                    continue
                if wanted is None or status in wanted:
                    counted[status] += int(number)
        return dict(+counted)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        first, end = hours(since, until)
        found: list[Tally] = []
        for shard, stored in enumerate(self._counted()):
            # The first entry of a batch may be of the day before the last one's.
            days = [int(name) for name, _ in stored if name.isdigit()]
            days = sorted(day for day in days if first // 24 <= day <= end // 24 + 1)
            for at in range(0, len(days), PAGE):
                keys = [self._keys.of_shard(shard, b"t:%d" % day) for day in days[at : at + PAGE]]
                for numbers in self._link.commands([("HGETALL", key) for key in keys]):
                    found += _tallies(dict(_pairs(numbers)))
        return of_hours(found, first, end, flow)

    def rebuild(self, *, write: bool = True) -> int:
        known: set[str] = set()
        wrong = 0
        for names in self._names("", "", PAGE):
            known.update(names)
            wrong += sum(self._repair(run, write) for run in names)
        found = self._link.commands(
            [("HKEYS", self._keys.of_shard(shard, b"h")) for shard in range(SHARDS)]
        )
        left = sorted({name.decode() for page in found for name in page} - known)
        if write:
            self._look(left)
        for shard in range(SHARDS):
            keys = self._keys.of_shard_alone(shard)
            wrong += self._link.ask(index_scripts.TIDY, keys, [int(write)])
        return wrong + len(left)

    def _repair(self, run: str, write: bool) -> bool:
        """Compare the run's row with its journal, and replace it; return whether it was wrong."""
        for _ in range(TRIES):
            journal = [entry for sizes in self._sizes([run]) for entry, _ in sizes]
            head = seq_text(journal[-1].seq) if journal else b""
            arguments = [run.encode(), head, packed_row(fold(journal)), int(write)]
            done = self._link.ask(index_scripts.REPAIR, self._keys.of_run(run), arguments)
            if done >= 0:
                return bool(done)
        return True  # others write to it all the time, and to its row

    def _newest(
        self, kinds: Sequence[bytes], low: bytes, high: bytes, limit: int
    ) -> Iterator[list[str]]:
        """The runs of all shards below these letters and texts, the last opened first, in pages."""
        chunk = 2 * limit // SHARDS + 8
        while low < high and limit > 0:
            ranges = self._link.commands([
                ("ZREVRANGEBYLEX", self._keys.of_shard(shard, b"i"), b"(" + kind + high, b"[" + kind + low,
                 "LIMIT", 0, chunk)
                for kind in kinds for shard in range(SHARDS)
            ])  # fmt: skip
            places: set[bytes] = set()
            reached = b""
            for place, found in enumerate(ranges):
                kind = kinds[place // SHARDS]
                ours = [name[len(kind) :] for name in found]
                places.update(ours)
                if len(ours) == chunk:
                    reached = max(reached, ours[-1])
            yield [
                name[_DIGITS:].decode() for name in sorted(places, reverse=True) if name >= reached
            ]
            if not reached:
                return
            high = reached

    def _earliest(self, kind: bytes, high: bytes, limit: int) -> Iterator[list[str]]:
        """The runs of all shards with a number below that, the lowest first, in pages."""
        chunk = 2 * limit // SHARDS + 8
        low = b"[" + kind
        while limit > 0:
            ranges = self._link.commands([
                ("ZRANGEBYLEX", self._keys.of_shard(shard, b"i"), low, b"(" + kind + high, "LIMIT", 0, chunk)
                for shard in range(SHARDS)
            ])  # fmt: skip
            reached = min((found[-1] for found in ranges if len(found) == chunk), default=None)
            yield [
                name[len(kind) + _DIGITS :].decode()
                for name in sorted(name for found in ranges for name in found)
                if reached is None or name <= reached
            ]
            if reached is None:
                return
            low = b"(" + reached

    def _counted(self) -> list[list[tuple[bytes, bytes]]]:
        """What each shard counts."""
        found = self._link.commands(
            [("HGETALL", self._keys.of_shard(shard, b"c")) for shard in range(SHARDS)]
        )
        return [list(_pairs(counts)) for counts in found]

    def _sweep(self) -> None:
        """Look at the runs that should have expired: those that have leave the index.

        A script reads the clock after the expiry was set, so its times are a little late: look a
        second ahead.
        """
        seconds, _ = self._link.command("TIME")
        for names in self._earliest(b"x", b"%020d" % ((int(seconds) + 2) * 1000), PAGE):
            if names:
                self._look(names)


def packed_change(entry: Entry) -> bytes:
    """What an entry does to its run's row, as scripts read it; empty if nothing."""
    change = change_of([entry])
    if change is None:
        return b""
    row = False if change.makes is None else _fields(change.makes)
    kept = (change.keeps_holder, change.keeps_due, change.keeps_questions)
    return ormsgpack.packb([change.removes, *kept, row])


def packed_row(row: RunHead | None) -> bytes:
    """A row as scripts read it; empty if there is none."""
    return b"" if row is None else ormsgpack.packb(_fields(row))


def row_of(run: str, packed: bytes) -> RunHead | None:
    """The row that a script returned; None if it is not one."""
    try:
        fields: list[Any] = [
            None if value is False else value for value in ormsgpack.unpackb(packed)
        ]
        opened, changed, *texts, due, questions, labels, seq, _ = fields
        status, flow, thread, owner, parent, holder = texts
        return RunHead(
            run, _int(opened), _int(changed), status, flow, thread, owner, parent, holder,
            None if due is None else _int(due), _int(questions), tuple(labels), _int(seq),
        )  # fmt: skip
    except (ValueError, TypeError):
        return None


def _fields(row: RunHead) -> list[object]:
    """Numbers are not exact in scripts, and lists have no gaps."""
    texts = [text if text is not None else False for text in row[3:9]]
    due = False if row.due is None else _number(row.due).decode()
    numbers = [_number(n).decode() for n in (row.opened, row.changed, row.questions, row.seq)]
    opened, changed, questions, seq = numbers
    return [opened, changed, *texts, due, questions, list(row.labels), seq, False]


def _kinds(where: RunFilter) -> list[bytes]:
    """Where to look for the runs that a filter matches: where the fewest others are."""
    statuses = where.wanted_statuses
    if statuses == ():
        return []
    if where.labels:
        return [b"l%s\0" % where.labels[0].encode()]
    if where.holder is not None:
        return [b"h%s\0" % where.holder.encode()]
    if where.thread is not None:
        return [b"t%s\0" % where.thread.encode()]
    if where.asking:
        return [b"q\0"]
    by_status = [b"s%s\0" % status.encode() for status in statuses or ()]
    if by_status and not set(_MOST) & set(statuses or ()):
        return by_status
    if where.owner is not None:
        return [b"w%s\0" % where.owner.encode()]
    if where.flow is not None:
        return [b"f%s\0" % where.flow.encode()]
    return by_status or [b"o"]


def _tallies(numbers: dict[bytes, bytes]) -> Iterator[Tally]:
    for name, number in numbers.items():
        if name.startswith(b"n"):
            hour, what, bucket, flow = name[1:].decode().split("\0", 3)
            total = int(numbers.get(b"t" + name[1:], 0))
            yield Tally(int(hour), flow, what, int(bucket), int(number), total)


def _pairs(found: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    if isinstance(found, dict):  # as newer protocols answer
        yield from found.items()
        return
    words = iter(found)
    while pair := tuple(islice(words, 2)):
        yield pair[0], pair[1]


def _number(value: int) -> bytes:
    """A number of 64 bits as text that sorts as it does."""
    return b"%020d" % min(max(value + _ZERO, 0), 10**_DIGITS - 1)


def _int(text: str) -> int:
    return int(text) - _ZERO
