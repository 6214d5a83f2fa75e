"""Iterators over checkpoints and states that read a page at a time. Each page blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from holdfast.checkpoint import Checkpoint, CheckpointInfo
from holdfast.errors import CheckpointCorruptedError, HoldfastError
from holdfast.kernel.branches import FEW
from holdfast.kernel.core import Core, Pages
from holdfast.kernel.entries import is_stub
from holdfast.kernel.pages import Found
from holdfast.kernel.playback import Branch, Playback
from holdfast.migrations import Migrations
from holdfast.model import CARRY_STATE, Entry, Kind, check_id
from holdfast.operations import reading
from holdfast.operations.migrating import decoding
from holdfast.operations.reading import outages_named
from holdfast.store import PAGE

T = TypeVar("T")

_MOST_STATES: Final = 64  # in one page
_MOST_BYTES: Final = 4 << 20  # of their encodings, about


def iter_checkpoints(
    core: Core,
    run_id: str,
    *,
    after: int | None = None,
    oldest_first: bool = False,
    step: str | None = None,
    type: str | None = None,  # noqa: A002 - the word users know
    status: str | None = None,
) -> Pages[CheckpointInfo]:
    """Iterate over what `list_checkpoints` lists, without having all of it in memory."""
    return _pages(
        reading.checkpoints(core, run_id, after, oldest_first, step, type, status), run_id
    )


def iter_states(
    core: Core,
    run_id: str,
    *,
    after: int | None = None,
    left_behind: bool = False,
    as_type: Any = None,
    migrate: Migrations | None = None,
) -> Pages[Checkpoint[Any]]:
    """Iterate over the run's checkpoints with their states, oldest first, in one pass.

    They are those that led to where the run stood when the iteration began; with `left_behind`,
    also those that a rollback left behind. `after` a seq, it begins behind that one. Each state is
    what `load` gives for that `seq`, `as_type` and `migrate`, decoded when first looked at. An unknown run has
    none.

    The journal is read once, and a state is put together from the one before it: loading them one
    by one takes many times as long. Raises `CheckpointCorruptedError` at a damaged one; to
    continue behind it, give its `seq` as `after`.
    """
    check_id("run_id", run_id)
    if not isinstance(after, int | None):
        raise TypeError(f"after must be an int, not {after!r}")
    return _states(core, run_id, after, left_behind, as_type, migrate)


def load_listed(
    core: Core, run_id: str, seqs: Sequence[int], migrate: Migrations | None = None
) -> list[Checkpoint[Any]]:
    """The checkpoints at these seqs of a run, in one pass, in the order given. Blocks.

    Those that were deleted since they were listed are left out. Of a damaged one, `damage` says
    what is wrong, and its state raises that.
    """
    found: dict[int, Checkpoint[Any] | None] = dict.fromkeys(seqs)
    states = _States(core, None, migrate)
    for entry in _wanted(core, run_id, min(seqs) - 1, left_behind=True) if seqs else ():
        seq = entry.seq
        try:
            if isinstance(entry, CheckpointCorruptedError):
                raise entry
            checkpoint = states.at(entry)
        except CheckpointCorruptedError as error:
            if seq is None:
                raise
            error.entry = entry if isinstance(entry, Entry) else error.entry
            checkpoint = Checkpoint.damaged(error)
        if seq in found:
            found[seq] = checkpoint
    return [checkpoint for checkpoint in found.values() if checkpoint is not None]


def _pages(found: Iterator[T], run_id: str | None = None) -> Pages[T]:
    with outages_named(run_id):
        while page := list(islice(found, PAGE)):
            yield page


def _states(
    core: Core,
    run_id: str,
    after: int | None,
    left_behind: bool,
    as_type: Any,
    migrate: Migrations | None,
) -> Pages[Checkpoint[Any]]:
    page: list[Checkpoint[Any]] = []
    weight = 0
    states = _States(core, as_type, migrate)
    with outages_named(run_id):
        try:
            for entry in _wanted(core, run_id, after, left_behind):
                if isinstance(entry, CheckpointCorruptedError):
                    raise entry
                found = states.at(entry)
                if found is None:
                    continue
                page.append(found)
                weight += states.weight
                if len(page) >= _MOST_STATES or weight > _MOST_BYTES:
                    yield page
                    page, weight = [], 0
        except HoldfastError:
            if page:
                yield page  # those before it are good
            raise
    if page:
        yield page


def _wanted(core: Core, run_id: str, after: int | None, left_behind: bool) -> Iterator[Found]:
    """The entries of the checkpoints, with their bodies, oldest first, or what is wrong with them."""
    branch = None
    if left_behind:
        last = core.journals.head_seq(run_id)
    else:
        head = core.journals.checked_head(run_id)
        last = None if head is None else head.seq
        branch = None if head is None else Branch(core.journals, head, after)
    if last is None:
        return
    for entry in core.journals.scan(run_id, bodies=True, after=after, page=FEW):
        if entry.seq is not None and entry.seq > last:
            return
        on_branch = branch is None or entry.seq is None or entry.seq in branch
        if on_branch and not isinstance(entry, CheckpointCorruptedError):
            if is_stub(entry):
                if unlisted := core.journals.unlisted(entry):
                    yield unlisted
                continue
            on_branch = entry.kind in CARRY_STATE
        if on_branch:
            yield entry


class _States:
    """Makes checkpoints of entries, which it is given oldest first."""

    def __init__(self, core: Core, as_type: Any, migrate: Migrations | None) -> None:
        self._core = core
        self._journals = core.journals
        self._playback = Playback(core.journals)
        self._as_type = as_type
        self._migrate = migrate
        self._results: dict[str | None, bytes] = {}  # of the steps since the last whole state
        self._last: int | None = None
        self.weight = 0  # bytes that the last one holds, about

    def at(self, entry: Entry) -> Checkpoint[Any] | None:
        """The checkpoint at the next entry; None if it was deleted since it was read."""
        encoding = self._playback.encoding(entry)
        if encoding is None:
            return None
        decode: Callable[[bytes], Any] = self._journals.decode
        self.weight = len(encoding)
        if entry.kind == Kind.CHECKPOINT:
            self._results = {}
        else:
            self._add(entry, encoding)
        if reading.is_folded(entry):
            decode = self._folded()
            self.weight = sum(map(len, self._results.values())) + 100 * len(self._results)
        self._last = entry.seq
        decode = decoding(self._core, entry, decode, self._as_type, self._migrate)
        return Checkpoint(entry, encoding, decode)

    def _add(self, entry: Entry, encoding: bytes) -> None:
        if entry.parent != self._last:  # it is on another branch, or the first one looked at
            self._results = reading.results_until(self._journals, entry)
        self._results.pop(entry.step, None)
        self._results[entry.step] = encoding

    def _folded(self) -> Callable[[bytes], Any]:
        """What gives the state where results are recorded: the values of all steps, by step."""
        results, decode = dict(self._results), self._journals.decode
        return lambda _: {step: decode(value) for step, value in results.items()}
