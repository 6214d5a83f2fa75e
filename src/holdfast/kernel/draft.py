"""What is to be appended to a journal."""

from __future__ import annotations

from typing import Final, NamedTuple

KEEP: Final = -1


class Draft(NamedTuple):
    """An entry to be: everything but its place in the journal."""

    kind: str
    status: str
    encoding: bytes | None = None
    parent: int | None = KEEP  # where a rollback or tombstone leads; else the tip's own state
    step: str | None = None
    step_index: int | None = None
    type: str | None = None
    duration: float | None = None
    flow: str | None = None
    thread: str | None = None
    owner: str | None = None
    meta: str = ""
