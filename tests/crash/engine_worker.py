"""A process that forks engines: `python -m tests.crash.engine_worker`. See `worker`.

A worker carries out a run, or goes on with it, to where it stops, and notes what its events say.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final, NamedTuple

import holdfast as hf
import holdfast.stores.files.store
import holdfast.stores.sqlite.store
import holdfast.workflow.workflow_program
from holdfast.engine import events as ev
from holdfast.engine.effects import Call
from holdfast.engine.people import inbox, requests
from holdfast.engine.stream import Stream
from tests import faults
from tests.crash import engine_flows as flows
from tests.crash import engine_mutants
from tests.crash.engine_flows import note
from tests.crash.worker import serve, stop

ASKER: Final = "whoever asks"  # who holds the run records that it pauses, too


class Job(NamedTuple):
    """What one worker does."""

    url: str
    notes: str
    run: str
    flow: str = ""
    n: int = 1
    task: str = "carry out"  # or "answer", "race", "request"
    mode: str = "stream"  # or "run", "blocking"
    mutant: str = ""
    kill_at: int = 0  # the how many-th fault point, 0 for none
    stop_at: int = 0  # the how many-th writer.append.before to stop at, until a SIGCONT
    seed: int = 0
    amount: int = 0  # of lanes, or of requests
    pace: float = flows.PACE


def main() -> None:
    """Serve until the input ends."""
    serve(lambda request: _run_child(Job(**request)))


def _run_child(job: Job) -> None:
    status = 1
    try:
        if job.mutant:
            signal.alarm(5)  # it may wait for what never comes
            engine_mutants.break_engine(job.mutant)
        flows.write_to(job.notes)
        flows.PACE = job.pace
        random.seed(os.urandom(8))
        with (
            faults.at(faults.ANY, faults.kill, nth=job.kill_at or -1),
            faults.at("writer.append.before", stop, nth=job.stop_at or -1),
        ):
            _TASKS[job.task](job)
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


# --- carrying out


def carry_out(job: Job) -> None:
    """Start the run or go on with it, to where it stops."""
    store = hf.open_store(job.url)
    note("at work", job.run)
    if job.mode == "blocking" and job.flow != "trip":
        _blocking(job, store)
    else:
        asyncio.run(_carry_out(job, store))
    store.close()


def _blocking(job: Job, store: hf.Store) -> None:
    try:
        hf.Engine(store).run_sync(_call(job), run_id=job.run, resume=True, take_over=True)
    except Exception as error:  # noqa: BLE001 - the checker judges it
        note("stopped", job.run, how=type(error).__name__, error=str(error))
    else:
        note("stopped", job.run, how="completed")


async def _carry_out(job: Job, store: hf.Store) -> str:
    exists = store.last(job.run) is not None
    how = "completed"
    try:
        if job.mode == "stream":
            how = await follow(_stream(job, store, exists))
        elif job.flow == "trip":
            if exists:
                await flows.trip.resume(job.run, store=store, take_over=True)
            else:
                await flows.trip.run(flows.Trip(job.run, job.n), store=store, run_id=job.run)
        else:
            engine = hf.Engine(store)
            await engine.run(_call(job), run_id=job.run, resume=exists, take_over=True)
    except Exception as error:  # noqa: BLE001 - the checker judges it
        how = type(error).__name__
        note("stopped", job.run, how=how, error=str(error))
    else:
        note("stopped", job.run, how=how)
    return how


def _stream(job: Job, store: hf.Store, exists: bool) -> Stream:
    if job.flow == "trip":
        if exists:
            return flows.trip.resume_stream(job.run, store=store, take_over=True)
        return flows.trip.stream(flows.Trip(job.run, job.n), store=store, run_id=job.run)
    engine = hf.Engine(store)
    if exists:
        flow = flows.WORKFLOWS[job.flow]
        return engine.resume_stream(job.run, flow=flow, take_over=True)
    return engine.stream(_call(job), run_id=job.run)


def _call(job: Job) -> Call[Any]:
    return flows.WORKFLOWS[job.flow](run=job.run, n=job.n)


async def follow(stream: Stream) -> str:
    """Note what is acknowledged; returns how the run stops."""
    how = "completed"
    async for event in stream:
        if isinstance(event, ev.StepCompleted):
            note("ack", event.run_id, event.step, mark=mark_of(event.value))
        elif isinstance(event, ev.RunStarted):
            note("started", event.run_id, resumed=event.resumed)
        elif isinstance(event, ev.RunPaused):
            how = "RunPausedError"
        elif isinstance(event, ev.RunCancelled):
            how = "RunCancelledError"
    return how


def mark_of(value: Any) -> str | None:
    """What tells the execution that a value came from."""
    if isinstance(value, flows.Trip):
        return value.marks[-1]
    if isinstance(value, dict):
        return value["marks"][-1] if "marks" in value else value.get("mark")
    return None


# --- answering


def answer(job: Job) -> None:
    """Answer one open question of the run or of any run within it."""
    store = hf.open_store(job.url)
    with hf.SyncCheckpointer(store, deadline=10) as checkpointer:
        core = checkpointer.core
        note("at work", job.run)
        for question in inbox.questions(core, job.run):
            _answer(core, job.run, question.key)
    store.close()


def _answer(core: Any, run: str, question: str) -> None:
    value = os.urandom(8).hex()
    note("answering", run, question, value=value)
    core.drive(requests.answer(core, run, value, question))
    note("answered", run, question, value=value)


# --- races


def race(job: Job) -> None:
    """Carry out one run after another, several at once, until told to stop; then finish them."""
    asyncio.run(_race(job))


async def _race(job: Job) -> None:
    store = hf.open_store(job.url)
    over = Path(job.notes + ".over")
    names = iter(range(1 << 30))

    async def lane() -> None:
        while not over.exists():
            run = f"{job.run}-{next(names)}"
            one = job._replace(run=run, flow="raced", n=1)
            while await _carry_out(one, store) == "RunPausedError":
                await asyncio.sleep(0.004)

    await asyncio.gather(*(lane() for _ in range(job.amount)))
    store.close()


def request(job: Job) -> None:
    """Send so many requests to whatever is under way; then only answers, until all is over."""
    rng = random.Random(job.seed)
    store = hf.open_store(job.url)
    with hf.SyncCheckpointer(store, deadline=10) as checkpointer:
        core, sent = checkpointer.core, 0
        over = Path(job.notes + ".over")
        while True:
            under_way = [
                run.run_id
                for status in ("running", "paused")
                for run in checkpointer.runs(status=status, limit=30)
            ]
            if not under_way:
                if over.exists():
                    break
                time.sleep(0.002)
                continue
            run = rng.choice(under_way)
            action = rng.choices(("pause", "cancel", "answer"), (40, 6, 60))[0]
            if sent >= job.amount:
                over.touch()
                action = "answer"
            try:
                if action == "answer":
                    open_ones = inbox.questions(core, run)
                    if not open_ones:
                        time.sleep(0.001)
                        continue
                    _answer(core, run, rng.choice(open_ones).key)
                else:
                    core.drive(requests.request(core, run, action, by=ASKER))
                    note("requested", run, action=action)
                sent += 1
            except (hf.RunFinishedError, hf.QuestionError, hf.CheckpointNotFoundError) as error:
                note("refused", run, action=action, error=type(error).__name__)
    store.close()


_TASKS = {"carry out": carry_out, "answer": answer, "race": race, "request": request}


if __name__ == "__main__":
    main()
