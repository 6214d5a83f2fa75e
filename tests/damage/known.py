"""What does not hold yet, by what is said about it. Nothing should be here.

An entry in another's place hides from `iter_states` those before it, and lists of runs show what is
stored: a run whose newest entry was forged as deleted is shown without it. A bundle without the
marker that vouches for a rewritten state, of which one byte was lost, can't be imported.
"""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final = [
    re.compile(pattern)
    for pattern in (
        r"^iter_states behind (swap|replay of another seq) of ",
        r"^runs behind forge as deleted of ",
        r"^export behind flip body of pruned@12: 0 does not depend",
    )
]


def is_known(wrong: str) -> bool:
    """Whether this is to be repaired, and not new."""
    return any(known.search(wrong) for known in _KNOWN)
