"""What private servers have in common: a directory, a free port, and being killed."""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from tests.processes import GONE, descendants, state_of
from tests.servers.directories import new_directory
from tests.waiting import run_process, wait_until

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
_USER: Final = "nobody"  # servers refuse to run as root
_GROUP: Final = "nogroup"


class Server(ABC):
    """A server of our own in a temporary directory. Say its command and how to tell that it answers.

    Start it from the main thread: it dies with the thread that started it, however that ends.
    """

    package: str
    """What Debian calls it."""

    def __init__(self) -> None:
        self.directory = new_directory()
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        if os.getuid() == 0:
            shutil.chown(self.directory, _USER)
        atexit.register(self.stop)
        self.prepare()
        self.start()

    @classmethod
    def shared(cls) -> Self:
        """The one that all tests of this process use; each worker of xdist has its own.

        It is started again if a test killed it and failed. A crash is reported, and not repaired.
        """
        server = cls._first()
        if server._process is None:
            server.start()
        elif server._process.poll() is not None:
            raise RuntimeError(f"{server.package} ended by itself:\n{server._log()}")
        return server

    @classmethod
    @functools.cache
    def _first(cls) -> Self:
        return cls()

    @abstractmethod
    def prepare(self) -> None:
        """Fill the directory, before the first start."""

    @abstractmethod
    def command(self) -> list[str]:
        """What runs it, in the foreground, on `port`, with all its files in `directory`."""

    @abstractmethod
    def ping(self) -> None:
        """Ask it something; raise whatever the driver does as long as it does not answer."""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        until = time.monotonic() + START_SECONDS
        while True:
            if self._process is None or self._process.poll() is not None:
                # A server that was killed may still lock its files for a moment: try again.
                self._process = self._launch()
            try:
                socket.create_connection((HOST, self.port), 5).close()  # drivers take longer
                return self.ping()
            except Exception:  # noqa: BLE001 - drivers differ
                if time.monotonic() > until:
                    raise RuntimeError(f"{self.package} does not start:\n{self._log()}") from None
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL it and all its processes, as a crash would: nothing is flushed or said."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:  # else the pid may be another's
            pids = (process.pid, *descendants(process.pid))
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            for pid in pids:  # until then one of them may still read what it is sent
                wait_for_death(pid)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it stand still: it neither answers nor hangs up."""
        assert self._process is not None
        pids = [self._process.pid, *descendants(self._process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:  # until then it may still answer
            wait_for_state(pid, "T")
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Kill it and remove its files; nobody needs them any more."""
        if os.getpid() == self._owner:
            self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *command: str) -> None:
        """Run a program as the server's user, to its end."""
        run_process(self._as_user(command), check=True, capture_output=True, cwd=self.directory)

    def program(self, name: str) -> str:
        """Where a program is."""
        versions = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
        places = [os.environ.get("PATH", ""), "/usr/local/bin", "/usr/sbin", *versions]
        found = shutil.which(name, path=os.pathsep.join(places))
        if found is None:
            raise RuntimeError(f"the tests need {name}: sudo apt-get install {self.package}")
        return str(Path(found).resolve())  # a link may stand where the user can't follow

    def _log(self) -> str:
        """The end of what it wrote."""
        return (self.directory / "log").read_text(errors="replace")[-8000:]

    def _launch(self) -> subprocess.Popen[bytes]:
        assert threading.current_thread() is threading.main_thread(), "it would die with this one"
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                self._as_user(self.command()),
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops it
            )  # fmt: skip

    def _as_user(self, command: tuple[str, ...] | list[str]) -> list[str]:
        """Drop root, and die with whoever started it, even if that is killed."""
        user = [f"--reuid={_USER}", f"--regid={_GROUP}", "--clear-groups"]
        return ["setpriv", *(user if os.getuid() == 0 else []), "--pdeathsig=KILL", *command]


def _free_port() -> int:
    """Below the ports that connections are given, so that it stays free while a server is down.

    A name of Linux keeps it from the servers of other test processes as long as this one lives.
    """
    while True:
        port = random.randrange(10_500, 20_500)  # a Redis cluster also takes 10,000 above
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                name.bind(f"\0holdfast-port-{port}")
                probe.bind((HOST, port))
            except OSError:
                name.close()
                continue
        _names.append(name)
        return port


_names: list[socket.socket] = []


def wait_for_death(pid: int) -> None:
    """Until a process that was killed does nothing any more, collected or not.

    Its program is gone from it before its connections are: only then it is a zombie.
    """
    wait_for_state(pid, "Z")


def wait_for_state(pid: int, states: str) -> None:
    """Until a process is in one of these states, as `/proc` names them, or gone."""
    wait_until(lambda: state_of(pid) in states + GONE)
