"""What does not hold yet, in words, and how the judge puts it. Nothing should be here."""

from __future__ import annotations

import re
from typing import Final

GAPS: Final = {
    "where an entry was put in another's place, `iter_states` may pass by intact states before it, "
    "or give one that a rollback left behind; `load` does not": (
        r"^iter_states behind (swap|replay of another seq) of "
    ),
    "lists of runs show what is stored: one whose newest entry was forged as deleted is listed as "
    "`deleted`; `load` and `holdfast verify` name the entry": (
        r"^runs behind forge as deleted of "
    ),
    "if a byte is lost of the marker that vouches for a state that pruning rewrote, an export of "
    "that run can't be imported, although its other states are intact": (
        r"^export behind flip body of pruned@12: 0 does not depend"
    ),
}


def is_known(wrong: str) -> bool:
    """Whether this is to be repaired, and not new."""
    return any(re.search(known, wrong) for known in GAPS.values())
