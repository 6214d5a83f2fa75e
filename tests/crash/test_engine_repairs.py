"""Processes that die, or race, while a run goes back to what holds: it ends right, and repeats no more."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import CheckpointInfo
from holdfast.model import Entry, Kind, Status
from tests.conftest import Survived
from tests.crash.harness import ForkServer, first_seed, fork_server, setting, url_of
from tests.crash.repair_worker import RESULT, STEPS

MOST_POINTS = 300


class Place:
    """A store, the files that steps write, and what workers noted."""

    def __init__(self, directory: Path, kind: str, server: ForkServer) -> None:
        self.directory = directory / "place"
        self.kept = directory / "kept"
        self.desk = self.directory / "desk"
        self.desk.mkdir(parents=True)
        self._server = server
        self.job = {
            "url": url_of(kind, self.directory),
            "desk": str(self.desk),
            "notes": str(self.directory / "notes"),
        }

    def start(self, **more: Any) -> int:
        return self._server.start(**self.job, **more)

    def wait(self, pid: int) -> bool:
        """Whether it was killed; it must not end in any other way but well."""
        ended = self._server.wait(pid)
        assert ended in (0, -signal.SIGKILL), self._server.errors()
        return ended < 0

    def carry_out(self, **more: Any) -> bool:
        return self.wait(self.start(**more))

    def keep(self) -> None:
        """Remember how everything is."""
        shutil.copytree(self.directory, self.kept)

    def restore(self) -> None:
        shutil.rmtree(self.directory)
        shutil.copytree(self.kept, self.directory)

    def take_notes(self) -> list[dict[str, Any]]:
        """What was noted since this was asked last."""
        path = Path(self.job["notes"])
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def begun(self) -> list[str]:
        """The steps that were begun since this was asked last."""
        return [note["step"] for note in self.take_notes() if note["what"] == "begin"]

    def trail(self, run: str = "run") -> list[Entry]:
        """What counts of a run, if the whole journal is sound."""
        with hf.SyncCheckpointer(self.job["url"]) as cp:
            if cp.run(run) is None:
                return []
            assert cp.verify(run).ok
            seqs = [entry.seq for entry in cp.core.journals.entries(run)]
            assert seqs == list(range(len(seqs)))
            return cp.core.journals.trail(run)

    def right(self, name: str) -> bool:
        path = self.desk / name
        return path.exists() and path.read_text() == f"this is {name}"

    def holding(self, run: str = "run") -> list[str]:
        """The steps up to the newest that may be gone on from."""
        held: list[str] = []
        for entry in self.trail(run):
            if entry.kind != Kind.RESULT:
                continue
            within = self.recorded("run//sub") if entry.step == "sub" else [str(entry.step)]
            if not all(map(self.right, within)):
                break
            held += within
        return held

    def recorded(self, run: str) -> list[str]:
        return [str(e.step) for e in self.trail(run) if e.kind == Kind.RESULT]

    def check_whole(self) -> None:
        """The run is over, everything is there, and each step counts once."""
        trail = self.trail()
        assert trail[-1].status == Status.COMPLETED
        assert [e.step for e in trail if e.kind == Kind.RESULT] == ["a", "b", "c", "sub", "f"]
        assert self.recorded("run//sub") == ["d", "e"]
        assert all(map(self.right, STEPS))

    def check_end(self) -> None:
        """The run is whole, and nothing is left to do."""
        self.check_whole()
        self.take_notes()
        assert not self.carry_out()
        assert [(note["what"], note["result"]) for note in self.take_notes()] == [("ended", RESULT)]


@pytest.fixture
def server() -> ForkServer:
    return fork_server("tests.crash.repair_worker")


def test_a_kill_at_any_fault_point_of_going_back_repeats_nothing_that_holds(
    tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    place = Place(tmp_path, "sqlite", server)
    place.carry_out()
    place.take_notes()
    (place.desk / "e").unlink()
    place.keep()
    for point in range(1, MOST_POINTS):
        killed = place.carry_out(kill_at=point)
        first = place.begun()
        rollbacks = [e for e in place.trail() if e.kind == Kind.ROLLBACK]
        assert rollbacks or not first, "written before anything is run again"
        assert all(CheckpointInfo(e).meta.rejected for e in rollbacks)
        holds = place.holding()
        assert not place.carry_out()
        second = place.begun()
        assert set(first + second) == {"e", "f"}, "a, b, c and d hold all the time"
        assert not set(second) & set(holds)
        place.check_whole()
        if not killed:
            place.check_end()
            assert point > 10, f"only {point} fault points"
            survived("kills at fault points", point - 1)
            return
        place.restore()
    raise AssertionError("there is no end to it")


def test_kills_at_any_time_while_files_come_and_go(
    tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    seed = first_seed()
    rng = random.Random(seed)
    place = Place(tmp_path, "sqlite", server)
    kills = 0
    for _ in range(setting("HOLDFAST_REPAIRS", 10)):
        for name in rng.sample(STEPS, rng.randrange(3)):
            harm = rng.choice(["delete", "change", "restore"])
            if harm == "delete":
                (place.desk / name).unlink(missing_ok=True)
            else:
                (place.desk / name).write_text("forged" if harm == "change" else f"this is {name}")
        holds = place.holding()
        pid = place.start(pace=0.004, blocking=rng.random() < 0.5)
        time.sleep(rng.uniform(0, 0.1))
        os.kill(pid, signal.SIGKILL)
        kills += place.wait(pid)
        assert not set(place.begun()) & set(holds), f"seed {seed}"
    assert kills, "nobody was killed"
    assert not place.carry_out()
    place.check_end()
    survived("kills", kills)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_two_that_go_back_in_the_same_run_at_once_do_not_get_in_each_others_way(
    kind: str, tmp_path: Path, server: ForkServer
) -> None:
    """The later claim has the run, and the other hears of it with its next save."""
    rng = random.Random(first_seed())
    place = Place(tmp_path, kind, server)
    place.carry_out()
    for _ in range(setting("HOLDFAST_REPAIRS", 10) // 5):
        (place.desk / "c").unlink()
        place.take_notes()
        workers = [place.start(pace=0.002, blocking=rng.random() < 0.5) for _ in range(2)]
        for pid in workers:
            assert not place.wait(pid)
        notes = place.take_notes()
        ends = [note for note in notes if note["what"] in ("ended", "lost")]
        assert len(ends) == 2
        assert {note["result"] for note in ends if note["what"] == "ended"} == {RESULT}
        begun = [note["step"] for note in notes if note["what"] == "begin"]
        assert not {"a", "b"} & set(begun)
        assert all(begun.count(name) <= 2 for name in begun), "once each, at the most"
        place.check_end()
