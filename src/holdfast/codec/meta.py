"""What an entry says beside its state: its `meta`, parsed once, every key with its type.

The keys are part of the stored format (docs/reference/format.md, section 5), and nothing else
parses them: `Meta` reads them, `dump_meta` writes them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NoReturn, Self, TypeVar, overload

from holdfast.codec.seqs import Seqs
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.model import Entry, Kind

T = TypeVar("T")
D = TypeVar("D")

EVIDENCE: Final = "evidence"  # the packs of claims made with this checkpoint
OBSERVED: Final = "observed"  # in such a pack: what holdfast itself saw; no claim can say it
INHERITED: Final = "inherited"  # of a fork's first checkpoint: the packs before it, by checkpoint
IN_FORCE: Final = "in_force"  # of a task's checkpoint: the earlier ones whose claims still count
CLAIMS_BEFORE: Final = "claims_before"  # of a flow's entry: something was claimed before it
CARRIED: Final = "carried"  # of a trim: packs of what it deleted, by the checkpoint they still bind
CHILD: Final = "child"  # of a step's result: the child run that the step executed
CALLED_WITH: Final = "called_with"  # of a result with claims: SHA-256 of the step's arguments
EPOCH: Final = "epoch"  # the seq of the rollback after which steps are executed anew
WORKER: Final = "worker"  # the process that wrote the entry
HOLDER: Final = "holder"
ASKED: Final = "asked"  # of a copied question: the id of the entry that it was first asked with
SIGNED: Final = "signed"  # of an answer: the id of the key of the person, and their signature
TRACE: Final = "trace"  # of an opening: the span in which it was opened, a W3C traceparent
DUE: Final = "due"  # when a worker should continue the run
OF_ONE_LIFE: Final = (
    "birth",
    "parent",
    "parent_birth",
    "parent_term",
    TRACE,
    HOLDER,
    "by",
)  # of an opening: not a fork's

SEALED_KEY: Final = "sealed"  # all of the metadata, encrypted
CLEAR: Final = (
    HOLDER,
    DUE,
    "questions",
    "labels",
    "parent",  # up to here, for the index of runs
    "after",
    "dropped",
    "behind",
    "rewritten",
    "target",  # and for the chain of digests, so that anyone can check it
)  # the keys that stay readable beside it

_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_NONE: Final[tuple[Any, ...]] = ()
_ARGUMENTS: Final = re.compile(r',"args":"([A-Za-z0-9+/]{24})"}')  # see `with_arguments`
_TAIL: Final = len(',"args":""}') + 24


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


_parse: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


class SealedText(str):
    """Metadata as it is stored, encrypted. To look into it opens it, and may raise for that."""

    _open: Callable[[], str]

    def __new__(cls, stored: str, open_: Callable[[], str]) -> Self:
        """The text `stored`; `open_` returns what it says."""
        text = super().__new__(cls, stored)
        text._open = open_
        return text

    @property
    def opened(self) -> str:
        """What was encrypted. Raises `KeyMissingError`, `CheckpointCorruptedError`."""
        text = self._open()
        self._open = lambda: text
        return text

    def __contains__(self, part: object) -> bool:
        try:
            return part in self.opened  # type: ignore[operator]
        except CheckpointCorruptedError:
            return True  # for all that is known; who then reads it finds out

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.opened,)


def meta_text(entry: Entry) -> str:
    """The metadata of an entry as it was written, opened if it is encrypted."""
    return entry.meta.opened if isinstance(entry.meta, SealedText) else entry.meta


class Key(Generic[T, D]):
    """One key of the metadata, read as an attribute: its value, or the default if it is absent.

    Raises `CheckpointCorruptedError` if the entry has a value of another type there.
    """

    def __init__(self, kind: type[T], default: D, name: str = "") -> None:
        self._kind = kind
        self._default = default
        self._name = name

    def __set_name__(self, owner: type[Meta], name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, meta: None, owner: type[Meta]) -> Key[T, D]: ...

    @overload
    def __get__(self, meta: Meta, owner: type[Meta]) -> T | D: ...

    def __get__(self, meta: Meta | None, owner: type[Meta]) -> Key[T, D] | T | D:
        if meta is None:
            return self
        found = meta.fields.get(self._name)
        if found is None:
            if SEALED_KEY in meta.fields and self._name not in CLEAR:
                meta.lacks_key()
            return self._default
        if not isinstance(found, self._kind):
            meta.refuse(f"its {self._name} is not a {self._kind.__name__}")
        return found


class Meta:
    """The metadata of one entry, parsed when it is made.

    Raises `CheckpointCorruptedError` for text that is not a JSON object. Keys without an
    attribute here are in `fields`. Do not change what it returns. What is encrypted, and can't be
    opened here, raises `KeyMissingError` when it is asked for.
    """

    __slots__ = ("_entry", "fields")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.fields: Mapping[str, Any] = {}
        if entry.meta:
            text = meta_text(entry)
            try:
                self.fields = _parse(text)
            except (ValueError, RecursionError) as error:
                self.refuse(f"its metadata: {error}")
            if not isinstance(self.fields, dict):
                self.refuse("its metadata is not an object")

    def lacks_key(self) -> NoReturn:
        """Raise `KeyMissingError` for this entry."""
        raise KeyMissingError(self._entry.run, self._entry.seq)

    def refuse(self, reason: str) -> NoReturn:
        """Raise `CheckpointCorruptedError` for this entry."""
        raise CheckpointCorruptedError(self._entry.run, self._entry.seq, reason) from None

    # checkpoints
    step_name = Key(str, None)
    next_steps = Key(list, _NONE)
    iteration = Key(int, None)
    flow_version = Key(str, None)
    schema_version = Key(int, None)
    metadata = Key(dict, None)  # the caller's own, in the readable form
    langgraph = Key(dict, _NO_FIELDS, "lg")  # see `holdfast.integrations.langgraph.layout`
    origin = Key(str, None)  # the checkpoint that a fork began with
    child = Key(str, None)
    inherited = Key(list, _NONE)
    carried = Key(dict, _NO_FIELDS)
    in_force = Key(str, None)  # seqs, as ranges
    claims_before = Key(bool, False)

    # hidden journals and markers
    run = Key(str, "")  # of a thread's member, or of a `child`: the run that is meant
    step = Key(str, None)  # of an alias's member: RUN@SEQ of the `begin`
    checkpoints = Key(list, _NONE)  # of a verdict: the seqs it is about
    after = Key(str, "")  # of a tombstone: the digest of the entry before it, in hex
    dropped_seqs = Key(str, "", "dropped")
    behind = Key(dict, _NO_FIELDS)  # of a marker: by seq that was dropped, the digest before it
    target = Key(str, None)  # of a rollback: the digest of the checkpoint it leads to, in hex
    rewritten = Key(dict, _NO_FIELDS)  # of a marker: by seq, the proof of its new body, in hex

    # the records of forgetting; ids are hashed there
    forgetting = Key(dict, None)  # of whom, for which store, the salt, and who asked for it
    doomed = Key(list, _NONE)  # the runs that are about to go
    gone = Key(list, _NONE)  # those that went, with their tombstones
    receipt = Key(dict, None)  # its digest, and when it was given

    # the data keys of an owner
    data_keys = Key(list, _NONE)  # id, key of the ring and wrapped key of each, newest last
    destroyed = Key(list, _NONE)  # the ids of keys that nobody has any more
    plain = Key(list, _NONE)  # of the cut-over: where journals ended, in the clear

    # the slots of processes
    nonce = Key(str, "")
    state = Key(str, "")  # "alive", "released" or "buried"
    process = Key(list, _NONE)  # host, place, pid, start
    dead_after = Key(float, 0.0)  # seconds
    lag = Key(float, 0.0)  # seconds that an event loop of the process is late
    flows = Key(list, _NONE)  # whose runs the process executes as a worker
    at_once = Key(int, 0)  # how many of them
    doing = Key(list, _NONE)  # some of the steps that it executes
    verifies = Key(bool, False)  # whether it checks claims for others

    # requests to verify, and votes
    request = Key(str, "")  # random
    seq = Key(int, -1)  # of a request: the checkpoint, and `digest` its digest, in hex
    digest = Key(str, "")
    within = Key(float, 0.0)  # seconds, that the asker waits
    votes = Key(dict, _NO_FIELDS)  # by status: the claims it was found of
    reasons = Key(dict, _NO_FIELDS)  # by claim

    # the entries of flows
    shape = Key(str, None)  # changes when the structure of a graph or pipeline does
    visits = Key(dict, _NO_FIELDS)  # by node of a loop: how often the run visited it
    since = Key(dict, _NO_FIELDS)  # by step of a loop: when the run first reached it
    before = Key(list, None)  # of a pipeline: the steps that ran last
    kind = Key(str, "python")  # of a workflow's step
    built = Key(bool, False)  # the body of a `for_each` returned a step
    undo = Key(bool, False)  # the step says how to undo it
    copied = Key(bool, False)  # of a fork's result: the origin executed the step, and may undo it
    called_with = Key(str, None)
    args = Key(str, None)  # of a workflow's step: a digest of its arguments
    failed = Key(bool, False)  # of a decision: it says how a failure is handled
    undone = Key(str, None)  # of a decision: the step was undone; why not, if that failed
    of = Key(str, None)  # of a failure: "attempt", "step", "run" or "rollback"
    attempt = Key(int, None)  # of a failed attempt: which it was
    due = Key(int, None)  # microseconds since the epoch: when to continue the run, or the step
    cancel = Key(bool, False)  # of a rollback's beginning: the run was cancelled
    others = Key(list, _NONE)  # of a run's failure: the steps that failed beside it
    cause = Key(str, None)  # of a run's failure: the step behind the flow's own error

    # runs
    inputs_hash = Key(str, None)  # of an opening
    structure = Key(dict, _NO_FIELDS)  # of an opening: what the flow was made of
    epoch = Key(int, 0)  # the seq of the rollback after which steps are executed anew
    anew = Key(bool, False)  # of a rollback: the whole run is executed again
    expired = Key(bool, False)  # of an answer: nobody gave one in time
    again = Key(bool, False)  # of a claim: by the holder itself, which had just stopped the run
    parent = Key(str, None)  # RUN@STEP that a child run is
    parent_term = Key(int, None)  # of a child's opening or claim: the claim of its parent's holder
    parent_birth = Key(str, None)  # of a child run: the birth id of the run it is a part of
    birth = Key(str, None)  # of an opening: random; a new run under an old id has another
    trace = Key(str, None)  # of an opening: a W3C traceparent; spans of later executions link to it
    labels = Key(dict, _NO_FIELDS)  # of an opening: texts by name, to find the run by
    questions = Key(int, None)  # of a question or an answer: how many are open from here on
    source = Key(str, None)  # what `holdfast run` was called with: shown, never imported
    rolled_back = Key(list, _NONE)  # the undo steps that were executed
    rejected = Key(list, None)  # of a rollback: what did not verify
    action = Key(str, None)  # of a request
    reason = Key(str, None)
    by = Key(str, None)  # who answered, asked for it, forked it or rolled it back
    asked = Key(str, None)
    skipped_to = Key(str, None)  # of an answer: nobody gave one, the run was resumed at this step

    # the steps of tasks
    begun = Key(str, None)  # the id of the `begin` entry, in hex
    alias = Key(str, None)  # the caller's own name for the checkpoint
    work_item = Key(str, None)
    worker = Key(str, None)
    holder = Key(str, None)  # of an opening, claim or member: the process that wrote it
    why = Key(str, None)  # of a claim: why the process might; only "died" counts as a crash
    cut_short = Key(dict, _NO_FIELDS)  # of a release: attempts that began and were dropped, by step

    @property
    def birth_id(self) -> str:
        """Of an opening: distinguishes this run from earlier and later ones with its id."""
        return self.birth or self._entry.entry_id.hex()

    @property
    def waits_for(self) -> str | None:
        """Of a pause: what the run waits for by itself, or the "timeout" or "cancel" that stopped it.

        None if somebody asked it to pause.
        """
        return None if self.action is not None else self.reason

    @property
    def is_to_undo(self) -> bool:
        """Of a result: whether its run undoes the step when it fails or is cancelled."""
        return self.undo and not self.copied

    @property
    def in_branch(self) -> bool:
        """Of a result: whether a node inside parallel branches made it, not a workflow's step."""
        return "next_steps" in self.fields

    @property
    def digest_before(self) -> bytes:
        """Of a tombstone: the digest of the entry before it; empty if there was none."""
        try:
            return bytes.fromhex(self.after)
        except ValueError:
            self.refuse("its after is not a digest in hex")

    @property
    def dropped(self) -> Seqs:
        """Of a marker: the seqs of the entries that were deleted with it."""
        try:
            return Seqs.parse(self.dropped_seqs)
        except ValueError as error:
            self.refuse(f"its dropped: {error}")

    @property
    def evidence(self) -> list[Any]:
        """The packs of claims made with this checkpoint."""
        found = self.fields.get(EVIDENCE)
        return found if isinstance(found, list) else [] if found is None else [found]


def plain_step(entry: Entry) -> str | None:
    """The step that a checkpoint was saved after.

    For a node inside parallel branches, `entry.step` is a path, such as `a>b/c`, and this is the
    node's name, `c`. Where the metadata is damaged, it is the path.
    """
    if entry.kind == Kind.RESULT and entry.meta:
        try:
            meta = Meta(entry)
            if meta.in_branch and meta.step_name is not None:
                return meta.step_name
        except CheckpointCorruptedError:  # lists name such entries, too; `load` refuses them
            pass
    return entry.step


def may_claim(text: str) -> bool:
    """Whether stored metadata may hold claims. Most holds none, and is not even parsed."""
    return EVIDENCE in text or INHERITED in text or CHILD in text


def claimed_so_far(text: str) -> bool:
    """Whether anything may have been claimed up to the entry with this metadata."""
    return CLAIMS_BEFORE in text or EVIDENCE in text or INHERITED in text or CHILD in text


def with_arguments(meta: str, digest: str | None) -> str:
    """The metadata of a step's result, with the digest of its arguments.

    Put into the text, which all runs of a flow share: they differ in this.
    """
    if digest is None:
        return meta
    return f'{meta[:-1]}{"," if len(meta) > 2 else ""}"args":"{digest}"}}'


def with_nothing_in_force(meta: str) -> str:
    """The metadata of a checkpoint before which nothing was claimed on its branch."""
    return f'{meta[:-1] + "," if len(meta) > 2 else "{"}"{IN_FORCE}":""}}'


def without_arguments(text: str) -> tuple[str, str | None]:
    """What `with_arguments` was given: what all results of a step say alike, and the digest."""
    found = _ARGUMENTS.fullmatch(text, len(text) - _TAIL)
    return (text, None) if found is None else (f"{text[:-_TAIL]}}}", found[1])


def with_facts(meta: str, facts: Mapping[str, Any]) -> str:
    """Metadata, and more facts behind it that it does not have."""
    more = dump_meta(facts)
    return f"{meta[:-1]},{more[1:]}" if meta and more else meta or more


def dump_meta(meta: Mapping[str, Any]) -> str:
    """An entry's metadata as it is stored; empty if there is none."""
    return _JSON.encode(meta) if meta else ""
