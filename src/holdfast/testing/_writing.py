"""The contract's tests of `append`, `trim` and `erase`."""

from __future__ import annotations

from typing import Any

from holdfast.model import HIDDEN, Entry, stub
from holdfast.store import RunFilter, Store
from holdfast.testing.corpus import HOSTILE_BODIES, HOSTILE_IDS, HOSTILE_METAS
from holdfast.testing.invariants import all_heads, entry, read_all, tombstone


class WritingContract:
    """Part of `StoreContract`."""

    def test_an_append_is_read_back(self, store: Store) -> None:
        first, second = entry("run", 0, b"one"), entry("run", 1, b"two")
        assert store.append([first]) == [True]
        assert store.append([second]) == [True]
        assert store.read("run") == [first, second]

    def test_an_append_of_nothing_does_nothing(self, store: Store) -> None:
        assert store.append([]) == []
        assert store.runs() == []

    def test_a_taken_position_keeps_the_first_body(self, store: Store) -> None:
        first = entry("run", 0, b"first")
        assert store.append([first]) == [True]
        assert store.append([entry("run", 0, b"second", status="failed", step="other")]) == [False]
        assert store.read("run") == [first]

    def test_even_the_same_entry_does_not_win_twice(self, store: Store) -> None:
        """A retry after a lost reply reads the position and finds its own entry id there."""
        again = entry("run", 0, b"first")
        assert store.append([again]) == [True]
        assert store.append([again]) == [False]
        assert store.read("run") == [again]

    def test_a_position_given_twice_in_one_call_goes_to_the_first(self, store: Store) -> None:
        first = entry("run", 0, b"first")
        assert store.append([first, entry("run", 0, b"second")]) == [True, False]
        assert store.read("run") == [first]

    def test_after_an_entry_that_loses_the_rest_of_its_run_loses(self, store: Store) -> None:
        """Otherwise an old worker's second entry in flight would survive a takeover."""
        store.append([entry("run", 0), entry("run", 1, b"theirs")])
        late = [entry("run", seq, b"mine") for seq in (1, 2, 3)]
        assert store.append(late) == [False, False, False]
        assert [item.body for item in store.read("run")] == [b"", b"theirs"]

    def test_one_runs_loss_is_not_anothers(self, store: Store) -> None:
        store.append([entry("b", 0)])
        batch = [entry("a", 0), entry("b", 0), entry("c", 0), entry("b", 1), entry("c", 1)]
        assert store.append(batch) == [True, False, True, False, True]
        assert [item.seq for item in store.read("b")] == [0]

    def test_outcomes_come_in_the_order_of_the_entries(self, store: Store) -> None:
        """However a store sorts its batch."""
        store.append([entry("z", 0), entry("m", 0), entry("m", 1)])
        batch = [entry("z", 0), entry("m", 2), entry("a", 0), entry("m", 3), entry("z", 1)]
        assert store.append(batch) == [False, True, True, True, False]
        assert store.append(batch[::-1]) == [True, False, False, False, False]

    def test_a_large_batch_with_scattered_losers_has_each_outcome_right(self, store: Store) -> None:
        """Fast paths insert many rows at once and look closer only when the count differs."""
        runs = [f"run-{number:03}" for number in range(70)]
        store.append([entry(run, 0) for run in runs[::3]])
        outcomes = store.append([entry(run, seq) for run in runs for seq in (0, 1)])
        assert outcomes == [won for n in range(70) for won in [n % 3 != 0] * 2]
        assert len(all_heads(store)) == 70

    def test_a_position_below_the_head_is_never_free(self, store: Store) -> None:
        assert store.append([tombstone("run", 5)]) == [True]
        assert store.append([entry("run", 3)]) == [False]
        assert store.append([entry("run", 4), entry("run", 6)]) == [False, False]
        assert store.append([entry("run", 6)]) == [True]
        assert store.append([entry("run", 0)]) == [False]
        assert [item.seq for item in store.read("run")] == [5, 6]

    # no gaps

    def test_a_position_beyond_the_next_one_is_refused(self, store: Store) -> None:
        """Who asks for it knows of entries that the store has lost, and would build on them."""
        entries = _journal(store, 2)
        assert store.append([entry("run", 3)]) == [False]
        assert store.append([entry("run", 3), entry("run", 4)]) == [False, False]
        assert store.append([entry("run", 10**9)]) == [False]
        assert store.read("run") == entries
        assert store.append([entry("run", 2)]) == [True]

    def test_a_run_begins_at_nothing_or_with_a_tombstone(self, store: Store) -> None:
        assert store.append([entry("run", 1)]) == [False]
        assert store.append([entry("run", 5), entry("run", 6)]) == [False, False]
        marker = entry("run", 5, kind="tombstone")  # of some checkpoints: the run continues
        assert store.append([marker]) == [False]
        assert store.runs() == []
        assert store.last("run") is None
        assert store.append([tombstone("grave", 5), entry("grave", 6)]) == [True, True]
        assert store.append([entry("run", 0)]) == [True]

    def test_a_batch_wins_up_to_its_gap(self, store: Store) -> None:
        assert store.append([entry("run", seq) for seq in (0, 1, 3, 4)]) == [
            True, True, False, False,
        ]  # fmt: skip
        assert [item.seq for item in store.read("run")] == [0, 1]

    def test_one_runs_gap_is_not_anothers(self, store: Store) -> None:
        store.append([entry("b", 0), entry("c", 0)])
        batch = [
            entry("a", 0), entry("b", 2), entry("c", 1), entry("d", 7), entry("a", 1),
            entry("b", 3), entry("c", 2), entry("c", 4),
        ]  # fmt: skip
        outcomes = [True, False, True, False, True, False, True, False]
        assert store.append(batch) == outcomes
        for run, last in {"a": 1, "b": 0, "c": 2, "d": -1}.items():
            assert [item.seq for item in store.read(run)] == list(range(last + 1))

    def test_a_large_batch_with_scattered_gaps_has_each_outcome_right(self, store: Store) -> None:
        runs = [f"run-{number:03}" for number in range(70)]
        store.append([entry(run, 0) for run in runs])
        gap = [number % 3 == 0 for number in range(70)]
        batch = [entry(run, 1 + lost) for run, lost in zip(runs, gap, strict=True)]
        assert store.append(batch) == [not lost for lost in gap]
        assert [head.seq for head in all_heads(store)] == [int(not lost) for lost in gap]

    def test_a_trim_beyond_a_gap_changes_nothing(self, store: Store) -> None:
        entries = _journal(store, 3)
        assert store.trim(entry("run", 4), {0: b"new", 1: None}) is False
        assert store.trim(entry("new", 1), {}) is False
        assert store.read("run") == entries
        assert store.read("new") == []

    def test_a_tombstone_may_stand_anywhere_above_what_it_erases(self, store: Store) -> None:
        """A copy is erased with the tombstone of a run that grew since."""
        _journal(store, 3)
        assert store.erase(tombstone("run", 9)) is True
        assert store.erase(tombstone("new", 9)) is True
        for run in ("run", "new"):
            assert [item.seq for item in store.read(run)] == [9]
            assert store.append([entry(run, 3)]) == [False]
            assert store.append([entry(run, 11)]) == [False]
            assert store.append([entry(run, 10)]) == [True]

    def test_every_field_comes_back_as_it_was(self, store: Store) -> None:
        every_byte = bytes(range(256))
        variants: list[dict[str, Any]] = [
            {"kind": "\u00e9tape", "entry_id": every_byte, "digest": every_byte[::-1]},
            {"entry_id": b"", "digest": b""},
            {"entry_id": b"\x00", "digest": b"\x00" * 32},
            {"parent": None, "step": None, "step_index": None, "type": None, "duration": None},
            {"parent": 0, "step": "", "step_index": 0, "type": "", "duration": 0.0, "size": 0},
            {"term": 0}, {"term": 2**62 - 1}, {"at": 0}, {"at": 2**62 - 1}, {"at": -(2**62) + 1}, {"size": 2**62 - 1, "step_index": 2**40},
            {"duration": -1.5}, {"duration": 1e-300}, {"duration": 0.1 + 0.2}, {"duration": 1.7e308},
            {"flow": None, "thread": None, "owner": None, "status": "running"},
            {"flow": "", "thread": "", "owner": ""},
            {"step": " \n\t\"'\\ 😀 ", "flow": "a\u0301", "thread": "\u00e1", "owner": "\u202eabc"},
        ]  # fmt: skip
        entries = [entry("run", seq, **fields) for seq, fields in enumerate(variants)]
        assert all(store.append(entries))
        assert read_all(store, "run") == entries
        for got, given in zip(read_all(store, "run"), entries, strict=True):
            assert [type(field) for field in got] == [type(field) for field in given]

    def test_texts_come_back_to_the_character(self, store: Store) -> None:
        entries = [
            entry("run", seq, step=text, type=text, flow=text, thread=text, owner=text)
            for seq, text in enumerate(HOSTILE_IDS)
        ]
        assert all(store.append(entries))
        assert read_all(store, "run") == entries

    def test_bodies_and_metas_come_back_to_the_byte(self, store: Store) -> None:
        bodies = [entry("bodies", seq, body) for seq, body in enumerate(HOSTILE_BODIES)]
        metas = [entry("metas", seq, meta=meta) for seq, meta in enumerate(HOSTILE_METAS)]
        assert all(store.append(bodies + metas))
        assert read_all(store, "bodies") == bodies
        assert read_all(store, "metas") == metas

    def test_a_body_of_ten_megabytes_comes_back(self, store: Store) -> None:
        large = entry("run", 0, bytes(range(256)) * 40_960)
        assert store.append([large, entry("run", 1)]) == [True, True]
        same = store.read("run", limit=1) == [large]
        assert same, "it came back changed"  # pytest would take hours to show the difference

    def test_what_callers_do_to_their_lists_changes_nothing(self, store: Store) -> None:
        batch = [entry("run", 0, b"a"), entry("run", 1, b"b")]
        kept = list(batch)
        store.append(batch)
        batch.clear()
        store.read("run").clear()
        store.runs().clear()
        changes = {0: b"new", 1: None}
        store.trim(entry("run", 2), changes)
        changes.clear()
        assert store.read("run")[:2] == [kept[0]._replace(body=b"new"), stub(kept[1])]
        assert len(store.runs()) == 1

    def test_hostile_ids_are_kept_apart(self, store: Store) -> None:
        heads = [entry(run, 0, run.encode()) for run in HOSTILE_IDS]
        assert all(store.append(heads))
        for head in heads:
            assert store.read(head.run) == [head]
            assert store.last(head.run) == head
        assert [head.run for head in all_heads(store)] == sorted(HOSTILE_IDS)

    def test_no_change_to_one_hostile_id_reaches_another(self, store: Store) -> None:
        """A LIKE, a glob or a folded comparison would."""
        store.append([entry(run, seq, b"x") for run in HOSTILE_IDS for seq in (0, 1)])
        erased, trimmed = HOSTILE_IDS[::2], HOSTILE_IDS[1::2]
        for run in erased:
            assert store.erase(tombstone(run, 2))
        for run in trimmed:
            assert [item.body for item in store.read(run)] == [b"x", b"x"]
            assert store.trim(entry(run, 2), {0: run.encode(), 1: None})
        for run in erased:
            assert [item.seq for item in store.read(run)] == [2]
        for run in trimmed:
            assert [item.body for item in store.read(run)] == [run.encode(), b"", b""]

    # trim

    def test_a_trim_rewrites_and_drops_before_its_marker(self, store: Store) -> None:
        entries = _journal(store, 5)
        marker = entry("run", 5, b"marker", kind="trim")
        assert store.trim(marker, {1: b"rewritten", 3: b"", 0: None, 2: None}) is True
        assert store.read("run") == [
            stub(entries[0]),
            entries[1]._replace(body=b"rewritten"),
            stub(entries[2]),
            entries[3]._replace(body=b""),
            entries[4],
            marker,
        ]

    def test_a_trim_whose_marker_is_taken_changes_nothing(self, store: Store) -> None:
        entries = _journal(store, 4)
        for seq in (0, 3):
            assert store.trim(entry("run", seq), {0: b"new", 1: None, 2: None}) is False
        assert store.read("run") == entries

    def test_a_trim_below_the_head_changes_nothing_even_where_nothing_stands(
        self, store: Store
    ) -> None:
        entries = [tombstone("run", 5), entry("run", 6, b"y")]
        store.append(entries)
        assert store.trim(entry("run", 3), {5: None}) is False
        assert store.read("run") == entries

    def test_a_trim_passes_over_seqs_that_are_not_there(self, store: Store) -> None:
        entries = _journal(store, 2)
        marker = entry("run", 2, b"marker")
        assert store.trim(marker, {7: b"x", 9: None, 2: None}) is True
        assert store.read("run") == [*entries, marker]

    def test_a_trim_may_do_nothing_but_mark(self, store: Store) -> None:
        entries = _journal(store, 1)
        assert store.trim(entry("run", 1), {}) is True
        assert store.trim(entry("new", 0), {0: None}) is True
        assert store.read("run")[:1] == entries

    def test_a_trim_touches_no_other_run(self, store: Store) -> None:
        _journal(store, 3)
        others = [entry(run, seq, b"x") for run in ("run2", "ru", "Run") for seq in range(3)]
        store.append(others)
        assert store.trim(entry("run", 3), {0: b"new", 1: None, 2: None})
        for run in ("run2", "ru", "Run"):
            assert store.read(run) == [item for item in others if item.run == run]

    def test_a_trimmed_run_goes_on(self, store: Store) -> None:
        _journal(store, 3)
        assert store.trim(entry("run", 3), {0: None, 1: None, 2: None})
        assert store.append([entry("run", 1)]) == [False]
        assert store.append([entry("run", 3)]) == [False]
        assert store.append([entry("run", 4)]) == [True]
        assert store.trim(entry("run", 5), {4: b"again", 0: None, 3: None})
        assert [item.seq for item in store.read("run")] == [0, 1, 2, 3, 4, 5]

    # erase

    def test_an_erased_run_is_only_its_tombstone(self, store: Store) -> None:
        _journal(store, 5)
        grave = tombstone("run", 5, meta='{"reason": "forgotten"}')
        assert store.erase(grave) is True
        assert store.read("run") == [grave]
        assert store.last("run") == grave
        assert store.runs() == []

    def test_an_erase_whose_tombstone_is_taken_changes_nothing(self, store: Store) -> None:
        entries = _journal(store, 4)
        for seq in (0, 3):
            assert store.erase(tombstone("run", seq)) is False
        assert store.read("run") == entries

    def test_a_late_writer_does_not_resurrect_an_erased_run(self, store: Store) -> None:
        _journal(store, 5)
        assert store.erase(tombstone("run", 5))
        for seq in (0, 3, 4, 5):
            assert store.append([entry("run", seq)]) == [False]
        assert store.append([entry("run", 4), entry("run", 6)]) == [False, False]
        assert store.erase(tombstone("run", 4)) is False
        assert store.trim(entry("run", 4), {}) is False
        assert [item.seq for item in store.read("run")] == [5]

    def test_an_erased_run_may_begin_again_after_its_tombstone(self, store: Store) -> None:
        _journal(store, 5)
        store.erase(tombstone("run", 5))
        assert store.append([entry("run", 6, b"new life")]) == [True]
        assert [head.run for head in store.runs()] == ["run"]
        assert store.erase(tombstone("run", 7)) is True
        assert [item.seq for item in store.read("run")] == [7]

    def test_an_unknown_run_may_be_erased(self, store: Store) -> None:
        assert store.erase(tombstone("run", 0)) is True
        assert [item.kind for item in store.read("run")] == ["tombstone"]

    def test_what_is_written_together_is_seen_at_once_and_stays(self, store: Store) -> None:
        """Also in stores in which each call is a commit of its own."""
        for run in ("a", "b", "c"):
            store.append([entry(run, seq, b"%d" % seq) for seq in range(3)])
        gone = tombstone("a", 3)
        with store.together():
            assert store.erase(gone)
            assert store.read("a") == [gone]
            assert not store.trim(entry("b", 7), {0: None}), "it does not follow the head"
            assert store.append([entry("b", 3)]) == [True]
            assert store.append([entry("c", 3), entry("d", 0)]) == [True, True]
            assert [head.run for head in store.runs()] == ["b", "c", "d"]
        assert [head.run for head in store.runs()] == ["b", "c", "d"]
        assert len(store.read("b")) == 4
        assert store.read("a") == [gone]

    def test_an_erase_touches_no_other_run(self, store: Store) -> None:
        runs = ["run", "run2", "ru", "Run", "run%", "r_n", "run ", "*", HIDDEN + "run"]
        store.append([entry(run, seq, b"x") for run in runs for seq in range(2)])
        store.erase(tombstone("r_n", 2))
        store.erase(tombstone("run%", 2))
        store.erase(tombstone("*", 2))
        for run in ("run", "run2", "ru", "Run", "run ", HIDDEN + "run"):
            assert [item.seq for item in store.read(run)] == [0, 1]
        deleted = store.runs(RunFilter(status="deleted"))
        assert [head.run for head in deleted] == ["*", "r_n", "run%"]


def _journal(store: Store, count: int) -> list[Entry]:
    entries = [
        entry("run", seq, b"body-%d" % seq, type="manual_checkpoint", flow="f", thread="t", owner="o",
              meta='{"a":1}')
        for seq in range(count)
    ]  # fmt: skip
    assert all(store.append(entries))
    return entries
