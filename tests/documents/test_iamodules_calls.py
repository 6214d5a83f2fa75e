"""The IA Modules design: calls that its readers make without an example."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.iamodules import (
    BaseCheckpointer,
    MemoryCheckpointer,
    PipelineCheckpoint,
    PipelineCheckpointInfo,
    SQLCheckpointer,
)
from holdfast.events import StepStarted
from holdfast.pipeline import HumanInputStep, Pipeline

DOCUMENT = {
    "checkpoint_id", "thread_id", "pipeline_id", "step_id", "step_index", "timestamp", "state",
    "metadata",
}  # fmt: skip


def pipeline_of(*names: str, checkpointer: Any = None) -> Pipeline:
    paths = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    steps = [{"id": name, "function": lambda data, name=name: f"{name} ran"} for name in names]
    return Pipeline(steps, {"start_at": names[0], "paths": paths}, checkpointer=checkpointer)


Look = Callable[[BaseCheckpointer, Pipeline], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def using(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Look], None]:
    """Call something with a checkpointer, and with a pipeline that has run in thread "t"."""

    async def scenario(look: Look) -> None:
        sqlite = request.param == "sqlite"
        view = SQLCheckpointer(tmp_path / "runs.db") if sqlite else MemoryCheckpointer()
        async with view:
            pipeline = pipeline_of("a", "b", "c", checkpointer=view)
            await pipeline.run({"q": 1}, "t")
            await look(view, pipeline)

    return lambda look: asyncio.run(scenario(look))


def test_the_step_to_resume_from_may_be_given_by_position(using: Callable[[Look], None]) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        result = await pipeline.resume("t", "b")
        assert result["c"] == "c ran"
        events = [event async for event in pipeline.resume_stream("t", "c")]
        assert [event.step for event in events if isinstance(event, StepStarted)] == ["c"]
        with pytest.raises(ValueError, match="'d' is not a step"):
            await pipeline.resume("t", "d")

    using(look)


def test_the_checkpointer_of_a_pipeline_is_the_one_that_it_was_given(
    using: Callable[[Look], None],
) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        assert pipeline.checkpointer is view
        latest = await pipeline.checkpointer.load_checkpoint("t")
        assert latest is not None
        assert latest.step_id == "c"
        assert len(await pipeline.checkpointer.list_checkpoints("t")) == 3
        assert await pipeline.recover() == {}

    using(look)
    assert pipeline_of("a").checkpointer is None
    with hf.SyncCheckpointer("memory://") as cp:
        assert pipeline_of("a", checkpointer=cp).checkpointer is cp


def test_a_dict_of_a_checkpoint_has_the_keys_of_the_design(using: Callable[[Look], None]) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        checkpoint = await view.load_checkpoint("t")
        assert checkpoint is not None
        document = json.loads(json.dumps(checkpoint.to_dict()))
        assert document.keys() >= DOCUMENT
        assert document["timestamp"] == checkpoint.timestamp.isoformat()
        assert (document["step_id"], document["pipeline_id"]) == ("c", "pipeline")
        assert document["state"]["steps"]["a"] == "a ran"
        assert PipelineCheckpoint.from_dict(document) == checkpoint
        (info, *_) = await view.list_checkpoints("t")
        assert info.to_dict().keys() >= DOCUMENT - {"state"}
        assert PipelineCheckpointInfo.from_dict(info.to_dict()) == info
        await view.save_checkpoint("t", "pipeline", "by-hand", 4, {}, {"user": "ann", "pair": (1,)})
        by_hand = await view.load_checkpoint("t")
        assert by_hand is not None
        assert by_hand.to_dict()["metadata"] == {"user": "ann", "pair": {"$tuple": [1]}}

    using(look)


def edit(state: Any) -> None:
    state["steps"]["a"] = "edited"


def add(state: Any) -> None:
    state["steps"]["a2"] = 1


def spoil(state: Any) -> None:
    state["steps"]["a"] = print


@pytest.mark.parametrize("change", [edit, add, spoil])
def test_a_loaded_state_that_was_edited_is_refused_and_not_dropped(
    using: Callable[[Look], None], change: Callable[[Any], None]
) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        oldest = (await view.list_checkpoints("t"))[-1]
        loaded = await view.load_checkpoint("t", oldest.checkpoint_id)
        assert loaded is not None
        change(loaded.state)
        with pytest.raises(ValueError, match=r"was changed after it was loaded.*fork the run"):
            await pipeline.resume_from_checkpoint(loaded)  # deviation: I19
        assert len(await view.checkpointer.core.off_loop(lambda: list(_runs(view)))) == 1
        again = await view.load_checkpoint("t", oldest.checkpoint_id)
        assert again is not None
        result = await pipeline.resume_from_checkpoint(again)  # one that was only looked at
        assert again.state["steps"] == {"a": "a ran"}
        assert result["a"] == "a ran"

    using(look)


def _runs(view: BaseCheckpointer) -> Any:
    return view.checkpointer.core.journals.store.runs()


def test_what_the_error_about_an_edited_state_advises_works(using: Callable[[Look], None]) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        oldest = (await view.list_checkpoints("t"))[-1]
        loaded = await view.load_checkpoint("t", oldest.checkpoint_id)
        assert loaded is not None
        loaded.state["steps"]["a"] = "edited"
        cp = view.checkpointer
        assert isinstance(cp, hf.Checkpointer)
        await cp.fork(loaded.run_id, seq=loaded.seq, run_id="fork", state=loaded.state)
        result = await pipeline.resume(run_id="fork")
        assert (result["a"], result["b"]) == ("edited", "b ran")

    using(look)


def test_a_dict_that_was_edited_is_refused_and_not_dropped(using: Callable[[Look], None]) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        oldest = (await view.list_checkpoints("t"))[-1]
        loaded = await view.load_checkpoint("t", oldest.checkpoint_id)
        assert loaded is not None
        document = loaded.to_dict()
        await pipeline.resume_from_checkpoint(PipelineCheckpoint.from_dict(document))
        document["state"]["steps"]["a"] = "edited"
        with pytest.raises(ValueError, match="was changed"):
            await pipeline.resume_from_checkpoint(PipelineCheckpoint.from_dict(document))

    using(look)


def test_a_state_with_sets_and_nan_is_not_taken_for_edited() -> None:
    odd = {"set": {"x", "y", "z"}, "nan": float("nan"), "bytes": b"\0", "pair": (1, 2)}
    steps = [{"id": "a", "function": lambda data: odd}, {"id": "b", "function": lambda data: 1}]
    paths = [{"from": "a", "to": "b"}, {"from": "b", "to": "end"}]

    async def scenario() -> None:
        async with MemoryCheckpointer() as view:
            flow = {"start_at": "a", "paths": paths}
            pipeline = Pipeline(steps, flow, checkpointer=view)
            await pipeline.run({}, "t")
            oldest = (await view.list_checkpoints("t"))[-1]
            loaded = await view.load_checkpoint("t", oldest.checkpoint_id)
            assert loaded is not None
            assert loaded.state["steps"]["a"]["pair"] == (1, 2)
            assert (await pipeline.resume_from_checkpoint(loaded))["b"] == 1

    asyncio.run(scenario())


def test_a_checkpoint_saved_by_hand_does_not_stop_the_pipeline_from_resuming(
    using: Callable[[Look], None],
) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        await view.save_checkpoint("t", pipeline.name, "note", 9, {"by": "hand"})
        latest = await view.load_checkpoint("t")
        assert latest is not None
        assert latest.step_id == "note"
        assert (await pipeline.resume("t", "b"))["c"] == "c ran"
        with pytest.raises(hf.RunFinishedError):
            await pipeline.resume("t")
        assert (await pipeline.run({"q": 1}, "t", resume=True))["c"] == "c ran"

    using(look)


def test_a_thread_with_nothing_but_what_was_saved_by_hand_has_no_run_to_resume(
    using: Callable[[Look], None],
) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        await view.save_checkpoint("notes", pipeline.name, "note", 0, {"by": "hand"})
        with pytest.raises(hf.CheckpointNotFoundError, match="no run of this flow"):
            await pipeline.resume("notes")
        result = await pipeline.run({"q": 2}, "notes", resume=True)  # so one begins
        assert result["a"] == "a ran"

    using(look)


def test_a_thread_is_resumed_for_its_owner_only(using: Callable[[Look], None]) -> None:
    async def look(view: BaseCheckpointer, pipeline: Pipeline) -> None:
        await pipeline.run({}, "anns", owner="ann")
        for thread in ("anns", "t"):  # the other one belongs to nobody
            with pytest.raises(hf.NotOwnerError) as caught:
                await pipeline.resume(thread, "b", owner="bob")  # deviation: I20
            assert (caught.value.owner, "ann'" in str(caught.value)) == ("bob", False)
            with pytest.raises(hf.NotOwnerError):
                await pipeline.run({}, thread, owner="bob", resume=True)
        assert (await pipeline.resume("anns", "b", owner="ann"))["c"] == "c ran"
        assert (await pipeline.resume("anns", "b"))["c"] == "c ran"  # a program that asks nobody
        checkpoints = await view.list_checkpoints("anns")
        assert {checkpoint.owner for checkpoint in checkpoints} == {"ann"}

    using(look)


def test_an_answer_that_comes_with_another_owner_is_not_recorded() -> None:
    steps = [HumanInputStep("review", prompt="Publish?"), {"id": "b", "function": lambda data: 1}]
    paths = [{"from": "review", "to": "b"}, {"from": "b", "to": "end"}]

    async def scenario() -> None:
        async with MemoryCheckpointer() as view:
            flow = {"start_at": "review", "paths": paths}
            pipeline = Pipeline(steps, flow, checkpointer=view)
            await pipeline.run({}, "t", owner="ann")
            with pytest.raises(hf.NotOwnerError):
                await pipeline.resume("t", answer="no", owner="bob")
            result = await pipeline.resume("t", answer="yes", owner="ann")
            assert result["review"] == "yes"

    asyncio.run(scenario())
