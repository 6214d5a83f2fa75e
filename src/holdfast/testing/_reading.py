"""The contract's tests of `read`, `last`, `runs` and `stats`."""

from __future__ import annotations

from typing import Any

from holdfast.model import HIDDEN, Entry
from holdfast.store import RunFilter, Store, StoreStats
from holdfast.testing.corpus import HOSTILE_IDS
from holdfast.testing.invariants import entry, tombstone


class ReadingContract:
    """Part of `StoreContract`."""

    def test_an_unknown_run_has_nothing(self, store: Store) -> None:
        store.append([entry("run", 0)])
        for run in ("Run", "ru", "run2", "run ", "%", "*", "../run"):
            assert store.read(run) == []
            assert store.last(run) is None
            assert store.stats(run) == StoreStats(0, 0, 0, None, None)

    def test_an_empty_store_is_empty(self, store: Store) -> None:
        assert store.runs() == []
        assert store.stats() == StoreStats(0, 0, 0, None, None)

    def test_read_pages_from_either_end(self, store: Store) -> None:
        store.append([entry("run", seq) for seq in range(6)])
        assert _seqs(store.read("run")) == [0, 1, 2, 3, 4, 5]
        assert _seqs(store.read("run", limit=2)) == [0, 1]
        assert _seqs(store.read("run", after=1, limit=2)) == [2, 3]
        assert _seqs(store.read("run", after=4, limit=9)) == [5]
        assert _seqs(store.read("run", after=5)) == []
        assert _seqs(store.read("run", after=99)) == []
        assert _seqs(store.read("run", after=-1, limit=1)) == [0]
        assert _seqs(store.read("run", newest_first=True)) == [5, 4, 3, 2, 1, 0]
        assert _seqs(store.read("run", newest_first=True, limit=2)) == [5, 4]
        assert _seqs(store.read("run", newest_first=True, after=4, limit=2)) == [3, 2]
        assert _seqs(store.read("run", newest_first=True, after=1, limit=9)) == [0]
        assert _seqs(store.read("run", newest_first=True, after=0)) == []
        assert _seqs(store.read("run", newest_first=True, after=99, limit=1)) == [5]
        assert store.read("run", limit=0) == []
        assert store.read("run", limit=0, newest_first=True) == []

    def test_read_pages_over_what_was_erased(self, store: Store) -> None:
        store.append([entry("run", seq) for seq in range(7)])
        store.erase(tombstone("run", 7))
        store.append([entry("run", 8)])
        assert _seqs(store.read("run", after=0, limit=1)) == [7]
        assert _seqs(store.read("run", after=5, limit=9)) == [7, 8]
        assert _seqs(store.read("run", after=8, newest_first=True, limit=9)) == [7]
        assert _seqs(store.read("run", after=7, newest_first=True, limit=1)) == []

    def test_seqs_sort_as_numbers(self, store: Store) -> None:
        for last in (10, 100, 10**9, 10**10, 10**11, 10**15):
            run = f"run-{last}"
            assert store.erase(tombstone(run, last - 2))
            assert store.append([entry(run, last - 1), entry(run, last)]) == [True, True]
            assert _seqs(store.read(run)) == [last - 2, last - 1, last]
            assert store.append([entry(run, last + 1)]) == [True]
            head = store.last(run)
            assert head is not None
            assert head.seq == last + 1

    def test_without_bodies_every_body_is_empty(self, store: Store) -> None:
        entries = [entry("run", seq, b"x" * seq, meta='{"a":1}') for seq in range(3)]
        store.append(entries)
        bare = [item._replace(body=b"") for item in entries]
        assert store.read("run", bodies=False) == bare
        assert store.read("run", bodies=False, newest_first=True, limit=2) == bare[:0:-1]

    def test_paging_neither_skips_nor_repeats_while_others_write(self, store: Store) -> None:
        store.append([entry("run", seq) for seq in range(6)])
        forwards = store.read("run", limit=3)
        backwards = store.read("run", limit=3, newest_first=True)
        store.append([entry("run", seq) for seq in range(6, 9)])
        store.trim(entry("run", 9), {0: None, 1: None, 4: None})
        while page := store.read("run", after=forwards[-1].seq, limit=3):
            forwards += page
        while page := store.read("run", after=backwards[-1].seq, limit=3, newest_first=True):
            backwards += page
        assert _seqs(forwards) == list(range(10))
        assert _seqs(backwards) == [5, 4, 3, 2, 1, 0]

    def test_last_is_the_highest_seq_whatever_the_clock_says(self, store: Store) -> None:
        store.append([entry("run", 0, b"old", at=2**50), entry("run", 1, b"new", at=5)])
        store.append([entry("run", 2, b"newest", at=7)])
        last = store.last("run")
        assert last is not None
        assert (last.seq, last.body) == (2, b"newest")
        assert _seqs(store.read("run")) == [0, 1, 2]
        assert store.runs()[0].seq == 2

    def test_a_read_after_a_write_sees_it(self, store: Store) -> None:
        for seq in range(5):
            store.append([entry("run", seq, b"%d" % seq)])
            last = store.last("run")
            assert last is not None
            assert last.body == b"%d" % seq
            assert store.runs()[0].seq == seq
            assert store.stats().checkpoints == seq + 1
            assert len(store.read("run")) == seq + 1

    # runs

    def test_runs_are_heads_without_bodies(self, store: Store) -> None:
        store.append([entry("a", 0, b"x"), entry("a", 1, b"y", status="running", meta='{"m":1}')])
        assert store.runs() == [
            head._replace(body=b"") for head in [store.last("a")] if head is not None
        ]

    def test_run_ids_sort_by_code_point(self, store: Store) -> None:
        """Collations differ: MySQL would fold case, PostgreSQL would follow the locale."""
        runs = [*"bBaáZé_9~😀\uffee", "10", "aa", "a b", "a-b"]
        store.append([entry(run, 0) for run in runs])
        assert [head.run for head in store.runs()] == sorted(runs)

    def test_each_filter_picks_by_the_field_of_the_head(self, store: Store) -> None:
        fields = ("status", "flow", "thread", "owner", "type")
        for name in fields:
            wanted: dict[str, Any] = {name: "wanted"}
            other: dict[str, Any] = {name: "Wanted"}
            store.append([entry(f"{name}-past", 0, **wanted), entry(f"{name}-past", 1)])
            store.append([entry(f"{name}-other", 0, **other)])
            store.append([entry(name, 0), entry(name, 1, **wanted)])
        for name in fields:
            chosen: dict[str, Any] = {name: "wanted"}
            assert [head.run for head in store.runs(RunFilter(**chosen))] == [name]

    def test_filters_combine(self, store: Store) -> None:
        for number in range(32):
            fields: dict[str, Any] = {
                "status": "running" if number & 1 else "paused",
                "flow": "f" if number & 2 else None,
                "thread": "t" if number & 4 else "",
                "owner": "o" if number & 8 else None,
                "type": "x" if number & 16 else "y",
            }
            store.append([entry(f"r{number:02}", 0, **fields)])
        every = RunFilter("running", "f", "t", "o", "x", "r")
        assert [head.run for head in store.runs(every)] == ["r31"]
        assert len(store.runs(RunFilter(status="running"))) == 16
        assert len(store.runs(RunFilter(thread=""))) == 16
        assert len(store.runs(RunFilter(flow="f", owner="o"))) == 8
        found = store.runs(RunFilter(flow="f", type="x", prefix="r3"))
        assert [head.run for head in found] == ["r30", "r31"]
        found = store.runs(RunFilter(owner="o"), after="r27", limit=2)
        assert [head.run for head in found] == ["r28", "r29"]

    def test_a_prefix_is_text_and_not_a_pattern(self, store: Store) -> None:
        runs = ["a%b", "a_b", "axb", "a*", "A_b", "a", "ab", "b", "áb", "a\\", "[a]", "😀x", "￮"]
        store.append([entry(run, 0) for run in runs])
        for prefix in (
            "",
            *["a", "a_", "a%", "a*", "A", "á", "a\\", "[", "😀", "￮", "b", "nothing"],
        ):
            wanted = sorted(run for run in runs if run.startswith(prefix))
            assert [head.run for head in store.runs(RunFilter(prefix=prefix))] == wanted

    def test_hidden_journals_are_listed_only_under_their_prefix(self, store: Store) -> None:
        hidden = [f"{HIDDEN}verdicts/run", f"{HIDDEN}thread/t"]
        store.append([entry(run, 0, b"x") for run in ["run", *hidden]])
        assert [head.run for head in store.runs()] == ["run"]
        assert [head.run for head in store.runs(RunFilter(prefix=HIDDEN))] == sorted(hidden)
        assert [head.run for head in store.runs(RunFilter(prefix=hidden[0][:5]))] == hidden[:1]
        assert len(store.read(hidden[0])) == 1

    def test_deleted_runs_are_listed_only_when_asked_for(self, store: Store) -> None:
        store.append([entry("live", 0, b"x"), entry("dead", 0, b"x"), entry(HIDDEN + "dead", 0)])
        store.erase(tombstone("dead", 1))
        store.erase(tombstone(HIDDEN + "dead", 1))
        assert [head.run for head in store.runs()] == ["live"]
        assert [head.run for head in store.runs(RunFilter(prefix="d"))] == []
        assert [head.run for head in store.runs(RunFilter(status="deleted"))] == ["dead"]
        assert store.runs(RunFilter(prefix=HIDDEN)) == []
        assert len(store.runs(RunFilter(prefix=HIDDEN, status="deleted"))) == 1

    def test_a_scan_has_every_entry_by_id_and_seq(self, store: Store) -> None:
        """Of hidden journals, and of deleted runs, too: or the store can't be scanned at all."""
        names = [f"{HIDDEN}list", *HOSTILE_IDS[:12]]
        for name in names:
            store.append([entry(name, seq, b"%d" % seq) for seq in range(3)])
        store.erase(tombstone(names[1], 3))
        every = [one for name in sorted(names) for one in store.read(name)]
        if store.scan() is None:
            return
        assert store.scan() == every
        assert store.scan(limit=7) == every[:7]
        assert store.scan(bodies=False) == [one._replace(body=b"") for one in every]
        for name in names:
            assert store.scan(name, limit=4) == [one for one in every if one.run > name][:4]

    def test_runs_page_by_id(self, store: Store) -> None:
        store.append([entry(f"r{number}", 0) for number in range(5)])
        assert [head.run for head in store.runs(limit=2)] == ["r0", "r1"]
        assert [head.run for head in store.runs(after="r1", limit=2)] == ["r2", "r3"]
        assert [head.run for head in store.runs(after="r1x", limit=1)] == ["r2"]
        assert [head.run for head in store.runs(after="r4")] == []
        assert store.runs(limit=0) == []

    def test_paging_runs_neither_skips_nor_repeats_while_others_write(self, store: Store) -> None:
        store.append([entry(f"r{number}", 0) for number in range(1, 7)])
        seen = store.runs(limit=2)
        store.append(
            [entry("r0", 0), entry("r00", 0), entry("r1", 1), entry("r4", 1), entry("r9", 0)]
        )
        store.erase(tombstone("r2", 1))
        while page := store.runs(after=seen[-1].run, limit=2):
            seen += page
        assert [head.run for head in seen] == ["r1", "r2", "r3", "r4", "r5", "r6", "r9"]

    # stats

    def test_stats_sum_the_checkpoints(self, store: Store) -> None:
        store.append([
            entry("d", 0, b"a question", kind="question", size=10),
            entry("a", 0, b"xx", size=100, at=50),
            entry("a", 1, b"ignored", size=0, at=1),
            entry("a", 2, b"xxx", size=200, at=40),
            entry("b", 0, b"x", kind="result", size=1, at=60),
            entry("c", 0, b"no state", size=0, at=99),
        ])  # fmt: skip
        assert store.stats("a") == StoreStats(2, 300, 5, 40, 50)
        assert store.stats("b") == StoreStats(1, 1, 1, 60, 60)
        assert store.stats("c") == store.stats("d") == StoreStats(0, 0, 0, None, None)
        assert store.stats() == StoreStats(3, 301, 6, 40, 60)

    def test_stats_follow_trims_and_erasures(self, store: Store) -> None:
        store.append([entry(run, seq, b"xyz", at=seq) for run in ("a", "b") for seq in range(3)])
        store.trim(entry("a", 3, kind="trim"), {0: b"x", 2: None})
        assert store.stats("a") == StoreStats(2, 6, 4, 0, 1)
        store.erase(tombstone("b", 3))
        assert store.stats("b") == StoreStats(0, 0, 0, None, None)
        assert store.stats() == store.stats("a")

    def test_stats_pass_over_hidden_journals(self, store: Store) -> None:
        store.append([entry(HIDDEN + "h", 0, b"x"), entry("run", 0, b"x")])
        assert store.stats() == store.stats("run")
        assert store.stats(HIDDEN + "h").checkpoints == 1


def _seqs(entries: list[Entry]) -> list[int]:
    return [item.seq for item in entries]
