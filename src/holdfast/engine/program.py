"""What a flow is to the engine: which tasks are ready, how values are recorded, how to restore.

The engine executes tasks, records their values and hands back what was recorded. It knows
nothing else about workflows, graphs or pipelines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from holdfast.codec import values
from holdfast.codec.apart import LARGE, Apart
from holdfast.codec.meta import dump_meta
from holdfast.codec.revive import revive
from holdfast.engine.functions import is_async
from holdfast.engine.policy import PLAIN, StepPolicy
from holdfast.errors import HoldfastError, StepFailedError
from holdfast.model import Kind, Status
from holdfast.seams import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from holdfast.engine.resume.history import History
    from holdfast.migrations import Migrations


_is_async = lru_cache(maxsize=4096)(is_async)


_NO_KWARGS: Final[Mapping[str, Any]] = {}


class Child(NamedTuple):
    """A child run that a step waits for."""

    program: Callable[[], Program]
    inputs: Any


class Task:
    """One step, ready to be executed."""

    called_with: str | None = None  # a hash of its arguments, if that is to be recorded
    child_id: str | None = None  # of the child run that it waits for, once known
    arguments: str | None = None  # a short digest of them, made before it could change them
    body: bool = False  # the function for an item of a `for_each`: it may return a step
    context: Context | None = None  # to run in; that of the run unless given
    abandoned: bool = False  # nobody waits for it any more

    def __init__(
        self,
        key: str,
        name: str,
        fn: Callable[..., Any] | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] = _NO_KWARGS,
        policy: StepPolicy = PLAIN,
        kind: str = "python",
        child: Child | None = None,
        *,
        fresh: Callable[[], Sequence[Any]] | None = None,
        recorded: bool = True,
    ) -> None:
        self.key = key  # unique in the run, and the same after a resume
        self.name = name
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.policy = policy
        self.kind = kind
        self.child = child
        self.fresh = fresh  # arguments for another attempt
        self.recorded = recorded  # False: only waited for

    @property
    def is_async(self) -> bool:
        """Whether its function is async."""
        try:
            return _is_async(self.fn)
        except TypeError:  # can't be hashed
            return is_async(self.fn)


@dataclass(slots=True)
class Record:
    """What goes into the journal: a value, a decision or a question."""

    kind: Kind
    step: str
    value: Any = None  # a `Stored` is recorded as it is encoded
    meta: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    index: int | None = None
    type: str | None = None
    status: Status = Status.RUNNING
    arguments: str | None = None  # a digest of what the step was called with
    before: Stored | None = None  # the large state that it follows, if it is one


class Stored:
    """A value as it is recorded; `value` decodes a new copy each time."""

    __slots__ = ("_apart", "_decode", "encoding")

    def __init__(
        self, encoding: bytes, decode: Callable[[bytes], Any], apart: Apart | None = None
    ) -> None:
        self.encoding = encoding
        self._decode = decode
        self._apart = apart  # its fields, if it is a large state

    def take_apart(self, value: object) -> None:
        """Note the fields of the value that was encoded, if it is a large state."""
        apart = self.followed_by(value)
        if apart is not None and apart.encoding == self.encoding:
            self._apart = apart

    def value(self) -> Any:
        """The value, as plain data."""
        return self._decode(self.encoding)

    def revived(self, kind: Any) -> Any:
        """The state as an instance of the flow's type; a new one each time."""
        if self._apart is not None:
            return self._apart.revived(kind, self._decode)
        value = self._decode(self.encoding)
        return value if kind is dict or kind is Any else revive(value, kind)

    def followed_by(self, state: object) -> Apart | None:
        """The encoding of the next state, if this one is large; None for `compose.encode` to do."""
        if len(self.encoding) < LARGE:
            return None
        return (self._apart or Apart(self.encoding, {})).followed_by(state)


class Codec(Protocol):
    """Encodes and decodes values in the packed form."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Encodes a value. Raises `SerializeError`."""

    @property
    def decode(self) -> Callable[[bytes], Any]:
        """Decodes it again, all of it newly made."""


class StaleStepError(HoldfastError):
    """A recorded step is called with other arguments now; the engine goes back before it."""

    step: str
    seq: int


def stored_form(value: Any) -> Any:
    """A value as a resume will find it recorded."""
    return values.decode(values.encode(value))


class FlowInfo(NamedTuple):
    """What all programs of one flow have in common."""

    name: str
    version: str
    structure: dict[str, Any]  # what the flow is made of, as JSON: compared when a run is resumed
    stamp: dict[str, Any]  # what every entry says about the flow that made it
    replays: bool  # restoring needs every recorded result, rather than the newest state
    metas: dict[Any, str]  # metadata of entries as text, shared by all runs: see `Recorder`

    @property
    def stamp_text(self) -> str:
        """The stamp as metadata."""
        return self._text("stamp", self.stamp)

    @property
    def opening_text(self) -> str:
        """What the openings of all runs say about the flow, as metadata."""
        return self._text("opening", {**self.stamp, "structure": self.structure})

    def _text(self, of: str, facts: Mapping[str, Any]) -> str:
        known = self.metas.get(of)
        if known is None:
            known = self.metas[of] = dump_meta(facts)
        return known


class Migrated(NamedTuple):
    """What a restored run has of an older version, and what that became."""

    checkpoint_id: str  # where it is recorded
    version: str
    before: Any
    after: Any


class Ready(NamedTuple):
    """What a flow asks for next."""

    tasks: list[Task]  # to be executed now, each given out once
    records: Sequence[Record] = ()  # decisions and questions, to be recorded before anything else
    skipped: Sequence[tuple[str, str, str]] = ()  # steps: key, name and why
    changed: Sequence[tuple[str, str]] = ()  # recorded steps called with other arguments: key, name
    done: bool = False  # the flow has ended, and `result` is its result


class Program(ABC):
    """One execution of a flow. Used by one run, in one thread at a time."""

    flow: FlowInfo
    clock: Clock = SYSTEM_CLOCK
    stored_form: Callable[[Any], Any] = staticmethod(stored_form)  # of a value that is recorded
    codec: Codec | None = None  # of parts of states; None where they are encoded as a whole only
    strict: bool = False  # recorded steps must be called with the arguments they had
    by_fields: bool = False  # large states are encoded and decoded field by field
    abandon: Callable[[str], bool] = staticmethod(lambda _: True)
    """Stop a task whose outcome the flow has no use for; False if it will come all the same."""

    @abstractmethod
    def check(self, history: History) -> None:
        """Raise `FlowChangedError` if a run with this history can't continue with this flow."""

    @property
    def migrations(self) -> Migrations | None:
        """What turns the states of older versions into those of this one."""
        return None

    def migrated_inputs(self, history: History) -> Any:
        """The inputs that a run of an older version began with, as this version has them.

        None if this version began it. Raises `MigrationError`.
        """
        return None

    @abstractmethod
    def restored_from(self, history: History) -> Migrated:
        """What the run was restored from, and what that became. Only after `restore`."""

    def comparable(self, given: Any, recorded: Any) -> Any:
        """The inputs given on resume, as they would have been recorded at the start."""
        return given

    @abstractmethod
    def begin(self, run_id: str, inputs: Stored) -> None:
        """Start from the beginning."""

    @abstractmethod
    def restore(self, history: History, *, wary: bool = False) -> int:
        """Start from what was recorded; returns the number of finished steps.

        If it is `wary`, recorded steps must be called with the arguments they had.
        """

    @abstractmethod
    def ready(self) -> Ready:
        """Run the flow's own code until it needs something, and say what.

        Raises what that raises: the run fails with it. A wary program raises `StaleStepError`.
        """

    @property
    @abstractmethod
    def result(self) -> Any:
        """The flow's result, once it is done."""

    @property
    def recorded_result(self) -> Any:
        """The result, as it is recorded."""
        return self.result

    def revive_result(self, data: Any) -> Any:
        """The recorded result as the caller is to see it."""
        return data

    @property
    @abstractmethod
    def state(self) -> Any:
        """The state so far: errors carry it."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """The run stops here, at its end or elsewhere."""

    # --- the outcome of a task

    def outcome_of(self, task: Task, value: Any) -> Any:
        """What is recorded if a task returned this. Changes nothing.

        Raises `TypeError` for a value that is more to do, rather than a result.
        """
        return value

    @abstractmethod
    def record(self, task: Task, value: Any) -> Record | None:
        """How the value that a task returned is recorded; None if it is more to do."""

    @abstractmethod
    def revive(self, task: Task, stored: Stored) -> Any:
        """The recorded value as the flow is to see it; a new copy each time."""

    def came_back(self, task: Task, value: Any, revived: Any) -> None:  # noqa: B027 - a hook
        """The value of a task is revived as one of another type."""

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        """Makes copies of the recorded value for events and transactions."""
        return partial(self.revive, task, stored)

    @abstractmethod
    def accept(self, task: Task, value: Any, stored: Stored | None = None) -> None:
        """Continue with the revived value of a recorded task, or the value of another."""

    @abstractmethod
    def refuse(self, task: Task, error: StepFailedError) -> Sequence[Record]:
        """The task failed after its last attempt: raise the error, or continue with it.

        Returns what to record, so that the flow is not asked again how it handles the failure.
        """

    def drop(self, task: Task) -> None:  # noqa: B027 - most wait for all they began
        """A child run that the flow has no use for any more stopped without ending."""

    # --- people

    def questions(self) -> list[str]:
        """The keys of the questions it waits for."""
        return []

    def answer(self, key: str, value: Any) -> None:
        """An answer came, as it is stored; `questions.FAIL` if nobody answered in time."""
        raise NotImplementedError(f"{self.flow.name} asked no question {key!r}")

    # --- when the run fails or is cancelled

    def at_failure(self, task: Task | None) -> list[Record]:
        """What else to record when the run fails in this task."""
        return []

    @property
    def catching_up(self) -> bool:
        """Whether the flow has yet to come past recorded steps that can be undone."""
        return False

    def compensations(self) -> list[Task]:
        """The tasks that undo the finished steps, in the order to execute them."""
        return []
