"""When a failed step is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import ClaimFailedError, CommandFailedError, HoldfastError
from holdfast.seams import Entropy

_OF_THE_STEP: Final = (TimeoutError, ClaimFailedError, CommandFailedError)


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `attempts` tries in all. The pause doubles from `backoff` seconds up to `longest`.

    `jitter` is the part of a pause that is left to chance, so that many runs that failed together
    do not come back together. Only errors of the types `on` are tried again; errors of holdfast
    itself, such as a result that can't be stored, never are. A process that dies in a step is no
    failure of it: a resume tries again, until that happened more than `crashes` times in a row.
    """

    attempts: int = 3
    backoff: float = 1.0
    longest: float = 60.0
    jitter: float = 0.1
    on: tuple[type[BaseException], ...] = (Exception,)
    crashes: int = 20

    def __post_init__(self) -> None:
        if self.crashes < 0:
            raise ValueError(f"crashes must be 0 or more, not {self.crashes!r}")
        if self.attempts < 1:
            raise ValueError(f"attempts must be 1 or more, not {self.attempts!r}")
        for name in ("backoff", "longest", "jitter"):
            given = getattr(self, name)
            if not 0 <= given < float("inf"):
                raise ValueError(f"{name} must be a number of 0 or more, not {given!r}")

    def allows(self, error: BaseException, attempt: int) -> bool:
        """Whether to try again after this attempt, the first being 1, raised this."""
        ours = isinstance(error, HoldfastError) and not isinstance(error, _OF_THE_STEP)
        return attempt < self.attempts and not ours and isinstance(error, self.on)

    def delay(self, attempt: int, entropy: Entropy) -> float:
        """Seconds to wait after a failed attempt."""
        pause = min(self.backoff * 2.0 ** min(attempt - 1, 64), self.longest)
        chance = int.from_bytes(entropy(4), "big") / 2**32
        return pause * (1 - self.jitter * chance)
