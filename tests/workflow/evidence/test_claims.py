"""What a step claims is checked when the step is finished."""

from __future__ import annotations

import asyncio
import binascii
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import Meta
from holdfast.engine.events import StepRetrying
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    Policy,
    process_evidence,
)
from holdfast.model import Kind
from holdfast.workflow import step, workflow
from tests.engine.desk import Desk, there
from tests.workflow.evidence.support import (
    by_run,
    stopped,
)
from tests.workflow.support import Flow, collect, of


def test_a_declared_output_that_is_not_there_fails_the_step(engine: hf.Engine, desk: Desk) -> None:
    @workflow("forgets")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",), outputs=desk / "a")

    with pytest.raises(hf.StepFailedError, match=r"claims that it wrote .*a, but"):
        by_run(engine, flow)


def test_a_file_to_be_read_that_is_not_there_fails_the_step_before_it_runs(
    memory: hf.Engine, desk: Desk
) -> None:
    @workflow("reads nothing")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).reads(desk / "input")

    with pytest.raises(hf.StepFailedError, match=r"claims that it read .*input, but"):
        by_run(memory, flow)
    assert desk.take() == []


def test_a_claim_that_does_not_verify_fails_the_step_which_is_retried(
    engine: hf.Engine, desk: Desk
) -> None:
    def work() -> int:
        desk.call("a")
        if len(desk.calls) == 3:
            (desk / "mark").touch()
        return len(desk.calls)

    @workflow("claims")
    def flow() -> Flow:
        made = step("a").python(work).retry(3, backoff=0.001).evidence(there(desk / "mark"))
        return (yield made)

    events = asyncio.run(collect(engine.stream(flow(), run_id="r")))
    assert len(of(events, StepRetrying)) == 2
    assert "mark is there" in of(events, StepRetrying)[0].error
    assert engine.outcome_sync("r") == 3


def test_a_claim_that_never_verifies_fails_the_run_with_its_message(
    memory: hf.Engine, desk: Desk
) -> None:
    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).evidence(there(desk / "mark"))

    with pytest.raises(
        hf.StepFailedError, match=r"claims what is false: .*mark is there"
    ) as raised:
        by_run(memory, flow)
    assert raised.value.error_type == "holdfast.errors.ClaimFailedError"


def test_an_undecided_check_fails_the_step_with_another_message(
    memory: hf.Engine, desk: Desk
) -> None:
    claim = Evidence("command_exit", "it went well", {"exit_code": 0})

    @workflow("claims")
    def flow() -> Flow:
        made = step("a").python(desk.call, args=("a",)).retry(2, backoff=0.001)
        yield made.evidence(claim, there(desk / "mark"))

    with pytest.raises(hf.StepFailedError) as raised:
        by_run(memory, flow)
    words = str(raised.value)
    assert re.search(r"what is false: .*mark.* and what can't be checked: .*it went well", words)
    assert desk.take() == ["a", "a"]


def test_a_partial_pack_is_not_satisfied_by_undecided_checks(memory: hf.Engine, desk: Desk) -> None:
    untold = [
        Evidence("command_exit", "part 0 went well", {"exit_code": 0}),
        Evidence("artifact_exists", "part 1 is there", {"path": "x" * 300}),
    ]

    @workflow("claims")
    def flow(least: int) -> Flow:
        pack = EvidencePack([there(desk / "a"), *untold], False, True, least)
        return (yield step("a").python(desk.write, args=("a",)).evidence(pack))

    assert memory.run_sync(flow(least=1)) == "this is a"
    with pytest.raises(hf.StepFailedError, match=r"claims what can't be checked: .*part 0"):
        memory.run_sync(flow(least=2))


def test_a_claim_is_compared_with_the_result_of_its_step_then_and_later(
    engine: hf.Engine, desk: Desk
) -> None:
    claim = Evidence("command_exit", "it went well", {"exit_code": 0})

    def work(code: int) -> dict[str, int]:
        desk.call("work")
        return {"exit_code": code}

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work, args=(0,)).evidence(claim)
        return (yield step("b").python(desk.call, args=("b",)))

    @workflow("claims falsely")
    def false() -> Flow:
        yield step("a").python(work, args=(1,)).evidence(claim)

    stopped(engine, flow, desk, "a")
    assert by_run(engine, flow) == "b"
    assert desk.take() == ["b"]
    with pytest.raises(hf.StepFailedError, match="it went well"):
        asyncio.run(engine.run(false(), run_id="false"))


def test_partial_packs_need_as_many_as_they_say(engine: hf.Engine, desk: Desk) -> None:
    pack = EvidencePack([there(desk / name) for name in "xyz"], False, True, 2)

    def work() -> None:
        desk.call("a")
        for name in "xy":
            (desk / name).touch()

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work).evidence(pack)
        yield step("b").python(desk.call, args=("b",))

    stopped(engine, flow, desk, "a")
    (desk / "x").unlink()
    (desk / "z").touch()
    by_run(engine, flow)
    assert desk.take() == ["b"], "two of three are enough, whichever they are"
    (desk / "z").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "b"]


def test_a_running_step_can_claim_what_it_finds_out(engine: hf.Engine, desk: Desk) -> None:
    def work() -> str:
        text = desk.write("a")
        hf.current_step().claim(there(desk / "a"))
        return text

    async def later() -> str:
        text = desk.write("b")
        hf.current_step().claim(EvidencePack([there(desk / "b")]))
        return text

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work)
        yield step("b").python(later)

    by_run(engine, flow)
    desk.take()
    (desk / "b").unlink()
    by_run(engine, flow)
    assert desk.take() == ["b"]
    (desk / "a").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "b"]


def test_a_failed_attempt_leaves_no_claim_behind(memory: hf.Engine, desk: Desk) -> None:
    def work() -> None:
        desk.call("a")
        name = f"try-{hf.current_step().attempt}"
        (desk / name).touch()
        hf.current_step().claim(there(desk / name))
        if hf.current_step().attempt == 1:
            raise OSError("not yet")

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(work).retry(2, backoff=0.001)

    by_run(memory, flow)
    desk.take()
    (desk / "try-1").unlink()
    by_run(memory, flow)
    assert desk.take() == []


def test_only_evidence_can_be_claimed(memory: hf.Engine) -> None:
    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(lambda: None).evidence("it went well, believe me")

    with pytest.raises(hf.StepFailedError, match="must be Evidence or an EvidencePack"):
        by_run(memory, flow)


def test_outputs_may_depend_on_the_result_and_be_directories(engine: hf.Engine, desk: Desk) -> None:
    def work() -> list[str]:
        desk.call("a")
        for name in ("d/one", "d/e/two"):
            (desk / name).parent.mkdir(parents=True, exist_ok=True)
            (desk / name).write_text(name)
        return [str(desk / "d")]

    @step(outputs=lambda result: result)
    def made() -> list[str]:
        return work()

    @workflow("directories")
    def flow() -> Flow:
        yield made()

    by_run(engine, flow)
    desk.take()
    (desk / "d/new").touch()
    by_run(engine, flow)
    assert desk.take() == [], "what is added does not matter"
    (desk / "d/e/two").write_text("three")
    by_run(engine, flow)
    assert desk.take() == ["a"]


def test_rows_and_processes_can_be_claimed(engine: hf.Engine, desk: Desk, store: hf.Store) -> None:
    database = desk / "shop.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    checked = hf.Engine(
        store,
        verifier=EvidenceVerifier(policy=Policy(connections={"shop": f"sqlite:///{database}"})),
    )
    row = Evidence(
        "db_row", "the order is paid",
        {"table": "orders", "where": {"id": 1}, "values": {"state": "paid"}}, {"connection": "shop"},
    )  # fmt: skip

    def pay() -> None:
        desk.call("pay")
        with closing(sqlite3.connect(database)) as db, db:
            db.execute("INSERT OR REPLACE INTO orders VALUES (1, 'paid')")

    @workflow("shop")
    def flow() -> Flow:
        yield (
            step("watch").python(desk.call, args=("watch",)).evidence(process_evidence(os.getpid()))
        )
        yield step("pay").python(pay).evidence(row)

    by_run(checked, flow)
    desk.take()
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE orders SET state = 'refunded'")
    by_run(checked, flow)
    assert desk.take() == ["pay"]


def test_with_a_transaction_evidence_is_checked_by_the_resume_only(
    desk: Desk, tmp_path: Path
) -> None:
    """What the transaction is to write is not there yet when the step is finished."""
    path = tmp_path / "runs.db"
    checked = hf.Engine(
        f"sqlite:///{path}",
        verifier=EvidenceVerifier(policy=Policy(connections={"default": f"sqlite:///{path}"})),
    )
    hf.open_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE sums (n INTEGER)")
    row = Evidence("db_row", "the sum is there", {"table": "sums", "where": {"n": 7}})

    @workflow("commits")
    def flow() -> Flow:
        made = step("sum").python(lambda: desk.call("sum") and 7, commit=_insert)
        yield made.evidence(row)
        yield step("b").python(desk.call, args=("b",))

    def _insert(cursor: Any, n: int) -> None:
        cursor.execute("INSERT INTO sums VALUES (?)", (n,))

    stopped(checked, flow, desk, "sum")
    by_run(checked, flow)
    assert desk.take() == ["b"]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM sums")
    by_run(checked, flow)
    assert desk.take() == ["sum", "b"]
    asyncio.run(checked.close())


def test_what_a_step_was_called_with_is_recorded_in_at_least_128_bits(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    """Shorter hashes can be made to collide: then a resume uses the result of another call."""

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a", "text"), outputs=desk / "a")

    asyncio.run(engine.run(flow(), run_id="r"))
    (result,) = [Meta(e) for e in store.read("r") if e.kind == Kind.RESULT]
    assert len(bytes.fromhex(result.called_with or "")) >= 16
    assert len(binascii.a2b_base64(result.args or "")) >= 16
