"""What operations return: checkpoints, with and without their state, runs and totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, cast

from holdfast.codec import cards, readable, values
from holdfast.codec.meta import Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError, ReviveError
from holdfast.heads import RunHead
from holdfast.model import Entry, checkpoint_id, lost, split_checkpoint_id

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)  # a plain `Checkpoint` is of anything
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

SCHEMA: Final = 1
"""The version of the JSON form that `to_dict` gives."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CheckpointInfo:
    """A checkpoint without its state: what lists give. Immutable."""

    __slots__ = ("_entry", "_meta", "damage")

    def __init__(self, entry: Entry, damage: str | None = None) -> None:
        self._entry = entry
        self._meta: Meta | None = None
        self.damage = damage
        """Why it can't be used, if a list found that out; loading may find more."""

    @property
    def entry(self) -> Entry:
        """The journal entry underneath."""
        return self._entry

    @property
    def checkpoint_id(self) -> str:
        """RUN@SEQ: identifies the checkpoint permanently, in any store."""
        return checkpoint_id(self._entry.run, self._entry.seq)

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self._entry.run

    @property
    def seq(self) -> int:
        """Its position in the run; grows with every save and is never used twice."""
        return self._entry.seq

    @property
    def parent_id(self) -> str | None:
        """The checkpoint it was built on; after a rollback, not the one before it."""
        parent = self._entry.parent
        return None if parent is None else checkpoint_id(self._entry.run, parent)

    @property
    def step(self) -> str | None:
        """The step that had just finished."""
        return self._entry.step

    @property
    def step_index(self) -> int | None:
        """That step's place in the flow."""
        return self._entry.step_index

    @property
    def step_name(self) -> str | None:
        """That step's name for people; the step itself unless another was given."""
        name = self.meta.step_name
        return self._entry.step if name is None else name

    @property
    def next_steps(self) -> tuple[str, ...]:
        """What was to run next, as far as it was known."""
        return tuple(self.meta.next_steps)

    @property
    def status(self) -> str:
        """How the step ended: "completed", "failed" or "paused"."""
        status = self._entry.status
        return status if status in ("failed", "paused") else "completed"

    @property
    def type(self) -> str | None:
        """At which point it was taken: one of `CheckpointType` or a word of your own."""
        return self._entry.type

    @property
    def created_at(self) -> datetime:
        """When it was saved, in UTC. For people: order is by `seq`."""
        return to_datetime(self._entry.at)

    @property
    def duration(self) -> float | None:
        """Seconds the step took, if given."""
        return self._entry.duration

    @property
    def iteration(self) -> int | None:
        """Which round of its loop the step was in, if given."""
        return self.meta.iteration

    @property
    def metadata(self) -> dict[str, Any]:
        """Whatever the caller attached; a copy."""
        try:
            return dict(readable.from_json(self.meta.metadata or {}))
        except ReviveError:
            raise  # nothing is wrong with what is stored
        except (TypeError, ValueError) as error:
            self.meta.refuse(f"its metadata: {error}")

    @property
    def flow(self) -> str | None:
        """The flow that ran."""
        return self._entry.flow

    @property
    def flow_version(self) -> str | None:
        """The version of that flow."""
        return self.meta.flow_version

    @property
    def schema_version(self) -> int | None:
        """The version of the state's own shape, if the caller keeps one."""
        return self.meta.schema_version

    @property
    def thread_id(self) -> str | None:
        """The conversation the run belongs to."""
        return self._entry.thread

    @property
    def owner(self) -> str | None:
        """Whose run it is."""
        return self._entry.owner

    @property
    def digest(self) -> str:
        """Proves this checkpoint and, by its chain, everything before it in the run."""
        return self._entry.digest.hex()

    def get_state_size(self) -> int:
        """Bytes the whole state takes, encoded and uncompressed."""
        return self._entry.size

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON form; `from_dict` turns it back exactly."""
        entry = self._entry
        return {
            "holdfast": SCHEMA,
            "checkpoint_id": self.checkpoint_id,
            "run_id": entry.run,
            "seq": entry.seq,
            "parent_id": self.parent_id,
            "entry_id": entry.entry_id.hex(),
            "term": entry.term,
            "digest": entry.digest.hex(),
            "step": entry.step,
            "step_index": entry.step_index,
            "type": entry.type,
            "status": self.status,
            "run_status": entry.status,
            "created_at": self.created_at.isoformat(),
            "duration": entry.duration,
            "size": entry.size,
            "flow": entry.flow,
            "thread_id": entry.thread,
            "owner": entry.owner,
            "meta": {} if self.damage else self.meta.fields,
            **({"damage": self.damage} if self.damage else {}),
        }

    @classmethod
    def damaged(cls, error: CheckpointCorruptedError) -> CheckpointInfo:
        """What a list shows in the place of an entry that can't be used."""
        assert error.seq is not None, "it has a place"
        return cls(error.entry or lost(error.run_id, error.seq, error.digest), error.reason)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckpointInfo:
        """The checkpoint that `to_dict` was called on, as data."""
        return cls(_entry_from(data))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CheckpointInfo):
            return NotImplemented
        return self._entry[:-1] == other._entry[:-1]

    def __hash__(self) -> int:
        return hash((self._entry.run, self._entry.seq, self._entry.digest))

    def __repr__(self) -> str:
        step = f" step={self.step!r}" if self.step is not None else ""
        status = "damaged" if self.damage else self.status
        text = f"{self.checkpoint_id}{step} {status} {self.created_at:%Y-%m-%d %H:%M:%S}"
        return f"<{type(self).__name__} {text}>"

    _repr_html_ = cards.CHECKPOINT

    @property
    def origin(self) -> str | None:
        """The checkpoint of another run that this one was forked from."""
        return self.meta.origin

    @property
    def meta(self) -> Meta:
        """The entry's metadata as stored, parsed when first looked at."""
        if self._meta is None:
            self._meta = Meta(self._entry)
        return self._meta


class Checkpoint(CheckpointInfo, Generic[T_co]):
    """A checkpoint with its state, which is decoded when first looked at.

    `Checkpoint[T]` is one whose state is a `T`, as `load(..., as_type=T)` gives it.
    """

    __slots__ = ("_decode", "_encoding", "_state")

    def __init__(self, entry: Entry, encoding: bytes, decode: Callable[[bytes], T_co]) -> None:
        super().__init__(entry)
        self._encoding: bytes | None = encoding
        self._decode: Any = decode
        self._state: Any = None

    @classmethod
    def damaged(cls, error: CheckpointCorruptedError) -> Checkpoint:
        """What a list shows in the place of an entry that can't be used: its state raises."""

        def refuse(_: bytes) -> Any:
            raise error

        info = CheckpointInfo.damaged(error)
        found = Checkpoint(info.entry, b"", refuse)
        found.damage = info.damage
        return found

    @property
    def saved(self) -> bool:
        """False only where saving failed and `on_save_failure` is "warn"."""
        return self._entry.seq >= 0

    @property
    def state(self) -> T_co:
        """The state as saved: a copy that belongs to this checkpoint alone."""
        if self._encoding is not None:
            try:
                self._state = self._decode(self._encoding)
            except CheckpointCorruptedError:
                raise
            except ValueError as error:
                raise CheckpointCorruptedError(self.run_id, self.seq, str(error)) from None
            self._encoding = self._decode = None
        return cast("T_co", self._state)

    def __getstate__(self) -> object:
        """What is pickled and copied: its state, and nothing of the store that it came from."""
        _ = self.state  # after which nothing decodes it any more
        return super().__getstate__()

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON form, with the state; `from_dict` turns it back exactly."""
        return super().to_dict() | {"state": readable.to_json(self.state)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint that `to_dict` was called on. Raises `ValueError` for anything else."""
        entry = _entry_from(data)
        if "state" not in data:
            raise ValueError(f"not a checkpoint in JSON form {SCHEMA}: it has no state")
        return cls(entry, values.encode(readable.data_from_json(data["state"])), values.decode)


class RunInfo(NamedTuple):
    """What a run is doing, as its head and the index say."""

    run_id: str
    status: str
    seq: int  # of its newest entry
    step: str | None  # the last one
    type: str | None
    updated_at: datetime
    flow: str | None
    thread_id: str | None
    owner: str | None
    started_at: datetime
    questions: int  # that are open
    due_at: datetime | None  # from then on a worker should execute it
    holder: str | None  # host and pid of the process that executes it, or did until it died
    labels: dict[str, str]
    parent_id: str | None  # the run that it is a child of
    damage: str | None = None  # of its newest entry, where that was proved: by `run`, not by `runs`

    def _repr_html_(self) -> str:
        return cards.RUN(self)


class Stats(NamedTuple):
    """What one run, or a whole store, holds; how many runs there are, `count_runs` says."""

    checkpoints: int
    state_bytes: int  # as if each state were stored whole
    stored_bytes: int  # what they take
    oldest: datetime | None
    newest: datetime | None


def run_info(head: Entry, row: RunHead | None, step: str | None) -> RunInfo:
    """The run whose head this is, with what the index has of it, if it has it, and its last step."""
    due = None if row is None else row.due
    return RunInfo(
        head.run, head.status, head.seq, step, head.type, to_datetime(head.at),
        head.flow, head.thread, head.owner,
        started_at=to_datetime(head.at if row is None else row.opened),
        questions=0 if row is None else row.questions,
        due_at=None if due is None else to_datetime(due),
        holder=None if row is None else _process(row.holder),
        labels={} if row is None else dict(label.split("=", 1) for label in row.labels),
        parent_id=None if row is None else row.parent,
    )  # fmt: skip


def _process(holder: str | None) -> str | None:
    """Host and pid of a holder, which is SLOT|NONCE|HOST|PLACE|PID|START."""
    parts = (holder or "").split("|")
    return f"{parts[2]}:{parts[4]}" if len(parts) == 6 else holder


def to_datetime(at: int) -> datetime:
    """Microseconds since the epoch as an aware datetime, without rounding.

    What no datetime can hold, as it was altered, becomes the first or the last moment there is.
    """
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return (datetime.max if at > 0 else datetime.min).replace(tzinfo=UTC)


def to_micros(when: datetime) -> int:
    """An aware datetime, or a naive one in local time, as microseconds since the epoch."""
    return (aware(when) - _EPOCH) // timedelta(microseconds=1)


def aware(when: datetime) -> datetime:
    """The moment in UTC; a naive time is local.

    At either end of the calendar, such as `datetime.max`, where that may not exist, it is UTC.
    """
    try:
        return when.astimezone(UTC)
    except (OverflowError, ValueError):
        return when.replace(tzinfo=UTC)


def _entry_from(data: Mapping[str, Any]) -> Entry:
    given: object = data  # JSON of others need not be an object
    if not isinstance(given, Mapping):
        raise ValueError(f"not a checkpoint in JSON form {SCHEMA}: {type(given).__name__}")
    if data.get("holdfast") != SCHEMA:
        raise ValueError(f"not a checkpoint in JSON form {SCHEMA}: {data.get('holdfast')!r}")
    try:
        run, seq = split_checkpoint_id(data["checkpoint_id"])
        parent = data["parent_id"]
        return Entry(
            run=run,
            seq=seq,
            kind="checkpoint",
            entry_id=bytes.fromhex(data["entry_id"]),
            parent=None if parent is None else split_checkpoint_id(parent)[1],
            term=data["term"],
            digest=bytes.fromhex(data["digest"]),
            step=data["step"],
            step_index=data["step_index"],
            type=data["type"],
            status=data["run_status"],
            at=to_micros(datetime.fromisoformat(data["created_at"])),
            duration=data["duration"],
            size=data["size"],
            flow=data["flow"],
            thread=data["thread_id"],
            owner=data["owner"],
            meta=dump_meta(data["meta"]),
            body=b"",
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a checkpoint in JSON form {SCHEMA}: {error!r}") from None
