"""How a run is executed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, get_args

from holdfast.engine.claims import usual_verifier

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

Trust = Literal["verify", "stored", "skip"]
"""What a resume trusts: checkpoints that verify now; those that did not fail verification when
they were last checked; or all of them."""


class Strategy(StrEnum):
    """After which steps a checkpoint is saved."""

    EVERY_STEP = "every_step"  # also after a failed one
    ON_SUCCESS = "on_success"
    ON_ERROR = "on_error"  # only when the run fails or pauses: a crash starts it over
    MARKED = "marked"  # after marked steps: a crash starts over from the last of them

    @property
    def saves_all(self) -> bool:
        """Whether every finished step is saved."""
        return self in (Strategy.EVERY_STEP, Strategy.ON_SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one run is executed."""

    strategy: Strategy = Strategy.EVERY_STEP
    timeout: float | None = None
    fatal: bool | None = None  # whether a failed save stops the run; None: as the checkpointer says
    blocking: bool = (
        False  # nothing else runs on this event loop: sync steps and commits may block it
    )
    listening: bool = False  # someone looks at the events
    quiet: bool = False  # no events about checkpoints: the store is not the caller's
    trust: Trust = "verify"
    take_over: bool = False  # even from a living process of this machine
    verifier: EvidenceVerifier | None = None  # what checks the claims; None: one with no policy

    def __post_init__(self) -> None:
        if self.trust not in get_args(Trust):
            raise ValueError(f"trust must be 'verify', 'stored' or 'skip', not {self.trust!r}")

    @property
    def checks_with(self) -> EvidenceVerifier:
        """What makes and checks the claims of this run."""
        return self.verifier or usual_verifier()
