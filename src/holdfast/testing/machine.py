"""A store compared with a dict, by whatever Hypothesis thinks of doing to both.

TestMyStore = make_store_machine(lambda: partial(MyStore, new_path())).TestCase
"""

# ruff: noqa: D102 - a rule's name says what it does

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.model import HIDDEN, Entry
from holdfast.store import RunFilter, Store, trimmed
from holdfast.testing.corpus import HOSTILE_BODIES
from holdfast.testing.invariants import check_store, entry, totals_of

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
_FIELDS: Final = st.fixed_dictionaries(
    {"status": STATUSES, "size": st.integers(0, 3), "at": st.integers(-9, 9)},
    optional={"flow": _SHORT, "thread": _SHORT, "owner": _SHORT, "type": _SHORT},
)


class StoreMachine(RuleBasedStateMachine):
    """Any store against a dict of lists. `make_store_machine` gives it a store to work on."""

    new_storage: Callable[[], Opener]
    """Makes empty storage and returns what opens it; every example starts with one."""

    reopens = True
    """Whether closing and opening again keeps what was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, list[Entry]] = {}

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

    @rule(run=RUNS, step=st.integers(-1, 2))
    def erase(self, run: str, step: int) -> None:
        grave = entry(run, max(0, self._top(run) + step), kind="tombstone", status="deleted")
        won = grave.seq > self._top(run)
        assert self.store.erase(grave) is won
        if won:
            self.model[run] = [grave]

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
        where=st.builds(
            RunFilter,
            status=st.none() | STATUSES,
            flow=_SHORT,
            thread=_SHORT,
            owner=_SHORT,
            type=_SHORT,
            prefix=st.sampled_from(["", "a", "A", "á", "..", "a%", HIDDEN, HIDDEN + "a"]),
        ),
        after=st.just("") | RUNS,
        limit=LIMITS,
    )
    def runs(self, where: RunFilter, after: str, limit: int) -> None:
        heads = [self.model[run][-1]._replace(body=b"") for run in sorted(self.model)]
        expected = [head for head in heads if head.run > after and where.matches(head)][:limit]
        assert self.store.runs(where, after=after, limit=limit) == expected

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
            assert check_store(self.store) == []
            self.store.close()
            self.other.close()

    def _guessed(self, run: str, guess: str) -> bytes:
        journal = self.model.get(run)
        right = journal[-1].digest if journal else b""
        return {"right": right, "wrong": right[::-1] or b"?", "none": b""}[guess]

    def _top(self, run: str) -> int:
        journal = self.model.get(run)
        return journal[-1].seq if journal else -1


def make_store_machine(
    new_storage: Callable[[], Opener], *, reopens: bool = True
) -> type[StoreMachine]:
    """A machine for one kind of store.

    `new_storage` makes empty storage and returns an opener of it, as every example needs its own.
    """
    members = {"new_storage": staticmethod(new_storage), "reopens": reopens}
    return type("StoreMachine", (StoreMachine,), members)
