"""Has a run say, now and then, that nothing was claimed in it so far.

Who asks what was claimed before a checkpoint, as a fork does, then reads only as far back.
"""

from __future__ import annotations

from itertools import islice

from holdfast.codec.meta import IN_FORCE, Meta, claimed_so_far, with_nothing_in_force
from holdfast.errors import CheckpointError
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import EntryReader, is_stub
from holdfast.kernel.tip import SAYS_EVERY, Tip
from holdfast.model import HIDDEN, Kind


def saying(tip: Tip, draft: Draft) -> Draft:
    """The draft, which is about to follow the tip. If due, it says that nothing was claimed."""
    if claimed_so_far(draft.meta):
        tip.claimed = True
    elif tip.quiet and tip.says_due and draft.kind == Kind.CHECKPOINT:
        tip.said = tip.seq + 1
        if IN_FORCE not in draft.meta:
            return draft._replace(meta=with_nothing_in_force(draft.meta))
    return draft


def look_back(reader: EntryReader, tip: Tip) -> None:
    """Find out whether nothing was claimed up to the head that the tip was made of. Blocks.

    Its last entries tell, if they can be read and were not deleted; else something may have been.
    """
    if tip.quiet is None and not tip.run.startswith(HIDDEN):
        try:
            tip.quiet = _says_nothing(reader, tip)
        except CheckpointError:  # damage, or a key that is not here: no reason not to save
            tip.quiet = False


def _says_nothing(reader: EntryReader, tip: Tip) -> bool:
    entries = reader.entries(
        tip.run, bodies=True, newest_first=True, after=tip.said + 1, page=SAYS_EVERY + 1
    )
    for entry in islice(entries, 2 * SAYS_EVERY):
        if is_stub(entry) or claimed_so_far(entry.meta):
            return False
        if entry.kind == Kind.OPEN or (IN_FORCE in entry.meta and Meta(entry).in_force == ""):
            return True
    return False
