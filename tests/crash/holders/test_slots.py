"""Processes that come and go leave no slots behind."""

from __future__ import annotations

import random

import pytest

import holdfast as hf
from tests.conftest import Survived
from tests.crash.harness import first_seed, setting
from tests.crash.holders.hosts import World
from tests.crash.holders.journals import rows, slots, statuses
from tests.waiting import PATIENCE

NEVER = 10 * PATIENCE
PROCESSES = setting("HOLDFAST_SHORT_LIVED", 30)
FEW = 4


@pytest.mark.parametrize("hosts_of", [("here",), ("here", "there")], ids=["one", "two"])
def test_short_lived_processes_share_a_few_slots(
    world: World, hosts_of: tuple[str, ...], survived: Survived
) -> None:
    """One in ten is killed while it holds a run; the next on its host continues that."""
    seed = first_seed()
    rng = random.Random(seed)
    first_killed = rng.randrange(10)
    kills = 0
    most = 0
    store = hf.open_store(world.url)
    for n in range(PROCESSES // len(hosts_of)):
        host = rng.choice(hosts_of)
        args = {"flow": "chain", "runs": {f"r{n}": [n]}, "resume": True}
        if n == first_killed or rng.random() < 0.1:
            worker = world.start("execute", host, hang=["two"], dead_after=NEVER, args=args)
            world.notes.wait_for("begin", run=f"r{n}", step="two")
            worker.kill()
            kills += 1
        world.start("execute", host, dead_after=NEVER, args=args).done()
        most = max(most, len(rows(store)))
        assert most <= len(hosts_of) + FEW, f"HOLDFAST_SEED={seed}: after {n + 1} processes"
    store.close()
    assert set(statuses(world.url).values()) == {"completed"}
    survived("short-lived processes", PROCESSES // len(hosts_of))
    survived("kills in storms", kills)


def test_processes_that_live_at_the_same_time_have_a_slot_each_and_leave_them_to_others(
    world: World,
) -> None:
    for turn in range(3):
        workers = []
        for n in range(5):
            args = {"flow": "chain", "runs": {f"r{turn}-{n}": [n]}}
            workers.append(world.start("execute", hang=["two"], dead_after=NEVER, args=args))
        world.notes.wait_for("begin", 5 * (turn + 1), step="two")
        for worker in workers:
            worker.kill()
        world.start("recover", dead_after=NEVER).done()
        assert 5 <= len(slots(world.url)) <= 5 + FEW
    assert set(statuses(world.url).values()) == {"completed"}
