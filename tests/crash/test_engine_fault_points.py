"""The process dies at every fault point of a short run, from its opening to its end: it goes on.

`make test` tries every second one, `make crash` all.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from holdfast.model import Kind, Status
from tests.conftest import Survived
from tests.crash.engine_check import check, dump, snapshot
from tests.crash.engine_harness import STOPS, Notes
from tests.crash.harness import ForkServer, first_seed, fork_server, url_of
from tests.effort import some

MOST_POINTS = 200  # in one stage of a short run; it has far fewer


@pytest.fixture
def server() -> ForkServer:
    return fork_server("tests.crash.engine_worker")


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("stage", ["opened", "answered", "claimed and completed", "undone"])
def test_a_kill_at_any_fault_point_leaves_a_run_that_goes_on(
    kind: str, stage: str, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    for tried, point in enumerate(some(range(1, MOST_POINTS), 2, first_seed())):
        if not _die(server, kind, stage, tmp_path / str(point), point):
            assert point > 4, f"only {point} fault points"
            survived("kills at fault points", tried)
            return
    raise AssertionError("there is no end to it")


def _die(server: ForkServer, kind: str, stage: str, place: Path, point: int) -> bool:
    """Die at the point of the stage, carry the run to its end and check it; False if there is none."""
    place.mkdir()
    url, run = url_of(kind, place), "run"
    notes = Notes(place / "notes")
    undone = stage == "undone"
    job = {"url": url, "notes": str(notes.path), "run": run, "flow": "fails" if undone else "short"}
    at = {"opened": 0, "answered": 1, "claimed and completed": 2, "undone": 0}[stage]
    struck, turn, status = False, 0, ""
    while status not in (Status.COMPLETED, Status.FAILED):
        task = "answer" if status == Status.PAUSED else "carry out"
        kill_at = point if turn == at and not struck else 0
        ended = server.wait(server.start(**job, task=task, kill_at=kill_at))
        assert ended == (-signal.SIGKILL if ended < 0 and kill_at else 0), server.errors()
        if ended < 0:
            struck = True
            notes.write({"what": "killed", "run": run})
        elif turn < 2 or not struck:
            turn += 1
        journals = dump(url)
        notes.write(snapshot(journals))
        status = journals[run].status if run in journals else ""
        assert turn < 20, "it does not come to an end"
    notes.close()
    found = check(
        notes.read(), journals, ends=("failed",) if undone else ("completed",),
        errors=("StepFailedError",) if undone else STOPS, least_kills=int(struck),
    )  # fmt: skip
    assert not found, f"killed at point {point}: {list(map(str, found))}"
    if not undone:
        assert journals[run].of(Kind.CLAIM)
    return struck
