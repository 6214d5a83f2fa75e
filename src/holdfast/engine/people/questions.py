"""What a flow asks people, as it is recorded, and what those who answer get to see of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, TypedDict

from holdfast.checkpoint import to_datetime, to_micros
from holdfast.codec import cards, values
from holdfast.engine.blocking import check_options
from holdfast.engine.people.converting import as_asked
from holdfast.engine.people.fitting import check_schema, problems_with
from holdfast.engine.people.schema import schema_of
from holdfast.engine.program import Record
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry, Kind, check_id
from holdfast.operations.answers import DEADLINE as DEADLINE


class Fails(Enum):
    """What comes of a question that nobody answered in time and that has no default."""

    FAIL = "fail"

    def __repr__(self) -> str:
        return self.name


FAIL: Final = Fails.FAIL
"""The default of a question that has none: if nobody answers in time, its step fails."""


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to "may this continue?"."""

    approved: bool
    comment: str = ""


ANSWERED: Final = "correct the type that the question asks for, then resume"
"""What to do about an answer that does not have its type."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question before it is asked: everything but the run that asks it.

    `schema` is the JSON Schema of the answer, and an empty one allows anything; `choices` narrow
    it down. Only `assignees` may answer; without them anyone may. `deadline` is a timedelta or a
    number of seconds from asking, or a datetime (a naive one is local time); when it passes,
    `default` is the answer, or the question fails. `show` is what people may see of the state, as data.
    """

    prompt: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    choices: Iterable[Any] | None = None
    assignees: Iterable[str] | None = None
    deadline: timedelta | float | datetime | None = None
    default: Any = FAIL
    show: Any = None

    def __post_init__(self) -> None:
        prompt: object = self.prompt
        if not isinstance(prompt, str) or not prompt.strip():
            raise TypeError(f"a question needs a prompt, not {prompt!r}")
        for name in ("assignees", "choices"):
            given: object = getattr(self, name)
            if isinstance(given, str | bytes | Mapping):  # its letters or keys are not meant
                listed = list(given) if isinstance(given, Mapping) else [given]
                such = f", such as {listed!r}" if given else ""
                raise TypeError(f"{name} are given as a list{such}")
        if self.assignees is not None:
            _set(self, "assignees", tuple(check_id("assignee", name) for name in self.assignees))
            if not self.assignees:
                raise ValueError(
                    "assignees is empty: nobody could answer; omit it to let anyone answer"
                )
        check_schema(self.schema)
        schema = dict(self.schema)
        if self.choices is not None:
            _set(self, "choices", tuple(self.choices))
            if not self.choices:
                raise ValueError("choices must offer at least one")
            schema["enum"] = [_plain(choice, "choices") for choice in self.choices]
        _set(self, "schema", schema)
        _check_deadline(self.deadline)
        if self.default is FAIL:
            return
        if self.deadline is None:
            raise ValueError("a default is what is answered when the deadline passes: give one")
        wrong = problems_with(_plain(self.default, "default"), schema, "the default")
        if wrong:
            raise ValueError(wrong)

    def stored(self) -> dict[str, Any]:
        """The value that is recorded for it."""
        stored: dict[str, Any] = {"prompt": self.prompt, "schema": self.schema}
        if self.choices is not None:
            stored["choices"] = list(self.choices)
        if self.assignees is not None:
            stored["assignees"] = list(self.assignees)
        if isinstance(self.deadline, datetime):
            stored["deadline"] = to_micros(self.deadline)
        elif self.deadline is not None:
            stored["within"] = _seconds(self.deadline)
        if self.default is not FAIL:
            stored["default"] = self.default
        if self.show is not None:
            stored["show"] = self.show
        return stored

    def record(self, key: str, name: str) -> Record:
        """What goes into the journal, to ask it under this key."""
        return Record(Kind.QUESTION, key, self.stored(), name=name)


class QuestionOptions(TypedDict, total=False):
    """What users may say about a question: see `Inquiry`. `returns` is the answer's type."""

    returns: Any
    schema: Mapping[str, Any] | None
    choices: Iterable[Any] | None
    assignees: Iterable[str] | None
    deadline: timedelta | float | datetime | None
    default: Any


def inquiry_of(verb: str, prompt: str, options: QuestionOptions, show: Any = None) -> Inquiry:
    """The question that these options of `verb` make. Raises `TypeError` and `ValueError`."""
    check_options(verb, options, QuestionOptions.__annotations__)
    returns, schema, choices = options.get("returns"), options.get("schema"), options.get("choices")
    of_type = {} if returns is None else schema_of(returns)  # raises for what no answer can be
    return Inquiry(
        prompt,
        of_type if schema is None else schema,
        choices,
        options.get("assignees"),
        options.get("deadline"),
        options.get("default", FAIL),
        show,
    )


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a run asks people, and that nobody has answered yet."""

    run_id: str
    key: str  # unique in the run
    prompt: str
    schema: dict[str, Any]  # JSON Schema of the answer; empty: anything
    asked_at: datetime
    choices: tuple[Any, ...] | None = None
    assignees: tuple[str, ...] = ()  # empty: anyone may answer
    deadline: datetime | None = None
    default: Any = FAIL  # what is answered when the deadline passes; FAIL: the question fails
    shown: Any = None

    _repr_html_ = cards.QUESTION

    def is_overdue(self, now: datetime) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and self.deadline <= now

    def is_for(self, name: str) -> bool:
        """Whether this person may answer it."""
        return not self.assignees or name in self.assignees

    def problems_with(self, answer: Any) -> str:
        """Why an answer (plain data) is invalid; empty if it is valid.

        What JSON lacks may be given in its JSON form: `"1.50"` where a Decimal is asked for.
        """
        try:
            check_schema(self.schema)
        except ValueError as error:
            return f"what may be answered can't be checked: {error}"
        return problems_with(self.converted(answer), self.schema)

    def converted(self, answer: Any) -> Any:
        """An answer (plain data) with its parts as the types that are asked for."""
        try:
            return as_asked(answer, self.schema)
        except RecursionError:
            return answer


def asked(entry: Entry, stored: Any) -> Question:
    """The question that an entry records. Raises `CheckpointCorruptedError`."""
    try:
        at = to_datetime(entry.at)
        return Question(
            entry.run,
            str(entry.step),
            _of(str, stored["prompt"]),
            _of(dict, stored["schema"]),
            at,
            tuple(_of(list, stored["choices"])) if "choices" in stored else None,
            tuple(_of(str, name) for name in stored.get("assignees", ())),
            _deadline(stored, at),
            stored.get("default", FAIL),
            stored.get("show"),
        )
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
        raise CheckpointCorruptedError(entry.run, entry.seq, f"no question: {error!r}") from None


def _deadline(stored: dict[str, Any], asked_at: datetime) -> datetime | None:
    if "within" in stored:
        return asked_at + timedelta(seconds=stored["within"])
    return to_datetime(stored["deadline"]) if "deadline" in stored else None


def _of(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value


def _set(inquiry: Inquiry, name: str, value: Any) -> None:
    object.__setattr__(inquiry, name, value)


def _plain(value: Any, root: str) -> Any:
    """A value as a store returns it."""
    return values.decode(values.encode(value, root=root))


def _check_deadline(deadline: object) -> None:
    if deadline is None or isinstance(deadline, datetime):
        return
    if isinstance(deadline, bool) or not isinstance(deadline, timedelta | int | float):
        raise TypeError(
            f"deadline must be a timedelta, a number of seconds or a datetime, not {deadline!r}"
        )
    if not 0 < _seconds(deadline) <= _LONGEST:
        raise ValueError(f"deadline must be from now on and within 100 years, not {deadline!r}")


def _seconds(deadline: timedelta | float) -> float:
    return deadline.total_seconds() if isinstance(deadline, timedelta) else float(deadline)


_LONGEST: Final = timedelta(days=36_525).total_seconds()
