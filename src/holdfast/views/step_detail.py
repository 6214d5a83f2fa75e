"""One step of a run: its attempts with their errors, its result, its output, what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.meta import Meta
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError
from holdfast.errors.base import meant
from holdfast.integrations.langgraph import plain
from holdfast.model import CARRY_STATE, Entry, Kind
from holdfast.operations.answers import DEADLINE
from holdfast.views import threads
from holdfast.views.errors import NotFoundError
from holdfast.views.steps import PROBLEMS, Attempt, Execution, Steps

_OUTPUTS: Final = 200  # that are read; there may be one for each word of a model


class Tried(NamedTuple):
    """An attempt, with the error that ended it."""

    number: int
    outcome: str
    start: datetime | None
    end: datetime | None
    seconds: float | None
    error_type: str = ""
    message: str = ""
    trace: str = ""


class Output(NamedTuple):
    """Something that the step put out before it was finished."""

    at: datetime
    value: Any  # in JSON's form


class Claim(NamedTuple):
    """What the step claims about the world."""

    type: str
    description: str


class Answer(NamedTuple):
    """What a question was answered with."""

    value: Any  # in JSON's form, without what looks like a secret
    by: str | None  # None: nobody said who, or the deadline passed
    at: datetime


class Detail(NamedTuple):
    """All that is recorded about one execution of a step."""

    execution: Execution
    attempts: list[Tried]
    has_value: bool
    value: Any  # in JSON's form: its result, or the state after it; or what was asked
    outputs: list[Output]
    output_count: int
    claims: list[Claim]
    kind: str  # of the entry that tells its outcome; "" while there is none
    rounds: list[Execution]  # of the same step, this one included
    damage: str = ""  # why something can't be shown
    before: int | None = None  # the seq of the state that it began with
    answer: Answer | None = None

    def document(self) -> dict[str, Any]:
        """As `holdfast show --step --json` has it."""
        one = self.execution
        return {
            "step": one.key,
            "name": one.name,
            "status": one.status,
            "seq": one.seq,
            "took": one.took,
            "child": one.child,
            "attempts": [attempt._asdict() for attempt in self.attempts],
            "result": self.value,
            "answer": None if self.answer is None else self.answer._asdict(),
            "outputs": [output._asdict() for output in self.outputs],
            "claims": [claim._asdict() for claim in self.claims],
            "rounds": len(self.rounds),
            "damage": self.damage or None,
        }


def choose(steps: Steps, step: str, at: int | None = None) -> Sequence[Execution]:
    """The executions of a step, by its key or name: the one to show is the last of them.

    Of the items of a `for_each`, or the parts of a step, it is one that failed in the end, if any
    did. With `at`, only the one whose entry has this seq. Raises `NotFoundError`.
    """
    same = [one for one in steps.executions if one.key == step]
    same = same or [one for one in steps.executions if one.name == step]
    same = same or [one for one in steps.executions if one.group == step]
    found = [one for one in same if at is None or one.seq == at]
    if not found:
        where = "" if at is None else f" at {at}"
        known = () if same else {one.group for one in steps.executions}
        lead = meant(step, known)
        raise NotFoundError(f"run {steps.run_id!r} has no step {step!r}{where}{lead}")
    current = [one for one in found if one.current]
    last = {one.key: one for one in current}
    current.sort(key=lambda one: one is last[one.key] and one.status in PROBLEMS)
    return [*(one for one in found if not one.current), *current] if current else found


def detail_of(
    cp: SyncCheckpointer, info: RunInfo, steps: Steps, step: str, at: int | None = None
) -> Detail:
    """What is recorded about a step. Damage is reported in the result. Raises `NotFoundError`."""
    one = choose(steps, step, at)[-1]
    rounds = [other for other in steps.executions if other.group == one.group]
    if one.kind == "damage":
        return Detail(one, [], False, None, [], 0, [], "", rounds, one.note)
    reading = _Reading(cp, info.run_id)
    attempts = [_tried(reading, number, each) for number, each in enumerate(one.attempts, 1)]
    entry = None if one.seq is None else reading.entry(one.seq)
    has_value, value = _value(reading, cp, info, entry)
    shown = one.outputs[-_OUTPUTS:]
    outputs = [Output(*found) for seq in shown if (found := reading.output(seq)) is not None]
    return Detail(
        one,
        attempts,
        has_value,
        value,
        outputs,
        len(one.outputs),
        [] if entry is None else list(_claims(entry)),
        "" if entry is None else entry.kind,
        rounds,
        reading.damage,
        None if entry is None else entry.parent,
        None if one.answer is None else reading.answer(one.key, one.answer),
    )


class _Reading:
    """Reads entries and values of a run; what is damaged is noted."""

    def __init__(self, cp: SyncCheckpointer, run_id: str) -> None:
        self._journals = cp.core.journals
        self._run_id = run_id
        self.damage = ""

    def entry(self, seq: int) -> Entry | None:
        try:
            return self._journals.entry(self._run_id, seq)
        except CheckpointCorruptedError as error:
            self.damage = self.damage or str(error)
            known: Entry | None = error.entry
            return known

    def value(self, seq: int) -> Any:
        try:
            return self._journals.value(self._run_id, seq, as_data=True)
        except CheckpointCorruptedError as error:
            self.damage = self.damage or str(error)
            return None

    def output(self, seq: int) -> tuple[datetime, Any] | None:
        entry = self.entry(seq)
        if entry is None:
            return None
        return to_datetime(entry.at), readable.to_json(self.value(seq))

    def answer(self, question: str, seq: int) -> Answer | None:
        entry = self.entry(seq)
        if entry is None:
            return None
        by = Meta(entry).by
        value = redacted({question: readable.to_json(self.value(seq))})[question]
        return Answer(value, None if by == DEADLINE else by, to_datetime(entry.at))


def _tried(reading: _Reading, number: int, attempt: Attempt) -> Tried:
    start = None if attempt.start is None else to_datetime(attempt.start)
    end = None if attempt.end is None else to_datetime(attempt.end)
    seconds = None
    if attempt.start is not None and attempt.end is not None and attempt.outcome != "cut off":
        seconds = (attempt.end - attempt.start) / 1e6
    made = Tried(number, attempt.outcome, start, end, seconds)
    if attempt.outcome != "failed" or attempt.seq is None:
        return made
    told = reading.value(attempt.seq)
    if not isinstance(told, dict):
        return made
    return made._replace(
        error_type=str(told.get("type", "")),
        message=str(told.get("message", "")),
        trace=str(told.get("trace", "")),
    )


def _value(
    reading: _Reading, cp: SyncCheckpointer, info: RunInfo, entry: Entry | None
) -> tuple[bool, Any]:
    """The value of the entry that ended a step, in JSON's form."""
    if entry is None or not entry.size or entry.kind == Kind.FAIL:
        return False, None
    if entry.kind not in CARRY_STATE:
        return True, readable.to_json(reading.value(entry.seq))
    if info.flow == threads.FLOW and entry.kind == Kind.CHECKPOINT:
        try:
            loaded = cp.load(info.run_id, seq=entry.seq)
        except CheckpointCorruptedError as error:
            reading.damage = reading.damage or str(error)
            return False, None
        channels = None if loaded is None else threads.channels_of(loaded)
        if channels is not None:
            return True, channels
    found = reading.value(entry.seq)
    if info.flow == threads.FLOW:
        try:
            return True, [{name: readable.to_json(one)} for name, one in plain.writes(found)]
        except ValueError:
            pass
    return True, readable.to_json(found)


def _claims(entry: Entry) -> Iterable[Claim]:
    try:
        packs = Meta(entry).evidence
    except CheckpointCorruptedError:
        return
    for pack in packs:
        listed = pack.get("evidence_list", []) if isinstance(pack, dict) else []
        for claim in listed if isinstance(listed, list) else []:
            if isinstance(claim, dict):
                kind, told = claim.get("evidence_type", ""), claim.get("description", "")
                yield Claim(str(kind), str(told))
