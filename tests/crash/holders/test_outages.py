"""A server that is away for longer than `dead_after`: nobody is buried, no run is given up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import DEAD_AFTER, Hosts, World
from tests.crash.holders.journals import journals, slots
from tests.crash.holders.oracle import executions
from tests.servers import postgres

LONGER = 1.5 * DEAD_AFTER
OUTAGES = {
    "CheckpointSaveError",
    "CheckpointLoadError",
    "OutcomeUnknownError",
    "StoreUnavailableError",
}
RUNS = {f"r{n}": [n] for n in range(8)}


@pytest.fixture
def server() -> Iterator[postgres.Postgres]:
    """One that may be killed: it is nobody else's."""
    started = postgres.Postgres()
    yield started
    started.stop()


@pytest.fixture
def world(server: postgres.Postgres, tmp_path: Path, hosts: Hosts) -> Iterator[World]:
    made = World(postgres.new_url(server.url), tmp_path, hosts)
    yield made
    made.close()


def go_away(world: World, server: postgres.Postgres) -> None:
    """The server is away for longer than `dead_after`."""
    world.notes.write("store down")
    server.kill()
    time.sleep(LONGER)
    server.start()
    world.notes.write("store up")


def buried(url: str) -> list[str]:
    """The slots of processes that somebody declared dead."""
    rows = [json.loads(row.meta or "{}") for row in slots(url)]
    return [str(row) for row in rows if row.get("state") == "buried"]


@pytest.mark.parametrize("flow", ["chain", "family"])
def test_an_outage_longer_than_dead_after_buries_nobody_and_fails_no_run(
    world: World, server: postgres.Postgres, flow: str
) -> None:
    """Processes of both hosts hold runs and wait for runs; afterwards each can be resumed."""
    args = {"flow": flow, "runs": RUNS, "resume": True}
    slow = {"two": 2 * LONGER}
    holder = world.start("execute", slow=slow, args=args)
    world.notes.wait_for("begin", len(RUNS), step="two")
    waiting = [world.start("execute", host, slow=slow, args=args) for host in ("here", "there")]
    for worker in waiting:
        world.notes.wait_for("calling", len(RUNS), who=worker.name)
    go_away(world, server)
    for worker in (holder, *waiting):
        worker.done()
    assert buried(world.url) == []
    ends = {line["how"] for line in world.notes.find("outcome")}
    assert ends <= {"completed", *OUTAGES}
    for run, journal in journals(world.url).items():
        told = {entry.status for entry in journal.entries}
        assert told <= {"running", "completed"}, f"{run}: {told}"
    world.start("execute", "there", args=args).done()
    last = world.notes.find("outcome")[-len(RUNS) :]
    assert {line["run"]: line["value"] for line in last} == {
        run: comes_to(flow, n) for run, (n,) in RUNS.items()
    }
    assert executions(world.notes.read(), DEAD_AFTER).violations == []
