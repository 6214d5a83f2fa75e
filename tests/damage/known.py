"""What does not hold yet, by what is said about it. Nothing should be here."""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final = [
    re.compile(pattern)
    for pattern in (
        # What is left of the branch of a damaged run.
        r"^fork behind .*does not depend",
        r"^(delete|prune) behind .*(does not depend|'latest' is)",
        # Tasks.
        r"^last_verified behind .*is None",
        r"^task_checkpoints behind swap",
        # A run whose holder can't be read.
        r"^recover behind .*absent",
    )
]


def is_known(wrong: str) -> bool:
    """Whether this is to be repaired, and not new."""
    return any(known.search(wrong) for known in _KNOWN)
