"""What errors of workflows advise works."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

import holdfast as hf
from holdfast.documents.maverick import StoreView
from holdfast.operations.saving import fork
from holdfast.workflow import ask, step, workflow
from tests.workflow.support import Flow


@workflow
def asks(n: int) -> Flow:
    return n if (yield ask("Go on?", returns=bool)) else 0


def paused(engine: hf.Engine) -> None:
    with pytest.raises(hf.RunPausedError, match="answer it, then resume"):
        engine.run_sync(asks(n=1), run_id="r")


def test_a_paused_run_is_answered_and_resumed(engine: hf.Engine) -> None:
    paused(engine)
    engine.answer_sync("r", True)
    assert engine.run_sync(asks(n=1), run_id="r", resume=True) == 1


def test_a_run_that_began_with_other_inputs_is_resumed_without_any(engine: hf.Engine) -> None:
    paused(engine)
    engine.answer_sync("r", True)
    with pytest.raises(hf.InputMismatchError, match="which uses the recorded inputs"):
        engine.run_sync(asks(n=2), run_id="r", resume=True)
    assert engine.resume_sync("r") == 1


def test_an_id_that_is_taken_can_be_resumed(engine: hf.Engine) -> None:
    paused(engine)
    with pytest.raises(hf.RunExistsError, match="resume it with resume=True, or choose another id"):
        engine.run_sync(asks(n=1), run_id="r")
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asks(n=1), run_id="r", resume=True)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asks(n=1), run_id="another")


def test_a_run_that_is_not_over_is_cleared_with_force(engine: hf.Engine) -> None:
    paused(engine)
    view = StoreView(engine.checkpointer)
    with pytest.raises(hf.RunActiveError, match="pass force=True to delete it anyway"):
        asyncio.run(view.clear("r"))
    asyncio.run(view.clear("r", force=True))
    with pytest.raises(hf.CheckpointNotFoundError, match="there is no run 'r'"):
        engine.status_sync("r")


def test_a_run_that_does_not_exist_is_told_from_one_without_a_checkpoint(
    engine: hf.Engine,
) -> None:
    core = engine.checkpointer.core
    wants = "^there is no run 'nope'; list the runs to see what there is$"
    for use in (engine.resume_sync, partial(engine.answer_sync, value=7), engine.status_sync):
        with pytest.raises(hf.CheckpointNotFoundError, match=wants) as missing:
            use("nope")
        assert (missing.value.run_id, missing.value.checkpoint_id) == ("nope", None)
    with pytest.raises(hf.CheckpointNotFoundError, match=wants):
        core.drive(fork(core, "nope", run_id="other"))
    engine.submit_sync(asks(n=1), run_id="waits")
    with pytest.raises(hf.CheckpointNotFoundError, match=r"^run 'waits' has no checkpoint yet;"):
        core.drive(fork(core, "waits", run_id="other"))


def test_a_step_without_a_function_gets_one(engine: hf.Engine) -> None:
    @workflow("empty")
    def empty(n: int) -> Flow:
        made = step("made")
        return (yield made.python(abs, args=(n,)) if n else made)

    with pytest.raises(TypeError, match=r"has nothing to do; add \.python\(fn\)"):
        engine.run_sync(empty(n=0))
    assert engine.run_sync(empty(n=-3)) == 3


@pytest.mark.parametrize("known", [False, True])
def test_an_engine_that_does_not_know_the_flow_is_given_it(store: hf.Store, known: bool) -> None:
    paused(hf.Engine(store))
    fresh = hf.Engine(store)
    fresh.answer_sync("r", True)
    with pytest.raises(
        hf.UnknownFlowError, match=r"pass flow=, or list it in Engine\(\.\.\., flows"
    ):
        fresh.resume_sync("r")
    if known:
        assert hf.Engine(store, flows=[asks]).resume_sync("r") == 1
    else:
        assert fresh.resume_sync("r", flow=asks) == 1


def test_an_engine_that_does_not_know_the_flow_can_cancel_its_run(store: hf.Store) -> None:
    paused(hf.Engine(store))
    fresh = hf.Engine(store)
    fresh.cancel_sync("r")
    assert fresh.status_sync("r") == "cancelled"


def test_an_empty_id_is_refused_and_never_means_a_new_run(engine: hf.Engine) -> None:
    """An environment variable that is not set must not make `resume=True` start over."""
    with pytest.raises(hf.InvalidIdError):
        engine.run_sync(asks(n=1), run_id="", resume=True)
    paused(engine)
    with pytest.raises(hf.InvalidIdError):
        engine.cancel_sync("")
    assert [entry.run for entry in engine.checkpointer.store.runs()] == ["r"]


def test_other_inputs_for_a_completed_run_are_all_that_the_error_shows(
    engine: hf.Engine,
) -> None:
    paused(engine)
    engine.answer_sync("r", True)
    engine.run_sync(asks(n=1), run_id="r", resume=True)
    with pytest.raises(hf.InputMismatchError) as refused:
        engine.run_sync(asks(n=2), run_id="r", resume=True)
    assert refused.value.__context__ is None


def test_a_step_or_workflow_that_cannot_be_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="retry must be a number of attempts or a Retry, not '3'"):
        step(retry="3")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="step needs a name or a function, not 3"):
        step(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="workflow needs a name or a function, not 3"):
        workflow(3)  # type: ignore[call-overload]
