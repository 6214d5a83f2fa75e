"""A process that forks workers: `python -m tests.crash.worker`.

It has imported everything and opened nothing, so that a worker is at work in a millisecond. It
takes one JSON line for each worker to start or to wait for, and answers each with one line.
With a job as its argument, it does that itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import holdfast as hf
import holdfast.stores.files.store
import holdfast.stores.sqlite.store
from holdfast.kernel.core import Core
from tests import faults
from tests.crash import mutants, states, transactions
from tests.crash.history import Oracle, state_hash

COULD_NOT_OPEN = 3  # an exit status: the store said no, in a word of ours
LIFETIME = 120  # seconds; a worker that nobody kills must not stay


class Job(NamedTuple):
    """What one worker does."""

    url: str
    oracle: str
    worker: str  # also its seed
    runs: list[str]
    lanes: int = 3  # threads or tasks
    mode: str = "sync"
    ops: int = 1 << 30
    only: list[str] = []  # noqa: RUF012 - a JSON field, never changed
    mutant: str = ""
    kill_at: int = 0  # the how many-th fault point, 0 for none
    stop_at: str = ""  # the fault point to stop at, once, until a SIGCONT
    paused: bool = False  # until a SIGCONT, before the first operation
    sessions: int = 1  # how often the store is opened, worked on and closed
    deadline: float = 5.0
    options: dict[str, Any] = {}  # noqa: RUF012 - of the store


class _NotOpenedError(Exception):
    """The store could not be opened."""


def main() -> None:
    """Do the one job given as an argument, or serve until the input ends."""
    if sys.argv[1:]:
        work(Job(**json.loads(sys.argv[1])))
        return
    serve(lambda request: _run_child(Job(**request)))


def serve(run_child: Callable[[dict[str, Any]], None]) -> None:
    """Fork a child for each request, which must not return, or wait for one, until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                signal.alarm(LIFETIME)
                run_child(request)
            answer = {"pid": pid}
        os.write(1, json.dumps(answer).encode() + b"\n")


def _run_child(job: Job) -> None:
    status = 1
    try:
        if job.paused:
            stop()
        with (
            faults.at(faults.ANY, faults.kill, nth=job.kill_at or -1),
            faults.at(job.stop_at, stop, nth=20),
        ):
            work(job)
        status = 0
    except _NotOpenedError:
        status = COULD_NOT_OPEN
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def stop() -> None:
    """Stand still until a SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.05)  # the other threads may be told first: go no further until it takes effect


def work(job: Job) -> None:
    """Operate on the store until killed, or until all operations are done."""
    mutants.break_process(job.mutant)
    oracle = Oracle(job.oracle, job.worker)
    for session in range(job.sessions):
        try:
            store = mutants.open_store(job.url, job.mutant, **job.options)
        except hf.HoldfastError as error:
            raise _NotOpenedError from error
        options: dict[str, Any] = {"deadline": job.deadline, "clock": mutants.clock(job.mutant)}
        if job.mode == "sync":
            with hf.SyncCheckpointer(store, **options) as checkpointer:
                _threads(checkpointer, oracle, job, session)
        else:
            asyncio.run(_tasks(hf.Checkpointer(store, **options), oracle, job, session))
        store.close()


def _threads(checkpointer: hf.SyncCheckpointer, oracle: Oracle, job: Job, session: int) -> None:
    lanes = [(checkpointer, oracle, job, f"{session}/{number}") for number in range(job.lanes)]
    threads = [threading.Thread(target=_lane, args=lane, daemon=True) for lane in lanes[1:]]
    for thread in threads:
        thread.start()
    _lane(*lanes[0])
    for thread in threads:
        thread.join()


def _lane(checkpointer: hf.SyncCheckpointer, oracle: Oracle, job: Job, seed: str) -> None:
    with asyncio.Runner() as runner:  # nothing in it ever waits
        runner.run(_operate(_Awaiting(checkpointer), oracle, job, seed))


async def _tasks(checkpointer: hf.Checkpointer, oracle: Oracle, job: Job, session: int) -> None:
    async with checkpointer:
        lanes = [_operate(checkpointer, oracle, job, f"{session}/{n}") for n in range(job.lanes)]
        await asyncio.gather(*lanes)


class _Awaiting:
    """A blocking checkpointer with the methods of an awaiting one, so that one lane serves both."""

    def __init__(self, checkpointer: hf.SyncCheckpointer) -> None:
        self._checkpointer = checkpointer

    @property
    def core(self) -> Core:
        return self._checkpointer._core

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._checkpointer, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


async def _operate(cp: Any, oracle: Oracle, job: Job, seed: str) -> None:
    rng = random.Random(f"{job.worker}/{seed}")
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


async def _transact(cp: Any, oracle: Oracle, run: str, rng: random.Random) -> None:
    """Save with work: a row of a table of one's own that says which entry it came with."""
    core: Core = cp.core if isinstance(cp, _Awaiting) else cp._core
    op_id = oracle.next_id()
    state = states.make(op_id, rng)
    call = oracle.begin("save", run, id=op_id, hash=state_hash(state))
    operation = transactions.save(core, run, state, op_id)
    try:
        if isinstance(cp, _Awaiting):
            seq = core.drive(operation)
        else:
            seq = await core.drive_async(operation)
    except Exception as error:  # noqa: BLE001 - the history judges it
        call.fail(error)
    else:
        call.ack(seq=seq)


_OPERATIONS = {
    "save": _save,
    "transact": _transact,
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
