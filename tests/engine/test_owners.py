"""Whose run it is: a resume that says who asks is refused for anybody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.workflow import ask, workflow


@workflow
async def approval() -> bool:
    return await ask("Go on?", returns=bool)


def start(engine: hf.Engine, owner: str | None) -> None:
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(approval(), run_id="run", owner=owner)
    engine.answer_sync("run", True)


@pytest.mark.parametrize("owner", ["ann", None], ids=["somebody's", "nobody's"])
def test_a_run_of_somebody_else_is_not_resumed(kept_url: str, owner: str | None) -> None:
    with hf.Engine(kept_url, flows=[approval]) as engine:
        start(engine, owner)
        before = engine.checkpointer.core.journals.head("run")
        calls: list[Any] = [
            lambda: engine.resume_sync("run", owner="bob"),
            lambda: engine.resume_sync("run", owner="bob", take_over=True, from_step="ask"),
            lambda: engine.run_sync(approval(), run_id="run", owner="bob", resume=True),
        ]
        for call in calls:
            with pytest.raises(hf.NotOwnerError) as caught:
                call()
            assert (caught.value.run_id, caught.value.owner) == ("run", "bob")
            assert "ann" not in str(caught.value)
        assert engine.checkpointer.core.journals.head("run") == before
        assert engine.resume_sync("run", owner=owner) is True


def test_a_finished_run_of_somebody_else_gives_no_result(kept_url: str) -> None:
    with hf.Engine(kept_url, flows=[approval]) as engine:
        start(engine, "ann")
        assert engine.resume_sync("run", owner="ann") is True
        with pytest.raises(hf.NotOwnerError):
            engine.run_sync(approval(), run_id="run", owner="bob", resume=True)
        assert engine.run_sync(approval(), run_id="run", owner="ann", resume=True) is True
        assert engine.run_sync(approval(), run_id="run", resume=True) is True


def test_the_events_of_a_run_of_somebody_else_are_not_shown(kept_url: str) -> None:
    async def main() -> None:
        async with hf.Engine(kept_url, flows=[approval]) as engine:
            with pytest.raises(hf.RunPausedError):
                await engine.run(approval(), run_id="run", owner="ann")
            await engine.answer("run", True)
            with pytest.raises(hf.NotOwnerError):
                async for _ in engine.resume_stream("run", owner="bob"):
                    raise AssertionError("an event of ann's run")

    asyncio.run(main())


def test_a_run_that_is_not_there_is_not_found_whoever_asks(kept_url: str) -> None:
    with hf.Engine(kept_url, flows=[approval]) as engine:
        with pytest.raises(hf.CheckpointNotFoundError):
            engine.resume_sync("nobody", owner="bob")
        start(engine, "ann")
        assert engine.resume_sync("run", owner="ann") is True


def test_a_graph_is_resumed_for_its_owner(kept_url: str) -> None:
    graph = Graph(dict).add_node("a", lambda state: {"n": 1}).add_edge("a", END).set_entry("a")
    app = graph.compile()
    app.run_sync({}, store=kept_url, run_id="run", owner="ann")
    with pytest.raises(hf.NotOwnerError):
        app.resume_sync("run", store=kept_url, from_node="a", owner="bob")
    assert app.resume_sync("run", store=kept_url, from_node="a", owner="ann") == {"n": 1}
