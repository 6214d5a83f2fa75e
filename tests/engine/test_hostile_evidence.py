"""What steps claim, and what is stored of it, is not trusted any further than it can be checked."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import CHILD, dump_meta
from holdfast.events import StepCompleted
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy
from holdfast.evidence.trust.checking import Checker
from holdfast.graph import END, Graph
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import Workflow, step, workflow
from tests.engine.desk import Desk, there
from tests.waiting import join
from tests.workflow.support import Flow, stop_at


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    place = tmp_path / "desk"
    place.mkdir()
    return Desk(place)


@pytest.fixture
def engine() -> hf.Engine:
    return hf.Engine("memory://")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as executor:
        yield executor


def one(made: Any) -> Workflow[..., Any]:
    @workflow("one")
    def flow() -> Flow:
        return (yield made)

    return flow


def fails(engine: hf.Engine, made: Any, words: str) -> None:
    with pytest.raises(hf.StepFailedError, match=words):
        engine.run_sync(one(made)())


# --- files


def test_an_output_outside_the_roots_is_refused(desk: Desk, tmp_path: Path) -> None:
    (desk / "in").mkdir()
    strict = hf.Engine("memory://", verifier=EvidenceVerifier(policy=Policy(roots=(desk / "in",))))
    write = step("a").python(desk.write, args=("a",))
    for outside in (desk / "a", desk / "in" / ".." / "a", "../a"):
        fails(strict, write.outputs(outside), "EvidencePolicyError")
    desk.write("in/fine")
    assert strict.run_sync(one(write.outputs(desk / "in/fine"))())
    assert strict.run_sync(one(write.outputs("fine"))()), "relative to the root"


def test_a_symlink_that_leads_out_of_the_roots_is_refused(desk: Desk) -> None:
    (desk / "in").mkdir()
    desk.write("secret")
    (desk / "in/link").symlink_to(desk / "secret")
    (desk / "in/dir").symlink_to(desk.place)
    strict = hf.Engine("memory://", verifier=EvidenceVerifier(policy=Policy(roots=(desk / "in",))))
    for path in ("link", "dir/secret", "dir"):
        fails(strict, step("a").python(int).outputs(desk / "in" / path), "EvidencePolicyError")


def test_an_output_that_became_a_symlink_out_of_the_roots_is_never_trusted(desk: Desk) -> None:
    (desk / "in").mkdir()
    store = hf.open_store("memory://")
    strict = hf.Engine(store, verifier=EvidenceVerifier(policy=Policy(roots=(desk / "in",))))
    flow = one(step("a").python(lambda: desk.write("in/a")).outputs(desk / "in/a"))
    strict.run_sync(flow(), run_id="r")
    (desk / "in/a").rename(desk / "outside")
    (desk / "in/a").symlink_to(desk / "outside")
    with pytest.raises(hf.VerificationError):
        strict.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["in/a"]


def test_a_fifo_is_no_output_and_nobody_waits_for_it(engine: hf.Engine, desk: Desk) -> None:
    os.mkfifo(desk / "pipe")
    fails(engine, step("a").python(int).outputs(desk / "pipe"), "pipe")
    fails(engine, step("a").python(int).reads(desk / "pipe"), "pipe")


def test_an_output_that_became_a_fifo_is_made_again(engine: hf.Engine, desk: Desk) -> None:
    def write() -> str:
        (desk / "a").unlink(missing_ok=True)
        return desk.write("a")

    flow = one(step("a").python(write).outputs(desk / "a"))
    engine.run_sync(flow(), run_id="r")
    (desk / "a").unlink()
    os.mkfifo(desk / "a")
    assert engine.run_sync(flow(), run_id="r", resume=True) == "this is a"
    assert desk.take() == ["a", "a"]


def test_an_output_that_changes_while_it_is_read_fails_the_step(
    engine: hf.Engine, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step left something behind that still writes to it."""
    real = os.readv

    def readv(descriptor: int, buffers: Any) -> int:
        count = real(descriptor, buffers)
        with (desk / "log").open("a") as file:
            file.write("more" if count > 4 else "")
        return count

    desk.write("log")
    monkeypatch.setattr(os, "readv", readv)
    fails(engine, step("a").python(int).outputs(desk / "log"), "changed while it was read")


def test_more_claims_than_a_checkpoint_can_hold_are_refused_with_words(
    engine: hf.Engine, desk: Desk
) -> None:
    for n in range(900):
        (desk / f"{'x' * 200}-{n}").touch()
    fails(engine, step("a").python(int).outputs(desk.place), "claim one file that lists")
    for n in range(900, 1100):
        (desk / f"{n}").touch()
    fails(engine, step("a").python(int).outputs(desk.place), "claim one file that lists them")


def test_claims_that_exclude_each_other_are_refused(engine: hf.Engine, desk: Desk) -> None:
    desk.write("a")
    other = Evidence("file_sha256", "a is empty", {"path": str(desk / "a"), "sha256": "0" * 64})
    fails(engine, step("a").python(int).outputs(desk / "a").evidence(other), "two different")


def test_the_callers_evidence_is_not_marked_and_not_shared(engine: hf.Engine, desk: Desk) -> None:
    desk.write("a")
    claim = there(desk / "a")
    pack = EvidencePack([there(desk / "a")])
    engine.run_sync(one(step("a").python(int).evidence(claim, pack))())
    assert claim.verification_status == "pending"
    assert not pack.is_verified


# --- other processes


def write_there(path: str) -> str:
    Path(path).write_text("there")
    return path


def claim_there(path: str) -> None:
    hf.current_step().claim(there(Path(path)))


def write_in_node(state: dict[str, Any]) -> None:
    write_there(state["path"])


def test_what_another_process_writes_is_claimed_here(
    engine: hf.Engine, desk: Desk, pool: ProcessPoolExecutor
) -> None:
    made = step("a").python(write_there, args=(str(desk / "a"),)).run_on(pool)
    flow = one(made.outputs(lambda path: path))
    engine_run = engine.run(flow(), run_id="r", resume=True)
    assert asyncio.run(engine_run) == str(desk / "a")
    (desk / "a").unlink()
    asyncio.run(engine.run(flow(), run_id="r", resume=True))
    assert (desk / "a").read_text() == "there"
    graph = Graph(dict[str, Any])
    graph.add_node("a", write_in_node, run_on=pool, outputs=desk / "b")
    app = graph.add_edge("a", END).set_entry("a").compile()
    state = {"path": str(desk / "b")}
    assert asyncio.run(app.run(state, store="memory://", run_id="g")) == state


def test_another_process_is_told_that_it_can_not_claim(
    engine: hf.Engine, desk: Desk, pool: ProcessPoolExecutor
) -> None:
    made = step("a").python(claim_there, args=(str(desk / "a"),)).run_on(pool)
    with pytest.raises(hf.StepFailedError, match=r"\.evidence\(lambda result"):
        asyncio.run(engine.run(one(made)()))


def test_claims_of_another_thread_are_heard(engine: hf.Engine, desk: Desk) -> None:
    def work() -> None:
        desk.write("a")
        info = hf.current_step()
        thread = threading.Thread(target=lambda: info.claim(there(desk / "a")))
        thread.start()
        join(thread)

    flow = one(step("a").python(work))
    asyncio.run(engine.run(flow(), run_id="r"))
    (desk / "a").unlink()
    asyncio.run(engine.run(flow(), run_id="r", resume=True))
    assert desk.take() == ["a", "a"]


# --- the store


@pytest.mark.parametrize(
    "forged",
    [
        "",
        '{"flow_version":"1"}',
        '{"flow_version":"1","evidence":[]}',
        '{"flow_version":"1","evidence":{"evidence_list":[]}}',
        '{"flow_version":"1","evidence":"\\u0000"}',
        "{",
    ],
)
def test_claims_that_were_tampered_with_are_never_taken_for_none(
    desk: Desk, tmp_path: Path, forged: str
) -> None:
    path = tmp_path / "runs.db"
    flow = one(step("a").python(desk.write, args=("a",)).outputs(desk / "a"))
    asyncio.run(_run(f"sqlite:///{path}", flow))
    with closing(sqlite3.connect(path)) as db, db:
        changed = db.execute(
            "UPDATE holdfast_entries SET meta = ? WHERE kind = 'result'", (forged,)
        )
        assert changed.rowcount == 1
    with pytest.raises(hf.CheckpointCorruptedError):
        asyncio.run(_run(f"sqlite:///{path}", flow))
    assert desk.take() == ["a"]


async def _run(url: str, flow: Workflow[..., Any]) -> Any:
    async with hf.Engine(url) as engine:
        return await engine.run(flow(), run_id="r", resume=True)


def standing_for(cp: hf.SyncCheckpointer, run: str, *within: str) -> None:
    """A run whose steps stand for these runs, as its journal says."""
    for name in within:
        cp.save(run, {})
        facts = Draft("result", "open", cp.core.journals.encode(1), meta=dump_meta({CHILD: name}))
        cp.core.drive(append(cp.core, run, facts))


@pytest.mark.parametrize(
    "runs", [{"r": ["r"]}, {"r": ["r", "r"]}, {"r": ["s", "s"], "s": ["t"], "t": ["s", "r"]}]
)
def test_runs_that_are_within_each_other_are_damaged(runs: dict[str, list[str]]) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        for run, within in runs.items():
            standing_for(cp, run, *within)
        with pytest.raises(hf.CheckpointCorruptedError, match="never end"):
            Checker(cp.core, None).newest(cp.core.journals.branch("r"), lambda _: True)


@pytest.mark.parametrize("hostile", ["", "\x1f", "\ud800", "x" * 1000])
def test_a_run_within_whose_id_is_none_is_damage(hostile: str) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        standing_for(cp, "r", hostile)
        with pytest.raises(hf.CheckpointCorruptedError, match="run_id"):
            Checker(cp.core, None).newest(cp.core.journals.branch("r"), lambda _: True)


def test_a_run_within_is_read_once_however_many_steps_stand_for_it() -> None:
    class Counting(MemoryStore):
        reads = 0

        def read(self, run: str, **which: Any) -> list[Entry]:
            self.reads += which.get("limit") == 2 and "after" not in which  # the head
            return super().read(run, **which)

    store, deep = Counting(), 12
    with hf.SyncCheckpointer(store) as cp:
        for depth in range(deep):
            standing_for(cp, f"r{depth}", f"r{depth + 1}", f"r{depth + 1}")
        cp.save(f"r{deep}", {})
        store.reads = 0
        Checker(cp.core, None).newest(cp.core.journals.branch("r0"), lambda _: True)
    assert store.reads == deep + 1


def test_a_stored_verdict_is_never_a_reason_to_trust(desk: Desk) -> None:
    """However often it was found to hold, what is gone is gone."""
    engine = hf.Engine("memory://")
    flow = one(step("a").python(desk.write, args=("a",)).outputs(desk / "a"))
    for _ in range(3):
        engine.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["a"]
    (desk / "a").unlink()
    engine.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["a"]


def test_nothing_claimed_is_never_called_verified(desk: Desk) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        engine = hf.Engine(cp)

        @workflow("two")
        def flow() -> Flow:
            yield step("a").python(desk.call, args=("a",))
            yield step("b").python(desk.write, args=("b",)).outputs(desk / "b")

        engine.run_sync(flow(), run_id="r")
        checker = Checker(cp.core, EvidenceVerifier())
        a, b = [e for e in cp.core.journals.entries("r", bodies=True) if e.kind == "result"]
        assert checker.check(a).status == "pending"
        assert not checker.check(a).holds
        assert checker.check(b).holds
        (desk / "b").unlink()
        assert checker.newest(cp.core.journals.branch("r"), lambda _: True).entry is None


def test_a_claim_that_the_policy_can_not_allow_any_more_stops_the_resume(
    desk: Desk, tmp_path: Path
) -> None:
    """The program that resumes is stricter than the one that claimed: no work is thrown away."""
    store = hf.open_store("memory://")

    @workflow("two")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",)).outputs(desk / "a")
        yield step("b").python(desk.call, args=("b",))

    async def dies() -> None:
        stream = hf.Engine(store).stream(flow(), run_id="r")
        await stop_at(stream, StepCompleted, "a")

    asyncio.run(dies())
    strict = EvidenceVerifier(policy=Policy(roots=(tmp_path / "elsewhere",)))
    for _ in range(2):
        with pytest.raises(hf.VerificationError):
            hf.Engine(store, verifier=strict).run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["a"]
    hf.Engine(store).run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["b"]
