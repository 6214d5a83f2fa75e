"""Answers of types that JSON lacks: given as JSON or as values, and checked before they count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pydantic
import pytest

import holdfast as hf
from holdfast.codec.registry import Coded
from holdfast.engine.people.questions import inquiry_of
from holdfast.workflow import ask, workflow
from tests.own_codecs import no_codecs, own_codecs


class Money:
    def __init__(self, cents: int, currency: str) -> None:
        self.parts = [cents, currency]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.parts == other.parts

    def __repr__(self) -> str:
        return f"Money{self.parts}"

    def __hash__(self) -> int:
        return hash(tuple(self.parts))


class Point(NamedTuple):
    x: int
    label: str = ""


@dataclass
class Bill:
    amount: Decimal
    due: date | None = None


class Leg(pydantic.BaseModel):
    day: date
    back: date | None = None


class Trip(pydantic.BaseModel):
    legs: list[Leg]
    code: str = pydantic.Field(default="x", pattern="^x")


@pytest.fixture
def money() -> Iterator[None]:
    with own_codecs():
        hf.register_codec(Money, "shop.money", lambda m: m.parts, lambda data: Money(*data))
        yield


def _asked(engine: hf.Engine, kind: Any) -> Any:
    @workflow("asks")
    async def asks() -> Any:
        answer = await ask("Which?", returns=kind)
        return type(answer).__name__, repr(answer)

    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asks(), run_id="r")
    return asks


ID = UUID(int=7)
DAY = date(2026, 1, 31)


@pytest.mark.parametrize(
    ("kind", "given", "taken"),
    [
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 1.1, Decimal("1.1")),
        (Decimal, 3, Decimal(3)),
        (Decimal, Decimal("2.5"), Decimal("2.5")),
        (date, "2026-01-31", date(2026, 1, 31)),
        (datetime, "2026-01-31T09:30:00", datetime(2026, 1, 31, 9, 30)),
        (time, "09:30", time(9, 30)),
        (timedelta, "P1DT2H", timedelta(days=1, hours=2)),
        (timedelta, 90, timedelta(seconds=90)),
        (UUID, str(ID), ID),
        (UUID, ID, ID),
        (Decimal | None, None, None),
        (Decimal | None, "1", Decimal(1)),
        (int, 3.0, 3),
        (Literal[1, 2], 1.0, 1),
        (list[Decimal], ["1", "2"], [Decimal(1), Decimal(2)]),
        (list[int], (1, 2), [1, 2]),
        (dict[str, date], {"a": "2026-01-31"}, {"a": date(2026, 1, 31)}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2, 2], {1, 2}),
        (Set[int], [1, 2, 2], {1, 2}),
        (Sequence[Decimal], ["1"], [Decimal(1)]),
        (bytes, b"ab", b"ab"),
        (Bill, {"amount": "9.99", "due": "2026-01-31"}, Bill(Decimal("9.99"), date(2026, 1, 31))),
        (Bill, Bill(Decimal(1)), Bill(Decimal(1))),
        (Point, [1, "a"], Point(1, "a")),
        (Leg, {"day": "2026-01-31"}, Leg(day=date(2026, 1, 31))),
        (Leg, Leg(day=date(2026, 1, 31)), Leg(day=date(2026, 1, 31))),
        (Trip, {"legs": [{"day": "2026-01-31"}]}, Trip(legs=[Leg(day=date(2026, 1, 31))])),
        (Trip, Trip(legs=[Leg(day=DAY, back=DAY)]), Trip(legs=[Leg(day=DAY, back=DAY)])),
    ],
)
def test_an_answer_in_its_json_form_or_as_a_value_comes_as_the_type_asked_for(
    kind: Any, given: Any, taken: Any
) -> None:
    with hf.Engine("memory://") as engine:
        asks = _asked(engine, kind)
        engine.answer_sync("r", given)
        result = engine.resume_sync("r", flow=asks)
    assert result == (type(taken).__name__, repr(taken))


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (Decimal, "abc", "a Decimal such as \"1.50\", not 'abc'"),
        (Decimal, True, "a Decimal"),
        (date, "notadate", "a date such as"),
        (datetime, 5, "a datetime such as"),
        (time, "25:00", "a time such as"),
        (timedelta, "P", "a timedelta such as"),
        (UUID, "7", "a UUID such as"),
        (bytes, "abc", "base64"),
        (list[date], ["x"], r"answer\[0\] must be a date"),
        (dict[str, int], {"a": "x"}, "must be of type integer"),
        (tuple[int, str], ["a", 1], "must be of type integer"),
        (set[int], ["a"], "must be of type integer"),
        (set[int], "a", "must be a set"),
        (Point, ["a"], "must be of type integer"),
        (Bill, {"amount": "1", "more": 1}, "more"),
        (Leg, {"day": "x"}, r"answer\.day must be a date"),
        (Trip, {"legs": [{"day": "x"}]}, "must be a date"),
        (Decimal | None, "x", "a Decimal .* or .* null"),
        (Sequence[int], {"a": 1}, "must be of type array"),
        (Sequence[int], ["a"], "must be of type integer"),
        (Mapping[str, date], {"a": "x"}, "must be a date"),
        (Set[int], [1, "a"], "must be of type integer"),
    ],
)
def test_an_answer_that_is_not_of_the_type_is_refused_and_the_question_stays_open(
    kind: Any, given: Any, words: str
) -> None:
    with hf.Engine("memory://") as engine:
        _asked(engine, kind)
        with pytest.raises(hf.InvalidAnswerError, match=words):
            engine.answer_sync("r", given)
        assert len(list(engine.questions_sync("r"))) == 1


class Name(str):
    __slots__ = ()


class Plain:
    pass


@pytest.mark.parametrize("kind", [Plain, list[Plain], Plain | None, Path, Callable[[], int]])
def test_a_type_that_no_answer_can_become_is_refused_when_it_is_asked_for(kind: Any) -> None:
    for schema in (None, {"type": "object"}):
        with pytest.raises(TypeError, match=r"^no answer can become a \w+: ask for a dataclass"):
            inquiry_of("ask", "Which?", {"returns": kind, "schema": schema})


@pytest.mark.parametrize("kind", [Any, object, Sequence[int], Hashable, Name, bytearray, complex])
def test_any_type_that_an_answer_can_become_may_be_asked_for(kind: Any) -> None:
    assert inquiry_of("ask", "Which?", {"returns": kind}).schema is not None


def test_an_answer_for_a_subclass_of_a_plain_type_has_to_be_of_that_type() -> None:
    with hf.Engine("memory://") as engine:
        asks = _asked(engine, Name)
        with pytest.raises(hf.InvalidAnswerError, match="must be of type string"):
            engine.answer_sync("r", {"a": 1})
        engine.answer_sync("r", "Ann")
        assert engine.resume_sync("r", flow=asks) == ("Name", "'Ann'")


def test_a_default_is_a_value_of_the_type() -> None:
    inquiry_of("ask", "How much?", {"returns": Decimal, "deadline": 60, "default": Decimal(1)})
    with pytest.raises(ValueError, match="the default must be a Decimal"):
        inquiry_of("ask", "How much?", {"returns": Decimal, "deadline": 60, "default": "x"})


def test_an_answer_that_a_codec_stores_is_given_as_a_value(money: None) -> None:
    with hf.Engine("memory://") as engine:
        asks = _asked(engine, Money)
        with pytest.raises(hf.InvalidAnswerError, match=r"must be a Money, .* answer from Python"):
            engine.answer_sync("r", [4, "EUR"])
        with pytest.raises(hf.InvalidAnswerError, match="refused the stored data"):
            engine.answer_sync("r", Coded("shop.money", 4))
        engine.answer_sync("r", Money(4, "EUR"))
        assert engine.resume_sync("r", flow=asks) == ("Money", "Money[4, 'EUR']")


def test_a_process_without_the_codec_may_answer_with_what_it_stores(money: None) -> None:
    with hf.Engine("memory://") as engine:
        asks = _asked(engine, Money)
        with no_codecs():
            engine.answer_sync("r", Coded("shop.money", [4, "EUR"]))
        assert engine.resume_sync("r", flow=asks) == ("Money", "Money[4, 'EUR']")
