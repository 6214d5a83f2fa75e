"""Workers share what is to be done, keep their limits, and lose nothing when they end."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.store import RunFilter
from tests.conftest import Survived
from tests.crash.harness import first_seed, setting
from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import Worker, World
from tests.crash.holders.journals import failures, journals
from tests.crash.holders.oracle import executions
from tests.effort import EFFORT
from tests.waiting import wait_until

RUNS = setting("HOLDFAST_WORKER_RUNS", 60)
HOSTS = ("here", "there", "container", "here")
DEAD_AFTER = 3.0
LIMIT = max(120.0, 1.0 * RUNS)


EVERYWHERE = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)


class Chaos:
    """Workers that are killed, stopped and drained, and replaced by others."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.rng = random.Random(seed)
        self.count = Counter[str]()
        self.workers = [self._start(host) for host in HOSTS]
        self._drained: list[Worker] = []

    def strike(self) -> None:
        what = self.rng.choice(("kill", "drain", "stop"))
        number = self.rng.randrange(len(self.workers))
        worker = self.workers[number]
        if what == "stop":
            worker.stop()
            time.sleep(self.rng.uniform(0, 0.5))
            worker.go_on()
        elif what == "kill":
            worker.kill()
        else:
            self._drain(worker)
            self._drained.append(worker)
        if what != "stop":
            self.workers[number] = self._start(worker.host.name)
        self.count[what] += 1

    def end(self) -> None:
        for worker in self.workers:
            self._drain(worker)
        for worker in (*self._drained, *self.workers):
            worker.done()

    def _drain(self, worker: Worker) -> None:
        self.world.notes.wait_for("works", who=worker.name)  # else the signal just ends it
        worker.drain()

    def _start(self, host: str) -> Worker:
        return self.world.start(
            "work", host, dead_after=DEAD_AFTER, pace=0.1, lifetime=round(2 * LIMIT),
            args={"at_once": 5, "drain": self.rng.choice((0, 0.2, 30)), "leave_after": 0.2},
        )  # fmt: skip


@EVERYWHERE
def test_submitted_runs_are_executed_once_whatever_becomes_of_the_workers(
    world: World, survived: Survived
) -> None:
    runs = {f"worked-{n}": [n] for n in range(RUNS)}
    world.start("submit", args={"flow": "worked", "runs": runs}).done()
    seed = first_seed()
    chaos = Chaos(world, seed)
    began = time.monotonic()
    while len(_completed(world)) < RUNS:
        late = time.monotonic() - began > LIMIT
        assert not late, f"HOLDFAST_SEED={seed}: {len(_completed(world))}\n{world.report()}"
        chaos.strike()
        time.sleep(chaos.rng.uniform(0.2, 0.8))
    chaos.end()
    found = executions(world.notes.read(), DEAD_AFTER)
    listed = "\n".join(map(str, found.violations))
    assert not listed, f"HOLDFAST_SEED={seed}\n{listed}\n{world.report()}"
    stored = journals(world.url)
    assert failures(world.url) == {}, f"HOLDFAST_SEED={seed}"
    results = {run: stored[run].entries[-1].value for run in runs}
    assert results == {run: comes_to("worked", n) for run, (n,) in runs.items()}
    assert world.notes.find("refused") == [], f"HOLDFAST_SEED={seed}"
    survived("runs in storms", RUNS)
    survived("kills in storms", chaos.count["kill"])
    survived("pauses in storms", chaos.count["stop"])


def _completed(world: World) -> set[str]:
    with closing(hf.open_store(world.url)) as store:
        heads = store.runs(RunFilter("completed"), limit=10 * RUNS)
    return {head.run for head in heads if "//" not in head.run}


@EVERYWHERE
def test_every_idle_worker_gets_some_of_the_runs_of_a_dead_process(world: World) -> None:
    workers = [world.start("work", dead_after=DEAD_AFTER, args={"at_once": 10}) for _ in range(4)]
    world.notes.wait_for("works", 4)
    runs = {f"r{n}": [n] for n in range(30)}
    dead = world.start("execute", hang=["one"], args={"flow": "chain", "runs": runs})
    world.notes.wait_for("begin", 30)
    dead.kill()
    world.notes.wait_for("completed", 30)
    for worker in workers:
        worker.drain()
        worker.done()
    shares = Counter(line["who"] for line in world.notes.find("began"))
    assert set(shares) == {worker.name for worker in workers}, shares
    assert sum(shares.values()) == 30


def test_idle_workers_do_not_take_the_runs_of_a_busy_one(world: World, tmp_path: Path) -> None:
    over = tmp_path / "over"
    runs = {f"r{n}": [n] for n in range(10)}
    world.start("submit", args={"flow": "chain", "runs": runs}).done()
    busy = world.start(
        "work", "there", dead_after=6.0, until={"one": str(over)}, args={"at_once": 10}
    )
    world.notes.wait_for("begin", 10)
    idle = [world.start("work", dead_after=6.0, args={}) for _ in range(6 * EFFORT)]
    world.notes.wait_for("works", 1 + len(idle))
    time.sleep(7.0)  # longer than the busy one may be silent
    over.touch()
    world.notes.wait_for("completed", 10)
    for worker in (busy, *idle):
        worker.drain()
        worker.done()
    assert {line["who"] for line in world.notes.find("began")} == {busy.name}
    assert len(world.notes.find("began")) == 10


@EVERYWHERE
def test_a_limit_of_a_flow_holds_for_all_workers_together(world: World) -> None:
    runs = {f"r{n}": [n] for n in range(16)}
    options = {"at_once": 10, "per_flow": {"chain": 2}}
    workers = [
        world.start("work", host, dead_after=DEAD_AFTER, pace=0.1, args=options)
        for host in ("here", "here", "there")
    ]
    world.notes.wait_for("works", 3)
    world.start("submit", args={"flow": "chain", "runs": runs}).done()
    world.notes.wait_for("end", 6)
    workers[0].kill()
    wait_until(lambda: len(_completed(world)) == 16)
    for worker in workers[1:]:
        worker.drain()
        worker.done()
    assert _most_at_once(world, workers[0].name) <= 2
    assert executions(world.notes.read(), DEAD_AFTER).violations == []


def _most_at_once(world: World, killed: str) -> int:
    """How many steps were executed at the same time."""
    under_way: dict[tuple[Any, ...], str] = {}
    most = 0
    over = False
    for line in world.notes.read():
        if over and line["who"] == killed:
            continue  # in the last moment before it was killed
        over = over or (line["what"] == "killing" and line["who"] == killed)
        key = line["run"], line["step"]
        if line["what"] == "begin":
            under_way[key] = line["who"]
        elif line["what"] in ("end", "raised"):
            under_way.pop(key, None)
        if over:
            under_way = {k: who for k, who in under_way.items() if who != killed}
        most = max(most, len(under_way))
    return most
