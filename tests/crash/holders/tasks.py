"""What workers do. Each task is called with the store's URL, `dead_after` and what the test gives.

How a call of holdfast ended is noted as "outcome": the run, and "completed" or the error's name.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import holdfast as hf
from holdfast.engine.effects import Call
from holdfast.engine.run import execute as run_execute
from holdfast.engine.working.worker import WorkerEvent
from tests import faults
from tests.crash.holders import flows, storm
from tests.crash.holders.oracle import note
from tests.crash.worker import stop
from tests.waiting import ENOUGH

OUTAGES = (hf.StoreUnavailableError, hf.CheckpointSaveError, hf.CheckpointLoadError)


def open_engine(url: str, dead_after: float) -> hf.Engine:
    known = [*flows.WORKFLOWS.values(), flows.graph, flows.pipe]
    return hf.Engine(url, flows=known, dead_after=dead_after)


def call_of(flow: str, inputs: Sequence[Any]) -> Call[Any]:
    if flow == "graph":
        return flows.graph(flows.State(*inputs))
    if flow == "pipe":
        return flows.pipe(*inputs)
    return flows.WORKFLOWS[flow](*inputs)


async def noted(run: str, call: Awaitable[Any]) -> str:
    """Note how a call ends."""
    note("calling", run)
    try:
        value = await call
    except Exception as error:  # noqa: BLE001 - the test judges it
        note("outcome", run, how=type(error).__name__, error=str(error))
        return type(error).__name__
    note("outcome", run, how="completed", value=value)
    return "completed"


def in_loop(
    task: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """A task that needs an event loop and an engine."""

    def run(url: str, dead_after: float, **args: Any) -> None:
        async def main() -> None:
            async with open_engine(url, dead_after) as engine:
                await task(engine, **args)

        asyncio.run(main())

    return run


@in_loop
async def execute(
    engine: hf.Engine, *, flow: str, runs: dict[str, Sequence[Any]], **options: Any
) -> None:
    """`run` of all these runs at once, by their ids and inputs."""
    take_over = options.get("take_over", False)

    async def one(run: str, inputs: Sequence[Any]) -> None:
        if take_over:
            note("taking over", run)
        await noted(run, engine.run(call_of(flow, inputs), run_id=run, **options))

    await asyncio.gather(*(one(*each) for each in runs.items()))


@in_loop
async def execute_then_hang(
    engine: hf.Engine, *, flow: str, runs: dict[str, Sequence[Any]]
) -> None:
    """Like `execute`, but the process stays, with its engine open."""
    for run, inputs in runs.items():
        await noted(run, engine.run(call_of(flow, inputs), run_id=run))
    await asyncio.sleep(flows.FOREVER)


@in_loop
async def resume(engine: hf.Engine, *, runs: Sequence[str], **options: Any) -> None:
    """`resume` of all these runs at once."""

    async def one(run: str) -> None:
        if options.get("take_over"):
            note("taking over", run)
        await noted(run, engine.resume(run, **options))

    await asyncio.gather(*map(one, runs))


@in_loop
async def recover(engine: hf.Engine, **options: Any) -> None:
    """`recover`, whose result is noted run by run."""
    found = await engine.recover(**options)
    for run, came in found.items():
        how = type(came).__name__ if isinstance(came, Exception) else "completed"
        note("outcome", run, how=how, value=came)
    note("recovered", runs=sorted(found))


def execute_and_recover(url: str, dead_after: float, *, other: str, **args: Any) -> None:
    """Recover another store while runs of this one are executed."""

    async def main() -> None:
        async with open_engine(url, dead_after) as engine:
            run, inputs = next(iter(args["runs"].items()))
            await engine.start(call_of(args["flow"], inputs), run_id=run)
            async with open_engine(other, dead_after) as elsewhere:
                note("recovered", runs=sorted(await elsewhere.recover()))
            await asyncio.sleep(flows.FOREVER)

    asyncio.run(main())


@in_loop
async def threads(engine: hf.Engine, *, ids: Sequence[str], value: int) -> None:
    """The newest run of each of these pipeline threads, resumed or started."""

    async def one(thread: str) -> None:
        await noted(thread, engine.run(flows.pipe(value), thread_id=thread, resume=True))

    await asyncio.gather(*(map(one, ids)))


@in_loop
async def answer(engine: hf.Engine, *, run: str, value: Any) -> None:
    await noted(run, engine.answer(run, value))


@in_loop
async def cancel(engine: hf.Engine, *, run: str) -> None:
    note("cancelling", run)
    await engine.cancel(run)
    note("cancelled", run)


@in_loop
async def submit(engine: hf.Engine, *, flow: str, runs: dict[str, Sequence[Any]]) -> None:
    """Submit all these runs, by their ids and inputs."""
    for run, inputs in runs.items():
        await engine.submit(call_of(flow, inputs), run_id=run)
    note("submitted", runs=sorted(runs))


@in_loop
async def work(engine: hf.Engine, *, leave_after: float = 10.0, **options: Any) -> None:
    """A worker, until SIGTERM."""

    def told(event: WorkerEvent) -> None:
        note(event.event, event.run_id, flow=event.flow, detail=event.detail)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with mock.patch.object(run_execute, "LEAVE_AFTER", leave_after):
        note("works")
        await engine.work(listener=told, stop=stop, **options)
    note("drained")


# --- at a certain point


def execute_to_commit(
    url: str, dead_after: float, *, nth: int, flow: str, run: str, inputs: Sequence[Any]
) -> None:
    """Execute a run, and stand still at the nth commit until a SIGCONT."""
    with faults.at("writer.append.before", partial(_stand_still, nth), nth=nth):
        execute(url, dead_after, flow=flow, runs={run: inputs}, resume=True)


def _stand_still(nth: int) -> None:
    note("stopping", nth=nth)
    stop()


@in_loop
async def take_over_beside(engine: hf.Engine, *, run: str, until: str) -> None:
    """Take a run over with a claim that is held up until a file is there, and resume it meanwhile."""

    async def take_over() -> None:
        note("taking over", run)
        await noted(run, engine.resume(run, take_over=True))

    held_up = faults.Pause(ENOUGH)
    with faults.at("writer.append.before", held_up):
        taking = asyncio.create_task(take_over())
        await asyncio.to_thread(held_up.wait_until_reached)
        await asyncio.create_task(noted(run, engine.resume(run)))
        while not Path(until).exists():
            await asyncio.sleep(0.02)
        held_up.go_on()
        await taking


# --- leaving a run without ending it


@in_loop
async def leave(
    engine: hf.Engine, *, how: str, run: str, inputs: Sequence[Any], stay: bool = False
) -> None:
    """Execute `fragile` up to step two, and stop executing it: a cancelled task, a closed stream."""
    call = flows.fragile(*inputs)
    if how == "stream":
        stream = engine.stream(call, run_id=run, resume=True)
        async for event in stream:
            if type(event).__name__ == "StepStarted" and getattr(event, "step", "") == "two":
                break
        await stream.aclose()
    else:
        task = asyncio.create_task(engine.run(call, run_id=run, resume=True))
        while "two" not in flows.begun:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    note("left", run)
    if stay:
        await asyncio.sleep(flows.FOREVER)


def interrupted(url: str, dead_after: float, *, run: str, inputs: Sequence[Any]) -> None:
    """Execute `fragile` until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = open_engine(url, dead_after)
    try:
        engine.run_sync(flows.fragile(*inputs), run_id=run, resume=True)
    except KeyboardInterrupt:
        note("left", run)
    finally:
        engine.close_sync()


# --- forks


def fork_in_step(url: str, dead_after: float, *, run: str, how: str) -> None:
    """Execute a chain whose second step forks. The child tries to continue the run, and stays."""
    flows.at_step["two"] = partial(_fork, url, run, how)
    execute(url, dead_after, flow="chain", runs={run: [1]})


def _fork(url: str, run: str, how: str) -> None:
    if how == "multiprocessing":
        child = multiprocessing.get_context("fork").Process(target=_in_fork, args=(url, run))
        child.start()
        return
    if os.fork() == 0:
        try:
            _in_fork(url, run)
        finally:
            os._exit(1)


def _in_fork(url: str, run: str) -> None:
    """In the child: neither resume nor recover takes the parent's run."""

    async def main() -> None:
        async with open_engine(url, 60.0) as engine:
            how = await noted("fork", engine.resume(run))
            found = await engine.recover(wait=False)
        note("in fork", run, pid=os.getpid(), resumed=how, recovered=sorted(found))

    flows.hang.clear()
    asyncio.run(main())
    signal.pause()


# --- storms


@in_loop
async def rage(engine: hf.Engine, *, runs: list[str], seed: str, over: str) -> None:
    """Everything that users may do to these runs, until the test says that all is over."""
    await storm.Storm(engine, runs, seed, Path(over)).rage()


def verify(
    url: str, dead_after: float, *, roots: Sequence[str], lies: bool = False, until: str = ""
) -> None:
    """A worker that only verifies for others; it may lie, or look only once a file is there."""
    from holdfast.evidence import EvidenceVerifier, Policy, failed, verified
    from holdfast.evidence.trust.checking import Checker

    truth = Checker.verdicts

    def verdicts(checker: Checker, entry: Any) -> Any:
        note("asked", entry.run)
        while until and not Path(until).exists():
            time.sleep(0.02)
        found = truth(checker, entry)
        if lies:
            opposite = {"verified": failed("it is not"), "failed": verified()}
            found = [(claim, opposite.get(verdict.status, verdict)) for claim, verdict in found]
        note("looked", entry.run)
        return found

    async def main() -> None:
        policy = Policy(roots=tuple(map(Path, roots)), own_word=False, hosts=frozenset())
        async with hf.Engine(url, dead_after=dead_after) as engine:
            await engine.work(verify=EvidenceVerifier(policy=policy))

    with mock.patch.object(Checker, "verdicts", verdicts):
        asyncio.run(main())


@in_loop
async def ask(engine: hf.Engine, *, run: str, **options: Any) -> None:
    """Ask the workers to verify a run."""
    found = await engine.verify_with_workers(run, **options)
    note("outcome", run, how=found.standing.status.value)
