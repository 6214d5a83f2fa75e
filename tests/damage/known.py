"""What does not hold yet, by what is said about it. Nothing should be here."""

from __future__ import annotations

import re
from typing import Final

_KNOWN: Final[list[re.Pattern[str]]] = []


def is_known(wrong: str) -> bool:
    """Whether this is to be repaired, and not new."""
    return any(known.search(wrong) for known in _KNOWN)
