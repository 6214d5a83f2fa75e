"""The contract's tests of `append(..., behind=...)`."""

from __future__ import annotations

from typing import Final

from holdfast.store import Store
from holdfast.testing.invariants import entry, tombstone

OTHER: Final = b"\x01" * 32


class BehindContract:
    """Part of `StoreContract`."""

    def test_an_append_behind_the_digest_of_the_head_wins(self, store: Store) -> None:
        entries = [entry("run", seq, b"%d" % seq) for seq in range(3)]
        before = b""
        for item in entries:
            assert store.append([item], {"run": before}) == [True]
            before = item.digest
        assert store.read("run") == entries

    def test_a_head_with_the_same_seq_and_another_digest_makes_it_lose(self, store: Store) -> None:
        """An old replica or a restored backup may end at the same seq with another history."""
        head = entry("run", 1, b"theirs", digest=OTHER)
        store.append([entry("run", 0), head])
        ours = entry("run", 1).digest
        assert store.append([entry("run", 2)], {"run": ours}) == [False]
        assert store.append([entry("run", 2), entry("run", 3)], {"run": ours}) == [False, False]
        assert store.last("run") == head
        assert store.append([entry("run", 2)], {"run": OTHER}) == [True]

    def test_a_digest_that_begins_or_ends_alike_is_another(self, store: Store) -> None:
        store.append([entry("run", 0, digest=OTHER)])
        for digest in (OTHER[:-1], OTHER + b"\x01", OTHER[:-1] + b"\x00", b"\x00", b" "):
            assert store.append([entry("run", 1)], {"run": digest}) == [False]
        assert store.append([entry("run", 1)], {"run": OTHER}) == [True]

    def test_an_empty_digest_means_that_there_is_no_head(self, store: Store) -> None:
        assert store.append([entry("run", 0), entry("run", 1)], {"run": b""}) == [True, True]
        assert store.append([entry("run", 2)], {"run": b""}) == [False]
        assert store.append([tombstone("run", 2)], {"run": b""}) == [False]
        assert store.append([entry("new", 1)], {"new": b""}) == [False]
        assert store.append([tombstone("new", 5)], {"new": b""}) == [True]
        assert [item.seq for item in store.read("run")] == [0, 1]

    def test_a_run_that_is_not_there_has_no_digest(self, store: Store) -> None:
        assert store.append([entry("run", 0)], {"run": OTHER}) == [False]
        assert store.append([tombstone("run", 3)], {"run": OTHER}) == [False]
        assert store.append([entry("run", 0), entry("run", 1)], {"run": OTHER}) == [False, False]
        assert store.last("run") is None

    def test_the_digest_alone_is_not_enough(self, store: Store) -> None:
        head = entry("run", 0)
        store.append([head])
        for seq in (0, 2):
            assert store.append([entry("run", seq)], {"run": head.digest}) == [False]
        both = [entry("run", 1), entry("run", 3)]
        assert store.append(both, {"run": head.digest}) == [True, False]

    def test_it_counts_for_a_runs_first_entry_only(self, store: Store) -> None:
        head = entry("run", 0)
        store.append([head])
        batch = [entry("run", seq) for seq in range(1, 4)]
        assert store.append(batch, {"run": head.digest}) == [True, True, True]

    def test_in_a_batch_only_the_run_whose_head_is_another_loses(self, store: Store) -> None:
        heads = [entry(run, 0) for run in ("a", "b", "c", "d")]
        store.append([*heads[:2], heads[2]._replace(digest=OTHER), heads[3]])
        behind = {head.run: head.digest for head in heads[:3]} | {"e": b"", "f": OTHER}
        runs = ("c", "a", "d", "b", "e")
        batch = [entry(run, 1) for run in runs[:4]] + [entry("e", 0)]
        batch += [entry("a", 2), entry("c", 2), entry("e", 1)]
        outcomes = [False, True, True, True, True, True, False, True]
        assert store.append(batch, behind) == outcomes
        assert [item.seq for item in store.read("c")] == [0]
        assert [item.seq for item in store.read("a")] == [0, 1, 2]

    def test_many_runs_with_other_heads_lose_and_many_win(self, store: Store) -> None:
        runs = [f"run-{number:03}" for number in range(150)]
        store.append([entry(run, 0) for run in runs])
        foreign = runs[::3]
        behind = {run: OTHER if run in foreign else entry(run, 0).digest for run in runs}
        batch = [entry(run, seq) for run in runs for seq in (1, 2)]
        assert store.append(batch, behind) == [item.run not in foreign for item in batch]

    def test_a_batch_too_long_to_be_written_at_once_follows_itself(self, store: Store) -> None:
        head = entry("run", 0)
        store.append([head])
        batch = [entry("run", seq, b"x" * 3000) for seq in range(1, 301)]
        assert not any(store.append(batch, {"run": OTHER}))
        assert store.last("run") == head
        assert all(store.append(batch, {"run": head.digest}))
        assert store.last("run") == batch[-1]

    def test_after_a_trim_or_an_erasure_the_digest_is_that_of_its_marker(
        self, store: Store
    ) -> None:
        before = [entry("run", seq, b"x") for seq in range(2)]
        store.append(before)
        marker = entry("run", 2, kind="trim")
        store.trim(marker, {0: None, 1: None})
        assert store.append([entry("run", 3)], {"run": before[1].digest}) == [False]
        assert store.append([entry("run", 3)], {"run": marker.digest}) == [True]
        grave = tombstone("run", 9)
        store.erase(grave)
        assert store.append([entry("run", 10)], {"run": entry("run", 3).digest}) == [False]
        assert store.append([entry("run", 10)], {"run": b""}) == [False]
        assert store.append([entry("run", 10)], {"run": grave.digest}) == [True]

    def test_a_stub_keeps_its_digest(self, store: Store) -> None:
        before = [entry("run", seq, b"x") for seq in range(2)]
        store.append(before)
        marker = entry("run", 2, kind="trim")
        store.trim(marker, {1: None})
        assert [item.digest for item in store.read("run")] == [
            *(item.digest for item in before),
            marker.digest,
        ]
