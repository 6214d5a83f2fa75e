"""What the results of steps, flows and engines are, for type checkers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import holdfast as hf
from holdfast.engine.stream import Stream
from holdfast.graph import END, CompiledGraph, Graph
from holdfast.pipeline import Pipeline, PipelineResult
from holdfast.workflow import (
    Approval,
    Flow,
    Retry,
    Step,
    approve,
    ask,
    branch,
    for_each,
    parallel,
    step,
    workflow,
)


@dataclass
class Chat:
    turns: int = 0


@step
def fetch(place: str) -> list[float]:
    return [float(len(place))]


@step(retry=3, timeout=60)
async def publish(text: str, *, loud: bool = False) -> int:
    return len(text) + loud


@step(skip_on_error=None, retry=Retry(2))
def flaky(n: int) -> str:
    return str(n)


@step(on_error=lambda failed: failed.attempts)
def risky(n: int) -> str:
    return str(n)


async def in_tasks(place: str) -> tuple[list[float], int]:
    levels, length = await asyncio.gather(fetch(place), publish("x"))
    assert_type(levels, list[float])
    return levels, length


class Mailer:
    @step(name="send")
    def send(self, to: str) -> bool:
        return bool(to)


@workflow
async def report(place: str) -> str:
    levels = await fetch(place)
    assert_type(levels, list[float])
    assert_type(await publish("x", loud=True), int)
    assert_type(await flaky(1), str | None)
    assert_type(await risky(1), str | int)
    assert_type(await Mailer().send("ann"), bool)
    assert_type(await fetch(place).retry(5).timeout(3), list[float])
    assert_type(await fetch(place).when(True), list[float] | None)
    assert_type(await fetch(place).skip_on_error(), list[float] | None)
    assert_type(await fetch(place).skip_on_error(0), list[float] | int)
    assert_type(await fetch(place).on_error(flaky(1)), list[float] | str | None)
    assert_type(await step("len").python(len, args=(place,)), int)
    assert_type(await step("wait").python(asyncio.sleep, args=(0,)), None)
    assert_type(await step("typed").python(eval, args=("1",)).returns(int), int)
    assert_type(await parallel(fetch("a"), publish("b")), tuple[list[float], int])
    assert_type(
        await parallel(fetch("a"), publish("b"), flaky(1)), tuple[list[float], int, str | None]
    )
    assert_type(await parallel(*[fetch(p) for p in "ab"]), tuple[list[float], ...])
    await hf.sleep(days=1)
    assert_type(await hf.durable(in_tasks(place)), tuple[list[float], int])
    assert_type(await hf.durable(in_tasks(place), name="tasks"), tuple[list[float], int])
    hf.durable(in_tasks)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert_type(await parallel(a=fetch("a"), b=fetch("b")), dict[str, list[float]])
    assert_type(await for_each(["a", "b"], fetch), list[list[float]])
    assert_type(await for_each(["a", "b"], summary), list[str])
    assert_type(await for_each([1, 2], double), list[int])
    assert_type(await for_each(["a"], patiently, concurrency=3), list[list[float]])
    assert_type(await for_each(["a"], other), list[int])
    assert_type(await branch((True, fetch("a")), (False, fetch("b"))), list[float] | None)
    assert_type(await ask("How many?", returns=int), int)
    assert_type(await ask("Which?", choices=["a", "b"]), str)
    assert_type(await ask("Anything?"), Any)
    assert_type(await approve("Go?"), Approval)
    assert_type(await other(place), int)
    assert_type(await app(Chat()), Chat)
    assert_type(await pipeline(1), PipelineResult)
    return place


async def summary(place: str) -> str:
    return f"{place}: {await fetch(place)}"


def patiently(place: str) -> Step[list[float]]:
    return fetch(place).retry(2)


def double(n: int) -> int:
    return 2 * n


@workflow("other", version=2)
def other(place: str) -> int:
    levels = fetch(place).result()
    assert_type(levels, list[float])
    return len(levels)


@workflow
def generator(n: int) -> Flow[str]:
    yield fetch("a")
    return str(n)


def app_of(graph: Graph[Chat]) -> CompiledGraph[Chat]:
    return graph.add_node("talk", talk).add_edge("talk", END).set_entry("talk").compile()


def talk(state: Chat) -> Chat:
    return state


app = app_of(Graph(Chat))
pipeline = Pipeline([{"id": "a", "function": double}], {"start_at": "a"})

assert_type(fetch("a"), Step[list[float]])
assert_type(fetch("a").result(), list[float])
assert_type(report("a"), hf.Call[str])
assert_type(generator(1), hf.Call[str])


def script(engine: hf.Engine) -> None:
    assert_type(engine.run_sync(report("Brest"), run_id="a", resume=True), str)
    assert_type(engine.run_sync(generator(1)), str)
    assert_type(engine.run_sync(app(Chat()), thread_id="t"), Chat)
    assert_type(engine.run_sync(pipeline(1)), PipelineResult)
    assert_type(engine.start_sync(other("a")).result(), int)
    assert_type(engine.submit_sync(other("a")), hf.RunHandle[int])
    assert_type(engine.work_sync(other, until_idle=True), int)
    hf.sleep(weeks=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    engine.submit_sync(other("a"), timeout=3)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    assert_type(engine.resume_sync("a", flow=report), str)


def hears(event: hf.WorkerEvent) -> None:
    assert_type(event.seconds, float)


async def main(engine: hf.Engine) -> None:
    assert_type(await engine.run(report("Brest"), run_id="a", timeout=3), str)
    assert_type(await engine.run(other("Brest"), trust="stored", durability="async"), int)
    run = await engine.start(report("Brest"))
    assert_type(run, hf.RunHandle[str])
    assert_type(await run, str)
    assert_type(await run.status(), hf.Status)
    assert_type(engine.stream(report("Brest")), Stream)
    submitted = await engine.submit(report("Brest"), run_id="a", delay=60, labels={"team": "ops"})
    assert_type(submitted, hf.RunHandle[str])
    assert_type(submitted.new, bool)
    assert_type(await engine.work(report, per_flow={"report": 2}, listener=hears), int)
    assert_type(await engine.workers(), list[hf.WorkerInfo])
    assert_type(await engine.resume("a", flow=report), str)
    assert_type(await engine.resume("a"), Any)
    assert_type(await engine.get("a", report), str)
    assert_type([question.prompt async for question in engine.questions()], list[str])


def takes_a_step(made: Callable[[str], Step[list[float]]]) -> None:
    made("a")


takes_a_step(fetch)
