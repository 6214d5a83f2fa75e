"""Finds the claims of deleted checkpoints, which the markers of the deletions hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.codec.meta import CARRIED, Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.evidence.trust.rule import Group, Pack
from holdfast.kernel.core import Core
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind

EARLIER: Final = "earlier"  # in what a marker carries: the seq of the marker before it, or -1
AT: Final = "at"  # in a group of packs: the seq of the checkpoint they were claimed with
PACKS: Final = "packs"


def newest_marker(core: Core, run: str, *, expected: bool = True) -> Entry | None:
    """The newest entry that carries claims of deleted checkpoints. Blocks.

    If it is lost, the checkpoints that it says were deleted are damage themselves. If one is
    `expected`, a marker without claims is proved, too: they may have been removed.
    """
    for entry in core.journals.entries(run, newest_first=True, damage=pass_by):
        if entry.kind not in (Kind.TRIM, Kind.TOMBSTONE):
            continue
        carries = CARRIED in entry.meta
        proved = core.journals.entry(run, entry.seq) if carries or expected else entry
        if carries:
            return proved
    return None


def carried_claims(
    core: Core, run: str, parse: Callable[[Any], Pack], *, expected: bool
) -> dict[int, list[Group]]:
    """What the markers of a run carry, by the seq of the checkpoint that inherits it. Blocks.

    Some is `expected` if checkpoints say that something was claimed.

    Raises `CheckpointCorruptedError` for a marker that can't be read: what it carries is unknown.
    """
    found: dict[int, list[Group]] = {}
    marker = newest_marker(core, run, expected=expected)
    while marker is not None:
        here, after = marker.seq, Meta(marker).carried
        try:
            earlier = after[EARLIER]
            for seq, groups in after.items():
                if seq != EARLIER:
                    read = (Group(g[AT], tuple(map(parse, g[PACKS]))) for g in groups)
                    found.setdefault(int(seq), []).extend(read)
            if not -1 <= earlier < here:
                raise ValueError(f"the marker before it is at {earlier}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"the claims that it carries: {error}"
            raise CheckpointCorruptedError(run, here, reason) from None
        marker = None if earlier < 0 else core.journals.entry(run, earlier)
    return {seq: sorted(groups, key=lambda group: group.at) for seq, groups in found.items()}
