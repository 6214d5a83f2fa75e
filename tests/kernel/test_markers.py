"""What retention deleted and rewrote: markers vouch for it, at a bounded cost, and hide nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.codec.seqs import Seqs
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.pages import entries_of
from holdfast.model import Entry
from holdfast.store import PAGE
from holdfast.stores.memory import MemoryStore


class CountingStore(MemoryStore):
    """Counts the entries that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.entries_read = 0

    def read(self, *args: Any, **options: Any) -> list[Entry]:
        found = super().read(*args, **options)
        self.entries_read += len(found)
        return found

    def replace(self, seq: int, change: Callable[[Entry], Entry]) -> None:
        """Change an entry of the run "r", as somebody else might."""
        entries = self._journals["r"]
        entries[seq] = change(entries[seq])


def entries_read_by_list(checkpoints: int) -> int:
    """How many entries are read to list checkpoints that were deleted, if their marker is lost."""
    store = CountingStore()
    with hf.SyncCheckpointer(store) as cp:
        for number in range(checkpoints):
            cp.save("r", {"number": number})
        cp.prune("r", keep_latest=1)
    store.replace(checkpoints + 1, lambda marker: marker._replace(meta="{}"))
    store.entries_read = 0
    with hf.SyncCheckpointer(store) as cp:
        found = cp.list_checkpoints("r")
    assert sum(one.damage is not None for one in found) == checkpoints - 1
    return store.entries_read


def test_a_lost_marker_does_not_make_a_list_read_the_journal_for_every_stub() -> None:
    assert entries_read_by_list(400) < 3 * entries_read_by_list(200)


def test_a_long_run_costs_retention_no_more_than_a_short_one() -> None:
    store = CountingStore()
    cost = []
    with hf.SyncCheckpointer(store, retention=hf.Retention(keep_latest=2)) as cp:
        for _ in range(4):
            store.entries_read = 0
            for number in range(2 * PAGE):
                cp.save("r", {"number": number})
            cost.append(store.entries_read)
    assert cost[-1] < 1.5 * cost[1], cost  # the first ones do not fill a page


def test_entries_that_vouch_for_each_other_without_end_are_damage() -> None:
    store = CountingStore()
    length = 3000
    with hf.SyncCheckpointer(store) as cp:
        for number in range(length):
            cp.save("r", {"number": number})

    def rewritten(entry: Entry) -> Entry:
        return entry._replace(body=envelope.reseal(entry, b"\x80", bytes(32), entry.seq + 1)[0])

    for seq in range(1, length):
        store.replace(seq, rewritten)
    with hf.SyncCheckpointer(store) as cp, pytest.raises(CheckpointCorruptedError, match="r@1 "):
        cp.load("r", seq=1)


@pytest.mark.parametrize("oldest_first", [False, True])
def test_an_entry_that_looks_like_a_tombstone_hides_nothing(oldest_first: bool) -> None:
    store = CountingStore()
    with hf.SyncCheckpointer(store) as cp:
        for number in range(5):
            cp.save("r", {"number": number})
    store.replace(3, lambda entry: entry._replace(kind="tombstone", status="deleted"))
    with hf.SyncCheckpointer(store) as cp:
        found = cp.list_checkpoints("r", oldest_first=oldest_first)
        assert sorted(one.seq for one in found) == [1, 2, 3, 4, 5]
        assert [one.seq for one in found if one.damage] == [3]
        with pytest.raises(CheckpointCorruptedError, match="r@3 "):
            cp.load("r", step="none")


def test_a_run_of_one_entry_that_the_store_cannot_read_is_damaged_there() -> None:
    class Unreadable(CountingStore):
        def read(self, *args: Any, **options: Any) -> list[Entry]:
            found = super().read(*args, **options)
            if found and options.get("bodies", True):
                raise CheckpointCorruptedError("r", None, "the server says: no")
            return found

    written = MemoryStore()
    with hf.SyncCheckpointer(written) as cp:
        cp.save("r", {"number": 0})
    store = Unreadable()
    store._journals = {"r": written._journals["r"][:1]}
    (found,) = entries_of(store, "r", True, None, 8, bodies=True)
    assert isinstance(found, CheckpointCorruptedError)
    assert found.seq == 0


def test_a_run_that_is_cleared_while_it_is_listed_is_not_damaged() -> None:
    with hf.SyncCheckpointer(MemoryStore()) as cp:
        for number in range(3 * PAGE):
            cp.save("r", {"number": number})
        found = iter(cp.iter_checkpoints("r"))
        next(found)
        cp.clear("r")
        assert not any(one.damage for one in found)


def test_a_marker_counts_only_for_what_is_before_it() -> None:
    listed = Seqs.union([Seqs.parse("5-6,1-3").before(3), Seqs.parse("3-9").before(8)])
    assert list(listed) == [1, 2, 3, 4, 5, 6, 7]
    assert [seq in listed for seq in (0, 1, 7, 8)] == [False, True, True, False]


def test_a_page_of_a_list_below_which_everything_is_missing_says_so() -> None:
    store = CountingStore()
    with hf.SyncCheckpointer(store) as cp:
        for number in range(5):
            cp.save("r", {"number": number})
    del store._journals["r"][:3]
    found = entries_of(store, "r", True, 3, 8, bodies=False)
    assert [error.seq for error in found] == [2, 1, 0]


@pytest.mark.parametrize("newest_first", [False, True])
def test_all_of_a_long_gap_is_named(newest_first: bool) -> None:
    store = CountingStore()
    with hf.SyncCheckpointer(store) as cp:
        for number in range(2):
            cp.save("r", {"number": number})
    store.replace(2, lambda entry: entry._replace(seq=5000))
    found = entries_of(store, "r", newest_first, None, 8, bodies=False)
    errors = [one for one in found if isinstance(one, CheckpointCorruptedError)]
    assert len(errors) == 1000
    rest = "2 to 4000" if newest_first else "1001 to 4999"
    assert errors[-1].reason == f"the entries {rest} are missing"
