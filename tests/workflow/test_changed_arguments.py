"""A recorded step that a replay calls with other arguments is noticed."""

from __future__ import annotations

import dataclasses
import enum
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import values
from holdfast.engine.arguments import digest
from holdfast.engine.events import StepArgumentsChanged
from holdfast.workflow import Workflow, ask, for_each, step, workflow
from tests import strategies


def flow_of(argument: Any) -> Workflow[[], Any]:
    @step
    def use(value: Any, *, more: Any = None) -> str:
        return "used"

    @workflow
    async def child(value: Any) -> str:
        return "child"

    @workflow("flow")
    async def flow() -> str:
        found = [await use(argument), await use(1, more=argument), await child(argument)]
        found += await for_each([1, 2], lambda n: use(n))
        return "".join(found) + await ask("Well?", returns=str)

    return flow


def resumed(store: Path, argument: Any, **options: Any) -> list[Any]:
    with hf.Engine(store) as engine:
        return list(engine.resume_stream_sync("r", flow=flow_of(argument), **options))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with hf.Engine(tmp_path / "runs.db") as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow_of({"a": [1, 2.5, None]})(), run_id="r")
        engine.answer_sync("r", "!")
    return tmp_path / "runs.db"


def changed(events: list[Any]) -> list[str]:
    return [event.step for event in events if isinstance(event, StepArgumentsChanged)]


def test_the_same_arguments_are_no_change(store: Path) -> None:
    events = resumed(store, {"a": [1, 2.5, None]}, strict=True)
    assert changed(events) == []
    assert events[-1].result == "usedusedchildusedused!"


def test_other_arguments_are_an_event_and_a_log_line_and_the_recorded_result_is_used(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        events = resumed(store, {"a": [1, 2.5, 0]})
    assert changed(events) == ["use", "use#2", "child"]
    assert "calls step use#2 with other arguments" in caplog.text
    assert events[-1].result == "usedusedchildusedused!"


def test_strict_refuses_them_and_the_run_can_still_be_resumed(store: Path) -> None:
    with pytest.raises(hf.FlowChangedError, match="'use' was recorded with other arguments"):
        resumed(store, {"a": 2}, strict=True)
    assert resumed(store, {"a": [1, 2.5, None]})[-1].result.endswith("!")


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Place(pydantic.BaseModel):
    x: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "b"),
        (1, 2),
        (1, True),
        (1, "1"),
        (1, 1.0),
        (["a", "b"], ["ab"]),
        ([["a"], "b"], [["a", "b"]]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({1, 2}, {1, 3}),
        (Point(1), Point(2)),
        (Point(1, [1]), Point(1, [2])),
        (Place(x=1), Place(x=2)),
        (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
        (np.float64(1), np.float64(2)),
        (np.zeros(10_000), np.zeros(10_001)),
        (Color.RED, Color.BLUE),
        (b"a", b"b"),
        (None, 0),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
        (Path("a"), Path("b")),
        ("x" * 5000, "x" * 5001),
        (["x" * 3000, "y" * 3000], ["x" * 6000]),
        (list(range(10_000)), list(range(10_001))),
        (len, print),
    ],
)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    assert digest((one,), {}) != digest((other,), {})
    assert digest((), {"n": one}) != digest((), {"n": other})
    assert digest((one, other), {}) != digest((other, one), {})


def test_large_arguments_count_by_type_and_size() -> None:
    assert digest(("x" * 5000,), {}) == digest(("y" * 5000,), {})
    assert digest(("x" * 5000,), {}) != digest((["x"] * 5000,), {})
    assert digest((object(),), {}) == digest((object(),), {})
    itself: list[Any] = []
    itself.append(itself)
    assert digest((itself,), {}) == digest((itself,), {})


@given(strategies.values())
def test_what_comes_back_from_a_store_has_the_digest_it_had(value: Any) -> None:
    assert digest((value,), {}) == digest((values.decode(values.encode(value)),), {})


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert digest((value,), {}) == digest((backwards,), {})
