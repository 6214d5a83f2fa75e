"""Which earlier checkpoints a task's checkpoint still builds on, so that few have to be read.

A checkpoint of a task names them in its `meta`, under the digest, as `in_force`. Where that is not
known, or one of them is gone, the whole branch is read instead.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import chain, islice
from typing import Final

from holdfast.codec import envelope
from holdfast.codec.meta import IN_FORCE, Meta, may_claim
from holdfast.codec.seqs import Seqs
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust import rule
from holdfast.evidence.trust.gathering import Gathering
from holdfast.evidence.trust.rule import CheckpointClaims, Pack
from holdfast.kernel.core import Core
from holdfast.kernel.tip import SAYS_EVERY
from holdfast.model import Entry

_MOST: Final = 64  # checkpoints to name: beyond that, reading them one by one does not pay
_UNCLAIMED: Final = 2 * SAYS_EVERY  # checkpoints without claims to pass over
_TASKS: Final = 100  # whose claims are remembered


def known_branch(core: Core, entry: Entry) -> list[Entry] | None:
    """The checkpoints whose claims count for this one, with itself, newest first. Blocks.

    None if that is not known here. Raises `CheckpointCorruptedError` for a damaged one.
    """
    found: list[Entry] = []
    text: str | None = None
    older = islice(core.journals.branch_of(entry), 1, None)
    for one in islice(chain([entry], older), _UNCLAIMED):
        if found and found[-1].parent != one.seq:
            return None  # what was deleted in between may have claimed something
        found.append(one)
        text = Meta(one).in_force if IN_FORCE in one.meta else None
        if text is not None:
            break
        if may_claim(one.meta):
            return None
        if one.parent is None:
            return found
    if text is None:
        return None
    entry = found[-1]
    seqs = list(islice(Seqs.parse(text), _MOST + 1))
    if len(seqs) > _MOST:
        return None
    for seq in sorted(seqs, reverse=True):
        earlier = core.journals.entry(entry.run, seq) if seq < entry.seq else None
        if earlier is None:
            return None
        found.append(earlier)
    for one in found:
        if one.body and may_claim(one.meta) and envelope.check(one).is_delta:
            core.journals.chain(one.run, one.seq, one)  # it proves what it claims, too
    return found


class Index:
    """Knows what new checkpoints of tasks have to name. May be used by several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, list[CheckpointClaims]] = OrderedDict()  # by digest
        self._lock = threading.Lock()

    def names(self, core: Core, run: str, current: int | None, pack: EvidencePack) -> str | None:
        """What a checkpoint with this pack names, behind the one at `current`; None: it can't.

        Blocks.
        """
        known = [] if current is None else self._claims(core, run, current)
        if known is None:
            return None
        new = CheckpointClaims(_NEW, (Pack.of(pack, pack.at_commit, _unproven(pack)),))
        whole = rule.binding([*known, new], -1)
        named = {claim.seq for one in whole for claim in one.claims}
        fewer = [claims for claims in known if claims.seq in named]
        if rule.binding([*fewer, new], -1) != whole:
            fewer = known  # one that is not needed itself replaced a part of another
        return str(Seqs.of(claims.seq for claims in fewer)) if len(fewer) <= _MOST else None

    def _claims(self, core: Core, run: str, current: int) -> list[CheckpointClaims] | None:
        """What counts at a checkpoint, oldest first; None if that is not known."""
        entry = core.journals.entry(run, current)
        if entry is None:
            return None
        with self._lock:
            found = self._known.get(entry.digest)
        if found is not None:
            return found
        branch = known_branch(core, entry)
        if branch is None:
            return None
        gathering = Gathering(core, needed=False)
        found = [gathering.recorded(one) for one in reversed(branch)]
        with self._lock:
            self._known[entry.digest] = found
            while len(self._known) > _TASKS:
                self._known.popitem(last=False)
        return found


_NEW: Final = 1 << 62  # the seq of a checkpoint that has none yet


def _unproven(pack: EvidencePack) -> set[str]:
    return {claim.digest for claim in pack.evidence_list if not claim.verified}
