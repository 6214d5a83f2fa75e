"""A second worker takes over a run that the first is still carrying out, or sleeps in the middle of."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.model import Kind
from tests.conftest import Survived
from tests.crash.engine_check import UNFINISHED, check, dump, owners
from tests.crash.engine_harness import Notes
from tests.crash.harness import (
    ForkServer,
    first_seed,
    fork_server,
    setting,
    url_of,
    wait_until_stopped,
)
from tests.crash.history import Line, Violation

TAKEOVERS = setting("HOLDFAST_TAKEOVERS", 12)
STOPS = ("completed", "LeaseLostError")


@pytest.fixture
def server() -> ForkServer:
    return fork_server("tests.crash.engine_worker")


class Outcome(NamedTuple):
    """What a takeover came to."""

    taken: bool
    violations: list[Violation]


def take_over(
    server: ForkServer, place: Path, seed: int, *, asleep: bool, mutant: str = ""
) -> Outcome:
    """Have one worker begin a run and another end it; the first wakes up in the middle, or after."""
    rng = random.Random(seed)
    place.mkdir()
    url, run = url_of("sqlite", place), f"run-{seed}"
    notes = Notes(place / "notes")
    job: dict[str, Any] = {"url": url, "notes": str(notes.path), "run": run, "flow": "busy"}
    job |= {"mutant": mutant, "pace": 0.002 if asleep else 0.012}
    # The first two commits give the store its id and open the run.
    at_a_commit = asleep and rng.random() < 0.5
    first = server.start(**job, stop_at=rng.randrange(3, 20) if at_a_commit else 0)
    assert _noted(notes, "started", first, within=60), server.errors()
    if at_a_commit:
        wait_until_stopped(first)
    else:
        time.sleep(rng.uniform(0, 0.03))
        if asleep:
            os.kill(first, signal.SIGSTOP)
            wait_until_stopped(first)
    over = dump(url)[run].status not in UNFINISHED
    second = 0
    if not over:
        second = server.start(**job)
        # Where it was stopped in the middle of a transaction, nobody else can write.
        if asleep and _noted(notes, "started", second, within=0.3):
            time.sleep(rng.choice((0, rng.uniform(0, 0.1))))
    if asleep:
        os.kill(first, signal.SIGCONT)
    ended = [server.wait(pid) for pid in (first, second) if pid]
    assert mutant or not any(ended), server.errors()
    notes.close()
    return _judge(notes.read(), url, run, first)


def _judge(lines: list[Line], url: str, run: str, first: int) -> Outcome:
    journals = dump(url)
    claims = len(journals[run].of(Kind.CLAIM))
    how = {line["pid"]: line["how"] for line in lines if line["what"] == "stopped"}
    found = check(
        _counted(lines), journals,
        ends=("completed",), errors=STOPS if claims else (*STOPS, "RunFinishedError"),
    )  # fmt: skip
    found += owners(lines, journals)
    if claims and how.get(first) != "LeaseLostError":
        found.append(Violation("owner", run, f"was lost, and its worker came to {how.get(first)}"))
    if not claims and "LeaseLostError" in how.values():
        found.append(Violation("owner", run, "nobody took it, and yet it was lost"))
    return Outcome(claims > 0, found)


def _counted(lines: list[Line]) -> list[Line]:
    """Without what the old worker began or decided: it may until it comes to record it."""
    counted, owner = [], 0
    for line in lines:
        if line["what"] == "started":
            owner = line["pid"]
        lost = line["what"] == "decided" and line["pid"] != owner
        if line["what"] != "begin" and not lost:
            counted.append(line)
    return counted


def _noted(notes: Notes, what: str, pid: int, *, within: float) -> bool:
    """Wait until a worker has noted it; False if it does not in time."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if any(n["what"] == what and pid == n["pid"] for n in notes.read()):
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize("asleep", [True, False], ids=["asleep", "awake"])
def test_after_a_takeover_the_old_worker_writes_nothing(
    asleep: bool, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    seed, taken, tries = first_seed(), 0, 0
    while taken < TAKEOVERS // 2:  # one that comes when the run is over proves nothing
        tries += 1
        assert tries < 20 * TAKEOVERS, f"only {taken} takeovers"
        outcome = take_over(server, tmp_path / str(seed), seed, asleep=asleep)
        listed = "\n".join(map(str, outcome.violations))
        assert not outcome.violations, f"HOLDFAST_SEED={seed}\n{listed}"
        taken, seed = taken + outcome.taken, seed + 1
    survived("take-overs", taken)
