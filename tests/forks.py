"""Pythons that have holdfast imported when they begin, forked from one that does nothing else.

Each is a process like any other: with a number, an environment and streams of its own, to be sent
signals and killed. Only its first half second is missing, in which it would import everything.
`python -m tests.forks` is the one that they are forked from.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import itertools
import json
import multiprocessing.process
import os
import runpy
import select
import selectors
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, Final, NoReturn

from tests.waiting import ENOUGH, bounded

ROOT: Final = Path(__file__).parents[1]
IMPORTED: Final = (
    *("asyncio", "concurrent.futures.process", "hypothesis", "pydantic", "pytest"),
    *(f"holdfast.cli.{name}" for name in ("main", "answer", "cancel", "pause", "run", "submit")),
    *("holdfast.cli.resume", "holdfast.cli.show", "holdfast.cli.worker", "holdfast.cli._steps"),
    *("holdfast.graph", "holdfast.manager", "holdfast.pipeline", "holdfast.workflow"),
    *("holdfast.stores.files.store", "holdfast.stores.memory", "holdfast.stores.sqlite.store"),
    *("holdfast.codec.compress", "holdfast.engine.working.worker", "holdfast.engine.child_runs"),
    *("holdfast.workflow.durable_body", "holdfast.workflow.workflow_program", "tests.faults"),
)
CLIENT: Final = """
import json, os, signal, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
socket.send_fds(server, [b"+"], [0, 1, 2])
request = {"arguments": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
server.sendall(json.dumps(request).encode() + b"\\n")
pid, = struct.unpack("i", server.recv(4, socket.MSG_WAITALL))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
status, = struct.unpack("i", server.recv(4, socket.MSG_WAITALL))
sys.exit(status if status >= 0 else 128 - status)
"""
_NUMBER: Final = struct.Struct("i")


class ServerGoneError(Exception):
    """What the processes are forked from has ended. It says why."""


class Process:
    """What tests use of `subprocess.Popen`."""

    def __init__(self, server: socket.socket, streams: list[IO[str] | None]) -> None:
        self._server = server
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self.pid = self._receive()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._receive()
            self._server.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ServerGoneError):
            self.poll()
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: str = "") -> tuple[str, str]:
        """For what says little: one stream is read after the other."""
        with self:
            if self.stdin is not None:
                with suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(given)
            out, err = (stream.read() if stream else "" for stream in (self.stdout, self.stderr))
        return out, err

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def _receive(self) -> int:
        message = self._server.recv(_NUMBER.size, socket.MSG_WAITALL)
        if not message:
            raise ServerGoneError(_errors())
        return int(_NUMBER.unpack(message)[0])


def start(
    *arguments: str,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """A Python with these arguments: `-m MODULE`, `-c CODE` or a file, and what that is given.

    A stream is `subprocess.PIPE`, a descriptor, or None: this process's own.
    """
    given, ours, theirs = list[int](), list[IO[str] | None](), list[int]()
    for number, stream in enumerate((stdin, stdout, stderr)):
        if stream == subprocess.PIPE:
            ends = os.pipe()
            ours.append(os.fdopen(ends[number == 0], "r" if number else "w"))
            theirs.append(ends[number != 0])
            given.append(theirs[-1])
        else:
            ours.append(None)
            given.append(number if stream is None else stream)
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(address()))
    socket.send_fds(server, [b"+"], given)
    request = {
        "arguments": arguments,
        "cwd": os.fspath(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    server.sendall(json.dumps(request).encode() + b"\n")
    for end in theirs:
        os.close(end)
    return Process(server, ours)


def run(
    *arguments: str, check: bool, capture_output: bool = False, seconds: float = ENOUGH, **more: Any
) -> subprocess.CompletedProcess[str]:
    """`tests.waiting.run_process` of such a Python."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if capture_output:
            more |= {"stdout": out.fileno(), "stderr": err.fileno()}
        with start(*arguments, **more) as process, bounded(process, seconds):
            code = process.wait()
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess[str](arguments, code, out.read(), err.read())
    if check:
        done.check_returncode()
    return done


def program(path: Path, *arguments: str) -> Path:
    """Write a program that is such a Python with these arguments, and those that it is given.

    It stands for one outside the session of the terminal, and passes Ctrl-C and SIGTERM on to it.
    """
    words = [sys.executable, "-SI", "-c", CLIENT, str(address()), *arguments]
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path


_servers: list[tuple[subprocess.Popen[str], Path]] = []
_asked = itertools.count()


def address() -> Path:
    """Where a server listens. They are started when first asked for, and end with this process.

    There are two, asked in turn: whoever resumes a run has other hashes than who was killed in it.
    """
    if not _servers:
        atexit.register(_close)
        for _ in range(2):
            _servers.append(_started())
        for server, _ in _servers:
            assert server.stdout is not None
            with bounded(server), server.stdout:
                assert server.stdout.readline() == "ready\n", _errors()
    server, place = _servers[next(_asked) % 2]
    if server.poll() is not None:
        raise ServerGoneError(_errors())
    return place / "socket"


def _started() -> tuple[subprocess.Popen[str], Path]:
    place = Path(tempfile.mkdtemp(prefix="forks-"))
    with (place / "errors").open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(place / "socket")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True,
        )  # fmt: skip
    return server, place


def _errors() -> str:
    files = (place / "errors" for _, place in _servers)
    return "".join(file.read_text() for file in files if file.exists())


def _close() -> None:
    for server, _ in _servers:
        assert server.stdin is not None
        server.stdin.close()
        with bounded(server):
            server.wait()


# --- the server


class _Server:
    """Forks, and tells who asked for it the number of the process and, later, how it ended."""

    def __init__(self, path: str) -> None:
        self._asking: dict[int, socket.socket] = {}  # by the process
        self._watched = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._place = Path(path).parent
        self._listener.listen(64)
        self._pipe = self._ended, ended = os.pipe()
        for fd in self._pipe:
            os.set_blocking(fd, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended, warn_on_full_buffer=False)
        for each in (0, self._ended, self._listener):
            self._watched.register(each, selectors.EVENT_READ)

    def serve(self) -> tuple[dict[str, Any], list[int]]:
        """Returns in each process that was asked for: what it is to do, and its streams."""
        while True:
            for key, _ in self._watched.select():
                if key.fileobj == 0:
                    self._end()
                elif key.fileobj == self._ended:
                    self._reap()
                elif key.fileobj is self._listener:
                    if (asked := self._fork()) is not None:
                        return asked
                elif key.fileobj is self._asking.get(key.data):  # nobody waits for it any more
                    self._watched.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGKILL)

    def _fork(self) -> tuple[dict[str, Any], list[int]] | None:
        asking, _ = self._listener.accept()
        _, streams, _, _ = socket.recv_fds(asking, 1, 3)
        with asking.makefile("rb") as lines:
            line = lines.readline()
        if not line.endswith(b"\n"):  # who asked was killed
            asking.close()
            for stream in streams:
                os.close(stream)
            return None
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            self._watched.close()
            for used in (asking, self._listener, *self._asking.values()):
                used.close()
            for fd in self._pipe:
                os.close(fd)
            return json.loads(line), streams
        for stream in streams:
            os.close(stream)
        self._asking[pid] = asking
        self._watched.register(asking, selectors.EVENT_READ, pid)
        self._tell(asking, pid)
        return None

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ended, 4096)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                asking = self._asking.pop(found[0])
                with suppress(KeyError):
                    self._watched.unregister(asking)
                self._tell(asking, os.waitstatus_to_exitcode(found[1]))
                asking.close()

    def _tell(self, asking: socket.socket, number: int) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            asking.sendall(_NUMBER.pack(number))

    def _end(self) -> NoReturn:
        for pid in self._asking:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._place)  # also of one whose tests were killed
        os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Have the streams, the place and the environment of a Python that was just started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc] # noqa: SIM115
    os.chdir(request["cwd"])
    multiprocessing.process.ORIGINAL_DIR = request["cwd"]  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(request["env"])
    at_once = "PYTHONUNBUFFERED" in os.environ
    out = open(1, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(out, write_through=at_once)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc] # noqa: SIM115
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )


def _execute(arguments: list[str]) -> None:
    """What `python` does with them."""
    while arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        del arguments[:2]
    first, *others = arguments
    if first == "-m":
        sys.argv, sys.path[0] = others, str(Path.cwd())
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *others[1:]], ""
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(others[0], "<string>", "exec"), vars(main))
    else:
        sys.argv, sys.path[0] = arguments, str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    """Serve; each process that is forked leaves it to do what it was asked for, and ends as usual."""
    for name in IMPORTED:
        importlib.import_module(name)
    server = _Server(sys.argv[1])
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    request, streams = server.serve()
    _become(request, streams)
    try:
        _execute(request["arguments"])
    except Exception as error:  # noqa: BLE001 - shown as Python does, which knows no frames of ours
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
