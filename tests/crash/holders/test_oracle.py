"""The judge of executions is judged first: what it must report, and what it must excuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.holders.oracle import executions

Told = tuple[str, str] | tuple[str, str, float]


def judged(*told: Told) -> list[str]:
    """The violations in what processes a, b, ... noted of step s of run r, a second each.

    "b/2" is the second task of b: each makes one call at a time.
    """
    lines: list[dict[str, Any]] = []
    for number, (what, who, *at) in enumerate(told):
        when = at[0] if at else float(number)
        since = when - 2.0  # of "starved"
        step = what.partition(":")[2] or "s"
        what = what.partition(":")[0]
        who, _, lane = who.partition("/")
        line = {"what": what, "who": who, "lane": lane, "run": "r", "step": step, "at": when}
        lines.append({**line, "since": since})
    return [violation.detail for violation in executions(lines, 3.0).violations]


DOUBLES: dict[str, list[Told]] = {
    "two at it": [("begin", "a"), ("begin", "b")],
    "done by a living process": [("begin", "a"), ("end", "a"), ("begin", "b")],
    "recorded, then its process was killed": [
        ("begin", "a"), ("end", "a"), ("begin:next", "a"), ("killing", "a"), ("begin", "b"),
    ],
    "recorded, then taken over": [
        ("begin", "a"), ("end", "a"), ("begin:next", "a"), ("taking over", "b"), ("begin", "b"),
    ],
    "another was killed": [("begin", "a"), ("killing", "c"), ("begin", "b")],
    "killed afterwards": [("begin", "a"), ("begin", "b"), ("killing", "a")],
    "stopped too briefly": [
        ("begin", "a"), ("stopping", "a", 1.0), ("begin", "b", 3.4), ("continued", "a", 9.0),
    ],
    "stopped before it began": [
        ("stopping", "a", 0.0), ("continued", "a", 9.0), ("begin", "a", 10.0), ("begin", "b", 11.0),
    ],
    "taken over before it began": [
        ("taking over", "b"), ("tried", "b"), ("begin", "a"), ("begin", "b"),
    ],
    "taken over before it began, while another call was under way": [
        ("calling", "b/2"), ("taking over", "b/1"), ("tried", "b/1"), ("begin", "a"), ("begin", "b"),
    ],
    "taken over long ago by one that was killed": [
        ("taking over", "b"), ("killing", "b"), ("killed", "b", 2.0), ("begin", "a", 6.0),
        ("begin", "c", 7.0),
    ],
    "by another than the one who took over": [
        ("taking over", "b"), ("begin", "b"), ("begin", "a"),
    ],
    "the store was away, and it is still at it": [
        ("begin", "a"), ("store down", ""), ("store up", ""), ("begin", "b"),
    ],
    "the store was away before": [
        ("store down", ""), ("store up", ""), ("begin", "a"), ("end", "a"), ("begin", "b"),
    ],
    "starved too briefly, or another, or long before": [
        ("starved", "a", 1.0), ("starved", "b", 22.0), ("begin", "a", 20.0), ("begin", "b", 21.0),
        ("starved", "a", 22.0),
    ],
    "twice by one process": [("begin", "a"), ("end", "a"), ("begin", "a")],
    "the third although the second counts": [
        ("begin", "a"), ("killing", "a"), ("begin", "b"), ("begin", "c"),
    ],
}  # fmt: skip

EXCUSED: dict[str, list[Told]] = {
    "starved": [("begin", "a", 1.0), ("begin", "b", 6.0), ("starved", "a", 7.0), ("starved", "a", 5.0)],
    "once": [("begin", "a"), ("end", "a"), ("begin:next", "a")],
    "killed in it": [("begin", "a"), ("killing", "a"), ("begin", "b")],
    "killed before it was recorded": [
        ("begin", "a"), ("end", "a"), ("killing", "a"), ("begin", "b"),
    ],
    "raised": [("begin", "a"), ("raised", "a"), ("begin", "a")],
    "taken over": [("begin", "a"), ("taking over", "b"), ("begin", "b")],
    "begun while another took over": [("taking over", "b"), ("begin", "a"), ("begin", "b")],
    "begun while another took over, though another call of that one was refused": [
        ("taking over", "b/1"), ("tried", "b/2"), ("begin", "a"), ("begin", "b"),
    ],
    "begun while one took over that was killed": [
        ("taking over", "b"), ("killing", "b"), ("killed", "b"), ("begin", "a"), ("begin", "c"),
    ],
    "stopped for long": [
        ("begin", "a"), ("stopping", "a", 1.0), ("begin", "b", 4.5), ("continued", "a", 9.0),
    ],
    "stopped half a second after its last beat": [
        ("begin", "a"), ("stopping", "a", 1.0), ("begin", "b", 3.6), ("continued", "a", 9.0),
    ],
    "ended while the store was away": [
        ("begin", "a"), ("store down", ""), ("end", "a"), ("store up", ""), ("begin", "b"),
    ],
    "other steps": [("begin", "a"), ("begin:next", "b")],
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBLES)
def test_a_double_execution_is_reported(case: str) -> None:
    assert len(judged(*DOUBLES[case])) == 1


@pytest.mark.parametrize("case", EXCUSED)
def test_an_execution_whose_forerunner_is_void_is_excused(case: str) -> None:
    assert judged(*EXCUSED[case]) == []
