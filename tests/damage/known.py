"""What does not hold yet, by what is said about it. Nothing should be here.

All of them take two altered entries beside each other, or an index that shows what is stored.
"""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final = [
    re.compile(pattern)
    for pattern in (
        r"^iter_states behind (swap|replay of another seq) of ",
        r"^recover behind swap of ",
        r"^runs behind forge as deleted of ",
        r"^prune behind .*'latest' does not depend",
    )
]


def is_known(wrong: str) -> bool:
    """Whether this is to be repaired, and not new."""
    return any(known.search(wrong) for known in _KNOWN)
