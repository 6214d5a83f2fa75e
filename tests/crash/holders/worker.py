"""A host: `python -m tests.crash.holders.worker NAME`. See `hosts`.

It takes one JSON line for each worker to start, to signal or to look at, and answers with one.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import holdfast as hf
import holdfast.stores.mysql.store
import holdfast.stores.postgres.store
import holdfast.stores.redis.store
import holdfast.stores.sqlite.store
import holdfast.workflow.workflow_program
from holdfast.engine.holding import process, slots
from tests.crash.holders import flows, tasks
from tests.crash.holders.oracle import note, timed, watch_for_starvation, write_to
from tests.processes import state_of

LIFETIME: Final = 120  # seconds; a worker that nobody kills must not stay
NOBODY: Final = 65534


class Job(NamedTuple):
    """What one worker does."""

    task: str
    url: str
    who: str
    notes: str
    errors: str  # a file, for its stderr
    dead_after: float
    gate: str = ""  # a file: begin once nobody has it locked
    hang: list[str] = []  # noqa: RUF012 - a JSON field, never changed
    slow: dict[str, float] = {}  # noqa: RUF012 - a JSON field, never changed
    until: dict[str, str] = {}  # noqa: RUF012 - a JSON field, never changed
    pace: float = flows.pace
    uid: int = -1  # become this user
    lifetime: int = LIFETIME
    args: dict[str, Any] = {}  # noqa: RUF012 - of the task


def main(host: str) -> None:
    """Serve until the input ends."""
    settle(host)
    with hf.SyncCheckpointer("memory://") as first:  # much is imported when it is used
        first.save("run", 0)
    children: set[int] = set()
    for line in sys.stdin:
        answer = json.dumps(_answer(json.loads(line), children))
        os.write(1, answer.encode() + b"\n")
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def settle(host: str) -> None:
    """Make this process one of that host, whatever it really is."""
    if host == "container":
        socket.sethostname("container")
    elif host == "hiding":
        _hide_processes()
    elif host != "here":
        mock.patch.object(process, "boot_id", return_value=f"boot-of-{host}").start()
        mock.patch.object(socket, "gethostname", return_value=host).start()
        process._process.cache_clear()


def _hide_processes() -> None:
    """Mount /proc as `hidepid=2` does: nobody sees the processes of other users."""
    libc = ctypes.CDLL(None, use_errno=True)
    private, recursive = 1 << 18, 1 << 14
    for arguments in (
        (b"none", b"/", None, private | recursive, None),
        (b"proc", b"/proc", b"proc", 0, b"hidepid=2"),
    ):
        if libc.mount(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "can't mount /proc with hidepid=2")


def _answer(request: dict[str, Any], children: set[int]) -> Any:
    if "start" in request:
        job = Job(request.pop("start"), **request)
        pid = os.fork()
        if pid == 0:
            _run_child(job)
        children.add(pid)
        return pid
    if "poll" in request:
        pid, status = os.waitpid(request["poll"], os.WNOHANG)
        children.discard(pid)
        return os.waitstatus_to_exitcode(status) if pid else None
    if "signal" in request:
        os.kill(request["pid"], request["signal"])
    return state_of(request["state"]) if "state" in request else None


def _run_child(job: Job) -> None:
    status = 1
    try:
        signal.alarm(job.lifetime)
        errors = os.open(job.errors, os.O_WRONLY | os.O_APPEND)
        os.dup2(errors, 2)
        os.dup2(errors, 1)
        os.close(0)
        write_to(job.notes, job.who)
        _note_starvation()
        flows.pace = job.pace
        flows.hang.update(job.hang)
        flows.slow.update(job.slow)
        flows.until.update((step, Path(file)) for step, file in job.until.items())
        if job.uid >= 0:
            _become(job.uid)
        if job.gate:
            gate = os.open(job.gate, os.O_RDWR)
            note("ready")
            fcntl.flock(gate, fcntl.LOCK_SH)
        getattr(tasks, job.task)(job.url, job.dead_after, **job.args)
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _note_starvation() -> None:
    """Note when this process can't beat, because of the machine and not by its own doing."""
    real = slots.write

    def write(*args: Any) -> Any:
        with timed():
            return real(*args)

    mock.patch.object(slots, "write", write).start()
    watch_for_starvation()


def _become(uid: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


if __name__ == "__main__":
    main(sys.argv[1])
