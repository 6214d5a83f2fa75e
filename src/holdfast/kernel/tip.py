"""What this process knows of the head of a run."""

from __future__ import annotations

from typing import Final

from holdfast.codec.chain import Chain
from holdfast.kernel.entries import state_seq
from holdfast.kernel.ticket import Line
from holdfast.model import THREADS, Entry, erases

SAYS_EVERY: Final = 32
"""How far apart the entries of a run are that say that nothing was claimed before them."""


class Tip(Line):
    """The head of one run as this process knows it, and the state there.

    Its fields run ahead of the store by what is queued: `Line.broken` says when they are wrong.
    """

    __slots__ = (
        "base_seq", "chain", "claimed", "damaged", "digest", "exists", "flow", "held", "owner",
        "quiet", "run", "said", "seq", "state_seq", "status", "term", "thread",
    )  # fmt: skip

    def __init__(self, run: str, head: Entry | None) -> None:
        super().__init__()
        self.run = run
        self.seq = head.seq if head else -1
        self.term = head.term if head else -1
        self.digest = head.digest if head else b""
        self.status = head.status if head else None
        self.exists = head is not None and not erases(head)  # else the run is new
        self.flow = head.flow if head else None
        self.thread = head.thread if head else None
        # The entries of a thread's journal have the owners of the runs that they name.
        self.owner = head.owner if head and not run.startswith(THREADS) else None
        self.state_seq = state_seq(head) if head else None
        self.base_seq = self.state_seq  # the checkpoint a delta builds on; results may follow it
        self.damaged = False  # the state could not be read: the next one must be whole
        # The state at `base_seq`; without it the next one is stored whole.
        self.chain: Chain | None = None
        self.held = 0  # bytes of states that the cache counts for it
        # Whether nothing was claimed up to this head, None if nobody looked; and what came since.
        self.quiet = True if head is None or erases(head) else None
        self.claimed = False
        self.said = max(self.seq, 0)  # the last entry that says so; at first, this head

    @property
    def lacks_state(self) -> bool:
        """Whether a delta could be written if only the store were asked for the current state."""
        return self.chain is None and self.base_seq is not None and not self.damaged

    @property
    def says_due(self) -> bool:
        """Whether the next entry should say that nothing was claimed before it, if it is known."""
        return (self.seq + 1) // SAYS_EVERY > self.said // SAYS_EVERY

    def is_at_or_ahead_of(self, other: Tip) -> bool:
        """Whether this is the same head as the other, or a later one."""
        return self.seq > other.seq or (self.seq == other.seq and self.digest == other.digest)
