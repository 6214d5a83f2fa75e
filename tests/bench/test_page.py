"""The page of figures is made by a program, of the figures alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.plots import PLOTS
from bench.svg import chart

from bench import page

ROOT = Path(__file__).parents[2]


def summary() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.SUMMARY.read_text())
    return found


def test_the_committed_page_and_pictures_are_made_of_the_committed_summary() -> None:
    """If this fails: `python -m bench.page`."""
    made = page.files(summary())
    for name, text in made.items():
        assert (ROOT / name).read_text() == text, name
    pictures = {str(file.relative_to(ROOT)) for file in (ROOT / page.IMAGES).iterdir()}
    assert pictures == set(made) - {page.PAGE}


def test_the_page_is_the_same_for_the_same_summary() -> None:
    assert page.files(summary()) == page.files(summary())


def test_every_picture_is_on_the_page_and_well_formed() -> None:
    made = page.files(summary())
    text = made.pop(page.PAGE)
    assert len(made) == len(PLOTS)
    for name, picture in made.items():
        assert f"]({name})" in text
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"


def line(**changed: Any) -> dict[str, Any]:
    return {
        "section": "Steps", "name": "a step", "unit": "ms", "goal": "≤ 2 ms", "how": "itself",
        "limit": 2.0, "at_least": False, "more": False, "takes": "", "holdfast": 1.0,
        "judged": 1.0, "met": True, "others": {}, **changed,
    }  # fmt: skip


def shown(*lines: dict[str, Any]) -> str:
    made = summary() | {"lines": list(lines), "plots": {}, "others": {}, "left_out": []}
    return page.files(made)[page.PAGE]


def test_a_missed_goal_is_shown_as_missed_with_a_profile_and_what_it_would_take() -> None:
    profile = [{"function": "kernel/journal.py: extend", "calls": 7, "share": 0.25}]
    text = shown(line(holdfast=5.0, judged=5.0, met=False, takes="A faster disk.", profile=profile))
    assert "| a step | 5 ms |  | ≤ 2 ms | **missed** by 2.5 × |" in text
    assert "A faster disk." in text
    assert "| 25% | 7 | `kernel/journal.py: extend` |" in text
    assert "**0 of 1 goals met" in text


def test_a_met_goal_says_nothing_of_what_it_would_take() -> None:
    text = shown(line(takes="A faster disk."))
    assert "| a step | 1 ms |  | ≤ 2 ms | met |" in text
    assert "A faster disk." not in text
    assert "Missed goals" not in text


def test_a_goal_that_was_not_measured_is_neither_met_nor_missed() -> None:
    text = shown(line(holdfast=None, judged=None, met=None))
    assert "| a step |  |  | ≤ 2 ms | not measured |" in text
    assert "**0 of 0 goals met" in text


def test_a_peer_that_is_ahead_is_bold_and_a_floor_is_no_peer() -> None:
    others = {
        "LangGraph": {"value": 0.5, "times": 0.5},
        "DBOS": {"value": 3.0, "times": 3.0},
        "floor": {"value": 0.1, "times": 0.1},
    }
    text = shown(line(others=others))
    assert "LangGraph 0.5 ms (**0.5 ×**); DBOS 3 ms (3 ×); floor 0.1 ms |" in text
    assert "ahead in 1 of 2 comparisons" in text


def test_what_was_left_out_is_named() -> None:
    made = summary() | {"left_out": ["dbos is not installed"]}
    assert "\nNot compared: dbos is not installed\n" in page.files(made)[page.PAGE]


def test_an_fsync_is_claimed_only_where_it_was_counted() -> None:
    made = summary() | {"durability": {"save": {"a": None}, "step": {"b": 1.0, "c": 0.0}}}
    text = page.files(made)[page.PAGE]
    assert "an fsync for each save was not looked at" in text
    assert "These call fsync for each step, as counted by strace: b. **Fewer: c.**" in text


def test_a_profile_is_shown_of_times_and_without_what_takes_next_to_nothing() -> None:
    new = "built-in method __new__ of type object at 0x7fb631c5ea00"
    profile = [
        {"function": new, "calls": 7, "share": 0.25},
        {"function": "kernel/journal.py: extend", "calls": 7, "share": 0.001},
    ]
    missed = line(holdfast=5.0, judged=5.0, met=False, profile=profile)
    assert "| 25% | 7 | `built-in method __new__` |" in shown(missed)
    assert "extend" not in shown(missed)
    assert "__new__" not in shown(missed | {"unit": "MB"})


def test_results_are_condensed_to_medians() -> None:
    found = page.condensed(
        {
            "goals": {
                "environment": {}, "sizes": "quick", "seconds": 61, "left_out": [],
                "durability": {}, "lines": [line(judged=1.23456789)],
                "workloads": {"fork": {"holdfast": {"cpu_ms@10": [3, 1, 2], "ms@10": [9]}}},
            },
            "ui": {"goals": [{"work": "a page", "measured": 0.123456}]},
        }
    )  # fmt: skip
    assert found["plots"]["fork"] == {"holdfast": [[10, 2]]}
    assert found["lines"][0]["judged"] == 1.235
    assert found["others"]["ui"] == [{"work": "a page", "measured": 0.1235}]


SERIES = {
    "holdfast": (0, [(1.0, 0.02), (10.0, 0.5)]),
    'a <b> & "c"': (1, [(1.0, 3.0), (10.0, 4000.0)]),
}


def test_a_chart_escapes_names_and_has_labels_for_both_axes() -> None:
    drawn = chart("Saves & <loads>", "runs", "ms; less is better", SERIES)
    texts = [each.text for each in ElementTree.fromstring(drawn).iter() if each.text]
    for text in ("Saves & <loads>", "runs", "ms; less is better", 'a <b> & "c"', "10", "1,000"):
        assert text in texts
    assert "prefers-color-scheme: dark" in drawn


def test_a_quantity_that_hardly_grows_does_not_look_steep() -> None:
    drawn = chart("t", "x", "y", {"holdfast": (0, [(1.0, 57.0), (8.0, 75.0)])})
    places = re.findall(r'<circle [^>]*cy="([\d.]+)"', drawn)
    assert abs(float(places[0]) - float(places[1])) < 50


@pytest.mark.parametrize(
    "points",
    [[(5.0, 7.0)], [(1.0, 10.0), (2.0, 10.0)], [(1.0, 1.0), (2.0, 1.1)], [(1.0, 1e-3), (9.0, 1e6)]],
)
def test_a_chart_draws_inside_of_itself(points: list[tuple[float, float]]) -> None:
    drawn = chart("t", "x", "y", {"holdfast": (0, points)})
    places = re.findall(r'<circle [^>]*cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert len(places) == len(points) + 1  # and one in the legend
    for x, y in places[:-1]:
        assert 62 <= float(x) <= 460
        assert 44 <= float(y) <= 262
