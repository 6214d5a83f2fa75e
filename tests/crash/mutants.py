"""Stores and writers that make the mistakes others have made. The checker must catch every one."""

from __future__ import annotations

import holdfast as hf
from holdfast.seams import SYSTEM_CLOCK, Clock


def open_store(url: str, mutant: str = "") -> hf.Store:
    return hf.open_store(url)


def clock(mutant: str) -> Clock:
    return SYSTEM_CLOCK
