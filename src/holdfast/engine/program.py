"""What a front door tells the engine: which steps are ready, what they come to, how to restore.

The engine executes tasks, records their outcomes and hands back what was recorded. It knows
nothing else about workflows, graphs or pipelines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

from holdfast.engine.blocking import check_options
from holdfast.engine.claims import Claiming, Paths
from holdfast.engine.functions import is_async
from holdfast.engine.retry import Retry
from holdfast.errors import HoldfastError, StepFailedError
from holdfast.model import Kind, Status

if TYPE_CHECKING:
    from holdfast.engine.resume.history import History


_is_async = lru_cache(maxsize=4096)(is_async)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a step is executed."""

    retry: Retry | None = None
    timeout: float | None = None
    executor: Executor | None = None  # for a sync function; a thread of ours unless given
    inline: bool = False  # call a sync function right on the event loop: it is quick
    commit: Callable[[Any, Any], object] | None = None  # (cursor, result), with the checkpoint
    marked: bool = False  # saved also where only marked steps are
    claims: Claiming | None = None  # about the world, when it is finished

    def __post_init__(self) -> None:
        if is_async(self.commit):
            raise TypeError("commit= runs within a transaction and can't be async: use a plain def")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise ValueError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")


PLAIN = Policy()


class StepOptions(TypedDict, total=False):
    """What users may say about any step or node.

    - `retry`: how often it may be tried in all, or a `Retry`; `timeout`: seconds per attempt.
    - `executor`: where a sync function runs instead of a thread; `inline`: right on the event loop.
    - `outputs`, `reads`, `removes`: files that it writes, reads, and removes; `evidence`: other
      claims about the world. The step fails if they do not verify when it is finished, and a
      resume runs it again if they do not verify any more.
    """

    retry: int | Retry | None
    timeout: float | None
    executor: Executor | None
    inline: bool
    outputs: Paths
    reads: Paths
    evidence: Any
    removes: Paths


def policy_of(verb: str, options: StepOptions, **more: Any) -> Policy:
    """The policy that these options of `verb` make. Raises `TypeError` for unknown ones."""
    check_options(verb, options, StepOptions.__annotations__)
    retry = options.get("retry")
    claims = Claiming().and_also(
        outputs=options.get("outputs", ()),
        reads=options.get("reads", ()),
        evidence=options.get("evidence", ()),
        removes=options.get("removes", ()),
    )
    return Policy(
        retry=Retry(retry) if isinstance(retry, int) else retry,
        timeout=options.get("timeout"),
        executor=options.get("executor"),
        inline=options.get("inline", False),
        claims=claims.or_none(),
        **more,
    )


class Child(NamedTuple):
    """A run of its own that a step waits for."""

    program: Callable[[], Program]
    inputs: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Task:
    """One step, ready to be executed."""

    key: str  # unique in the run and the same after a resume: what its outcome is recorded under
    name: str
    fn: Callable[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = PLAIN
    kind: str = "python"
    child: Child | None = None
    fresh: Callable[[], Sequence[Any]] | None = None  # arguments for another attempt
    recorded: bool = True  # False: only waited for
    called_with: str | None = None  # names its arguments, where that is to be recorded
    within: str | None = None  # the id of the run that it stands for, once that is known

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine that is to be awaited."""
        try:
            return _is_async(self.fn)
        except TypeError:  # can't be hashed
            return is_async(self.fn)


@dataclass(slots=True)
class Record:
    """What goes into the journal: an outcome, a decision or a question."""

    kind: Kind
    step: str
    value: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    index: int | None = None
    type: str | None = None
    status: Status = Status.RUNNING


class Stored:
    """A value as it is recorded. Each look at it gives a copy of its own."""

    __slots__ = ("_decode", "_encoding")

    def __init__(self, encoding: bytes, decode: Callable[[bytes], Any]) -> None:
        self._encoding = encoding
        self._decode = decode

    def value(self) -> Any:
        """The value, as plain data."""
        return self._decode(self._encoding)


class StaleStepError(HoldfastError):
    """A recorded step is called with other arguments now; the engine goes back before it."""

    step: str
    seq: int


class Program(ABC):
    """One execution of a flow. Used by one run, in one thread at a time."""

    flow: str
    version: str
    run_id: str = ""  # the engine says which run this is
    wary: bool = False  # the engine says whether recorded steps must be called as they were
    metas: dict[Any, str]
    """What entries of this flow say beside their values, kept for all its runs: see `Recorder`."""
    replays: ClassVar[bool]
    """Whether it needs every recorded result to be restored, rather than the newest state."""

    @abstractmethod
    def structure(self) -> dict[str, Any]:
        """What the flow is made of, as JSON: compared when a run is resumed."""

    @property
    def stamp(self) -> dict[str, Any]:
        """What every entry says about the flow it was made by."""
        return {"flow_version": self.version}

    @abstractmethod
    def check(self, run_id: str, history: History) -> None:
        """Raise `FlowChangedError` if a run of this history can't go on with this flow."""

    def comparable(self, given: Any, recorded: Any) -> Any:
        """The inputs given on resume, as they would have been recorded at the start."""
        return given

    @abstractmethod
    def begin(self, inputs: Stored) -> None:
        """Start from the beginning."""

    @abstractmethod
    def restore(self, history: History) -> int:
        """Start from what was recorded; returns how many finished steps that spares."""

    @abstractmethod
    def ready(self) -> list[Task]:
        """The tasks that can be executed now, each given out once. Runs the flow's own code.

        Raises what that raises: the run fails with it. A wary one raises `StaleStepError`.
        """

    @abstractmethod
    def take_records(self) -> list[Record]:
        """Decisions and questions that came up in `ready`, to be recorded before anything else."""

    def unfolds(self, task: Task, value: Any) -> bool:
        """Whether what a task returned is more to do, rather than a result to record."""
        return False

    def outcome_of(self, task: Task, value: Any) -> Any:
        """What is recorded as the outcome of a task that returned this. Changes nothing."""
        return value

    @abstractmethod
    def record(self, task: Task, value: Any) -> Record:
        """How the value that a task returned is recorded."""

    @abstractmethod
    def revive(self, task: Task, stored: Stored) -> Any:
        """The recorded value as the flow is to see it; another copy each time."""

    @abstractmethod
    def accept(self, task: Task, value: Any) -> None:
        """The task's outcome is recorded, and revived: go on with it."""

    @abstractmethod
    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        """Makes copies of a recorded value for those who look on."""

    def failure(self, task: Task, error: StepFailedError) -> list[Record]:
        """What to record of a failed task, so that the flow's answer to it is not asked for again."""
        return []

    @abstractmethod
    def refuse(self, task: Task, error: StepFailedError) -> None:
        """The task failed for good: go on with that, or raise it."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the flow has come to its end."""

    @property
    @abstractmethod
    def result(self) -> Any:
        """What it came to, once it is done."""

    @property
    def keeps_result(self) -> bool:
        """Whether the result must be recorded, because the newest checkpoint is not it."""
        return True

    def revive_result(self, data: Any) -> Any:
        """The recorded result as the caller is to see it."""
        return data

    @property
    @abstractmethod
    def state(self) -> Any:
        """What it has come to so far: errors carry it."""

    parked = False
    """Whether it waits for a run of its own that waits for someone."""

    def park(self, task: Task) -> None:
        """The run that a task stands for waits for someone."""
        raise NotImplementedError(f"{self.flow} has no runs within")

    def take_skipped(self) -> list[tuple[str, str, str]]:
        """The steps that were left out in `ready`: key, name and why."""
        return []

    def questions(self) -> list[str]:
        """The keys of the questions it waits for."""
        return []

    def answer(self, key: str, value: Any) -> None:
        """An answer came, as it is stored; `questions.FAIL` where nobody answered in time."""
        raise NotImplementedError(f"{self.flow} asked no question {key!r}")

    def at_failure(self, task: Task | None) -> list[Record]:
        """What else to record when the run fails in this task."""
        return []

    def compensations(self) -> list[Task]:
        """What undoes the finished steps, in the order to do it in."""
        return []
