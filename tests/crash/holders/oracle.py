"""What the processes noted, and whether a step was executed although another execution counted.

Each line is one write(2) to a file that all of them append to, so the order of the lines is the
order of what happened. Steps note when they begin, end and raise. Whoever kills, stops or takes
over notes that *before* doing it: what follows is excused. So is what happens to a process that
the machine did not let run, which it notes itself. Nothing else is.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.engine.holding.slots import BEATS
from tests.crash.history import Line, Violation, parse_history
from tests.waiting import ENOUGH, wait_until

_LATE: Final = 0.3  # seconds: by so much, a thread that wakes up late was kept from running

_fd = -1
_who = ""


def write_to(path: str | os.PathLike[str], who: str) -> None:
    """Let the notes of this process go to a file, under a name that no other process has."""
    global _fd, _who
    if _fd >= 0:
        os.close(_fd)
    _fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _who = who


def note(what: str, run: str = "", step: str = "", **fields: Any) -> None:
    """Note one thing."""
    where = {"run": run, "step": step, "who": _who, "lane": _lane()}
    line = {"what": what, **where, "at": time.monotonic(), **fields}
    os.write(_fd, b"\n" + json.dumps(line, default=repr).encode() + b"\n")


def _lane() -> str:
    """The task that notes something: it does one thing after the other."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no event loop here
        return ""
    return "" if task is None else task.get_name()


@contextmanager
def timed() -> Iterator[None]:
    """Note it if what should take no time takes long."""
    begun = time.monotonic()
    try:
        yield
    finally:
        if time.monotonic() - begun > _LATE:
            note("starved", since=begun)


def watch_for_starvation() -> None:
    """Note, from now on, when this process is not let run on a busy machine."""

    def watch() -> None:
        while True:
            with timed():
                time.sleep(_LATE / 3)

    threading.Thread(target=watch, daemon=True).start()


class Notes:
    """The reader's side, which also notes what it does to the processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._lines: list[Line] = []
        self._at = 0  # the length of what these lines were
        path.chmod(0o666)

    def write(self, what: str, who: str = "", **fields: Any) -> None:
        line = {"what": what, "who": who, "run": "", "step": "", "at": time.monotonic(), **fields}
        self._file.write(b"\n" + json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self._file.close()

    def read(self) -> list[Line]:
        """All lines until now. Those that were read before are not read again."""
        with self.path.open("rb") as file:
            file.seek(self._at)
            whole = file.read().rpartition(b"\n")[0]
        self._at += len(whole)
        self._lines += parse_history(whole)
        return list(self._lines)

    def find(self, what: str, **fields: Any) -> list[Line]:
        """The lines of this kind that have these fields."""
        wanted = {"what": what, **fields}
        return [line for line in self.read() if wanted.items() <= line.items()]

    def wait_for(self, what: str, count: int = 1, seconds: float = ENOUGH, **fields: Any) -> Line:
        """Return the last of so many such lines once they are there."""

        def enough() -> bool:
            return len(self.find(what, **fields)) >= count

        try:
            wait_until(enough, seconds=seconds, every=0.01)
        except TimeoutError as error:
            lines = "\n".join(map(str, self.read()[-40:]))
            raise TimeoutError(f"{error}: {count} x {what} {fields}, but\n{lines}") from None
        return self.find(what, **fields)[count - 1]

    def outcomes(self, who: str | None = None) -> dict[str, list[Line]]:
        """How the calls of one process, or of all, ended, by run."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.find("outcome", **({} if who is None else {"who": who})):
            found[line["run"]].append(line)
        return found


class Attempt:
    """One execution of a step."""

    def __init__(self, line: Line) -> None:
        self.who: str = line["who"]
        self.at: float = line["at"]
        self.ended = False
        self.raised = False
        self.counts = False  # its process went on with the run: the result is recorded


class TakeOver:
    """Someone takes a run over, with all its child runs, at some time until the call is over.

    Other calls of the same process end meanwhile, and often just because of this one: whoever
    resumes a run that a task beside it takes over is refused at once. Until then the holder may
    begin steps, which the take-over makes void: so a call is known by its process and its task.
    """

    def __init__(self, line: Line) -> None:
        self.who: str = line["who"]
        self.lane: str = line["lane"]
        self.over = math.inf

    def voids(self, attempt: Attempt) -> bool:
        return attempt.who != self.who and attempt.at < self.over


class Executions(NamedTuple):
    """What the notes say about the executions of steps."""

    attempts: dict[tuple[str, str], list[Attempt]]
    violations: list[Violation]

    def times(self, step: str | None = None) -> dict[tuple[str, str], int]:
        """How often each step was begun, by run and step."""
        return {
            key: len(tries)
            for key, tries in self.attempts.items()
            if step is None or key[1] == step
        }

    @property
    def repeated(self) -> dict[tuple[str, str], int]:
        """The steps that were begun more than once, and how often."""
        return {key: count for key, count in self.times().items() if count > 1}


def executions(lines: list[Line], dead_after: float) -> Executions:
    """Judge every execution of a step against the earlier ones.

    A step may begin again only if the earlier execution is known to be void: its process was
    killed, stood still so long that its last beat is `dead_after` old, or was starved for half of
    that, or lost the run to someone whose call of `take_over` was under way when it began; or it
    raised, so that nothing was recorded; or it ended while the store was away.
    """
    judge = _Judge(dead_after)
    for line in lines:
        if line["what"] == "starved":  # it says so afterwards
            judge.starved[line["who"]].append((line["since"], line["at"]))
    for line in lines:
        judge.read(line)
    return Executions(judge.attempts, judge.violations)


def _root(line: Line) -> str:
    """The top run of the family that a line is about."""
    return str(line["run"].split("//")[0])


class _Judge:
    def __init__(self, dead_after: float) -> None:
        self.dead_after = dead_after
        self.attempts: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        self.violations: list[Violation] = []
        self.killed: set[str] = set()
        self.stopped: dict[str, list[list[float]]] = defaultdict(list)  # from, to
        self.starved: dict[str, list[tuple[float, float]]] = defaultdict(list)  # from, to
        self.taken: dict[str, list[TakeOver]] = defaultdict(list)  # by the top run
        self.away: dict[str, list[list[float]]] = defaultdict(list)  # the store: from, to
        self.last: dict[tuple[str, str], Attempt] = {}  # by process and run

    def read(self, line: Line) -> None:
        reads: dict[str, Callable[[Line], None]] = {
            "begin": self._begin,
            "end": self._end,
            "raised": self._raised,
            "killing": lambda line: self.killed.add(line["who"]),
            "killed": self._killed,
            "stopping": lambda line: self.stopped[line["who"]].append([line["at"], math.inf]),
            "continued": self._continued,
            "taking over": self._taking_over,
            "tried": self._called,
            "outcome": self._called,
            "store down": lambda line: self.away[line["who"]].append([line["at"], math.inf]),
            "store up": self._store_up,
        }
        if line["what"] in reads:
            reads[line["what"]](line)

    def _begin(self, line: Line) -> None:
        key = line["run"], line["step"]
        for earlier in self.attempts[key]:
            why = self._counts(earlier, line)
            if why:
                said = f"{line['step']}, begun by {earlier.who}, is begun by {line['who']}: {why}"
                self.violations.append(Violation("I17", line["run"], said))
        before = self.last.get((line["who"], line["run"]))
        if before is not None and before.ended:
            before.counts = True
        attempt = self.last[line["who"], line["run"]] = Attempt(line)
        self.attempts[key].append(attempt)

    def _counts(self, earlier: Attempt, line: Line) -> str:
        """Why the earlier execution still counts, if it does."""
        if earlier.counts:
            return "its result was recorded"
        if earlier.raised or earlier.who in self.killed:
            return ""
        if any(each.voids(earlier) for each in self.taken[_root(line)]):
            return ""
        for begun, over in self.stopped[earlier.who]:
            stood = min(over, line["at"]) - begun
            if over > earlier.at and stood >= self.dead_after * (1 - 1 / BEATS):  # after the beat
                return ""
        if self._lost(earlier.who, earlier.at - self.dead_after, line["at"]) > self.dead_after / 2:
            return ""
        cut_off = any(over > earlier.at for each in self.away.values() for _, over in each)
        if cut_off and earlier.ended:
            return ""
        return "it is alive, and " + ("had done it" if earlier.ended else "is at it")

    def _lost(self, who: str, begun: float, over: float) -> float:
        """For how many seconds of this time the machine did not let a process run."""
        lost, end = 0.0, begun
        for since, until in sorted(self.starved[who]):
            since, until = max(since, end), min(until, over)
            if until > since:
                lost, end = lost + until - since, until
        return lost

    def _taking_over(self, line: Line) -> None:
        self.taken[_root(line)].append(TakeOver(line))

    def _called(self, line: Line) -> None:
        for each in self.taken[_root(line)]:
            if (each.who, each.lane) == (line["who"], line["lane"]):
                each.over = min(each.over, line["at"])

    def _killed(self, line: Line) -> None:
        """What it had sent to a server may still be done."""
        for each in (taking for calls in self.taken.values() for taking in calls):
            if each.who == line["who"]:
                each.over = min(each.over, line["at"] + self.dead_after)

    def _end(self, line: Line) -> None:
        self._newest(line).ended = True

    def _raised(self, line: Line) -> None:
        self._newest(line).raised = True

    def _newest(self, line: Line) -> Attempt:
        tries = self.attempts[line["run"], line["step"]]
        return next(one for one in reversed(tries) if one.who == line["who"])

    def _continued(self, line: Line) -> None:
        self.stopped[line["who"]][-1][1] = line["at"]

    def _store_up(self, line: Line) -> None:
        self.away[line["who"]][-1][1] = line["at"]
