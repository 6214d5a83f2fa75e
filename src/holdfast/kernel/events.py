"""What an event is, and the events of a checkpointer: what it saved, and what was verified.

Users import them from `holdfast.events`. Imported when somebody listens, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from holdfast.codec import readable
from holdfast.errors import ConflictError
from holdfast.model import HIDDEN
from holdfast.revealed import scrubbed, scrubbed_tree
from holdfast.store import WorkFailedError

if TYPE_CHECKING:
    from holdfast.kernel.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened in a run."""

    run_id: str

    stops: ClassVar[bool] = False  # this process executes the run no more
    also: ClassVar[tuple[str, ...]] = ()  # what it says beside its fields

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON has it, for `json.dumps`: "event" is its name, the rest its fields.

        Values are in the readable form of stored ones (docs/reference/format.md), errors are text.
        What can't be stored is shown by its `repr`.
        """
        told = {name: _plain(name, getattr(self, name)) for name in self.names()}
        return {"event": type(self).__name__, **told}

    @classmethod
    def names(cls) -> list[str]:
        """The names of what it says."""
        return [one.name for one in fields(cls) if not one.name.startswith("_")] + [*cls.also]

    @property
    def held(self) -> int:
        """About how many bytes of values it keeps in memory."""
        return 0

    def kept(self) -> Self:
        """The event for one who looks at it later: nothing in it changes until then."""
        return self


@dataclass(frozen=True, slots=True)
class SaveCommitted(Event):
    """Entries of a run were written together, and are as durable as the store is."""

    entries: int
    bytes: int  # as stored: deltas, compressed
    seconds: float  # since they were handed to the writer


@dataclass(frozen=True, slots=True)
class SaveFailed(Event):
    """Entries of a run could not be written, or nobody knows whether they were."""

    entries: int
    error_type: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ClaimChecked(Event):
    """A claim about the world was checked: by a commit, a resume or `verify_checkpoint`."""

    evidence_type: str
    status: str  # "verified", "failed", "inconclusive" or "error"
    seconds: float


def save_event(ticket: Ticket, seconds: float) -> Event | None:
    """What became of a save; None if it is tried again, or not about the store."""
    run = ticket.entries[0].run if ticket.entries else HIDDEN
    if run.startswith(HIDDEN) or isinstance(ticket.error, ConflictError | WorkFailedError):
        return None
    if ticket.error is not None:
        return SaveFailed(run, len(ticket.entries), type(ticket.error).__name__, seconds)
    size = sum(len(entry.body) for entry in ticket.entries)
    return SaveCommitted(run, len(ticket.entries), size, seconds)


def _plain(name: str, value: Any) -> Any:
    """A field of an event as JSON has it."""
    if isinstance(value, tuple) and name not in ("value", "result"):  # a list of names
        value = list(value)
    if isinstance(value, datetime) and name == "until":
        return value.isoformat()
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {scrubbed(_text(str, value))}"
    try:
        return scrubbed_tree(readable.to_json(value))
    except Exception:  # noqa: BLE001 - an event has a JSON form, whatever its value
        return scrubbed(_text(repr, value))


def _text(make: Callable[[Any], str], value: Any) -> str:
    """What `str` or `repr` makes of a value of the user's, whose own methods may fail."""
    try:
        return make(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"
