"""Hosts, and the processes on them.

A host is one process that forks the others: it has imported everything, so that a worker is at
work in a moment. A foreign host differs in what identifies a place: by name and boot id, which are
made up (`there`), or by real PID and UTS namespaces (`container`), which take root.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.crash.harness import ROOT
from tests.crash.history import Line
from tests.crash.holders.journals import in_a_transaction
from tests.crash.holders.oracle import Notes
from tests.waiting import ENOUGH, bounded, wait_until

DEAD_AFTER: Final = 3.0
"""Seconds; a sixth of it lies between two beats."""

_CONTAINER: Final = ("unshare", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
_HIDING: Final = ("unshare", "--mount", "--fork", "--kill-child")


class Host:
    """Starts workers, and sends them signals, by the pids that they have there."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self._errors = directory / f"{name}.stderr"
        prefix: tuple[str, ...] = {"container": _CONTAINER, "hiding": _HIDING}.get(name, ())
        if prefix and os.geteuid() != 0:  # as far as the kernel lets ordinary users do it
            prefix = (*prefix, "--user", "--map-root-user")
        if prefix and shutil.which(prefix[0]) is None:
            raise RuntimeError("the tests of foreign hosts need unshare, of util-linux")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.crash.holders.worker", name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True,
            )  # fmt: skip
        self.ask(ping=True)

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            with bounded(self._process, ENOUGH):
                answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            said = self._errors.read_text()
            raise RuntimeError(
                f"host {self.name!r} does not answer; namespaces take root and a kernel that "
                f"permits them:\n{said}"
            )
        return json.loads(answer)

    def close(self) -> None:
        """End it, and the workers that are left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with bounded(self._process):
            self._process.wait()
        self._process.stdout.close()


class Worker:
    """A process on a host."""

    def __init__(self, world: World, host: Host, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid  # as its host counts
        self.host = host
        self._world = world
        self._status: int | None = None

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self._world.notes.write("killing", self.name)
        self._signal(signal.SIGKILL)
        self.wait()
        self._world.notes.write("killed", self.name)

    def stop(self) -> None:
        """SIGSTOP; returns when it stands still."""
        self._world.notes.write("stopping", self.name)
        self._signal(signal.SIGSTOP)
        self.wait_until_stopped()

    def stop_between_writes(self) -> None:
        """SIGSTOP, but not in a transaction, such as that of a beat: nobody else could write."""
        self.stop()
        while in_a_transaction(self._world.url):
            self._signal(signal.SIGCONT)
            time.sleep(0.01)
            self._signal(signal.SIGSTOP)
            self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        wait_until(lambda: self.host.ask(state=self.pid) == "T", every=0.002)

    def go_on(self) -> None:
        """SIGCONT."""
        self._world.notes.write("continued", self.name)
        self._signal(signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM: it finishes what it does, and ends."""
        self._signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C does."""
        self._signal(signal.SIGINT)

    @property
    def status(self) -> int | None:
        """How it ended; None while it runs."""
        if self._status is None:
            self._status = self.host.ask(poll=self.pid)
        return self._status

    def wait(self, seconds: float = ENOUGH) -> int:
        """How it ended, once it has."""
        wait_until(lambda: self.status is not None, seconds=seconds, every=0.01)
        assert self._status is not None
        return self._status

    def done(self, seconds: float = ENOUGH) -> None:
        """Wait until it has done its task; fail if it could not."""
        try:
            status = self.wait(seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{self.name}: {error}\n{self._world.report()}") from None
        assert status == 0, f"{self.name} ended with {status}\n{self._world.report()}"

    def _signal(self, number: int) -> None:
        self.host.ask(signal=number, pid=self.pid)


class Gate:
    """Lets many processes begin at the same instant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        path.chmod(0o666)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def open(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Hosts:
    """The hosts of this test process, started when first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        if name not in self._started:
            self._started[name] = Host(name, self._directory)
        return self._started[name]

    def close(self) -> None:
        for host in self._started.values():
            host.close()


class World:
    """A store, the processes that use it, and what they note."""

    def __init__(self, url: str, directory: Path, hosts: Hosts) -> None:
        self.url = url
        self.directory = directory
        self.hosts = hosts
        self.notes = Notes(directory / "notes")
        self.workers: list[Worker] = []
        self._errors = directory / "stderr"
        self._errors.touch()
        self._errors.chmod(0o666)
        self._numbers = itertools.count()
        self._gates: list[Gate] = []

    def start(self, task: str, host: str = "here", **job: Any) -> Worker:
        """Start a worker that does the task of this name: see `tasks`."""
        name = f"{host}-{next(self._numbers)}"
        fields = {"url": self.url, "dead_after": DEAD_AFTER, **job}
        pid = self.hosts[host].ask(
            start=task, who=name, notes=str(self.notes.path), errors=str(self._errors), **fields
        )
        worker = Worker(self, self.hosts[host], name, pid)
        self.workers.append(worker)
        return worker

    def gate(self) -> Gate:
        """A gate for workers, to be opened."""
        gate = Gate(self.directory / f"gate-{next(self._numbers)}")
        self._gates.append(gate)
        return gate

    def at_once(self, task: str, hosts: tuple[str, ...], **job: Any) -> list[Worker]:
        """Start one worker on each of these hosts, let all begin at the same instant, and wait
        until they have done their task."""
        gate = self.gate()
        workers = [self.start(task, host, gate=str(gate.path), **job) for host in hosts]
        for worker in workers:
            self.notes.wait_for("ready", who=worker.name)
        gate.open()
        for worker in workers:
            worker.done()
        return workers

    def report(self) -> str:
        """What the workers wrote to stderr."""
        return self._errors.read_text()[-6000:]

    def close(self) -> None:
        """Kill what is left."""
        for gate in self._gates:
            gate.open()
        for worker in self.workers:
            if worker.status is None:
                worker.host.ask(signal=signal.SIGKILL, pid=worker.pid)
                worker.wait()
        self.notes.close()


def stand_by(since: Line, seconds: float) -> None:
    """Return so long after a line was noted; the monotonic clock is the same for all processes."""
    time.sleep(max(0.0, since["at"] + seconds - time.monotonic()))
