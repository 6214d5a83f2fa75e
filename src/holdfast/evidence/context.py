"""What a check gets besides the claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from holdfast.evidence.claims import Evidence
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict
from holdfast.seams import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from holdfast.evidence.world.hashing import HashCache

T = TypeVar("T")


class Limit(Protocol):
    """When a call of the verifier ends, whatever its checks do."""

    end: float  # by `clock.monotonic()`

    def extend(self, seconds: float) -> None:
        """Give the call so much more time."""


_MAX_ADMITTED: Final = 100_000

Check = Callable[[Evidence, "Context"], Verdict | bool]
"""Looks at the world and says what it found; True and False are VERIFIED and FAILED.

It should end by `context.deadline`. If it does not, the verdict is INCONCLUSIVE, and its later
result is ignored. An exception is an ERROR, `TimeoutError` is INCONCLUSIVE.
"""


class Context:
    """The policy, the deadline, and what was recorded with the checkpoint.

    `snapshot` is the state, which the program wrote. `observed` and `base` are what holdfast saw
    itself: the record of this claim, such as a command's exit code, and the directory that its
    relative path starts in; None where nothing was recorded. `facts` names what is to be checked,
    where later claims replaced the rest; None: all that is claimed.
    """

    __slots__ = (
        "_admitted", "_closers", "_limit", "base", "clock", "deadline", "expired", "facts", "hashes",
        "observed", "policy", "snapshot",
    )  # fmt: skip

    def __init__(
        self,
        policy: Policy,
        deadline: float,
        *,
        snapshot: Mapping[str, Any] | None = None,
        hashes: HashCache | None = None,
        clock: Clock = SYSTEM_CLOCK,
        admitted: dict[Any, Any] | None = None,
    ) -> None:
        self.policy = policy
        self.deadline = deadline  # by `clock.monotonic()`
        self.snapshot = snapshot
        self.hashes = hashes
        self.clock = clock
        self.expired = False
        self.observed: Mapping[str, Any] | None = None
        self.base: str | None = None
        self.facts: Collection[str] | None = None
        self._closers: list[Callable[[], object]] | None = None
        self._admitted = admitted
        self._limit: Limit | None = None

    def admit(self, evidence: Evidence, admit: Callable[[Evidence, Policy], T]) -> T:
        """What `admit` makes of the claim under this policy, remembered by the verifier."""
        moves = evidence.base is not None and not self.policy.directories
        if self._admitted is None or moves:  # where it was claimed may be gone since
            return admit(evidence, self.policy)
        key = (evidence.digest, evidence.base)
        claim: T | None = self._admitted.get(key)
        if claim is None:
            claim = admit(evidence, self.policy)
            if len(self._admitted) < _MAX_ADMITTED:
                self._admitted[key] = claim
        return claim

    def in_force(self, fact: str) -> bool:
        """Whether this fact is to be checked: no later claim replaced it."""
        return self.facts is None or fact in self.facts

    def remaining(self) -> float:
        """Seconds until the deadline. Raises `TimeoutError` when there are none left."""
        left = self.deadline - self.clock.monotonic()
        if left <= 0 or self.expired:
            raise TimeoutError("the time for this check is over")
        return left

    def within(self, limit: Limit) -> None:
        """It is one of the checks of a call that has this limit."""
        self._limit = limit

    def expects(self, size: int) -> None:
        """So many bytes are to be read: the whole call is given more time for them."""
        if self._limit is not None:
            self._limit.extend(size / self.policy.slowest_read)

    def progressed(self) -> None:
        """Bytes were read: the check is late only if the next ones take too long.

        Raises `TimeoutError` when the time is over.
        """
        self.remaining()
        if self._limit is not None:
            later = self.clock.monotonic() + self.policy.check_seconds
            self.deadline = max(self.deadline, min(later, self._limit.end))

    def at_deadline(self, close: Callable[[], object]) -> None:
        """Call this at the deadline, from another thread, to wake up a check that waits."""
        if self._closers is None:
            self._closers = []
        self._closers.append(close)
        if self.expired:
            self.expire()

    def expire(self) -> None:
        """The time is over."""
        self.expired = True
        while self._closers:
            with suppress(OSError, IndexError):
                self._closers.pop()()
