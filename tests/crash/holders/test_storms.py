"""Many processes on several hosts execute the same runs, and are killed, stopped and cut off.

Runs with children, questions, compensations and cancellations: every one comes to its end, and no
step is executed again while an earlier execution counts.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Survived
from tests.crash.harness import first_seed, setting
from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import Hosts, Worker, World
from tests.crash.holders.journals import SLOT, failures, journals, slots
from tests.crash.holders.oracle import executions
from tests.crash.holders.storm import flow_of
from tests.servers import mariadb, postgres, redis
from tests.servers.server import Server

RUNS = setting("HOLDFAST_HOLDER_RUNS", 24)
LONG = RUNS >= 100
WORKERS = 8 if LONG else 4
HOSTS = ("here", "there", "container", "here")
DEAD_AFTER = 4.0
PACE = 0.2  # seconds that a step takes at most
LIMIT = max(120.0, 6.0 * RUNS)  # seconds for a storm
KINDS = ["sqlite", "postgres", *(["mysql", "redis"] if LONG else [])]
PRIVATE: dict[str, tuple[Any, Any]] = {
    "postgres": (postgres.Postgres, postgres.new_url),
    "mysql": (mariadb.PRIVATE, mariadb.new_url),
    "redis": (redis.Redis, redis.new_url),
}


LEAST = {
    "kill": RUNS // 5 if LONG else 3,
    "long stop": RUNS // 20 if LONG else 1,
    "restart": RUNS // 50 if LONG else 1,
}
"""How many faults there must be while runs are under way, or the storm proves nothing."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server that may be killed: it is nobody else's."""
    if request.param == "sqlite":
        yield None
        return
    started = PRIVATE[request.param][0]()
    yield started
    started.stop()


class Chaos:
    """Kills, stops, continues and cuts off, and counts what it did."""

    def __init__(self, world: World, server: Server | None, seed: int, runs: list[str]) -> None:
        self.world = world
        self.server = server
        self.rng = random.Random(seed)
        self.seed = seed
        self.runs = runs
        self.over = world.directory / "over"
        self.count = Counter[str]()
        self._stopped: list[tuple[float, Worker]] = []
        self.workers = [self._start(HOSTS[n % len(HOSTS)]) for n in range(WORKERS)]

    def missing(self, share: float = 1) -> list[str]:
        """The faults that there were not enough of for this share of the runs."""
        skipped = "restart" if self.server is None else ""
        least = {what: n * share for what, n in LEAST.items() if what != skipped}
        return [what for what, n in least.items() if self.count[what] < n]

    def strike(self) -> None:
        """Do one thing to one of them."""
        self.go_on(time.monotonic())
        rare = self.rng.choices(("kill", "short stop", "long stop", "restart"), (8, 4, 2, 1))[0]
        what = self.rng.choice([*self.missing(), rare])
        number = self.rng.randrange(len(self.workers))
        worker = self.workers[number]
        if what == "restart" and self.server is not None:
            self._restart(self.server)
        elif what == "kill":
            worker.kill()
            self._forget(worker)
            self.workers[number] = self._start(worker.host.name)
        elif "stop" in what and all(worker is not one for _, one in self._stopped):
            worker.stop()
            long = what == "long stop"
            seconds = self.rng.uniform(1.2, 1.8) * DEAD_AFTER if long else self.rng.random()
            self._stopped.append((time.monotonic() + seconds, worker))
            if self.server is None:  # it may have the database locked
                self.world.notes.write("store down", worker.name)
        else:
            return
        self.count[what] += 1

    def go_on(self, now: float) -> None:
        """Continue those that stood still for long enough."""
        for due, worker in list(self._stopped):
            if due <= now:
                worker.go_on()
                self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        """It does not stand still any more."""
        left = [each for each in self._stopped if each[1] is not worker]
        if len(left) < len(self._stopped) and self.server is None:
            self.world.notes.write("store up", worker.name)
        self._stopped = left

    def check_all_live(self) -> None:
        for worker in self.workers:
            status = worker.status
            said = f"HOLDFAST_SEED={self.seed}: {worker.name} ended with {status}"
            assert status is None, f"{said}\n{self.world.report()}"

    def end(self) -> None:
        """Let the processes end by themselves."""
        self.go_on(1e18)
        self.over.touch()
        for worker in self.workers:
            worker.done()

    def _start(self, host: str) -> Worker:
        args = {"runs": self.runs, "seed": f"{self.seed}/{self.rng.random()}"}
        return self.world.start(
            "rage", host, dead_after=DEAD_AFTER, lifetime=round(2 * LIMIT), pace=PACE,
            args={**args, "over": str(self.over)},
        )  # fmt: skip

    def _restart(self, server: Server) -> None:
        self.world.notes.write("store down")
        server.kill()
        long = self.rng.random() < 0.3
        time.sleep(1.5 * DEAD_AFTER if long else 0.2)
        server.start()
        self.world.notes.write("store up")


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_in_a_storm_every_run_ends_as_it_should_and_no_step_is_executed_twice(
    server: Any,
    tmp_path: Path,
    hosts: Hosts,
    request: pytest.FixtureRequest,
    survived: Survived,
) -> None:
    kind: str = request.node.callspec.params["server"]
    url = f"sqlite:///{tmp_path}/runs.db" if server is None else PRIVATE[kind][1](server.url)
    seed = first_seed()
    runs = [f"{'patient' if n % 6 == 5 else 'mixed'}-{n}" for n in range(RUNS)]
    world = World(url, tmp_path, hosts)
    try:
        chaos = Chaos(world, server, seed, runs)
        _rage(world, chaos)
        chaos.end()
        _judge(world, chaos)
        survived("runs in storms", len(runs))
        survived("kills in storms", chaos.count["kill"])
        survived("pauses in storms", chaos.count["short stop"] + chaos.count["long stop"])
        survived("server restarts in storms", chaos.count["restart"])
    finally:
        world.close()


def _rage(world: World, chaos: Chaos) -> None:
    began = time.monotonic()
    while True:
        left = _left(world, chaos.runs)
        if not left:
            break
        late = time.monotonic() - began > LIMIT
        assert not late, f"HOLDFAST_SEED={chaos.seed}: {left} are not over\n{world.report()}"
        chaos.check_all_live()
        chaos.strike()
        if not chaos.missing(1 - len(left) / len(chaos.runs)):  # else the runs are ahead
            time.sleep(chaos.rng.uniform(0.1, 0.5))
    assert chaos.missing() == [], f"HOLDFAST_SEED={chaos.seed}: {chaos.count}"


def _left(world: World, runs: list[str]) -> list[str]:
    ended = ("RunCancelledError", "RunFinishedError")
    over = {
        line["run"]
        for line in world.notes.read()
        if line["what"] == "outcome" or (line["what"] == "tried" and line["how"] in ended)
    }
    return [run for run in runs if run not in over]


def _judge(world: World, chaos: Chaos) -> None:
    """Fails if something is wrong."""
    lines = world.notes.read()
    seed = f"HOLDFAST_SEED={chaos.seed}"
    found = executions(lines, DEAD_AFTER)
    listed = "\n".join(map(str, found.violations))
    assert not listed, f"{seed}\n{listed}\n{world.report()}"
    unexpected = [line for line in lines if line["what"] == "unexpected"]
    assert unexpected == [], f"{seed}\n{world.report()}"
    cancelled = {line["run"] for line in lines if line["what"] == "cancelling"}
    stored = journals(world.url)
    for run in chaos.runs:
        status = stored[run].status
        allowed = {"completed", "cancelled"} if run in cancelled else {"completed"}
        assert status in allowed, f"{seed}: {run} is {status}"
        undone = "cancelled" if status == "cancelled" else "completed"
        children = {name: j.status for name, j in stored.items() if name.startswith(f"{run}//")}
        wrong = {
            name: found
            for name, found in children.items()
            if found not in (("failed",) if _is_doomed(name) else (undone, "completed"))
        }
        assert wrong == {}, f"{seed}: {run} is {status}"
    results = {(line["run"], line["value"]) for line in lines if line["what"] == "outcome"}
    wrong_results = [
        (run, value)
        for run, value in results
        if value != (comes_to("mixed", flow_of(run)[1]) if run[0] == "m" else flow_of(run)[1])
    ]
    assert wrong_results == [], seed
    failed = {run: told for run, told in failures(world.url).items() if not _is_doomed(run)}
    assert failed == {}, seed
    held = len(slots(world.url))
    assert held <= 2 * WORKERS, f"{seed}: {held} rows of {SLOT!r}"


def _is_doomed(child: str) -> bool:
    """Whether it is a run of `doomed`; one that was undone is begun anew by who takes over."""
    return child.rpartition("//")[2].partition("~~")[0] == "doomed"
