"""How a run is executed: what users may say, and what the engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args

from holdfast.engine.claims import usual_verifier
from holdfast.engine.executors import Executors
from holdfast.engine.holding.slots import DEAD_AFTER, check_dead_after
from holdfast.engine.policy import altered
from holdfast.kernel.core import Durability

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

Trust = Literal["verify", "stored", "skip"]
"""What a resume trusts: checkpoints that verify now; those that did not fail verification when
they were last checked; or all of them."""


_TRUSTS: Final = get_args(Trust)
_DURABILITIES: Final = get_args(Durability)


class Strategy(StrEnum):
    """After which steps a checkpoint is saved."""

    EVERY_STEP = "every_step"  # also after a failed one
    ON_SUCCESS = "on_success"
    ON_ERROR = "on_error"  # only when the run fails or pauses: a crash starts it over
    MARKED = "marked"  # after marked steps: a crash starts over from the last of them

    @classmethod
    def _missing_(cls, value: object) -> None:
        known = ", ".join(repr(one.value) for one in cls)
        raise ValueError(f"checkpoint_after must be one of {known}, not {value!r}")

    @property
    def saves_all(self) -> bool:
        """Whether every finished step is saved."""
        return self in (Strategy.EVERY_STEP, Strategy.ON_SUCCESS)


class RunOptions(TypedDict, total=False):
    """Options of everything that executes a run.

    - `trust`: what a resume believes. "verify" checks what the steps claimed about the world and
      resumes from the newest checkpoint that still verifies; "stored" believes the last verdicts;
      "skip" checks nothing.
    - `take_over`: resume although another living process executes the run.
    - `wait`: if another living process executes the run, wait for it and return its result instead
      of raising `RunActiveError`. By default `run`, `start` and `stream` of an engine wait, and
      all that resume by id do not.
    - `timeout`: seconds that the run may take.
    - `checkpoint_after`: "every_step", "on_success", "on_error" or "marked"; the flow sets the
      default.
    - `durability`: when a step counts as saved: "sync", "async" or "exit", as for a
      `Checkpointer`, which sets the default.
    - `on_save_failure`: "raise", or "warn" to continue the run when a save fails.
    - `strict`: raise `FlowChangedError` if a recorded step is called with other arguments now.
    - `ask_workers`: seconds that a resume waits for workers on other machines to check the claims
      that are labelled with their hosts. By default nobody is asked, and such a claim is
      inconclusive.
    """

    trust: Trust
    take_over: bool
    wait: bool
    timeout: float | None
    checkpoint_after: Strategy | str | None
    durability: Durability | None
    on_save_failure: Literal["raise", "warn"] | None
    strict: bool
    ask_workers: float | None


class RunNames(TypedDict, total=False):
    """What a new run is called, to whom it belongs, and `labels` to find it by."""

    run_id: str | None
    thread_id: str | None
    owner: str | None
    labels: Mapping[str, str] | None


class NewRun(RunOptions, RunNames, total=False):
    """Options of a new run: how it is executed, and what it is called."""


class Resume(RunOptions, total=False):
    """Options of `resume`: where to continue, and with what state.

    - `from_step`: go back to where that step last ran, and run it again; `after_step`: continue
      after it; `replay`: run the last step again.
    - `override`: change a graph's state first: a dict of fields, a function of the state, or a
      whole state. `validate` sees the state before anything runs, and refuses it by raising or
      returning False.
    - `owner`: raise `NotOwnerError` unless the run belongs to this owner.
    """

    from_step: str | None
    after_step: str | None
    override: Any
    validate: Callable[[Any], object] | None
    replay: bool
    owner: str | None


DEFAULTS = {"trust": "verify", "take_over": False, "wait": True, "strict": False, "replay": False}
"""The values of options that are not given; None for options that are not listed here."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How one run is executed."""

    strategy: Strategy = Strategy.EVERY_STEP
    timeout: float | None = None
    durability: Durability | None = None  # None: as the checkpointer says
    fatal: bool | None = None  # whether a failed save stops the run; None: as the checkpointer says
    blocking: bool = False  # this run has the event loop to itself: steps and commits may block it
    heeds_pause: bool = False  # a run that was asked to pause is paused, not continued
    in_worker: bool = False  # it is left while it waits for long, and must not end the process
    listening: bool = False  # someone looks at the events
    quiet: bool = False  # no events about checkpoints: the store is not the caller's
    trust: Trust = "verify"
    take_over: bool = False  # even from a living process
    dead_after: float = DEAD_AFTER  # seconds without a beat: others may declare this process dead
    wait: bool = True  # for a living process that executes the run
    strict: bool = False  # recorded steps must be called with the arguments they had
    ask_workers: float | None = None  # seconds that those on other hosts have to check claims
    verifier: EvidenceVerifier | None = None  # what checks the claims; None: one with no policy
    executors: Executors = field(default_factory=Executors)  # made by factories, for its steps

    def __post_init__(self) -> None:
        check_dead_after(self.dead_after)
        if self.trust not in _TRUSTS:
            raise ValueError(f"trust must be 'verify', 'stored' or 'skip', not {self.trust!r}")
        if self.durability is not None and self.durability not in _DURABILITIES:
            known = ", ".join(map(repr, _DURABILITIES))
            raise ValueError(f"durability must be one of {known}, not {self.durability!r}")
        seconds: object = self.timeout
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise ValueError(f"timeout must be a number of seconds above 0, not {seconds!r}")

        if self.ask_workers is not None:
            from holdfast.engine.voting.asking import check_asking

            check_asking(None, self.ask_workers)

    def but(self, **changes: Any) -> Options:
        """These with other values of these fields. Raises as the constructor does."""
        made = altered(self, changes)
        made.__post_init__()
        return made

    @property
    def checks_with(self) -> EvidenceVerifier:
        """What makes and checks the claims of this run."""
        return self.verifier or usual_verifier()


USUAL: Final = Options()
"""How a run is executed unless something is said about it."""
