"""The steps of a run, as its journal tells of them: attempts, crashes, waits, what was restored.

Made of entries without their bodies, so that a run of 10,000 steps is read at once. What a journal
does not tell is not made up: when a step began is known once it is finished, and which step was cut
off by a crash only if it had recorded something, or by what was finished first afterwards.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PROBLEMS: Final = ("failed", "damaged", "cut off")
"""The statuses of executions that somebody should look at."""


class Attempt(NamedTuple):
    """One time that a step was tried. Times are in microseconds since the epoch."""

    outcome: str  # "completed", "failed", "cut off" or "running"
    start: int | None  # None where that is not known
    end: int | None
    seq: int | None = None  # of the entry that says so


class Execution(NamedTuple):
    """A step that was executed, is being executed, or waits."""

    key: str  # what its entries name it
    name: str  # for people
    group: str  # rounds of a loop, items of a `for_each` and parts of a step have the same
    status: str  # completed, failed, running, waits, asks, answered, void, begun, cut off, ...
    seq: int | None  # of the entry that tells its outcome; None while there is none
    start: int | None
    end: int | None
    took: float | None = None  # seconds
    tried: tuple[Attempt, ...] = ()  # all attempts; empty if there was one, and it succeeded
    child: str | None = None  # the run that it was
    current: bool = True  # False where a rollback left it behind
    outputs: tuple[int, ...] = ()  # the seqs of what it put out
    size: int = 0  # bytes of its result, or of the state after it
    note: str = ""  # what else is to be said
    due: int | None = None  # until when it waits
    kind: str = "step"  # or "question", "sleep", "damage"
    answer: int | None = None  # the seq of the answer to a question

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each time that it was tried."""
        if self.tried or self.status != "completed":
            return self.tried
        return (Attempt("completed", self.start, self.end, self.seq),)

    @property
    def is_problem(self) -> bool:
        """Whether somebody should look at it."""
        return self.status in PROBLEMS or any(
            attempt.outcome != "completed" for attempt in self.tried[:-1]
        )


class Spell(NamedTuple):
    """A time in which one process executed the run."""

    seq: int  # of the opening or claim
    why: str  # "began", "released", "died" or "taken_over": what became of the process before
    host: str
    pid: str
    start: int
    end: int | None = None  # of the last entry that it wrote; None while it executes the run
    ended: str = ""  # "died", "released", "paused", "completed", ...
    restored: int = 0  # steps that it did not execute again
    first: str = ""  # the step that it finished first


class Mark(NamedTuple):
    """Something that happened to the run as a whole."""

    seq: int
    at: int
    kind: str  # "rollback", "request", "pause", "release", "cancel", "fail", "complete", "trim"
    text: str


class Steps(NamedTuple):
    """All that happened in a run."""

    run_id: str
    head: int  # the seq that it was read up to
    began: int
    last: int  # the time of its last entry
    status: str
    executions: tuple[Execution, ...]  # in the order of their entries
    spells: tuple[Spell, ...]
    marks: tuple[Mark, ...]
    items: dict[str, int]  # by group: the seq of the entry that says how many items there are
    deleted: int  # entries of which only a stub is left
    structure: dict[str, object]  # what the flow was made of, as far as that was recorded
    failure: int | None  # the seq of the run's failure
    result: int | None  # the seq of its result

    @property
    def worked(self) -> float:
        """The seconds that all steps took."""
        return sum(one.took or 0.0 for one in self.executions if one.kind == "step")
