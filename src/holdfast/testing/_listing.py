"""The contract's tests of the heads index: `listed`, `due`, `holders`, `counts` and `tally`."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from holdfast import scanning
from holdfast.heads import HOUR, UNKNOWN, Position, RunHead
from holdfast.model import HIDDEN, Entry
from holdfast.store import RunFilter, Store
from holdfast.testing.invariants import Snapshot, all_listed, entry, tombstone

_DAY: Final = 24 * HOUR
_START: Final = 480_000 * HOUR
_AFTER: Final = 1 << 62
_FILTERS: Final = (
    RunFilter(),
    RunFilter(status="running"),
    RunFilter(statuses=("paused", "failed")),
    RunFilter(status="paused", statuses=("paused", "failed")),
    RunFilter(status="open", statuses=("paused", "failed")),
    RunFilter(flow="f"),
    RunFilter(flow="f", status="completed"),
    RunFilter(flow="f", statuses=("completed", "failed", "no such status")),
    RunFilter(thread="t"),
    RunFilter(owner="o"),
    RunFilter(owner="o", flow="f"),
    RunFilter(owner="o", statuses=("running", "paused")),
    RunFilter(type="x"),
    RunFilter(prefix="r1"),
    RunFilter(labels=("team=blue",)),
    RunFilter(labels=("team=blue", "size=1"), status="running"),
    RunFilter(since=_START + 9 * HOUR),
    RunFilter(since=_START + 5 * HOUR, until=_START + 15 * HOUR, flow="f"),
    RunFilter(holder="h1"),
    RunFilter(asking=True),
    RunFilter(roots=True),
    RunFilter("running", "f", "t", "o", "x", "r", since=_START, labels=("team=blue",), roots=True),
)


class ListingContract:
    """Part of `StoreContract`."""

    def test_every_question_has_the_answer_that_the_journals_give(self, store: Store) -> None:
        for entries in _history(random.Random(16)):  # noqa: S311 - the same each time
            assert all(store.append(entries))
        journals = Snapshot.of(store)
        for where in _FILTERS:
            expected = scanning.listed(journals, where, None, 999)
            assert store.listed(where, limit=999) == expected, where
            assert store.counts(where) == scanning.counts(journals, where), where
            assert all_listed(store, where) == expected, where
        for now in (0, _START + 2 * HOUR, _AFTER):
            for flows in (None, ["f"], ["f", "g", "h"], []):
                assert store.due(now, flows=flows) == scanning.due(journals, now, flows, 999)
        assert store.due(_AFTER, limit=2) == scanning.due(journals, _AFTER, None, 2)
        assert store.holders() == scanning.holders(journals)
        assert store.rebuild(write=False) == 0

    def test_one_row_can_be_asked_for(self, store: Store) -> None:
        for entries in _history(random.Random(7))[:30]:  # noqa: S311 - the same each time
            assert all(store.append(entries))
        store.append([entry("gone", 0), entry(HIDDEN + "h", 0)])
        store.erase(tombstone("gone", 1))
        for run in (*(f"r{number}" for number in range(14)), "gone", "nobody", HIDDEN + "h", ""):
            assert store.row(run) == scanning.row(store, run)

    def test_entries_are_found_by_their_places(self, store: Store) -> None:
        store.append([entry(run, seq, b"x") for run in ("a", "b") for seq in range(4)])
        store.erase(tombstone("b", 4))
        places = [("a", 3), ("b", 2), ("a", 1), ("a", 4), ("c", 0), ("b", 4)]
        found = sorted(store.entries_at(places))
        assert [(item.run, item.seq, item.body) for item in found] == [
            ("a", 1, b""), ("a", 3, b""), ("b", 4, b"")
        ]  # fmt: skip
        together = type(store).entries_at is not Store.entries_at  # else each is read by itself
        many = [("a", seq) for seq in (range(-250, 250) if together else range(-25, 25))]
        assert [item.seq for item in sorted(store.entries_at(many))] == [0, 1, 2, 3]
        assert store.entries_at([]) == []
        found = store.entries_at([("a", 1), ("a", 2)], bodies=True)
        assert [(item.seq, item.body) for item in sorted(found)] == [(1, b"x"), (2, b"x")]

    def test_statistics_are_those_of_the_journals(self, store: Store) -> None:
        for entries in _history(random.Random(4)):  # noqa: S311 - the same each time
            for item in entries:
                assert all(store.append([item]))
        journals = Snapshot.of(store)
        for since, until in ((0, _AFTER), (_START, _START + 1), (_START, _START + _DAY)):
            hours = since // HOUR, -(-until // HOUR)
            for flow in (None, "f", "no such flow"):
                expected = scanning.tally(journals, *hours, flow)
                assert store.tally(since, until, flow=flow) == expected

    def test_the_last_opened_run_is_listed_first(self, store: Store) -> None:
        for run, at in (("b", 2), ("a", 3), ("d", 1), ("c", 2)):
            store.append([entry(run, 0, at=at)])
        store.append([entry("d", 1, at=9, status="running")])
        assert _runs(store) == ["a", "c", "b", "d"]
        assert _runs(store, before=(2, "c")) == ["b", "d"]
        assert _runs(store, before=(2, "bb")) == ["b", "d"]
        assert _runs(store, limit=1) == ["a"]
        assert store.listed(limit=0) == []

    def test_a_row_comes_with_the_runs_head(self, store: Store) -> None:
        store.append([entry("run", 0, b"x", kind="open", at=7, flow="f", owner="o")])
        head = entry("run", 1, b"y", term=0, at=9, flow="f", owner="o")
        store.append([head])
        row = RunHead("run", 7, 7, "open", "f", None, "o", None, None, None, 0, (), 0)
        assert store.listed() == [(row, head._replace(body=b""))]

    def test_paging_lists_neither_skips_nor_repeats_while_others_write(self, store: Store) -> None:
        store.append([entry(f"r{number}", 0, at=number) for number in range(1, 7)])
        seen = [row for row, _ in store.listed(limit=2)]
        store.append([entry("r0", 0, at=0), entry("r9", 0, at=9)])
        store.append([entry("r6", 1, status="failed"), entry("r4", 1, status="failed")])
        store.erase(tombstone("r2", 1))
        while page := store.listed(before=seen[-1].position, limit=2):
            seen += [row for row, _ in page]
        assert [row.run for row in seen] == ["r6", "r5", "r4", "r3", "r1", "r0"]

    def test_who_holds_a_run_and_when_it_is_due(self, store: Store) -> None:
        opening: dict[str, Any] = {"kind": "open", "status": "running"}
        store.append([entry("a", 0, flow="f", meta=_meta(holder="h", due=5), **opening)])
        store.append([entry("b", 0, flow="g", meta=_meta(holder="h"), **opening)])
        store.append([entry("c", 0, flow="g", status="paused", meta=_meta(holder="h", due=3))])
        assert store.holders() == {"h": 2}
        assert _runs(store, RunFilter(holder="h")) == ["b", "a"]
        assert [row.run for row in store.due(5)] == ["c", "a"]
        assert [row.run for row in store.due(4)] == ["c"]
        assert [row.run for row in store.due(9, flows=["f"])] == ["a"]
        assert [row.run for row in store.due(9, limit=1)] == ["c"]
        store.append([entry("a", 1, kind="release", status="running")])
        store.append([entry("c", 1, kind="claim", status="running", meta=_meta(holder="i"))])
        assert store.holders() == {"h": 1, "i": 1}
        assert store.due(9) == []

    def test_a_child_run_is_due_for_workers_of_all_flows(self, store: Store) -> None:
        child = _meta(due=5, parent="run@step")
        store.append([entry("run//step", 0, kind="open", flow="g", meta=child)])
        store.append([entry("other", 0, kind="open", flow="g", meta=_meta(due=4))])
        assert [row.run for row in store.due(9, flows=["f"])] == ["run//step"]
        assert [row.run for row in store.due(9, flows=[])] == ["run//step"]
        assert [row.run for row in store.due(9, flows=["g"])] == ["other", "run//step"]
        assert store.due(4, flows=["f"]) == []

    def test_what_says_nothing_of_holder_due_and_questions_leaves_them(self, store: Store) -> None:
        facts = _meta(holder="h", due=5, questions=1)
        store.append([entry("run", 0, kind="open", status="running", meta=facts)])
        store.append([entry("run", 1, kind="question", status="running", term=0)])
        store.append([entry("run", 2, status="running", term=0), entry("other", 0)])
        ((row, _),) = store.listed(RunFilter(prefix="run"))
        assert (row.holder, row.due, row.questions, row.seq) == ("h", 5, 1, 1)
        answer: dict[str, Any] = {"kind": "answer", "term": 0, "status": "running"}
        store.append([entry("run", 3, meta=_meta(questions=0, due=2), **answer)])
        ((row, _),) = store.listed(RunFilter(prefix="run"))
        assert (row.holder, row.due, row.questions, row.seq) == ("h", 2, 0, 3)

    def test_a_deleted_run_is_in_no_list_and_a_new_one_begins_anew(self, store: Store) -> None:
        first = _meta(labels={"team": "blue"}, due=1, questions=2, holder="h")
        store.append([entry("run", 0, kind="open", status="running", meta=first, at=5)])
        store.erase(tombstone("run", 1, at=6))
        assert store.listed() == []
        assert store.due(9) == []
        assert store.counts() == store.holders() == {}
        assert store.listed(RunFilter(labels=("team=blue",))) == []
        second = _meta(labels={"team": "red"})
        store.append([entry("run", 2, kind="open", status="paused", meta=second, at=7)])
        row = RunHead(
            "run", 7, 7, "paused", None, None, None, None, None, None, 0, ("team=red",), 2
        )
        assert [row for row, _ in store.listed()] == [row]
        assert store.counts(RunFilter(labels=("team=red",))) == {"paused": 1}
        assert store.rebuild(write=False) == 0

    def test_a_run_deleted_and_begun_in_one_batch_begins_anew(self, store: Store) -> None:
        first = _meta(labels={"team": "blue"}, questions=2)
        store.append([entry("run", 0, kind="open", meta=first, flow="f")])
        store.append([
            tombstone("run", 1),
            entry("run", 2, kind="open", at=5, flow="g", meta=_meta(labels={"team": "red"})),
            entry("run", 3, status="failed", at=6, flow="g"),
        ])  # fmt: skip
        (row,) = (row for row, _ in store.listed())
        assert (row.opened, row.questions, row.labels) == (5, 0, ("team=red",))
        assert store.counts(RunFilter(flow="f")) == {}
        assert store.counts(RunFilter(flow="g")) == store.counts() == {"failed": 1}
        assert store.rebuild(write=False) == 0

    def test_internal_journals_are_in_no_list(self, store: Store) -> None:
        store.append([entry(HIDDEN + "h", 0, meta=_meta(due=1), kind="open"), entry("run", 0)])
        assert _runs(store) == ["run"]
        assert _runs(store, RunFilter(prefix=HIDDEN)) == []
        assert store.due(9) == []
        assert store.counts() == {"open": 1}

    def test_metadata_that_cant_be_read_says_nothing(self, store: Store) -> None:
        hostile = [
            "", "{", "[1]", "null", '{"due":true,"questions":"2","labels":[1],"holder":1}',
            '{"due":1e400,"questions":-5}', '{"due":9223372036854775808}', "[" * 100_000,
            '{"labels":{"":"x","a=b":"c","n":"\\u0000","m":"\\ud800","o":1}}',
            '{"holder":"\\ud800","parent":"@"}', '{"labels":{"n":"' + "x" * 600 + '"}}',
        ]  # fmt: skip
        for number, meta in enumerate(hostile):
            run = f"r{number}"
            store.append([entry(run, 0, kind="open", status="running", meta=meta, at=1)])
            row = RunHead(run, 1, 1, "running", None, None, None, None, UNKNOWN, None, 0, (), 0)
            assert [row for row, _ in store.listed(RunFilter(prefix=run), limit=1)] == [row]

    def test_a_batch_that_loses_changes_no_row(self, store: Store) -> None:
        store.append([entry("run", 0, status="running")])
        assert store.append([entry("run", 2, status="failed"), entry("b", 0)]) == [False, True]
        assert store.append([entry("run", 0, status="failed")]) == [False]
        assert store.append([entry("run", 1, status="failed")], {"run": b"?"}) == [False]
        assert not store.trim(entry("run", 2, status="failed"), {})
        assert not store.erase(tombstone("run", 0))
        assert store.counts() == {"running": 1, "open": 1}
        assert sorted(row.status for row, _ in store.listed()) == ["open", "running"]


def _history(source: random.Random) -> list[list[Entry]]:
    """Batches of entries of some runs, as an engine might write them."""
    tops: dict[str, Entry] = {}
    batches = []
    for step in range(70):
        batch = []
        for number in sorted(source.sample(range(14), 3)):
            item = _next(source, f"r{number}", tops.get(f"r{number}"), step)
            tops[item.run] = item
            batch.append(item)
        batches.append(batch)
    return batches


def _next(source: random.Random, run: str, last: Entry | None, step: int) -> Entry:
    facts: dict[str, Any] = {}
    fields: dict[str, Any] = {"at": _START + step * HOUR // 3, "type": source.choice([None, "x"])}
    if source.random() < 0.4:
        facts["due"] = _START + source.randrange(5) * HOUR
    if source.random() < 0.3:
        facts["questions"] = source.randrange(3)
    facts["holder"] = source.choice(["h1", "h2"])
    if last is None:
        facts["labels"] = {"team": source.choice(["blue", "red"]), "size": str(source.randrange(2))}
        if source.random() < 0.3:
            facts["parent"] = "above@step"
        for name in ("flow", "thread", "owner"):
            fields[name] = source.choice([None, name[0], name[0].upper()])
        status = source.choice(["open", "running"])
        return entry(run, 0, kind="open", status=status, meta=_meta(**facts), **fields)
    seq = last.seq + 1
    fields |= {"flow": last.flow, "thread": last.thread, "owner": last.owner}
    kinds = ["checkpoint", "result", "question", "answer", "request", "claim", "pause"]
    kind = source.choice(kinds)
    status, term = last.status, last.term
    if kind == "claim":
        status, term = "running", seq
    elif kind == "pause":
        status, term = source.choice(["paused", "failed", "completed", "cancelled"]), seq
    return entry(run, seq, kind=kind, status=status, term=term, meta=_meta(**facts), **fields)


def _meta(**facts: object) -> str:
    return json.dumps(facts)


def _runs(
    store: Store,
    where: RunFilter = RunFilter(),
    *,
    before: Position | None = None,
    limit: int = 99,
) -> list[str]:
    return [row.run for row, _ in store.listed(where, before=before, limit=limit)]
