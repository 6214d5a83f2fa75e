"""The shape of a run: what it did, in a strip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import SyncCheckpointer
from holdfast.testing.invariants import entry
from holdfast.views.shapes import LOOKED_AT, Shape, shape_of, strip

SECOND = 1_000_000


@pytest.fixture
def cp() -> Iterator[SyncCheckpointer]:
    with SyncCheckpointer("memory://") as opened:
        yield opened


def written(cp: SyncCheckpointer, *kinds: str, status: str = "running", word: str = "") -> Shape:
    """The shape of a run with entries of these kinds, a second apart; "died" is a claim."""
    entries = []
    for seq, kind in enumerate(kinds):
        facts: dict[str, Any] = {}
        if kind == "died":
            facts = {"why": "died"}
        elif kind == "fail":
            facts = {"of": "attempt", "attempt": 1}
        entries.append(
            entry(
                "run",
                seq,
                kind="claim" if kind == "died" else kind,
                status=status if seq == len(kinds) - 1 else "running",
                at=1_700_000_000 * SECOND + seq * SECOND,
                step="s" if kind in ("result", "fail") else None,
                meta=json.dumps(facts) if facts else "",
            )
        )
    assert all(cp.store.append(entries))
    return shape_of(cp, "run", word or status)


def pieces(shape: Shape) -> str:
    return " ".join(piece.what for piece in shape.pieces)


def test_what_was_done_before_a_crash_is_restored(cp: SyncCheckpointer) -> None:
    shape = written(
        cp, "open", "result", "result", "died", "result", "complete", status="completed"
    )
    assert pieces(shape) == "restored restored crash done"
    assert str(shape) == "3 steps, 1 crash"


def test_failed_attempts_and_waiting_are_seen(cp: SyncCheckpointer) -> None:
    shape = written(cp, "open", "fail", "result", "pause", status="paused")
    assert pieces(shape) == "failed done waits"
    assert (shape.steps, shape.failures) == (1, 1)


def test_a_run_whose_process_died_ends_with_a_gap(cp: SyncCheckpointer) -> None:
    assert pieces(written(cp, "open", "result", word="orphaned")) == "done crash"


def test_steps_of_long_runs_are_counted_up_to_a_limit(cp: SyncCheckpointer) -> None:
    shape = written(cp, "open", *["result"] * (LOOKED_AT + 50))
    assert (shape.steps, shape.whole) == (LOOKED_AT, False)
    assert str(shape) == f"{LOOKED_AT} steps or more"


@pytest.mark.parametrize("steps", [0, 1, 30, 199, 400])
def test_a_strip_never_grows_beyond_its_width(cp: SyncCheckpointer, steps: int) -> None:
    mixed = ["result", "fail"] * (steps // 2)
    bars = strip(written(cp, "open", *mixed), 132)
    assert all(bar.length > 0 for bar in bars)
    ends = [bar.start + bar.length for bar in bars]
    assert ends == sorted(ends)
    assert max(ends) <= 132.5
    assert bars[-1].what == "running"
    assert bars[-1].length >= 5
