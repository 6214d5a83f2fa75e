"""What went wrong once."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import values
from holdfast.codec.meta import Meta, dump_meta
from holdfast.documents.workflow_results import result_of
from holdfast.events import StepStarted
from holdfast.graph import END, Graph
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import Kind
from holdfast.workflow import ask, for_each, parallel, step, workflow
from tests.waiting import ENOUGH, PATIENCE, join, run_process, wait_until

Flow = Generator[Any, Any, Any]


@pytest.fixture
def engine() -> hf.Engine:
    return hf.Engine(False)


def test_runs_within_never_share_an_id(engine: hf.Engine) -> None:
    @workflow
    def refund(who: str) -> Flow:
        return (yield step("pay back").python(lambda: f"refund {who}"))

    @workflow
    def pay() -> Flow:
        yield step("refund").subworkflow(refund, who="inner")
        yield step("charge").python(fails)

    def fails() -> None:
        raise ValueError("no money")

    @workflow
    def order() -> Flow:
        outer = step("refund").subworkflow(refund, who="outer")
        return (yield step("charge").subworkflow(pay).on_error(outer))

    assert engine.run_sync(order(), run_id="o") == "refund outer"


def test_a_run_of_someone_else_is_not_taken_for_a_part() -> None:
    @workflow
    def part() -> Flow:
        return (yield step("a").python(lambda: 1))

    @workflow
    def whole() -> Flow:
        return (yield step("sub").subworkflow(part))

    with hf.SyncCheckpointer("memory://") as elsewhere, hf.SyncCheckpointer("memory://") as here:
        hf.Engine(elsewhere).run_sync(whole(), run_id="w")
        elsewhere.copy_to(here.store, ["w//sub"])
        assert hf.Engine(here).run_sync(whole(), run_id="w") == 1
        assert [child.run_id for child in here.children("w")] == ["w//sub~~2"]


def test_cancelling_a_run_that_waits_undoes_what_its_parts_did(engine: hf.Engine) -> None:
    undone: list[str] = []

    @workflow
    def part() -> Flow:
        yield step("book").python(lambda: "room").with_rollback(undone.append)
        yield ask("Fine?", returns=bool)

    @workflow
    def whole() -> Flow:
        yield step("sub").subworkflow(part)

    async def main() -> None:
        with pytest.raises(hf.RunPausedError):
            await engine.run(whole(), run_id="w")
        await engine.cancel("w")
        with pytest.raises(hf.RunCancelledError):
            await engine.run(whole(), run_id="w", resume=True)

    asyncio.run(main())
    assert undone == ["room"]


def test_a_part_that_was_undone_is_begun_anew(engine: hf.Engine) -> None:
    broken = True

    def pay() -> str:
        if broken:
            raise ValueError("no money")
        return "paid"

    @workflow
    def part() -> Flow:
        yield step("book").python(lambda: "room").with_rollback(lambda room: None)
        return (yield step("pay").python(pay))

    @workflow
    def whole() -> Flow:
        return (yield step("sub").subworkflow(part))

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(whole(), run_id="w")
    broken = False
    assert engine.resume_sync("w") == "paid"


class OddError(Exception):
    """An error of the user's, with attributes of the user's."""

    step = "fetch"
    others = 5


@pytest.mark.parametrize("odd", ["fetch", object()])
def test_what_a_users_error_carries_means_nothing_to_us(engine: hf.Engine, odd: Any) -> None:
    calls: list[str] = []
    broken = True

    @workflow
    def flow() -> Flow:
        yield step("fetch").python(lambda: calls.append("fetch"))
        if broken:
            error = OddError("mine")
            error.step = odd
            raise error
        return "done"

    with pytest.raises(OddError):
        engine.run_sync(flow(), run_id="r")
    assert result_of(engine.checkpointer.core, "r").status == "failed"
    broken = False
    assert engine.run_sync(flow(), run_id="r", resume=True) == "done"
    assert calls == ["fetch"]


def test_the_failure_of_another_run_is_a_failure_of_the_step_that_met_it(
    engine: hf.Engine,
) -> None:
    calls: list[str] = []
    broken = True

    def fetch() -> str:
        raise ValueError("elsewhere")

    @workflow
    def elsewhere() -> Flow:
        yield step("fetch").python(fetch)

    def nested() -> str:
        if broken:
            hf.Engine(False).run_sync(elsewhere())
        return "fine"

    @workflow
    def flow() -> Flow:
        yield step("fetch").python(lambda: calls.append("fetch"))
        return (yield step("nested").python(nested))

    with pytest.raises(hf.StepFailedError) as caught:
        asyncio.run(engine.run(flow(), run_id="r"))
    assert caught.value.step == "nested"
    broken = False
    assert asyncio.run(engine.run(flow(), run_id="r", resume=True)) == "fine"
    assert calls == ["fetch"]


def test_a_stream_may_be_closed_by_another_task(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("long").python(asyncio.sleep, args=(3600,))

    async def main() -> None:
        stream = engine.stream(flow(), run_id="r")

        seen: list[object] = []
        begun = asyncio.Event()

        async def follow() -> None:
            async for event in stream:
                seen.append(event)
                if isinstance(event, StepStarted):
                    begun.set()

        following = asyncio.create_task(follow())
        await begun.wait()
        await stream.aclose()
        await asyncio.wait_for(following, PATIENCE)
        assert len(seen) == 2

    asyncio.run(main())


def test_a_run_is_cancelled_from_another_thread(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("long").python(asyncio.sleep, args=(3600,))

    outcome: list[BaseException] = []

    def carry_out() -> None:
        try:
            asyncio.run(engine.run(flow(), run_id="r"))
        except hf.RunCancelledError as error:
            outcome.append(error)

    assert engine.checkpointer is not None
    thread = threading.Thread(target=carry_out)
    thread.start()
    wait_until(lambda: asyncio.run(engine.checkpointer.run("r")))  # type: ignore[arg-type]
    asyncio.run(engine.cancel("r"))
    join(thread)
    assert len(outcome) == 1


def test_run_sync_does_several_things_side_by_side(engine: hf.Engine) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def meet(number: int) -> int:
        meeting.wait()
        return number

    @workflow
    def flow() -> Flow:
        return (yield for_each([1, 2, 3], meet, concurrency=3))

    assert engine.run_sync(flow()) == [1, 2, 3]


def test_ctrl_c_stops_run_sync_at_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys\n"
        "import holdfast as hf\n"
        "from holdfast.workflow import step, workflow\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored\n"
        "def act(n):\n"
        "    print(n, flush=True)\n"
        "    if n == 1: signal.raise_signal(signal.SIGINT)\n"
        "@workflow\n"
        "def flow():\n"
        "    for n in range(4): yield step('s').python(act, (n,))\n"
        "hf.Engine(sys.argv[1]).run_sync(flow(), run_id='r', resume=True)\n"
    )
    command = [sys.executable, str(program), f"{tmp_path}/runs.db"]
    done = run_process(command, capture_output=True, check=False)
    assert done.stdout.split() == ["0", "1"]
    assert "KeyboardInterrupt" in done.stderr


def test_a_commit_can_not_be_async() -> None:
    async def book(cursor: Any, result: Any) -> None: ...

    with pytest.raises(TypeError, match="can't be async"):

        @step(commit=book)
        def pay() -> int:
            return 1


def test_a_migration_that_names_no_step_is_refused_before_anything_is_done(
    engine: hf.Engine,
) -> None:
    calls: list[str] = []

    @workflow("shop")
    def old() -> Flow:
        yield step("charge").python(lambda: calls.append("charge"))
        raise LookupError

    renames = hf.Migrations(2, {1: lambda results: {"bil": results["charge"]}})

    @workflow("shop", migrate=renames)
    def new() -> Flow:
        yield step("bill").python(lambda: calls.append("bill"))

    with pytest.raises(LookupError):
        engine.run_sync(old(), run_id="r")
    with pytest.raises(hf.FlowChangedError, match=r"run 'r' .*'bil'"):
        engine.run_sync(new(), run_id="r", resume=True)
    assert calls == ["charge"]
    assert engine.status_sync("r") == "failed", "nothing was claimed"


def test_what_was_undone_is_not_gone_on_from(engine: hf.Engine) -> None:
    def fails() -> None:
        raise ValueError("no money")

    @workflow
    def flow() -> Flow:
        yield step("book").python(lambda: "room").with_rollback(lambda room: None)
        yield step("pay").python(fails)

    async def main() -> None:
        with pytest.raises(hf.StepFailedError):
            await engine.run(flow(), run_id="r")
        cp = engine.checkpointer
        assert isinstance(cp, hf.Checkpointer)
        with pytest.raises(hf.RunFinishedError, match="undone"):
            await cp.fork("r")
        with pytest.raises(hf.RunFinishedError, match="start a new run"):
            await cp.rollback("r", seq=1)

    asyncio.run(main())


def test_inputs_may_be_left_out_when_a_run_goes_on(engine: hf.Engine) -> None:
    broken = True

    def work(x: int) -> int:
        if broken:
            raise ValueError
        return x

    @workflow
    def flow(x: int) -> Flow:
        return (yield step("work").python(work, args=(x,)))

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(x=7), run_id="r")
    with pytest.raises(hf.InputMismatchError) as caught:
        engine.run_sync(flow(x=8), run_id="r", resume=True)
    assert caught.value.differences == ("x was 7 and is 8",)
    broken = False
    assert engine.resume_sync("r") == 7
    assert engine.run_sync(flow(x=7), run_id="r", resume=True) == 7
    with pytest.raises(hf.RunFinishedError):
        engine.resume_sync("r")


def test_an_error_in_a_condition_reaches_the_flow(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        try:
            yield step("a").python(lambda: 1).when(lambda: bool(1 / 0))
        except ZeroDivisionError:
            return "caught"

    assert engine.run_sync(flow()) == "caught"


def test_one_that_can_not_go_on_does_not_take_the_results_beside_it_along(
    engine: hf.Engine,
) -> None:
    calls: list[str] = []

    def work() -> None:
        calls.append("work")

    @workflow
    def part(name: str) -> Flow:
        yield step(name).python(lambda: 1)
        raise LookupError

    @workflow
    def whole(name: str) -> Flow:
        yield parallel(
            step("sub").subworkflow(part, name=name), step("work").python(work), concurrency=2
        )

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(whole(name="a"), run_id="w")
    with pytest.raises(hf.StepFailedError):
        engine.resume_sync("w")
    assert calls == ["work"]


def _resumed_behind(engine: hf.Engine, kind: Kind, value: Any, facts: dict[str, Any]) -> None:
    """Resume a run behind whose end this stands."""

    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: 1)
        raise LookupError

    with pytest.raises(LookupError):
        engine.run_sync(flow(), run_id="r")
    draft = Draft(kind.value, "running", values.encode(value), step="b", meta=dump_meta(facts))
    engine.checkpointer.core.drive(append(engine.checkpointer.core, "r", draft))
    engine.run_sync(flow(), run_id="r", resume=True)


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (Kind.ROLLBACK, {"rejected": [], "epoch": "x"}),
        (Kind.RESULT, {"kind": [1]}),
        (Kind.RESULT, {"flow_version": [1]}),
        (Kind.RESULT, {"called_with": [1]}),
        (Kind.FAIL, {"of": "run", "others": 5}),
        (Kind.FAIL, {"of": "step"}),
        (Kind.FAIL, {"of": "rollback"}),
    ],
)
@pytest.mark.parametrize("value", [5, [1], {}, {"type": 1}])
def test_what_nobody_recorded_like_that_is_said_to_be_damaged(
    engine: hf.Engine, kind: Kind, facts: dict[str, Any], value: Any
) -> None:
    with pytest.raises(hf.CheckpointCorruptedError, match=r"r@\d"):
        _resumed_behind(engine, kind, value, facts)


@pytest.mark.parametrize(
    "facts", [{"flow_version": [1]}, {"next_steps": 5}, {"next_steps": [[1]]}, {"visits": [1]}]
)
def test_a_state_of_a_graph_that_nobody_recorded_is_refused(facts: dict[str, Any]) -> None:
    def fails(state: dict[str, Any]) -> dict[str, Any]:
        raise LookupError

    graph = Graph(dict).add_node("a", fails).add_edge("a", END).set_entry("a")
    with hf.SyncCheckpointer("memory://") as cp:
        app = graph.compile(name="app")
        with pytest.raises(hf.StepFailedError):
            app.run_sync({}, store=cp, run_id="g")
        opening = cp.core.journals.opening("g")
        assert opening is not None
        stored = {**Meta(opening).fields} | {"next_steps": ["a"]} | facts
        draft = Draft(Kind.CHECKPOINT.value, "running", values.encode({}), meta=dump_meta(stored))
        cp.core.drive(append(cp.core, "g", draft))
        with pytest.raises((hf.CheckpointCorruptedError, hf.FlowChangedError)):
            app.resume_sync("g", store=cp)


def test_only_what_can_be_asked_of_a_run_is_heard(engine: hf.Engine) -> None:
    def ask_for(action: str) -> None:
        draft = Draft(Kind.REQUEST.value, "running", meta=dump_meta({"action": action}))
        engine.checkpointer.core.drive(append(engine.checkpointer.core, "r", draft))

    @workflow
    def flow() -> Flow:
        for action in ("timeout", "", "explode"):
            yield step(action or "nothing").python(ask_for, args=(action,))
        return "done"

    assert engine.run_sync(flow(), run_id="r") == "done"


def test_an_answer_that_can_not_be_decoded_is_said_to_be_damaged(engine: hf.Engine) -> None:
    def answer() -> None:
        draft = Draft(Kind.ANSWER.value, "running", b"\xc1\xc1", step="ask")
        engine.checkpointer.core.drive(append(engine.checkpointer.core, "r", draft))

    @workflow
    def flow() -> Flow:
        yield parallel(ask("Well?"), step("answer").python(answer))

    with pytest.raises(hf.CheckpointCorruptedError, match="decoded"):
        engine.run_sync(flow(), run_id="r")


def test_what_is_kept_for_all_runs_of_a_flow_does_not_grow_with_them(
    engine: hf.Engine,
) -> None:
    @workflow
    def part() -> Flow:
        yield step("a").python(lambda: 1)

    @workflow
    def whole() -> Flow:
        yield step("sub").subworkflow(part)

    for number in range(20):
        engine.run_sync(whole(), run_id=f"r{number}")
    assert len(whole.info.metas) + len(part.info.metas) <= 5


def test_steps_that_occupy_every_thread_may_run_flows_with_steps_of_their_own() -> None:
    busy = threading.Barrier(32, timeout=ENOUGH)

    @workflow("inner")
    def inner(n: int) -> Any:
        both = yield parallel(step("a").python(lambda: n), step("b").python(lambda: n))
        return sum(both)

    def run_inner(n: int) -> Any:
        busy.wait()
        return hf.Engine("memory://").run_sync(inner(n))

    @workflow("outer")
    def outer() -> Any:
        return (yield for_each(range(32), run_inner, concurrency=32))

    result = hf.Engine("memory://").run_sync(outer())
    assert result == [2 * n for n in range(32)]
