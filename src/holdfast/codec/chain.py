"""How a state is stored: whole, or as a change to an earlier one.

A **link** is the change to the state before it. After `MAX_LINKS` of them comes a **span**, the
change since the last **landmark**, which is a keyframe or a span. So a cold load reads one
keyframe, at most `MAX_SPANS` spans and `MAX_LINKS` links, and a run takes space in proportion to
what changed in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.codec import bearings, delta, envelope
from holdfast.codec.envelope import Guard, Packed
from holdfast.model import Kind

SMALL_STATE: Final = 4096
"""Stored whole: cheaper than a delta, and any process can append after it."""

REACH: Final = 400
"""How many entries a delta may lie behind its landmark: a rollback may leave many in between."""

MAX_LINKS: Final = 64
MAX_SPANS: Final = 24
SPAN_SPLICES: Final = 1024
SPANS_WORTH: Final = 2  # what the spans since a keyframe may weigh, in keyframes of today's state
DELTAS_WORTH: Final = 3  # and with the links behind them
_new: Final = tuple.__new__  # at half the price of a constructor: every save makes two


class Landmark(NamedTuple):
    """A state that later ones are stored as changes to: a keyframe, or a span since another."""

    seq: int
    encoding: bytes | Callable[[], bytes]  # or what puts it together: few who load a state need it
    proof: bytes
    key_bytes: int  # of the keyframe that it goes back to, as stored
    key_size: int  # and of the state that it holds
    span_bytes: int = 0
    trail: tuple[int, ...] = ()  # the seqs of the landmarks before it, the nearest first

    @property
    def state(self) -> bytes:
        """The encoded state."""
        return self.encoding() if callable(self.encoding) else self.encoding

    def span(self, seq: int, encoding: bytes, proof: bytes, size: int) -> Landmark:
        """The landmark that a span of so many bytes makes of a later state."""
        spent, trail = self.span_bytes + size, (self.seq, *self.trail)
        return self._replace(seq=seq, encoding=encoding, proof=proof, span_bytes=spent, trail=trail)

    def keyframe_now(self, encoding: bytes) -> int:
        """About how many bytes a keyframe would take now: in proportion, if the state grew."""
        return max(self.key_bytes, self.key_bytes * len(encoding) // max(self.key_size, 1))


class Chain(NamedTuple):
    """A state, and how it is put together."""

    encoding: bytes
    proof: bytes
    kind: str  # of its entry: a whole state, or a step's own value
    landmark: Landmark
    links: int = 0  # since the landmark
    link_bytes: int = 0
    foreign: bool = False  # it was stored in another form: no change to it is stored

    def weight(self) -> int:
        """How many bytes it keeps in memory."""
        held = self.landmark.encoding
        if held is self.encoding:
            return len(self.encoding)
        parts = self.landmark.key_size + 2 * self.landmark.span_bytes  # what it is put together of
        return len(self.encoding) + (parts if callable(held) else len(held))

    def link(
        self, base: int, kind: str, seq: int, encoding: bytes, guard: Guard | None, shrink: bool
    ) -> tuple[Packed, Chain] | None:
        """The next state as a change to this one, at `base`, unless a span or a keyframe is due."""
        if kind == Kind.CHECKPOINT and self.links >= MAX_LINKS:
            return None
        change = delta.diff(self.encoding, encoding)
        spent = self.landmark.span_bytes + self.link_bytes
        worth = DELTAS_WORTH * max(self.landmark.keyframe_now(encoding), SMALL_STATE)
        if change is None or spent + len(change.splices) > worth:
            return None
        where = bearings.of_link(seq, base, self.landmark.seq)
        packed = envelope.delta(where, change, self.encoding, self.proof, guard, shrink=shrink)
        size = self.link_bytes + len(packed.content)
        return packed, Chain(encoding, packed.proof, kind, self.landmark, self.links + 1, size)

    def span(
        self, kind: str, seq: int, encoding: bytes, guard: Guard | None, shrink: bool
    ) -> tuple[Packed, Chain] | None:
        """The next state as the change since the landmark, unless a keyframe is due."""
        before = self.landmark
        if kind != Kind.CHECKPOINT or not self.links or len(before.trail) >= MAX_SPANS:
            return None
        old = before.state
        change = delta.diff(old, encoding, SPAN_SPLICES)
        if change is None:
            return None
        where = bearings.of_span(seq, (before.seq, *before.trail))
        packed = envelope.delta(where, change, old, before.proof, guard, shrink=shrink)
        landmark = before.span(seq, encoding, packed.proof, len(packed.content))
        if landmark.span_bytes > SPANS_WORTH * before.keyframe_now(encoding):
            return None
        return packed, Chain(encoding, packed.proof, kind, landmark)


def pack(
    chain: Chain | None,
    base: int | None,
    kind: str,
    seq: int,
    encoding: bytes,
    guard: Guard | None = None,
    *,
    shrink: bool = True,
) -> tuple[Packed, Chain]:
    """A state as it is stored behind the one that `chain` holds, at `base`; and its own chain.

    Compressed where that helps, if it is to `shrink`.
    """
    found = None
    if (
        len(encoding) > SMALL_STATE
        and chain is not None
        and not chain.foreign
        and base is not None
        and (kind == Kind.CHECKPOINT or (kind == Kind.RESULT and chain.kind != Kind.OPEN))
        and seq - chain.landmark.seq < REACH
    ):
        found = chain.link(base, kind, seq, encoding, guard, shrink) or chain.span(
            kind, seq, encoding, guard, shrink
        )
    return found or whole(kind, seq, encoding, envelope.keyframe(encoding, 0, guard, shrink=shrink))


def whole(kind: str, seq: int, encoding: bytes, packed: Packed) -> tuple[Packed, Chain]:
    """A state stored whole, and the chain that begins with it."""
    _, content, proof = packed
    landmark = _new(Landmark, (seq, encoding, proof, len(content), len(encoding), 0, ()))
    return packed, _new(Chain, (encoding, proof, kind, landmark, 0, 0, False))
