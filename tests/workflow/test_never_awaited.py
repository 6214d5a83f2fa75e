"""A step or child run that was made and never awaited is an error, not a step that is skipped."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import Step, Workflow, ask, branch, for_each, parallel, step, workflow

ran: list[str] = []
kept: list[object] = []


@pytest.fixture(autouse=True)
def afresh() -> None:
    ran.clear()
    kept.clear()


@step
def charge(card: str) -> str:
    ran.append(card)
    return card


@workflow
async def child(n: int) -> int:
    return n


@step
def outer(card: str) -> str:
    charge(card)
    return card


@step
async def async_outer(card: str) -> str:
    held = charge(card)
    await asyncio.sleep(0)
    assert held.name == "charge"
    return card


@workflow
async def dropped_before_a_step() -> None:
    charge("a")
    await charge("b")


@workflow
async def dropped_last() -> None:
    await charge("b")
    charge("a")


@workflow
async def held_to_the_end() -> None:
    held = charge("a")
    await charge("b")
    assert held is not None


@workflow
async def child_run() -> None:
    child(3)


@workflow
async def returned() -> Step[str]:
    return charge("a")


@workflow
def in_a_plain_def() -> None:
    charge("a")
    charge("b").result()


@workflow
def in_a_generator() -> Any:
    step("a").python(ran.append, args=("a",))
    yield charge("b")


@workflow
async def in_a_step() -> str:
    return await outer("q")


@workflow
async def held_in_a_step() -> str:
    return await async_outer("q")


@workflow
async def under_a_broad_except() -> None:
    try:
        charge("a")
        await charge("b")
    except Exception:  # noqa: BLE001 - it must not catch this
        ran.append("swallowed")


@workflow
async def kept_elsewhere() -> None:
    kept.append(charge("a"))


@workflow
async def not_needed_after_all() -> str:
    a, b = charge("a"), charge("b")
    return await a or await b


@workflow
async def question() -> None:
    ask("May I?")


@workflow
async def group() -> None:
    parallel(charge("a"), charge("b"))


@workflow
async def loop() -> None:
    for_each("ab", charge)


@pytest.mark.parametrize(
    ("flow", "done", "named"),
    [
        (dropped_before_a_step, "", "step 'charge'"),
        (dropped_last, "b", "step 'charge'"),
        (held_to_the_end, "b", "step 'charge'"),
        (child_run, "", "call of 'child'"),
        (returned, "", "step 'charge'"),
        (in_a_plain_def, "", "step 'charge'"),
        (in_a_generator, "", "step 'a'"),
        (in_a_step, "", "step 'charge'"),
        (held_in_a_step, "", "step 'charge'"),
        (under_a_broad_except, "", "step 'charge'"),
        (kept_elsewhere, "", "step 'charge'"),
        (not_needed_after_all, "a", "step 'charge'"),
        (question, "", "question 'ask'"),
        (group, "", "parallel 'parallel'"),
        (loop, "", "for_each 'charge'"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_forgotten_await_fails_the_run_before_the_next_step(
    flow: Workflow[[], Any], done: str, named: str
) -> None:
    with hf.Engine(False) as engine:
        with pytest.raises(hf.RunError, match=rf"{named} \(test_never_awaited.py, line \d+\)"):
            engine.run_sync(flow(), run_id="r")
        assert ran == [*done]
        assert engine.status_sync("r") == hf.Status.FAILED


def test_a_step_is_not_true_and_has_no_attributes_of_its_result() -> None:
    @workflow
    async def truth() -> str:
        return "yes" if charge("a") else "no"  # type: ignore[truthy-bool]

    @workflow
    async def attribute() -> Any:
        return charge("a").upper()  # type: ignore[attr-defined]

    with hf.Engine(False) as engine:
        with pytest.raises(TypeError, match="<step 'charge'> is not its result: `await` it"):
            engine.run_sync(truth())
        with pytest.raises(AttributeError, match=r"\(await \.\.\.\)\.upper"):
            engine.run_sync(attribute())


@pytest.mark.parametrize(
    "use",
    [
        lambda made: f"{made}",
        str,
        lambda made: made[0],
        lambda made: made + "b",
        lambda made: "a" + made,
        list,
        len,
        lambda made: "a" in made,
    ],
)
def test_a_step_is_never_taken_for_its_result(use: Callable[[Any], Any]) -> None:
    @workflow
    async def mistaken() -> Any:
        return use(charge("a"))

    with hf.Engine(False) as engine, pytest.raises(TypeError, match="is not its result: `await`"):
        engine.run_sync(mistaken())


def test_a_call_is_run_by_an_engine_where_there_is_no_workflow() -> None:
    @workflow
    async def report(place: str) -> str:
        return place

    @workflow
    async def outer() -> str:
        return f"{report('Brest')}"

    for use in (str, lambda made: made + "b", lambda made: made.result()):
        with pytest.raises((TypeError, RuntimeError), match=r"engine\.run_sync\(report\("):
            use(report("Brest"))
    with pytest.raises(RuntimeError, match=r"engine\.run\(report\("):
        asyncio.run(awaited(report("Brest")))
    with hf.Engine(False) as engine, pytest.raises(TypeError, match="`await` it first"):
        engine.run_sync(outer())


async def awaited(made: Any) -> Any:
    return await made


def test_a_step_that_returns_a_generator_is_told_to_return_a_list() -> None:
    def lines() -> Any:
        yield "a"

    @workflow
    async def flow() -> None:
        await step("read").python(lambda: lines())

    with hf.Engine(False) as engine, pytest.raises(hf.StepFailedError, match=r"`list\(\.\.\.\)`"):
        engine.run_sync(flow())


def test_a_step_is_not_given_to_another_instead_of_its_result() -> None:
    @workflow
    async def mistaken() -> None:
        held = charge("a")
        await outer(held)  # type: ignore[arg-type]
        await charge("b")

    words = r"step 'charge' \(test_never_awaited.py"
    with hf.Engine(False) as engine, pytest.raises(hf.StepNotAwaitedError, match=words):
        engine.run_sync(mistaken())
    assert ran == []


def test_gathered_steps_are_refused_with_advice() -> None:
    @workflow
    async def gathered() -> None:
        await asyncio.gather(charge("a"), charge("b"))

    with hf.Engine(False) as engine, pytest.raises(RuntimeError, match=r"await parallel\(\.\.\.\)"):
        engine.run_sync(gathered())
    assert ran == []


@workflow
async def listed() -> None:
    for made in [charge(card) for card in "abc"]:
        await made


@workflow
async def modified_and_awaited_later() -> None:
    later = charge("a").when(True).retry(2)
    await charge("b")
    await later.checkpoint()


@workflow
async def handed_to_branch() -> None:
    await branch((False, charge("a")), (True, charge("b")))


@workflow
async def handed_to_on_error() -> None:
    await charge("a").on_error(charge("b"))


@workflow
async def handed_to_others() -> None:
    await parallel(*[charge(card) for card in "ab"])
    await parallel(a=charge("a"), b=child(1))
    await for_each("ab", lambda card: charge(card).when(True))
    await for_each("ab", charge)
    await step("nested").subworkflow(child(1))


@workflow
async def called_directly_in_a_step() -> str:
    return await calling("c")


@step
async def calling(card: str) -> str:
    return await charge(card) + charge(card).result()


@pytest.mark.parametrize(
    ("flow", "done"),
    [
        (listed, "abc"),
        (modified_and_awaited_later, "ba"),
        (handed_to_branch, "b"),
        (handed_to_on_error, "a"),
        (handed_to_others, "abaabab"),
        (called_directly_in_a_step, "cc"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_is_used_in_any_way_is_no_mistake(flow: Workflow[[], Any], done: str) -> None:
    with hf.Engine(False) as engine:
        engine.run_sync(flow())
    assert sorted(ran) == sorted(done)


def test_an_error_of_the_flow_or_of_a_step_excuses_what_it_had_not_come_to() -> None:
    @step
    def fail() -> None:
        raise ValueError("no")

    @workflow
    async def own_error() -> None:
        held = charge("a")
        raise ValueError(f"own error, and {held!r}")

    @workflow
    async def caught() -> str:
        held = charge("a")
        try:
            await fail()
            await held
        except hf.StepFailedError:
            return "handled"
        return ""

    with hf.Engine(False) as engine:
        with pytest.raises(ValueError, match="own error"):
            engine.run_sync(own_error())
        assert engine.run_sync(caught()) == "handled"


def test_the_corrected_flow_continues_the_run_and_nothing_was_undone(tmp_path: Path) -> None:
    def order(second: Callable[[], Step[str]] | None) -> Workflow[[], str]:
        @workflow("order")
        async def order() -> str:
            first = await charge("first").with_rollback(lambda: ran.append("undone"))
            if second is None:
                charge("second")
            else:
                await second()
            return first + await charge("third")

        return order

    with hf.Engine(tmp_path / "runs.db") as engine:
        with pytest.raises(hf.StepNotAwaitedError):
            engine.run_sync(order(None)(), run_id="r")
        assert ran == ["first"]
    with hf.Engine(tmp_path / "runs.db") as engine:
        fixed = order(lambda: charge("second"))
        assert engine.run_sync(fixed(), run_id="r", resume=True) == "firstthird"
    assert ran == ["first", "second", "third"]


@pytest.mark.parametrize("same", [False, True])
def test_a_run_that_went_on_beside_a_forgotten_step_continues_if_that_is_safe(
    tmp_path: Path, same: bool
) -> None:
    forgotten = charge if same else step(name="other")(lambda card: card)

    def order(awaits: bool) -> Workflow[[], str]:
        @workflow("order")
        async def order() -> str:
            held = forgotten("a")
            first = await held if awaits else ""
            return first + await charge("b")

        return order

    with hf.Engine(tmp_path / "runs.db") as engine, pytest.raises(hf.StepNotAwaitedError):
        engine.run_sync(order(False)(), run_id="r")
    with hf.Engine(tmp_path / "runs.db") as engine:
        if same:  # the recorded result would be taken for that of the other call
            with pytest.raises(hf.FlowChangedError, match="'charge' was recorded with other"):
                engine.run_sync(order(True)(), run_id="r", resume=True)
        else:
            assert engine.run_sync(order(True)(), run_id="r", resume=True) == "ab"


def test_a_step_dropped_in_a_script_warns() -> None:
    with pytest.warns(RuntimeWarning, match=r"step 'charge' \(test_never_awaited.py, line \d+\)"):
        charge("a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert charge("a").result() == "a"


def test_the_error_shows_nothing_of_how_the_flow_ended(engine: hf.Engine) -> None:
    with pytest.raises(hf.StepNotAwaitedError) as caught:
        engine.run_sync(dropped_last())
    assert caught.value.__context__ is None
