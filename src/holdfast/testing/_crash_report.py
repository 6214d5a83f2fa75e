"""What a crash test found out, for programs and for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from holdfast.operations.diff import diff_values

_DETAILED: Final = 3  # different problems of one kind that are told in full
_CHANGES: Final = 5  # lines of one difference

_HINTS: Final = {
    "unlike": (
        "Such a flow can't be compared with itself. Where the difference is meant to be (a time, a "
        "random id), say what is not compared: {advice}."
    ),
    "outcome": (
        "A resumed run has what was recorded, and nothing else. Look for what the flow keeps "
        "elsewhere (a global, an attribute, a closure, an object that a step changes), and for "
        "times, random numbers and answers of the outside world that it takes outside of a step."
    ),
    "value": (
        "A step's result depends on something that is neither recorded nor passed to it: a global, "
        "an attribute, a closure, the time, or what the killed process left behind. If it is meant "
        "to differ from run to run, name the step in varying=."
    ),
    "world": (
        "No step was under way at the crash: what happened twice, or not at all, is not in a step. "
        "The flow's own code runs again when a run is resumed; put its effects into steps."
    ),
    "again": "A recorded step must never be executed again: please report this as a bug in holdfast.",
    "resume": "After this crash the run could not be resumed.",
}


@dataclass(frozen=True)
class CrashProblem:
    """One way in which a crash changed what the flow does."""

    kind: str  # unlike, outcome, value, world, again, resume
    what: str
    details: tuple[str, ...] = ()
    step: str = ""  # whose result it is about


@dataclass(frozen=True)
class Crash:
    """One run of the flow that was killed, and resumed in a new process."""

    point: int
    where: str  # in words: "after 'fetch', before it was recorded"
    repeated: tuple[str, ...]  # steps in flight at the crash that were executed again
    problems: tuple[CrashProblem, ...]


@dataclass(frozen=True)
class CrashReport:
    """What `crash_at_every_step` found. `str()` is for people."""

    flow: str
    points: int  # where the flow can be killed
    crashes: tuple[Crash, ...]
    unlike: tuple[CrashProblem, ...] = ()  # how two undisturbed runs differ

    @property
    def ok(self) -> bool:
        """Whether it was killed, and no crash changed anything."""
        return (
            bool(self.crashes)
            and not self.unlike
            and not any(crash.problems for crash in self.crashes)
        )

    @property
    def repeated(self) -> dict[str, int]:
        """By step, how many crashes made it begin twice: it was in flight, and not recorded."""
        return dict(Counter(step for crash in self.crashes for step in crash.repeated))

    def __str__(self) -> str:
        return "\n".join(self._unlike() if self.unlike else self._told())

    def _unlike(self) -> list[str]:
        lines = [f"{self.flow}: two runs that nobody disturbed differ"]
        for problem in self.unlike:
            lines += ["", f"  {problem.what}", *(f"    {line}" for line in problem.details)]
        return [*lines, "", _HINTS["unlike"].format(advice=", ".join(self._advice()))]

    def _advice(self) -> Iterator[str]:
        """The options that leave out what differs between two undisturbed runs."""
        steps = {step_name(problem.step): None for problem in self.unlike if problem.step}
        if steps:
            yield f"varying={list(steps)!r}"
        kinds = {problem.kind for problem in self.unlike}
        if "outcome" in kinds:
            yield "view= (returns what of the result must be equal)"
        if "world" in kinds:
            yield "ignore= (patterns of files), or less in observe="

    def _told(self) -> list[str]:
        bad = [crash for crash in self.crashes if crash.problems]
        count = len(self.crashes)
        if not count:
            return [f"{self.flow}: it was never killed, so nothing is known of its crashes"]
        lines = [f"{self.flow}: {len(bad)} of {count} crashes changed what it does"]
        if not bad:
            lines = [f"{self.flow}: killed {count} times and resumed, with the same outcome"]
        if count < self.points:
            lines[0] += f" ({self.points} points in all; see limit=)"
        kinds = {problem.kind: problem for crash in bad for problem in crash.problems}
        for kind in kinds:
            lines += self._of_kind(kind, bad)
        if self.repeated:
            steps = ", ".join(f"{step} ({times}×)" for step, times in self.repeated.items())
            lines += ["", f"In flight at a crash, and so begun twice: {steps}"]
        return lines

    def _of_kind(self, kind: str, bad: Sequence[Crash]) -> list[str]:
        """The problems of one kind, each with the crashes that it came after."""
        places: dict[CrashProblem, list[str]] = {}
        for crash in bad:
            for problem in crash.problems:
                if problem.kind == kind:
                    places.setdefault(problem, []).append(crash.where)
        lines = []
        for problem, where in islice(places.items(), _DETAILED):
            lines += ["", f"  {problem.what}", *(f"    {line}" for line in problem.details)]
            lines += [f"  killed {place}" for place in where]
        if len(places) > _DETAILED:
            lines += ["", f"  and {len(places) - _DETAILED} other differences"]
        return [*lines, "", _HINTS[kind]]


class CrashTestError(AssertionError):
    """A crash changed what the flow does. `report` says where, and how."""

    def __init__(self, report: CrashReport) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return str(self.report)


def step_name(key: str) -> str:
    """A step's key without what counts its calls: `stamp` of `stamp#2` and of `stamp[0]`."""
    return re.sub(r"(?:#[0-9]+|\[[0-9]+\])+$", "", key)


def difference(old: Any, new: Any) -> tuple[str, ...]:
    """The changes from an undisturbed run to another one, a line for each."""
    changes = diff_values({"it": old}, {"it": new}).changes
    lines = [re.sub(r"^(. )it(?:: |\.|(?=\[))", r"\1", str(change)) for change in changes]
    more = len(lines) - _CHANGES
    return (*lines[:_CHANGES], *([f"and {more} more"] if more > 0 else []))
