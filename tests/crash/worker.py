"""A process that forks workers: `python -m tests.crash.worker`.

It has imported everything and opened nothing, so that a worker is at work in a millisecond. It
takes one JSON line for each worker to start or to wait for, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import holdfast as hf
import holdfast.stores.file
import holdfast.stores.sqlite  # noqa: F401 - both before the first fork
from holdfast.testing import faults
from holdfast.testing.history import Oracle, state_hash
from tests.crash import mutants, states

LIFETIME = 20  # seconds; a worker that nobody kills must not stay
DEADLINE = 5.0


class Job(NamedTuple):
    """What one worker does."""

    url: str
    oracle: str
    worker: str  # also its seed
    runs: list[str]
    lanes: int = 3  # threads or tasks
    colour: str = "sync"
    ops: int = 1 << 30
    only: list[str] = []  # noqa: RUF012 - a JSON field, never changed
    mutant: str = ""
    kill_at: int = 0  # the how many-th fault point, 0 for none
    wait: bool = False  # for a SIGCONT, before the first operation


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                _run_child(Job(**request))
            answer = {"pid": pid}
        os.write(1, json.dumps(answer).encode() + b"\n")


def _run_child(job: Job) -> None:
    status = 1
    try:
        signal.alarm(LIFETIME)
        if job.wait:
            os.kill(os.getpid(), signal.SIGSTOP)
        with faults.at(faults.ANY, faults.kill, nth=job.kill_at or -1):
            work(job)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def work(job: Job) -> None:
    """Operate on the store until killed, or until all operations are done."""
    opened = mutants.open_store(job.url, job.mutant)
    oracle = Oracle(job.oracle, job.worker)
    options: dict[str, Any] = {"deadline": DEADLINE, "clock": mutants.clock(job.mutant)}
    if job.colour == "sync":
        sync = hf.SyncCheckpointer(opened, **options)
        threads = [
            threading.Thread(target=_lane, args=(sync, oracle, job, number), daemon=True)
            for number in range(1, job.lanes)
        ]
        for thread in threads:
            thread.start()
        _lane(sync, oracle, job, 0)
        for thread in threads:
            thread.join()
        sync.close()
    else:
        asyncio.run(_tasks(hf.Checkpointer(opened, **options), oracle, job))


def _lane(checkpointer: hf.SyncCheckpointer, oracle: Oracle, job: Job, number: int) -> None:
    loop = asyncio.new_event_loop()  # never runs anything that waits
    face = _Awaiting(checkpointer)
    loop.run_until_complete(_operate(face, oracle, job, number))
    loop.close()


async def _tasks(checkpointer: hf.Checkpointer, oracle: Oracle, job: Job) -> None:
    await asyncio.gather(*(_operate(checkpointer, oracle, job, n) for n in range(job.lanes)))
    await checkpointer.close()


class _Awaiting:
    """A blocking checkpointer with the methods of an awaiting one, so that one lane serves both."""

    def __init__(self, checkpointer: hf.SyncCheckpointer) -> None:
        self._checkpointer = checkpointer

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._checkpointer, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


async def _operate(cp: Any, oracle: Oracle, job: Job, number: int) -> None:
    rng = random.Random(f"{job.worker}/{number}")
    for _ in range(job.ops):
        op = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if job.only:
            op = rng.choice(job.only)
        await _OPERATIONS[op](cp, oracle, rng.choice(job.runs), rng)


async def _save(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    op_id = oracle.next_id()
    state = states.make(op_id, rng)
    call = oracle.begin("save", run, id=op_id, hash=state_hash(state))
    try:
        checkpoint = await cp.save(run, state, step=f"step-{rng.randrange(3)}")
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack(seq=checkpoint.seq)


async def _rollback(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    listed = await cp.list_checkpoints(run, limit=8)
    if not listed:
        return
    target = rng.choice(listed).seq
    call = oracle.begin("rollback", run, target=target)
    try:
        await cp.rollback(run, seq=target)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack()


async def _fork(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    origin = await cp.load(run)
    if origin is None:
        return
    op_id = oracle.next_id()
    edited = rng.random() < 0.5
    state = states.make(op_id, rng) if edited else origin.state
    new = f"fork-{op_id}"
    call = oracle.begin("fork", new, id=op_id, hash=state_hash(state))
    options = {"state": state} if edited else {}
    try:
        checkpoint = await cp.fork(run, seq=origin.seq, run_id=new, **options)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack(seq=checkpoint.seq)


async def _prune(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    keep = rng.randint(1, 6)
    call = oracle.begin("prune", run, keep=keep)
    try:
        await cp.prune(run, keep_latest=keep)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack()


async def _delete(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    listed = await cp.list_checkpoints(run, limit=8)
    if not listed:
        return
    target = rng.choice(listed)
    call = oracle.begin("delete", run, target=target.seq)
    try:
        await cp.delete(run, target.checkpoint_id)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack()


async def _clear(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    call = oracle.begin("clear", run)
    try:
        await cp.clear(run)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack()


async def _load(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    await cp.load(run)


_OPERATIONS = {
    "save": _save,
    "load": _load,
    "rollback": _rollback,
    "fork": _fork,
    "prune": _prune,
    "delete": _delete,
    "clear": _clear,
}
_WEIGHTS = {"save": 80, "load": 8, "rollback": 3, "fork": 2, "prune": 3, "delete": 2, "clear": 2}


if __name__ == "__main__":
    main()
