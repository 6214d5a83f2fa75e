"""How any store is polled for changes, whatever it can do itself."""

from __future__ import annotations

from holdfast.changes import ANY_RUN, Change, poll_heads
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry
from holdfast.store import PAGE, RunFilter
from holdfast.stores.memory import MemoryStore
from holdfast.testing.contract import entry
from holdfast.testing.invariants import tombstone


class Damaged(MemoryStore):
    """The head of one run can't be read."""

    damaged = True

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        if self.damaged:
            raise CheckpointCorruptedError("run", 0, "no number")
        return super().runs(where, after=after, limit=limit)


def test_each_poll_looks_at_the_next_runs_and_at_the_newest_in_turn() -> None:
    store = MemoryStore()
    opening = [entry(f"run-{n}", 0, at=n) for n in range(9)]
    store.append(opening)
    mark, found = poll_heads(store, None)
    assert found == []
    store.append([entry("run-1", 1), entry("run-5", 1), entry("run-8", 1, status="paused")])
    rounds = []
    for _ in range(6):
        mark, found = poll_heads(store, mark, 3)
        rounds.append([change.run_id for change in found])
    assert rounds == [["run-1"], ["run-8"], ["run-5"], [], [], []]


def test_a_run_that_is_gone_is_told_once() -> None:
    store = MemoryStore()
    store.append([entry("a", 0), entry("b", 0)])
    mark, _ = poll_heads(store, None)
    store.erase(tombstone("b", 1))
    mark, found = poll_heads(store, mark)
    assert found == [Change("b", None, "deleted")]
    assert poll_heads(store, mark)[1] == []


def test_a_damaged_run_does_not_hide_the_changes_of_others() -> None:
    store = Damaged()
    store.append([entry("run", 0)])
    mark, found = poll_heads(store, None)
    assert found == [ANY_RUN]
    mark, found = poll_heads(store, mark)
    assert found == [ANY_RUN]
    store.damaged = False
    assert poll_heads(store, mark)[1] == [Change("run", 0, "open")]
