"""Every system call of a save and a prune is killed at, or fails, once: nothing acknowledged is lost."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.conftest import Survived
from tests.crash import tracing
from tests.crash.disk import Choice, Disk, Event, events, follow_all
from tests.crash.harness import (
    ROOT,
    RUNS,
    ForkServer,
    first_seed,
    fork_server,
    judge,
    url_of,
)
from tests.crash.history import Violation, check, dump, read_history
from tests.crash.worker import COULD_NOT_OPEN
from tests.effort import some

CHANGING = (
    "write", "pwrite64", "ftruncate", "fsync", "fdatasync", "rename", "renameat", "renameat2", "link",
    "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir",
)  # fmt: skip
ONE_IN = (
    3  # calls that are tried in a short test run; one that is made once, in a third of the runs
)
SYNCS = ("fsync", "fdatasync")
TYPED = tuple(hf.errors.__all__)
NOTHING_UNSURE = Choice(random.Random(0), keep=0)
KINDS = pytest.mark.parametrize("kind", ["sqlite", "file"])
OPS = pytest.mark.parametrize("op", ["save", "prune", "clear"])


class Bench:
    """A store with a past, copied for every try, and a worker that does one thing to it."""

    def __init__(self, kind: str, op: str, where: Path, server: ForkServer) -> None:
        self.kind, self.op, self.where, self.server = kind, op, where, server
        past = where / "past"
        past.mkdir()
        status = server.wait(
            server.start(
                url=url_of(kind, past), oracle=str(past / "oracle"), worker="past", runs=RUNS[:1],
                lanes=1, ops=12 if kind == "sqlite" else 5, only=["save"],
            )
        )  # fmt: skip
        assert status == 0, server.errors()

    def attempt(self, *inject: str, **job: Any) -> Try:
        place = self.where / "try"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.where / "past", place)
        before = Disk(place, ROOT)
        status = tracing.attach(
            self.server, self.where / "log", inject, url=url_of(self.kind, place),
            oracle=str(place / "oracle"), worker="try", runs=RUNS[:1],
            **{"lanes": 1, "ops": 1, "only": [self.op], "deadline": 0.25, **job},
        )  # fmt: skip
        return Try(self.kind, place, status, before, list(events(self.where / "log")))


class Try:
    """What came of it."""

    def __init__(
        self, kind: str, place: Path, status: int, before: Disk, calls: list[Event]
    ) -> None:
        self.status = status
        self.calls = calls
        self._kind, self._place, self._before = kind, place, before

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [line for line in read_history(self._place / "oracle") if line["id"][:3] == "try"]

    def violations(self) -> list[Violation]:
        """Held against the store as it is, and as it would be had the power failed at the end."""
        disk = follow_all(self._before, self.calls)
        url = url_of(self._kind, self._place)
        found = judge(url, self._place / "oracle")
        history = read_history(self._place / "oracle")
        image = self._place.parent / "image"
        shutil.rmtree(image, ignore_errors=True)
        disk.image(NOTHING_UNSURE, image)
        with hf.SyncCheckpointer(url_of(self._kind, image)) as checkpointer:
            after = check(history, dump(checkpointer))
        found += [v._replace(detail=f"after a power loss: {v.detail}") for v in after]
        with hf.SyncCheckpointer(url) as checkpointer:
            saved = checkpointer.save(RUNS[0], {"usable": "again"})
            assert checkpointer.load(RUNS[0]) == saved
        return found


@pytest.fixture
def server() -> ForkServer:
    return fork_server()


def _counts(calls: list[Event]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in calls:
        if event.call in CHANGING:
            counts[event.call] = counts.get(event.call, 0) + 1
    return counts


@KINDS
@OPS
def test_a_kill_before_any_system_call_loses_nothing_acknowledged(
    kind: str, op: str, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    bench = Bench(kind, op, tmp_path, server)
    clean = bench.attempt()
    assert clean.status == 0
    assert [line["phase"] for line in clean.answers] == ["begin", "ack"]
    counts = _counts(clean.calls)
    assert sum(counts.values()) >= 4, "the trace saw the store being written"
    seed, killed, tries = first_seed(), 0, 0
    for call, count in counts.items():
        for k in some(range(1, count + 1), ONE_IN, seed):
            tries += 1
            tried = bench.attempt(f"{call}:signal=SIGKILL:when={k}")
            killed += tried.status == -signal.SIGKILL
            found = tried.violations()
            what = f"HOLDFAST_SEED={seed} killed before {call} {k}"
            assert not found, f"{what}: {list(map(str, found))}"
    assert killed >= tries - 2, "nearly every call was reached"
    survived("kills before system calls", killed)


@KINDS
@OPS
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_no_system_call_that_fails_makes_a_false_acknowledgement(
    kind: str, op: str, error: str, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    bench = Bench(kind, op, tmp_path, server)
    clean = bench.attempt()
    counts = _counts(clean.calls)
    notes = _notes(clean.calls)
    seed, tries, problems = first_seed(), 0, list[str]()
    for call, count in counts.items():
        for k in some(range(1, count + 1), ONE_IN, seed):
            if (call, k) in notes:
                continue
            for from_then_on in ("", "+") if call in SYNCS and error == "EIO" else ("",):
                tries += 1
                tried = bench.attempt(f"{call}:error={error}:when={k}{from_then_on}")
                what = f"{call} {k}{from_then_on} {error}"
                if tried.status == COULD_NOT_OPEN:
                    problems += [f"{what}: {violation}" for violation in tried.violations()]
                    continue
                if tried.status:
                    problems.append(f"{what}: the worker died: {server.errors()[-300:]}")
                    continue
                answer = tried.answers[-1]
                if answer["phase"] != "ack" and not answer["error"].startswith(TYPED):
                    problems.append(f"{what}: {answer['error']}")
                problems += [f"{what}: {violation}" for violation in tried.violations()]
    assert not problems, "\n".join([f"HOLDFAST_SEED={seed}", *problems])
    survived("failing system calls", tries)


def _notes(calls: list[Event]) -> set[tuple[str, int]]:
    """Which writes are the worker's own notes: those are not to be tampered with."""
    writes = [event for event in calls if event.call == "write"]
    return {("write", k) for k, event in enumerate(writes, 1) if b'"phase"' in event.text(1)}
