"""Nothing damaged, altered or unproved is used, and what does not depend on it still works."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope, values, wrapping
from holdfast.errors import UnknownFormatError
from holdfast.graph import END, Graph
from holdfast.model import Entry
from holdfast.stores import MemoryStore
from holdfast.workflow import for_each, step, workflow

CALLS: list[int] = []
WORKS = {"now": False}


@pytest.fixture(autouse=True)
def _afresh() -> None:
    CALLS.clear()
    WORKS["now"] = False


@step
def double(n: int) -> int:
    CALLS.append(n)
    return 2 * n


@step
def fragile(n: int) -> int:
    if not WORKS["now"]:
        raise ConnectionError("not yet")
    return n


@workflow
async def totals() -> list[Any]:
    first = await double(1)
    more = await for_each([2, 3, 4], double)
    return [first, more, await fragile(5)]


def interrupted(store: Any, call: Any = None) -> None:
    """A run, `r`, that has results and did not finish."""
    with hf.Engine(store) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(totals() if call is None else call, run_id="r")
    CALLS.clear()
    WORKS["now"] = True


def resumed(store: Any, call: Any = None) -> Any:
    with hf.Engine(store) as engine:
        return engine.run_sync(totals() if call is None else call, run_id="r", resume=True)


def tamper(path: Path, change: Callable[[Entry], Entry | None], seq: int) -> None:
    """Put another entry in the place of one of run `r`; None deletes it."""
    with closing(sqlite3.connect(path)) as db, db:
        where = "WHERE run = 'r' AND seq = ?"
        (row,) = db.execute(f"SELECT * FROM holdfast_entries {where}", [seq])
        db.execute(f"DELETE FROM holdfast_entries {where}", [seq])
        entry = change(Entry._make(row))
        if entry is not None:
            places = ", ".join("?" * len(entry))
            db.execute(f"INSERT INTO holdfast_entries VALUES ({places})", entry)


def forged(entry: Entry, value: object, flags: int = 0) -> Entry:
    """The entry with another value, and a checksum that fits it."""
    content = values.encode(value)
    entry = entry._replace(size=len(content))
    beside = b""
    if flags & wrapping.REWRITTEN:
        beside = wrapping.beside_of(envelope.glance(entry).said_proof, entry.seq + 1)
    checksum = envelope._checksum(entry.digest, envelope._clear(entry), flags, beside, content)
    return entry._replace(body=wrapping.wrap(flags, checksum, beside, content))


def result_seq(path: Path, at: int = 0) -> int:
    with hf.SyncCheckpointer(path) as cp:
        return cp.list_checkpoints("r", oldest_first=True)[at].seq


@pytest.mark.parametrize("flags", [0, wrapping.REWRITTEN], ids=["checksum", "flag"])
def test_an_edited_result_is_not_used_even_if_its_checksum_fits(tmp_path: Path, flags: int) -> None:
    path = tmp_path / "runs.db"
    interrupted(path)
    seq = result_seq(path)
    tamper(path, lambda entry: forged(entry, 1_000_000, flags), seq)
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq} is damaged"):
        resumed(path)
    assert CALLS == []
    with hf.SyncCheckpointer(path) as cp:
        assert seq in {problem.seq for problem in cp.verify("r").problems}
        with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq}"):
            cp.load("r", seq=seq)


def test_a_row_of_another_stores_run_of_the_same_id_is_not_used(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    for path in (ours, theirs):
        WORKS["now"] = False
        interrupted(path)
    seq = result_seq(ours)
    with closing(sqlite3.connect(theirs)) as db:
        query = "SELECT * FROM holdfast_entries WHERE run = 'r' AND seq = ?"
        (row,) = db.execute(query, [seq])
    tamper(ours, lambda _: Entry._make(row), seq)
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq} is damaged"):
        resumed(ours)


@pytest.mark.parametrize("url", ["runs.db", "files/"])
def test_a_result_that_was_deleted_underneath_is_missing_and_not_executed_again(
    tmp_path: Path, url: str
) -> None:
    store = f"{tmp_path}/{url}"
    interrupted(store)
    with hf.SyncCheckpointer(store) as cp:
        seqs = [info.seq for info in cp.list_checkpoints("r")]
    gone = seqs[1]  # of the for_each
    if url == "runs.db":
        tamper(tmp_path / url, lambda _: None, gone)
    else:
        (tmp_path / f"files/r/{gone:010d}.json").unlink()
    with hf.SyncCheckpointer(store) as cp:
        listed = {info.seq: info.damage for info in cp.list_checkpoints("r")}
        assert list(listed) == seqs
        assert listed[gone] == "the entry is missing"
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{gone} is damaged.*missing"):
        resumed(store)
    assert CALLS == []
    with hf.SyncCheckpointer(store) as cp:
        cp.rollback("r", seq=seqs[2])  # as the error advises
    assert resumed(store) == [2, [4, 6, 8], 5]
    assert CALLS == [3, 4], "what was recorded before it is not executed again"


@pytest.mark.parametrize("url", ["runs.db", "files/"])
def test_a_damaged_beginning_is_damage_and_not_a_missing_run(tmp_path: Path, url: str) -> None:
    store = f"{tmp_path}/{url}"
    interrupted(store)
    if url == "runs.db":
        tamper(tmp_path / url, lambda entry: entry._replace(body=entry.body + b"x"), 0)
    else:
        file = tmp_path / "files/r/0000000000.json"
        file.write_text(file.read_text().replace('"kind": "open"', '"kind": "opem"'))
    with pytest.raises(hf.CheckpointCorruptedError, match="r@0 is damaged"):
        resumed(store)


@dataclass
class Level:
    n: int = 0
    log: str = ""


def filled(level: Level) -> Level:
    return Level(level.n + 1, level.log + "x" * 2000)


def last(level: Level) -> Level:
    if not WORKS["now"]:
        raise ConnectionError("not yet")
    return level


def pump() -> Any:
    graph = Graph(Level)
    for name in "abc":
        graph.add_node(name, filled)
    graph.add_node("d", last)
    graph.set_entry("a")
    for start, end in ("ab", "bc", "cd"):
        graph.add_edge(start, end)
    graph.add_edge("d", END)
    return graph.compile()


@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_a_graph_resumes_from_an_intact_state_whatever_became_of_older_ones(
    tmp_path: Path, how: str
) -> None:
    store, app = f"{tmp_path}/files/", pump()
    with hf.Engine(store) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(app(Level()), run_id="r")
    WORKS["now"] = True
    with hf.SyncCheckpointer(store) as cp:
        oldest = cp.list_checkpoints("r", oldest_first=True)[0].seq
    file = tmp_path / f"files/r/{oldest:010d}.json"
    if how == "deleted":
        file.unlink()
    else:
        file.write_text(file.read_text().replace('"n": 1', '"n": 7'))
    assert resumed(store, app(Level())).n == 3


def claiming(file: Path) -> Any:
    def make(level: Level) -> Level:
        file.write_text("good")
        return level

    def read(level: Level) -> Level:
        last(level)
        return Level(level.n, file.read_text())

    graph = Graph(Level).add_node("a", make, outputs=str(file))
    graph.add_node("b", filled).add_node("c", filled).add_node("d", read)
    for start, end in ("ab", "bc", "cd"):
        graph.add_edge(start, end)
    return graph.add_edge("d", END).set_entry("a").compile()


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_a_graph_that_lost_its_claims_does_not_continue_as_if_there_were_none(
    tmp_path: Path, how: str
) -> None:
    path, file = tmp_path / "runs.db", tmp_path / "f"
    app = claiming(file)
    interrupted(path, app(Level()))
    seq = result_seq(path)
    tamper(path, lambda e: None if how == "gone" else e._replace(meta=""), seq)
    file.write_text("evil")
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq}"):
        resumed(path, app(Level()))


def test_an_overridden_state_still_says_that_there_were_claims(tmp_path: Path) -> None:
    path, file = tmp_path / "runs.db", tmp_path / "f"
    app = claiming(file)
    interrupted(path, app(Level()))
    WORKS["now"] = False
    seq = result_seq(path)
    with hf.SyncCheckpointer(path) as cp, pytest.raises(hf.StepFailedError):
        asyncio.run(app.resume("r", store=cp, from_node="d", override={"n": 7}))
    WORKS["now"] = True
    tamper(path, lambda e: e._replace(meta=""), seq)
    file.write_text("evil")
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq} is damaged"):
        resumed(path, app(Level()))


def test_claims_that_were_removed_from_the_marker_of_a_deletion_are_missed(tmp_path: Path) -> None:
    path, file = tmp_path / "runs.db", tmp_path / "f"
    app = claiming(file)
    interrupted(path, app(Level()))
    with hf.SyncCheckpointer(path) as cp:
        cp.prune("r", keep_latest=1, force=True)
        marker = next(e for e in cp.store.read("r", limit=100) if e.kind == "trim")
    WORKS["now"] = False
    with pytest.raises(hf.StepFailedError):
        resumed(path, app(Level()))
    WORKS["now"] = True
    stripped = {k: v for k, v in json.loads(marker.meta).items() if k != "carried"}
    tamper(path, lambda e: e._replace(meta=json.dumps(stripped)), marker.seq)
    file.write_text("evil")
    with pytest.raises(
        hf.CheckpointCorruptedError, match="no entry behind it says that it was deleted"
    ):
        resumed(path, app(Level()))


def test_a_workflow_still_answers_for_what_deleted_steps_claimed(tmp_path: Path) -> None:
    path, file = tmp_path / "runs.db", tmp_path / "f"

    @step(outputs=str(file))
    def make() -> int:
        CALLS.append(0)
        file.write_text("good")
        return 0

    @workflow
    async def makes() -> int:
        return await make() + await double(1) + await fragile(5)

    interrupted(path, makes())
    with hf.SyncCheckpointer(path) as cp:
        cp.prune("r", keep_latest=1, force=True)
    file.unlink()
    with hf.Engine(path) as engine:
        events = [type(e).__name__ for e in engine.stream_sync(makes(), run_id="r", resume=True)]
    assert "CheckpointRejected" in events
    assert file.read_text() == "good"


def test_what_a_node_reads_is_compared_although_an_older_state_without_claims_is_damaged(
    tmp_path: Path,
) -> None:
    store, file = f"{tmp_path}/files/", tmp_path / "f"
    file.write_text("in")
    graph = Graph(Level).add_node("a", filled).add_node("b", filled)
    graph.add_node("c", last, reads=str(file))
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).set_entry("a")
    app = graph.compile()
    with hf.Engine(store) as engine, pytest.raises(hf.StepFailedError):
        engine.run_sync(app(Level()), run_id="r")
    WORKS["now"] = True
    with hf.SyncCheckpointer(store) as cp:
        oldest = cp.list_checkpoints("r", oldest_first=True)[0].seq
    (tmp_path / f"files/r/{oldest:010d}.json").unlink()
    assert resumed(store, app(Level())).n == 2


def test_what_a_newer_version_wrote_is_neither_loaded_nor_continued(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        head = cp.save("r", {"n": 1}).seq
    tamper(path, lambda entry: entry._replace(body=b"\x03" + entry.body[1:]), head)
    with hf.SyncCheckpointer(path) as cp:
        for attempt in (cp.load, lambda run: cp.save(run, {"n": 2})):
            with pytest.raises(UnknownFormatError, match="upgrade holdfast"):
                attempt("r")
        assert len(cp.list_checkpoints("r")) == 1


def test_an_edited_export_is_refused_before_anything_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with hf.SyncCheckpointer("memory://") as cp:
        for n in range(3):
            cp.save("r", {"n": n, "log": [f"line {i}" for i in range(900 + n)]})
        cp.export_run("r", file)
    lines = file.read_text().splitlines()[:-1]
    good = json.loads(lines[2])
    changes: list[dict[str, Any]] = [
        {"state": {**good["state"], "n": 7}},
        {"step": "another"},
        {"status": "deleted", "body": "", "size": 0, "state": None},
        {"body": good["body"][:-8] + "AAAAAAA="},
    ]
    for change in changes:
        document = good | change
        text = "".join(f"{line}\n" for line in [*lines[:2], json.dumps(document), *lines[3:]])
        end = {"entries": len(lines) - 1, "sha256": sha256(text.encode()).hexdigest()}
        file.write_text(text + json.dumps(end) + "\n")
        with hf.SyncCheckpointer("memory://") as cp:
            with pytest.raises(ValueError, match=r"run\.jsonl:3"):
                cp.import_run(file)
            assert cp.runs() == []


def test_a_checkpoint_that_was_made_to_look_deleted_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        seqs = [cp.save("r", {"n": n}).seq for n in range(4)]
        cp.delete("r", seq=seqs[0])
    nothing = dict.fromkeys(("step", "step_index", "type", "duration", "flow", "thread", "owner"))
    stub: dict[str, Any] = {**nothing, "status": "deleted", "size": 0, "meta": "", "body": b""}
    tamper(path, lambda entry: entry._replace(**stub), seqs[1])
    with hf.SyncCheckpointer(path) as cp:
        assert cp.load("r", seq=seqs[0]) is None, "this one was deleted"
        with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seqs[1]} is damaged"):
            cp.load("r", seq=seqs[1])
        marked = [info.seq for info in cp.list_checkpoints("r") if info.damage]
        assert marked == [seqs[1]] == [problem.seq for problem in cp.verify("r").problems]


def test_a_rewritten_state_is_proved_by_its_marker_and_by_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    states = [{"n": n, "log": [f"line {i}" for i in range(900 + n)]} for n in range(4)]
    with hf.SyncCheckpointer(path) as cp:
        seqs = [cp.save("r", state).seq for state in states]
        cp.delete("r", seq=seqs[1])
        assert cp.verify("r").rewritten == 1
        loaded = cp.load("r", seq=seqs[2])
        assert loaded is not None
        assert loaded.state == states[2]
    other = values.encode({**states[2], "n": 7})

    def rewritten(entry: Entry) -> Entry:
        stored = envelope.glance(entry)
        body, _ = envelope.reseal(entry, other, stored.proof, stored.marker)
        return entry._replace(body=body)

    tamper(path, rewritten, seqs[2])
    with hf.SyncCheckpointer(path) as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="not what its marker lists"):
            cp.load("r", seq=seqs[2])
        assert not cp.verify("r").ok
        assert cp.load("r", seq=seqs[0]) is not None


def test_copies_between_kinds_of_stores_keep_every_byte_and_go_on(tmp_path: Path) -> None:
    packed, again = MemoryStore(), MemoryStore()
    states = [{"n": n, "log": [f"line {i}" for i in range(900 + n)]} for n in range(5)]
    with hf.SyncCheckpointer(packed) as cp:
        for state in states:
            cp.save("r", state)
        cp.delete("r", seq=2)
        with closing(hf.open_store(f"{tmp_path}/files/")) as files:
            cp.copy_to(files)
            with hf.SyncCheckpointer(files) as there:
                assert there.verify("r") == cp.verify("r")
                assert there.load("r") == cp.load("r")
                assert '"n": 4' in (tmp_path / "files/r/0000000005.json").read_text()
                there.copy_to(again)
                there.save("r", {"n": "on"})
                assert there.load("r").state == {"n": "on"}  # type: ignore[union-attr]
                assert there.delete("r", seq=3) == 1
                assert there.verify("r").ok
                assert there.load("r", seq=4).state == states[3]  # type: ignore[union-attr]
    assert again.read("r") == packed.read("r")


def with_digest(path: Path, value: object, seq: int) -> None:
    """Forge an entry of run `r` so that it follows the one before it."""
    with hf.SyncCheckpointer(path) as cp:
        before = cp.store.read("r", after=seq - 2, limit=1)[0].digest

    def change(entry: Entry) -> Entry:
        packed = envelope.keyframe(values.encode(value))
        size = len(values.encode(value))
        entry = entry._replace(size=size)
        return envelope.seal(entry[:6], entry[7:18], before, packed)

    tamper(path, change, seq)


def test_what_a_run_went_back_to_is_named_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    interrupted(path)
    seq = result_seq(path)
    with hf.SyncCheckpointer(path) as cp:
        cp.rollback("r", seq=seq)
    with_digest(path, 1_000_000, seq)
    with pytest.raises(hf.CheckpointCorruptedError, match=f"r@{seq} is damaged"):
        resumed(path)


def test_what_stands_before_a_deleted_checkpoint_is_proved_by_the_deletion(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        seqs = [cp.save("r", {"n": n}).seq for n in range(6)]
        cp.delete("r", seq=seqs[3])
        assert cp.verify("r").ok
    with_digest(path, {"n": 7}, seqs[2])
    with hf.SyncCheckpointer(path) as cp:
        assert not cp.verify("r").ok


def test_a_damaged_beginning_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    interrupted(path)
    tamper(path, lambda entry: entry._replace(meta="{}"), 0)
    with (
        hf.SyncCheckpointer(path) as cp,
        pytest.raises(hf.CheckpointCorruptedError, match="r@0"),
    ):
        cp.delete("r", seq=0, force=True)
