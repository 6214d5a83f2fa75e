"""What a journal says about a run that is to go on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from holdfast.engine.people.questions import FAIL
from holdfast.engine.program import Stored
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.reader import is_live
from holdfast.model import CHILD, EVIDENCE, INHERITED, Entry, Kind, Status
from holdfast.operations.reading import outages_named

T = TypeVar("T")
D = TypeVar("D")

_UNHEARD = 1000  # entries: a request is heard with the next save
_PROGRESS = (Kind.RESULT, Kind.CHECKPOINT)

REJECTED = "rejected"
"""In the `meta` of a rollback: the checkpoints that could not be trusted any more, and why."""


class History:
    """The entries that led to a run's head, oldest first. Reading it blocks.

    With `whole`, from the opening on; else from the newest whole state on.
    """

    def __init__(self, core: Core, run: str, *, whole: bool) -> None:
        self._core = core
        self.run = run
        self._whole = whole
        with outages_named(run):
            self._read(core.journals, run, whole)

    def _read(self, journals: Journals, run: str, whole: bool) -> None:
        head = journals.checked_head(run)
        opening = None if head is None or head.status == Status.DELETED else journals.opening(run)
        if head is None or opening is None:
            raise CheckpointNotFoundError(run)
        self.head = head
        self.opening = opening
        first = 0
        if not whole:
            states = (e.seq for e in journals.branch_of(head) if e.kind == Kind.CHECKPOINT)
            first = next(states, 0)
        self._requests = _requests_before(journals, run, first) if first else []
        self.entries = [e for e in journals.trail(run, start=first) if e.seq > opening.seq]

    @property
    def inputs(self) -> Stored:
        """What the run was started with."""
        return self.stored(self.opening)

    @property
    def begun_with(self) -> dict[str, Any]:
        """What its opening says about the flow and the inputs."""
        return meta(self.opening)

    @property
    def epoch(self) -> int:
        """The seq of the newest rollback, or 0: what is done after it is done anew.

        Where checkpoints could not be trusted, steps are repaired rather than done anew.
        """
        return max(map(_epoch_of, self.entries), default=0)

    @property
    def repairs(self) -> bool:
        """Whether the run went back because checkpoints could not be trusted."""
        return any(REJECTED in meta(entry) for entry in self.of(Kind.ROLLBACK))

    @property
    def may_claim(self) -> bool:
        """Whether anything may have been claimed about the world, as far as is known here."""
        claims = any(word in e.meta for e in self.entries for word in (EVIDENCE, INHERITED, CHILD))
        return claims or not self._whole

    @property
    def ending(self) -> bool:
        """Whether nothing is to be done any more but to undo steps."""
        return self.rolling_back() is not None or self.wanted() == "cancel"

    def branch(self) -> Iterable[Entry]:
        """The live checkpoints of the run, newest first; read again only if not all are here."""
        if not self._whole:
            return self._core.journals.branch_of(self.head)
        return [entry for entry in reversed(self.entries) if is_live(entry)]

    def of(self, *kinds: Kind) -> Iterator[Entry]:
        """The entries of these kinds."""
        return (e for e in self.entries if e.kind in kinds)

    def stored(self, entry: Entry) -> Stored:
        """What an entry carries, as it is recorded."""
        journals = self._core.journals
        encoding = journals.chain(entry.run, entry.seq, entry).encoding
        return Stored(encoding, partial(journals.decoded, entry.run, entry.seq))

    def value(self, entry: Entry) -> Any:
        """What an entry carries; None if nothing."""
        return self.stored(entry).value() if entry.size else None

    def answers(self) -> dict[str, Any]:
        """What was answered, by question; FAIL where the deadline passed instead.

        Where the run failed for that, it is asked again.
        """
        found: dict[str, Any] = {}
        for entry in self.of(Kind.QUESTION, Kind.ANSWER, Kind.FAIL):
            facts, key = meta(entry), str(entry.step)
            if entry.kind == Kind.QUESTION:
                found.pop(key, None)
            elif entry.kind == Kind.ANSWER:
                found[key] = answer_in(entry, self.value(entry))
            elif facts.get("of") == "run":
                for failed in (facts.get("step"), facts.get("cause")):
                    if found.get(str(failed)) is FAIL:
                        del found[str(failed)]
        return found

    def deaths(self) -> int:
        """How many workers died since the run last made progress: attempts that left no trace."""
        workers = 1
        for entry in self.entries:
            if _is_stop(entry):
                workers = 0
            elif entry.kind == Kind.CLAIM:
                workers += 1
            elif entry.kind in _PROGRESS:
                workers = min(workers, 1)
        return workers

    def failed_attempts(self) -> dict[str, int]:
        """How often each step failed since the run last stopped, by step."""
        attempts: dict[str, int] = {}
        for entry in self.entries:
            if _is_stop(entry):
                attempts.clear()
            elif entry.kind == Kind.FAIL and meta(entry).get("of") == "attempt":
                attempts[str(entry.step)] = attempts.get(str(entry.step), 0) + 1
        return attempts

    def wanted(self) -> str | None:
        """ "cancel" where someone asked for it and nobody has got to it yet."""
        asked = (*self._requests, *self.of(Kind.REQUEST))
        return "cancel" if any(meta(e).get("action") == "cancel" for e in asked) else None

    def rolling_back(self) -> Entry | None:
        """The failure that the run was being rolled back for, if it was."""
        found = None
        for entry in self.of(Kind.FAIL):
            found = entry if meta(entry).get("of") == "rollback" else found
        return found


def _epoch_of(entry: Entry) -> int:
    if entry.kind == Kind.ROLLBACK and REJECTED not in meta(entry):
        return entry.seq
    return fact(entry, "epoch", int, 0)


def answer_in(entry: Entry, value: Any) -> Any:
    """What an answer's entry says: its value, or FAIL where the deadline passed instead."""
    return FAIL if meta(entry).get("expired") else value


def fact(entry: Entry, name: str, kind: type[T], default: D) -> T | D:
    """One of an entry's extra fields. Raises `CheckpointCorruptedError` where it is none of this kind."""
    found = meta(entry).get(name)
    if found is None:
        return default
    if not isinstance(found, kind):
        words = f"its {name} is no {kind.__name__}"
        raise CheckpointCorruptedError(entry.run, entry.seq, words)
    return found


def meta(entry: Entry) -> dict[str, Any]:
    """An entry's extra fields."""
    try:
        fields = json.loads(entry.meta) if entry.meta else {}
    except (ValueError, RecursionError) as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, f"its metadata: {error}") from None
    if not isinstance(fields, dict):
        raise CheckpointCorruptedError(entry.run, entry.seq, "its metadata is no object")
    return fields


def _requests_before(journals: Journals, run: str, seq: int) -> list[Entry]:
    """What was asked for before this: a checkpoint that was under way then stands behind it."""
    found = []
    before = journals.entries(run, newest_first=True, bodies=False, after=seq)
    for entry in islice(before, _UNHEARD):
        if entry.kind in (Kind.ROLLBACK, Kind.CLAIM, Kind.OPEN):
            break  # what was asked for before that was heard then
        if entry.kind == Kind.REQUEST:
            found.append(entry)
    return found


def _is_stop(entry: Entry) -> bool:
    """Whether nobody was carrying the run out from here on: it had stopped, or was forked or gone back."""
    return entry.status in (Status.PAUSED, Status.FAILED, Status.OPEN)
