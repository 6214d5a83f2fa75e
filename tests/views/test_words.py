"""How times are told to people."""

from __future__ import annotations

import math

import pytest

from holdfast.views import words


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0004, "0.4 ms"),
        (59.9, "59.9 s"),
        (3_720, "1 h 2 m"),
        (90_000, "1 d 1 h"),
        (1e308, "over 10,000 years"),
        (math.inf, "over 10,000 years"),
        (-math.inf, "-over 10,000 years"),
        (math.nan, "unknown"),
    ],
)
def test_any_number_of_seconds_has_a_short_text(seconds: float, told: str) -> None:
    assert words.span(seconds) == told
