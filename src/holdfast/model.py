"""The vocabulary of all other modules: entries, kinds, statuses, types and ids."""

from __future__ import annotations

import hashlib
import unicodedata
from enum import StrEnum
from typing import Final, NamedTuple

from holdfast.errors import InvalidIdError
from holdfast.revealed import quotes_secret, scrubbed

MAX_ID_BYTES: Final = 512
"""An id's longest UTF-8 form: every backend can index it, MySQL included."""

OF_CHILD: Final = "//"
"""Stands between a run's id and the step in the ids of child runs; no other run id may hold it."""

_SHORTENED: Final = 64  # bytes of its parent's id that a child run keeps if its id were too long

HIDDEN: Final = "\x1f"
"""Journals whose name starts with this are internal: they are not listed with the runs.
No run id may hold a control character, so no user can name one."""


class Kind(StrEnum):
    """What an entry of a journal records. The values are part of the stored format."""

    OPEN = "open"  # the run begins: its flow, thread, owner and, for a fork, its origin
    BEGIN = "begin"  # a step begins: the state it will be committed with; not a checkpoint yet
    CHECKPOINT = "checkpoint"  # the whole state after a step
    RESULT = "result"  # one step's own value; `load` folds results
    DECISION = "decision"  # what the flow must not decide twice: a branch, a time, a random number
    ROLLBACK = "rollback"  # the run continues from `parent`; what came between stays as history
    CLAIM = "claim"  # a process becomes the run's holder; says why it may
    RELEASE = "release"  # its holder stopped executing it without ending it: anyone may claim it
    CHILD = "child"  # a step begins a child run; its id
    QUESTION = "question"  # the run waits for a person
    ANSWER = "answer"
    REQUEST = "request"  # someone outside asks the worker to pause or cancel
    PAUSE = "pause"  # the worker stopped on request, or has nothing left to do but wait
    FAIL = "fail"  # a step, or the run, failed
    COMPLETE = "complete"
    CANCEL = "cancel"  # the run; among the steps of a task: one that was begun is abandoned
    TRIM = "trim"  # checkpoints before it were deleted; a worker continues after it
    TOMBSTONE = "tombstone"  # the head, or everything, was deleted; a worker has lost the run
    SLEEP = "sleep"  # a step waits until `due`, which its metadata says
    OUTPUT = "output"  # what a step put out before it was finished; nothing is decided by it
    MEMBER = "member"  # in a thread's journal: a run of it; in an alias's: the step it names
    VERDICT = "verdict"  # in a run's verdict journal: evidence was checked


CARRY_STATE: Final = (Kind.CHECKPOINT.value, Kind.RESULT.value)
"""The kinds that are checkpoints: lists show them and totals count them."""

FROM_OUTSIDE: Final = (Kind.REQUEST.value, Kind.ANSWER.value, Kind.TRIM.value)
"""The kinds that others may append while a process executes the run: it stays the holder."""


_SAYS_WHO: Final = frozenset({Kind.OPEN.value, Kind.CLAIM.value, Kind.RELEASE.value})
_SAVES: Final = frozenset({Kind.CHECKPOINT.value, Kind.BEGIN.value, Kind.RESULT.value})


class Status(StrEnum):
    """What a run is doing, as its head entry says."""

    OPEN = "open"  # saved to by hand; nobody drives it
    SUBMITTED = "submitted"  # opened for a worker, and nobody has executed it yet
    RUNNING = "running"  # an engine drives it, or did until it crashed
    PAUSED = "paused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    DELETED = "deleted"  # on a stub or tombstone: nothing is left here


class CheckpointType(StrEnum):
    """At which point of the work a checkpoint was taken; optional."""

    ITERATION_START = "iteration_start"
    ITERATION_END = "iteration_end"
    TOOL_EXECUTED = "tool_executed"
    LLM_RESPONSE = "llm_response"
    APPROVAL_POINT = "approval_point"
    STATE_TRANSITION = "state_transition"
    MANUAL_CHECKPOINT = "manual_checkpoint"
    ERROR_BOUNDARY = "error_boundary"


class Entry(NamedTuple):
    """One position of one journal, as stores see it: index fields in the clear, and bytes.

    A tuple because it is also a database row and is made on every save. A *stub* is what a
    deleted entry leaves: status "deleted", with only run, seq, kind, entry_id, parent, term,
    digest and at kept.
    """

    run: str
    seq: int
    kind: str
    entry_id: bytes  # random; identifies one's own entry after a lost reply
    parent: int | None  # the seq whose state this entry builds on (its own kind may carry none)
    term: int  # the seq of the entry that says who holds the run (`begins_term`)
    digest: bytes  # chained; made once at the first write, never changed
    step: str | None
    step_index: int | None
    type: str | None
    status: str
    at: int  # microseconds since the epoch; decoration, never order
    duration: float | None
    size: int  # bytes of the whole encoded state or value; 0 when the entry carries none
    flow: str | None
    thread: str | None
    owner: str | None
    meta: str  # JSON, or empty
    body: bytes  # a sealed envelope, or empty


def begins_term(kind: str, status: str, before: str | None) -> bool:
    """Whether an entry says who holds the run from there on. All others have the term before them.

    An opening or a claim of a running run says who: its writer. All else that begins a term says
    that nobody does. What others append while a run is executed changes nothing, and neither does
    a save by hand with the status that the run had `before`.
    """
    if kind in _SAYS_WHO:
        return True
    if status == Status.RUNNING or kind in FROM_OUTSIDE:
        return False
    return status != before or kind not in _SAVES


def stub(entry: Entry) -> Entry:
    """What is left of an entry that was deleted: its place in the chain."""
    return entry._replace(
        step=None, step_index=None, type=None, status=Status.DELETED.value, duration=None,
        size=0, flow=None, thread=None, owner=None, meta="", body=b"",
    )  # fmt: skip


def lost(run: str, seq: int, digest: bytes = b"") -> Entry:
    """A stub where an entry can't be read, or is missing; no marker says that it was deleted."""
    return Entry(
        run, seq, Kind.CHECKPOINT.value, b"", None, 0, digest, None, None, None,
        Status.DELETED.value, 0, None, 0, None, None, None, "", b"",
    )  # fmt: skip


def follows(entry: Entry, head: int) -> bool:
    """Whether the entry may be appended to a journal that ends at the seq `head` (-1 if empty).

    There are no gaps in a journal. Only the tombstone of an erased one may be anywhere above
    the head: nothing before it counts.
    """
    return entry.seq == head + 1 or (erases(entry) and entry.seq > head)


def erases(entry: Entry) -> bool:
    """Whether everything before this entry was deleted, and the journal begins with it."""
    return entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED


def check_id(what: str, value: str) -> str:
    """Return `value` if every store can keep it apart from all other ids; raise `InvalidIdError`.

    Ids are opaque text, compared by code point: no case folding, no normalisation, no trimming.
    """
    if (
        type(value) is str
        and value.isascii()
        and value.isprintable()
        and 0 < len(value) <= MAX_ID_BYTES
    ):
        return _without_secrets(what, value)
    if not isinstance(value, str):
        raise InvalidIdError(what, value, f"must be a str, not {type(value).__name__}")
    if not value:
        raise InvalidIdError(what, value, "is empty; give it at least one character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidIdError(what, value, "holds a lone surrogate and is not valid text") from None
    if size > MAX_ID_BYTES:
        raise InvalidIdError(
            what, value, f"takes {size} bytes in UTF-8; at most {MAX_ID_BYTES} are allowed"
        )
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidIdError(what, value, "holds a control character; use printable text")
    return _without_secrets(what, str(value))


def _without_secrets(what: str, value: str) -> str:
    if quotes_secret(value):
        raise InvalidIdError(what, scrubbed(value), "holds the value of a secret; ids are stored")
    return value


def child_prefixes(run: str) -> tuple[str, str]:
    """What the ids of a run's child runs begin with: in full, and where that grew too long.

    The ids of other runs' children may begin with the second, too.
    """
    cut = run.encode()[:_SHORTENED].decode(errors="ignore")
    return f"{run}{OF_CHILD}", f"{cut}{OF_CHILD}"


def checkpoint_id(run: str, seq: int) -> str:
    """The id of a checkpoint. A seq is never used twice, so this id is permanent."""
    return f"{run}@{seq}"


def split_checkpoint_id(value: str) -> tuple[str, int]:
    """The run and seq a checkpoint id names, without asking a store."""
    if not isinstance(value, str):
        raise InvalidIdError("checkpoint_id", value, f"must be a str, not {type(value).__name__}")
    run, _, seq = value.rpartition("@")
    if not run or not (seq.isascii() and seq.isdigit()) or len(seq) > 18:
        raise InvalidIdError("checkpoint_id", value, "is not of the form RUN@SEQ")
    return check_id("run_id", run), int(seq)


STORE_JOURNAL: Final = f"{HIDDEN}store"
"""The journal that holds the random id of a store."""

PROCESSES: Final = f"{HIDDEN}process{HIDDEN}"
"""What the names of the slots of processes begin with."""


KEYS: Final = f"{HIDDEN}key{HIDDEN}"
"""What the names of the journals of data keys begin with."""


def key_journal(owner: str | None) -> str:
    """The journal of the data keys of an owner, or of all runs without one: one row, replaced."""
    return f"{KEYS}{owner or ''}"


CUT_OVER: Final = f"{HIDDEN}cutover"
"""The journal that says which runs are older than the first key."""


def process_journal(slot: int) -> str:
    """The journal of one slot: it says which process has it, and is replaced by every beat."""
    return f"{PROCESSES}{slot}"


def permit_journal(flow: str, number: int) -> str:
    """The journal of one of the runs of a flow that workers may execute at once: who has it."""
    return f"{HIDDEN}permit{HIDDEN}{number}{HIDDEN}{flow}"


REQUESTS: Final = f"{HIDDEN}request{HIDDEN}"
"""What the names of the requests to verify begin with."""


def request_journal(number: int) -> str:
    """The journal of one request to verify a checkpoint: one row, replaced by the next request."""
    return f"{REQUESTS}{number}"


def vote_journal(request: int, slot: int | str) -> str:
    """The journal of what the process of a slot found when it was asked: one row, replaced."""
    return f"{HIDDEN}vote{HIDDEN}{request}{HIDDEN}{slot}"


FORGETTINGS: Final = f"{HIDDEN}forget{HIDDEN}"
"""What the names of the records of forgetting begin with."""


def forget_journal(identity: str) -> str:
    """The journal that records what was forgotten at one time: the receipt, as the store has it."""
    return f"{FORGETTINGS}{identity}"


THREADS: Final = f"{HIDDEN}thread{HIDDEN}"
ALIASES: Final = f"{HIDDEN}alias{HIDDEN}"
VERDICTS: Final = f"{HIDDEN}verdict{HIDDEN}"

SHARED: Final = tuple(
    f"{HIDDEN}{name}"
    for name in ("store", "process", "permit", "request", "vote", "forget", "cutover")
)
"""What the names of the journals begin with that keep processes apart: they belong to no owner."""


def is_passing(run: str) -> bool:
    """Whether this is a journal of which only the newest entry counts, and that only for a while."""
    name = run[1:].partition(HIDDEN)[0] if run.startswith(HIDDEN) else ""
    return name in ("process", "permit", "request", "vote")


def thread_journal(thread: str) -> str:
    """The journal beside the runs that lists a thread's runs in the order they were opened.

    Each entry has the owner of its run.
    """
    return f"{THREADS}{thread}"


def alias_journal(alias: str, owner: str | None = None) -> str:
    """The journal beside the runs that says what a caller's own name for a checkpoint leads to.

    The names of one owner are apart from those of others, and from those of runs without one.
    """
    if owner is None:
        return f"{ALIASES}{alias}"
    return f"{ALIASES}{hashlib.sha256(owner.encode()).hexdigest()}{HIDDEN}{alias}"


def verdict_journal(run: str) -> str:
    """The journal beside a run that keeps what was found out about its evidence."""
    return f"{VERDICTS}{run}"
