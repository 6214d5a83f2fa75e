"""Losing power again and again over one traced workload."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.crash import tracing
from tests.crash.disk import Choice, Disk, events
from tests.crash.harness import ROOT, RUNS, fork_server, url_of
from tests.crash.history import Violation, check, dump, parse_history

_CHANGES_NOTHING = ("openat", "close")


def lose_power(
    kind: str, where: Path, *, seed: int, states: int, in_order: bool, place: str = ".", **job: Any
) -> list[Violation]:
    """Trace one workload, let the power fail in so many ways, and say what is wrong afterwards."""
    work = where / "work"
    work.mkdir(parents=True)
    server = fork_server()
    status = tracing.attach(
        server, where / "log", url=url_of(kind, work / place), oracle=str(where / "oracle"),
        worker=str(seed), runs=RUNS[:2], **{"lanes": 1, "ops": 8, "sessions": 2, **job},
    )  # fmt: skip
    assert status == 0, server.errors()
    shutil.rmtree(work)
    work.mkdir()
    disk = Disk(work, ROOT)
    calls = list(events(where / "log"))
    rng = random.Random(seed)
    moments = [at for at, event in enumerate(calls) if event.call not in _CHANGES_NOTHING]
    done = 0
    found: list[Violation] = []
    for moment in sorted(rng.choices(moments, k=states)):
        while done <= moment:
            disk.follow(calls[done])
            done += 1
        image = where / "image"
        disk.image(Choice(rng, rng.choice((0.0, 0.1, 0.5, 0.9, 1.0)), in_order), image)
        found += _judge(kind, image / place, b"".join(disk.lines), use=rng.random() < 0.1)
        shutil.rmtree(image)
    assert len(disk.lines) > 2, "the trace saw the history being written"
    return found


def _judge(kind: str, image: Path, lines: bytes, *, use: bool) -> list[Violation]:
    try:
        with hf.SyncCheckpointer(url_of(kind, image)) as checkpointer:
            found = check(parse_history(lines), dump(checkpointer))
            if use:
                checkpointer.save("afterwards", {"n": 1})
    except hf.HoldfastError as error:
        return [Violation("unusable", "*", str(error))]
    return found
