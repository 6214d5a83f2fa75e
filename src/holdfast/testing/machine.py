"""A store compared with a dict, by whatever Hypothesis thinks of doing to both.

TestMyStore = make_store_machine(lambda: partial(MyStore, new_path())).TestCase
"""

# ruff: noqa: D102 - a rule's name says what it does

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.heads import RunHead, after, fold
from holdfast.model import HIDDEN, Entry
from holdfast.scanning import due_among, due_order
from holdfast.store import RunFilter, Store, trimmed
from holdfast.testing.corpus import HOSTILE_BODIES
from holdfast.testing.invariants import check_store, entry, keeps_index, totals_of

Opener = Callable[[], Store]

RUNS: Final = st.sampled_from(
    ["a", "A", "a ", "a%", "../a", "á", "a\u0301", HIDDEN + "a", "x" * 512]
)
BODIES: Final = st.sampled_from([body for body in HOSTILE_BODIES if len(body) < 300]) | st.binary(
    max_size=20
)
LIMITS: Final = st.integers(0, 6)
STATUSES: Final = st.sampled_from(["open", "running", "deleted"])
_SHORT: Final = st.sampled_from([None, "", "f", "F"])
_FACTS: Final = st.sampled_from([
    "", "{", '{"due":5}', '{"due":-7,"questions":1}', '{"holder":"h","questions":0}',
    '{"holder":"i","labels":{"a":"b"},"parent":"a@s"}', '{"labels":{"a":"b","c":"d"}}',
])  # fmt: skip
_FIELDS: Final = st.fixed_dictionaries(
    {"status": st.sampled_from(["open", "running"]), "size": st.integers(0, 3), "at": st.integers(-9, 9)},
    optional={
        "flow": _SHORT, "thread": _SHORT, "owner": _SHORT, "type": _SHORT, "meta": _FACTS,
        "term": st.just(0), "kind": st.sampled_from(["open", "claim", "question", "result"]),
    },
)  # fmt: skip
_WHERE: Final = st.builds(
    RunFilter,
    status=st.none() | STATUSES,
    flow=_SHORT,
    thread=_SHORT,
    owner=_SHORT,
    type=_SHORT,
    prefix=st.sampled_from(["", "a", "A", "á", "..", "a%", HIDDEN, HIDDEN + "a"]),
)
_ROWS_WHERE: Final = st.builds(
    RunFilter._replace,
    _WHERE | st.just(RunFilter()),
    statuses=st.sampled_from([(), ("open",), ("running", "open"), ("running", "open", "x")]),
    labels=st.sampled_from([(), ("a=b",), ("c=d", "a=b")]),
    since=st.none() | st.integers(-9, 9),
    until=st.none() | st.integers(-9, 9),
    holder=st.sampled_from([None, "h", "i"]),
    asking=st.booleans(),
    roots=st.booleans(),
)


class StoreMachine(RuleBasedStateMachine):
    """Any store against a dict of lists. `make_store_machine` gives it a store to work on."""

    new_storage: Callable[[], Opener]
    """Makes empty storage and returns what opens it; every example starts with one."""

    reopens = True
    """Whether closing and opening again keeps what was stored."""

    derived = False
    """Whether the index is made from what is left of the journals, when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, list[Entry]] = {}
        self.rows: dict[str, RunHead | None] = {}

    @initialize()
    def open_new_storage(self) -> None:
        self.open = type(self).new_storage()
        self.store = self.open()
        self.other = self.open() if self.reopens else self.store

    @rule(
        batch=st.lists(st.tuples(RUNS, st.integers(-1, 2), BODIES, _FIELDS), max_size=6),
        guesses=st.dictionaries(RUNS, st.sampled_from(["right", "wrong", "none"]), max_size=4),
    )
    def append(
        self, batch: list[tuple[str, int, bytes, dict[str, Any]]], guesses: dict[str, str]
    ) -> None:
        tops = {run: self._top(run) for run in {item[0] for item in batch}}
        entries = []
        for run, step, body, fields in batch:
            seq = max(0, tops[run] + step)
            tops[run] = max(tops[run], seq)
            entries.append(entry(run, seq, body, **fields))
        entries.sort(key=lambda item: item.seq)  # those of one run come in seq order
        behind = {run: self._guessed(run, guess) for run, guess in guesses.items()}
        lost = {run for run in behind if behind[run] != self._guessed(run, "right")}
        expected = []
        for item in entries:
            won = item.run not in lost and item.seq == self._top(item.run) + 1
            if won:
                self.model.setdefault(item.run, []).append(item)
                self._index(item)
            else:
                lost.add(item.run)
            expected.append(won)
        assert self.store.append(entries, behind) == expected

    @rule(
        run=RUNS,
        step=st.integers(-1, 2),
        changes=st.dictionaries(st.integers(0, 9), st.none() | BODIES, max_size=8),
        fields=_FIELDS,
    )
    def trim(
        self,
        run: str,
        step: int,
        changes: dict[int, bytes | None],
        fields: dict[str, Any],
    ) -> None:
        marker = entry(run, max(0, self._top(run) + step), b"marker", **fields)
        won = marker.seq == self._top(run) + 1
        assert self.store.trim(marker, changes) is won
        if won:
            journal = [
                trimmed(item, changes.get(item.seq, item.body)) for item in self.model.get(run, [])
            ]
            self.model[run] = [*journal, marker]
            self._index(marker)

    @rule(run=RUNS, step=st.integers(-1, 2))
    def erase(self, run: str, step: int) -> None:
        grave = entry(run, max(0, self._top(run) + step), kind="tombstone", status="deleted")
        won = grave.seq > self._top(run)
        assert self.store.erase(grave) is won
        if won:
            self.model[run] = [grave]
            self._index(grave)

    @rule(
        run=RUNS,
        after=st.none() | st.integers(-1, 10),
        limit=LIMITS,
        newest_first=st.booleans(),
        bodies=st.booleans(),
    )
    def read(
        self, run: str, after: int | None, limit: int, newest_first: bool, bodies: bool
    ) -> None:
        journal = self.model.get(run, [])
        if newest_first:
            page = [item for item in journal[::-1] if after is None or item.seq < after][:limit]
        else:
            page = [item for item in journal if after is None or item.seq > after][:limit]
        expected = page if bodies else [item._replace(body=b"") for item in page]
        found = self.store.read(
            run, after=after, limit=limit, newest_first=newest_first, bodies=bodies
        )
        assert found == expected

    @rule(
        where=_WHERE,
        after=st.just("") | RUNS,
        limit=LIMITS,
    )
    def runs(self, where: RunFilter, after: str, limit: int) -> None:
        heads = [self.model[run][-1]._replace(body=b"") for run in sorted(self.model)]
        expected = [head for head in heads if head.run > after and where.matches(head)][:limit]
        assert self.store.runs(where, after=after, limit=limit) == expected

    @rule(
        where=_ROWS_WHERE,
        before=st.none() | st.tuples(st.integers(-9, 9), RUNS),
        limit=LIMITS,
    )
    def listed(self, where: RunFilter, before: tuple[int, str] | None, limit: int) -> None:
        found = [
            (row, self.model[row.run][-1]._replace(body=b""))
            for row in sorted(self._live_rows(), key=lambda row: row.position, reverse=True)
        ]
        every = [(row, head) for row, head in found if where.lists(row, head)]
        expected = [pair for pair in every if before is None or pair[0].position < before]
        assert self.store.listed(where, before=before, limit=limit) == expected[:limit]
        statuses = [row.status for row, _ in every]
        assert self.store.counts(where) == {each: statuses.count(each) for each in statuses}

    @rule(now=st.integers(-9, 9), flows=st.none() | st.lists(_SHORT.filter(bool)), limit=LIMITS)
    def due_and_holders(self, now: int, flows: list[str] | None, limit: int) -> None:
        rows = list(self._live_rows())
        expected = sorted(due_among(rows, now, flows), key=due_order)[:limit]
        assert self.store.due(now, flows=flows, limit=limit) == expected
        names = [row.holder for row in rows if row.holder is not None]
        assert self.store.holders() == {name: names.count(name) for name in names}

    @rule(write=st.booleans())
    def rebuild(self, write: bool) -> None:
        if self.derived:
            assert self.store.rebuild(write=write) == 0
        elif keeps_index(self.store):
            anew = {run: fold(self.model[run]) for run in self.rows}
            wrong = sum(row != anew[run] for run, row in self.rows.items())
            assert self.store.rebuild(write=write) == wrong
            if write:
                self.rows = anew

    @rule(run=RUNS)
    def last_and_stats(self, run: str) -> None:
        journal = self.model.get(run, [])
        assert self.store.last(run) == (journal[-1] if journal else None)
        assert self.store.stats(run) == totals_of([journal])

    @rule()
    def reopen(self) -> None:
        if self.reopens:
            self.store.close()
            self.store = self.open()

    @rule()
    def go_on_elsewhere(self) -> None:
        """As if another process took turns; what a store remembers must not go stale."""
        self.store, self.other = self.other, self.store

    @invariant()
    def every_head_is_right(self) -> None:
        for run, journal in self.model.items():
            assert self.store.last(run) == journal[-1]

    def teardown(self) -> None:
        """The whole store is compared and checked at the end of every example."""
        if hasattr(self, "store"):
            for run, journal in self.model.items():
                assert self.store.read(run) == journal
            self.store.rebuild()  # what was trimmed may have said more than what is left
            assert check_store(self.store) == []
            self.store.close()
            self.other.close()

    def _index(self, item: Entry) -> None:
        if not item.run.startswith(HIDDEN):
            self.rows[item.run] = after(self.rows.get(item.run), item)

    def _live_rows(self) -> Iterator[RunHead]:
        """The rows as the appends made them, or as what is left of the journals says."""
        for run, row in self.rows.items():
            kept = keeps_index(self.store) and not self.derived
            found = row if kept else fold(self.model[run])
            if found is not None:
                yield found

    def _guessed(self, run: str, guess: str) -> bytes:
        journal = self.model.get(run)
        right = journal[-1].digest if journal else b""
        return {"right": right, "wrong": right[::-1] or b"?", "none": b""}[guess]

    def _top(self, run: str) -> int:
        journal = self.model.get(run)
        return journal[-1].seq if journal else -1


def make_store_machine(
    new_storage: Callable[[], Opener], *, reopens: bool = True, derived: bool = False
) -> type[StoreMachine]:
    """A machine for one kind of store.

    `new_storage` makes empty storage and returns an opener of it, as every example needs its own.
    A `derived` index is made from what is left of the journals, when it is asked.
    """
    members = {
        "new_storage": staticmethod(new_storage),
        "reopens": reopens,
        "derived": derived,
    }
    return type("StoreMachine", (StoreMachine,), members)
