"""How hard tests try: `make test` is to be quick, `make crash` is to find what it does not."""

from __future__ import annotations

import os
from collections.abc import Sequence

EFFORT = int(os.environ.get("HOLDFAST_EFFORT", "1"))


def examples(many: int) -> int:
    """How many examples a property is tried on: half of so many, or many times as many."""
    return many * EFFORT if EFFORT > 1 else many // 2


def some(numbers: Sequence[int], one_in: int, seed: int) -> Sequence[int]:
    """One in so many, others with each seed; all of them when it is to try hard."""
    return numbers if EFFORT > 1 else numbers[seed % one_in :: one_in]
