"""Starting workers, killing them, and asking whether anything was lost."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import holdfast as hf
from tests import forks
from tests.crash import mutants
from tests.crash.history import Oracle, Violation, check, dump, read_history
from tests.processes import state_of
from tests.waiting import ENOUGH, bounded, wait_until

ROOT = Path(__file__).parents[2]
RUNS = ["run-a", "run-b", "run-c"]


def setting(name: str, default: int) -> int:
    """A count that the environment may raise."""
    return int(os.environ.get(name, default))


CYCLES = setting("HOLDFAST_CRASH_CYCLES", 30)  # each in four tests: 120 kills
MOST_LINES = 60  # of the history before a kill; an operation writes two


def first_seed() -> int:
    """Where the seeds of this test run begin."""
    given = os.environ.get("HOLDFAST_SEED")
    return int(given) if given else random.SystemRandom().randrange(1 << 40)


def url_of(kind: str, directory: Path) -> str:
    """A store in the directory, which may be empty or hold one already."""
    if kind == "sqlite":
        return f"sqlite:///{directory}/runs.db"
    return f"file://{directory}/runs"


class ForkServer:
    """Starts workers in a millisecond each."""

    def __init__(self, module: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._process = forks.start(
            *("-m", module), cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors.fileno(),
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether it was killed, because it did not answer."""
        return self._process.poll() is not None

    def start(self, **job: Any) -> int:
        """Fork a worker with the fields of its `Job`; returns its pid."""
        return int(self._ask(job)["pid"])

    def wait(self, pid: int) -> int:
        """Its exit status once it has ended; negative if by a signal."""
        return int(self._ask({"wait": pid})["status"])

    def errors(self) -> str:
        """What the workers wrote to stderr, at the end of it."""
        written = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 4000, max(0, written - 4000)).decode(
            errors="replace"
        )

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with bounded(self._process):
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        with bounded(self._process, 2 * ENOUGH):  # workers end by themselves before that
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


_servers: dict[str, ForkServer] = {}


def fork_server(module: str = "tests.crash.worker") -> ForkServer:
    """The fork server of a module. All tests of this process share it: it does nothing itself."""
    server = _servers.get(module)
    if server is None or server.ended:
        server = _servers[module] = ForkServer(module)
        atexit.register(server.close)
    return server


def wait_until_stopped(pid: int) -> None:
    """Return once a SIGSTOP has reached every thread of the process."""
    wait_until(lambda: state_of(pid) == "T", every=0.0005)


def wait_for_lines(path: Path, since: int, lines: int, pids: list[int]) -> None:
    """Return once so many lines stand behind the offset, or all who write them have ended.

    Kills that wait for progress instead of a time prove as much on a loaded machine.
    """

    def enough() -> bool:
        with path.open("rb") as file:
            file.seek(since)
            return file.read().count(b"\n") >= lines or all(state_of(pid) == "Z" for pid in pids)

    wait_until(enough, every=0.001)


def judge(url: str, oracle: Path, mutant: str = "", **least: int) -> list[Violation]:
    """What a reader who opens the store only now finds missing or wrong."""
    with hf.SyncCheckpointer(mutants.open_store(url, mutant), deadline=5.0) as checkpointer:
        dumped = dump(checkpointer)
        checkpointer.store.close()
    return check(read_history(oracle), dumped, **least)


class Outcome(NamedTuple):
    """What so many cycles came to."""

    cycles: int
    acks: int
    violations: list[Violation]
    seed: int


def kill_cycles(
    server: ForkServer,
    kind: str,
    directory: Path,
    *,
    cycles: int,
    seed: int,
    mutant: str = "",
    also: Callable[[str], list[Violation]] | None = None,
    **job: Any,
) -> Outcome:
    """Kill so many workers, each at a random moment; each goes on with what the one before left.

    The store is checked after every kill, `also` by what is given the URL. Ends at the first
    violation.
    """
    rng = random.Random(seed)
    at_once = job.pop("workers", 0)
    directory.mkdir(parents=True)
    url, path = url_of(kind, directory), directory / "oracle"
    oracle = Oracle(path, "parent")
    violations: list[Violation] = []
    done = 0
    while done < cycles and not violations:
        done += 1
        size = path.stat().st_size
        workers = [f"{seed}:{done}:{n}" for n in range(at_once or rng.choice((1, 1, 2)))]
        pids = [
            server.start(
                url=url, oracle=str(path), worker=worker, mutant=mutant,
                **{"runs": RUNS, "mode": rng.choice(("sync", "async")), **job},
            )
            for worker in workers
        ]  # fmt: skip
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.01))
        else:
            wait_for_lines(path, size, rng.randrange(1, MOST_LINES), pids)
            time.sleep(rng.uniform(0, 0.005))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid, worker in zip(pids, workers, strict=True):
            status = server.wait(pid)
            assert mutant or status == -signal.SIGKILL, (
                f"seed {seed}: status {status}\n{server.errors()}"
            )
            oracle.killed(worker)
        violations = judge(url, path, mutant, min_kills=done)
        if also is not None:
            violations += also(url)
    oracle.close()
    acks = sum(line["phase"] == "ack" for line in read_history(path))
    return Outcome(done, acks, violations, seed)
