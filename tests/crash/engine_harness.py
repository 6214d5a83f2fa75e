"""Carrying runs to their end through any number of kills."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.engine_check import UNFINISHED, Journal, check, dump, snapshot
from tests.crash.harness import ForkServer, url_of, wait_for_lines
from tests.crash.history import Line, Violation, read_history

STOPS = ("completed", "RunPausedError")
MOST_CYCLES = 400  # for one run; none needs as many


class Outcome(NamedTuple):
    """What one run came to."""

    kills: int
    violations: list[Violation]

    def __str__(self) -> str:
        return "\n".join(map(str, self.violations))


class Notes:
    """The parent's side of the notes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)

    def write(self, line: Line) -> None:
        self._file.write(b"\n" + json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self._file.close()

    def read(self) -> list[Line]:
        return read_history(self.path)


def carry_out(
    server: ForkServer,
    kind: str,
    place: Path,
    flow: str,
    *,
    seed: int,
    kills: int = 1 << 30,
    lines: int = 16,
    points: int = 0,
    mutant: str = "",
    also: Callable[[Path], list[Violation]] | None = None,
    **wanted: Any,
) -> Outcome:
    """Carry a run out with workers that are each killed at a random moment, until it is over.

    The first dies before it has noted `lines` lines. With `points`, half of them die at a random one of so many fault points instead. After each
    kill `also` has a look; what it finds ends it.
    """
    rng = random.Random(seed)
    wanted.setdefault("errors", STOPS)
    place.mkdir(parents=True, exist_ok=True)
    url, run = url_of(kind, place), f"run-{seed}"
    notes = Notes(place / "notes")
    struck, found = 0, list[Violation]()
    journals: dict[str, Journal] = {}
    for _ in range(MOST_CYCLES // 8 if mutant else MOST_CYCLES):
        status = journals[run].status if run in journals else ""
        if run in journals and status not in UNFINISHED:
            break
        spare = struck >= kills
        job = {
            "url": url, "notes": str(notes.path), "run": run, "flow": flow, "n": seed % 7,
            "task": "answer" if status == "paused" else "carry out", "mutant": mutant,
            "mode": rng.choice(("stream", "stream", "stream", "run", "blocking")),
            "kill_at": 0 if spare or not points or rng.random() < 0.5 else rng.randrange(1, points),
        }  # fmt: skip
        size = notes.path.stat().st_size
        pid = server.start(**job)
        if not spare and not job["kill_at"]:
            if rng.random() < 0.8:  # after more and more progress: it does come to an end
                wait_for_lines(notes.path, size, rng.randrange(1, lines + struck), [pid])
            time.sleep(rng.uniform(0, 0.005))
            os.kill(pid, signal.SIGKILL)
        ended = server.wait(pid)
        assert mutant or ended in (0, -signal.SIGKILL), f"seed {seed}: {ended}\n{server.errors()}"
        if ended == -signal.SIGKILL:
            struck += 1
            notes.write({"what": "killed", "run": run, "pid": pid})
        journals = dump(url)
        notes.write(snapshot(journals))
        found = also(place) if also is not None else []
        if mutant and not found:
            found = check(notes.read(), journals, **(wanted | {"ends": ()}))
        if found:
            break
    notes.close()
    violations = found or check(notes.read(), journals, **wanted)
    return Outcome(struck, violations)
