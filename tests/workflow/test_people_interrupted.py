"""Runs that ask, interrupted anywhere and answered in any order, come to the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.model import Kind
from holdfast.workflow import ask, parallel, step, workflow
from tests.effort import examples
from tests.workflow.support import Flow

Part = list[str]  # what one branch does, in order: "ask" or "step"
PARTS = st.lists(st.sampled_from(["ask", "step"]), min_size=1, max_size=4)
SHAPES = st.lists(st.lists(PARTS, min_size=1, max_size=3), min_size=1, max_size=3)


def _build(shape: list[list[Part]], ran: Counter[str]) -> Any:
    async def work(name: str) -> str:
        ran[name] += 1
        return name

    def branch(name: str, part: Part) -> Flow:
        came = []
        for n, kind in enumerate(part):
            if kind == "ask":
                came.append((yield ask(f"{name}.{n}?", returns=str, show=f"{name}.{n}")))
            else:
                came.append((yield step("work").python(work, args=(f"{name}.{n}",))))
        return came

    @workflow("asking")
    def flow() -> Flow:
        came = []
        for n, parts in enumerate(shape):
            branches = [branch(f"{n}.{m}", part) for m, part in enumerate(parts)]
            came.append((yield parallel(*branches)))
        return came

    return flow


def _expected(shape: list[list[Part]]) -> Any:
    return [
        tuple(
            [("to " if kind == "ask" else "") + f"{n}.{m}.{k}" for k, kind in enumerate(part)]
            for m, part in enumerate(parts)
        )
        for n, parts in enumerate(shape)
    ]


@settings(max_examples=examples(20), deadline=None)
@given(shape=SHAPES, deaths=st.lists(st.integers(1, 12), max_size=5), data=st.data())
def test_interrupted_anywhere_and_answered_in_any_order_a_run_comes_to_the_same(
    shape: list[list[Part]], deaths: list[int], data: st.DataObject
) -> None:
    ran: Counter[str] = Counter()
    flow = _build(shape, ran)

    async def main() -> Any:
        async with hf.Checkpointer("memory://") as cp:
            engine = hf.Engine(cp)
            for left in (*deaths, *[0] * 40):  # after so many events the process dies; 0: it lives
                async with engine.stream(flow(), run_id="r", resume=True) as stream:
                    async for _event in stream:
                        left -= 1
                        if left == 0:
                            break
                        await _maybe_answer(engine, data)
                await _maybe_answer(engine, data, sure=True)
                if await engine.status("r") == "completed":
                    kinds = Counter(e.kind for e in cp.core.journals.trail("r"))
                    asked = sum(part.count("ask") for parts in shape for part in parts)
                    assert kinds[Kind.QUESTION] == kinds[Kind.ANSWER] == asked
                    return await engine.outcome("r")
        raise AssertionError("it never came to its end")

    assert asyncio.run(main()) == _expected(shape)
    steps = sum(part.count("step") for parts in shape for part in parts)
    assert len(ran) == steps


async def _maybe_answer(engine: hf.Engine, data: st.DataObject, sure: bool = False) -> None:
    try:
        waiting = [q async for q in engine.questions("r")]
    except hf.CheckpointNotFoundError:
        return
    if waiting and (sure or data.draw(st.booleans())):
        chosen = data.draw(st.sampled_from(waiting))
        await engine.answer("r", f"to {chosen.shown}", question=chosen.key)
