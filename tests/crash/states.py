"""States to save: small ones, and ones large enough to be stored as changes to the one before."""

from __future__ import annotations

import random
from typing import Any

_LINES = [f"line {number:04} {random.Random(number).randbytes(12).hex()}" for number in range(160)]


def make(op_id: str, rng: random.Random) -> dict[str, Any]:
    """A state that no other operation saves. Two of three are small."""
    state: dict[str, Any] = {"op": op_id, "n": rng.randrange(1 << 40), "none": None}
    if rng.random() < 0.33:
        lines = list(_LINES)
        lines[rng.randrange(len(lines))] = op_id
        if rng.random() < 0.1:
            rng.shuffle(lines)  # the differ gives up, or nearly
        state["log"] = lines
    return state
