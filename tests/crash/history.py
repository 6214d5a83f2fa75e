"""Did the store keep its word? A history of what was asked and answered, held against a dump.

Workers write one line to an oracle file before an operation and one after it. After a crash a
fresh process dumps the store, and `check` says which promises were broken:

    I1  acknowledged: readable and equal
    I2  the head is the last acknowledged operation or one in flight, whole, in the order of time
    I3  the seqs are unique and dense, counting stubs, and the chain of digests is unbroken
    I4  what failed is absent or exactly what was attempted, once
    I8  deleted stays deleted
    I9  no effect crosses runs

Every save must carry a state of its own, so that its hash tells whose it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import HoldfastError, OutcomeUnknownError
from holdfast.kernel.reader import all_runs
from holdfast.model import CARRY_STATE, Kind, Status
from holdfast.store import RunFilter

Op = Literal["save", "fork", "rollback", "prune", "delete", "clear"]
Line = dict[str, Any]

_WRITES_STATE: Final = ("save", "fork")
_REMOVES: Final = ("prune", "delete", "clear")
_NEVER: Final = 1 << 62


def state_hash(state: object) -> str:
    """Tells any two states apart, and knows nothing of the codec under test."""
    return hashlib.sha256(repr(state).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Violation(NamedTuple):
    """A promise that was not kept."""

    invariant: str
    run: str
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.run}: {self.detail}"


class Oracle:
    """One worker's side of a history file. Threads may share it; each line is one write(2)."""

    def __init__(self, path: str | os.PathLike[str], worker: str) -> None:
        self.worker = worker
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._count = 0

    def next_id(self) -> str:
        """An id for an operation, unique in the history, to be put into its state."""
        with self._lock:
            self._count += 1
            return f"{self.worker}.{self._count}"

    def begin(self, op: Op, run: str, *, id: str | None = None, **fields: Any) -> Call:  # noqa: A002
        """Note that an operation is about to start.

        `hash=` for save and fork; `target=` for rollback and delete, a seq; `keep=` for prune.
        """
        call = Call(self, id or self.next_id())
        self._write({"phase": "begin", "id": call.id, "op": op, "run": run, **fields})
        return call

    def killed(self, worker: str) -> None:
        """Note that a worker is dead for sure: nothing of it may take effect any more."""
        self._write({"phase": "kill", "worker": worker})

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, line: Line) -> None:
        # A kill may cut a write short: the next one begins a line of its own.
        os.write(self._fd, b"\n" + json.dumps(line).encode() + b"\n")


class Call:
    """An operation under way."""

    def __init__(self, oracle: Oracle, id: str) -> None:  # noqa: A002
        self.id = id
        self._oracle = oracle

    def ack(self, *, seq: int | None = None) -> None:
        """Note that it returned; a save or fork says where it stands."""
        self._oracle._write({"phase": "ack", "id": self.id, "seq": seq})

    def fail(self, error: BaseException) -> None:
        """Note that it raised: an error of ours but `OutcomeUnknownError` says that nothing happened."""
        known = isinstance(error, HoldfastError) and not isinstance(error, OutcomeUnknownError)
        self._oracle._write(
            {"phase": "fail" if known else "unknown", "id": self.id, "error": repr(error)}
        )


def read_history(path: str | os.PathLike[str]) -> list[Line]:
    """The lines of an oracle file."""
    return parse_history(Path(path).read_bytes())


def parse_history(text: bytes) -> list[Line]:
    """The lines of a history. One that was cut short did not happen."""
    lines = []
    for line in text.split(b"\n"):
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


class Found(NamedTuple):
    """One entry of a dumped journal."""

    seq: int
    kind: str
    parent: int | None
    live: bool  # carries a state that was not deleted
    hash: str | None  # of that state
    problem: str | None  # why it can't be read


class RunDump(NamedTuple):
    """One dumped journal."""

    entries: tuple[Found, ...]
    current: tuple[int, str] | None  # seq and hash of what `load` returns
    problems: tuple[str, ...]  # what `load` and `verify` complain about


Dump = dict[str, RunDump]


def dump(checkpointer: SyncCheckpointer) -> Dump:
    """Everything in the store, as a reader sees it who has just opened it."""
    return {run: _dump_run(checkpointer, run) for run in _all_runs(checkpointer)}


def check(
    history: Iterable[Line], dumped: Dump, *, min_acks: int = 0, min_kills: int = 0
) -> list[Violation]:
    """What the store did not keep of what the history says it promised.

    A history with fewer acknowledged operations or kills than asked for proves nothing and is
    itself a violation.
    """
    timeline = _Timeline(history)
    found: list[Violation] = []
    if timeline.acks < min_acks:
        found.append(Violation("too little", "*", f"{timeline.acks} acks of {min_acks} wanted"))
    if timeline.kills < min_kills:
        found.append(Violation("too little", "*", f"{timeline.kills} kills of {min_kills} wanted"))
    for run in sorted(timeline.by_run.keys() | dumped.keys()):
        found += _check_run(run, timeline, dumped.get(run, RunDump((), None, ())))
    return found


# --- dumping


def _all_runs(checkpointer: SyncCheckpointer) -> Iterator[str]:
    for status in (None, Status.DELETED.value):
        for head in all_runs(checkpointer.store, RunFilter(status=status)):
            yield head.run


def _dump_run(checkpointer: SyncCheckpointer, run: str) -> RunDump:
    entries: list[Found] = []
    problems: list[str] = []
    current = None
    try:
        after = -1
        while page := checkpointer.store.read(run, after=after, bodies=False):
            for item in page:
                live = item.kind in CARRY_STATE and item.status != Status.DELETED
                state, problem = _state(checkpointer, run, item.seq) if live else (None, None)
                entries.append(Found(item.seq, item.kind, item.parent, live, state, problem))
            after = page[-1].seq
        loaded = checkpointer.load(run)
        current = None if loaded is None else (loaded.seq, state_hash(loaded.state))
    except HoldfastError as error:
        problems.append(f"load: {error}")
    try:
        problems += [f"verify: {problem}" for problem in checkpointer.verify(run).problems]
    except HoldfastError as error:
        problems.append(f"verify: {error}")
    return RunDump(tuple(entries), current, tuple(problems))


def _state(checkpointer: SyncCheckpointer, run: str, seq: int) -> tuple[str | None, str | None]:
    try:
        checkpoint = checkpointer.load(run, seq=seq)
    except HoldfastError as error:
        return None, str(error)
    if checkpoint is None:
        return None, "it is listed, and load finds nothing"
    return state_hash(checkpoint.state), None


# --- the history


@dataclass(slots=True)
class _Operation:
    id: str
    op: str
    run: str
    began: int
    floor: int  # the highest seq acknowledged in the run before it began
    hash: str | None
    target: int | None
    keep: int
    ended: int = _NEVER
    outcome: str = "open"
    seq: int | None = None


@dataclass(slots=True)
class _Timeline:
    history: Iterable[Line]
    by_run: dict[str, list[_Operation]] = field(default_factory=lambda: defaultdict(list))
    runs_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acks: int = 0
    kills: int = 0

    def __post_init__(self) -> None:
        operations: dict[str, _Operation] = {}
        highest: dict[str, int] = defaultdict(lambda: -1)
        for at, line in enumerate(self.history):
            if line["phase"] == "begin":
                run = line["run"]
                call = operations[line["id"]] = _Operation(
                    line["id"], line["op"], run, at, highest[run],
                    line.get("hash"), line.get("target"), line.get("keep", 0),
                )  # fmt: skip
                self.by_run[run].append(call)
                if call.hash is not None:
                    self.runs_of[call.hash].add(run)
            elif line["phase"] == "kill":
                self.kills += 1
                for call in operations.values():
                    if call.outcome == "open" and call.id.rpartition(".")[0] == line["worker"]:
                        call.ended = at
            else:
                call = operations[line["id"]]
                call.ended, call.outcome = at, line["phase"]
                if line["phase"] == "ack":
                    self.acks += 1
                    call.seq = line["seq"]
                    if call.seq is not None:
                        highest[call.run] = max(highest[call.run], call.seq)


# --- the promises


def _check_run(run: str, timeline: _Timeline, dumped: RunDump) -> Iterator[Violation]:
    calls = timeline.by_run.get(run, [])
    yield from (Violation("I3", run, problem) for problem in dumped.problems)
    yield from _check_order(run, dumped)
    yield from _check_owners(run, calls, timeline, dumped)
    yield from _check_kept(run, calls, dumped)
    yield from _check_deleted(run, calls, dumped)
    yield from _check_markers(run, calls, dumped)
    yield from _check_head(run, dumped)


def _check_order(run: str, dumped: RunDump) -> Iterator[Violation]:
    """I3: dense from 0, or from the tombstone of what was erased."""
    entries = dumped.entries
    if entries and entries[0].seq != 0 and entries[0].kind != Kind.TOMBSTONE:
        yield Violation("I3", run, f"begins at {entries[0].seq} with {entries[0].kind}")
    for before, after in pairwise(entries):
        if after.seq != before.seq + 1:
            yield Violation("I3", run, f"{after.seq} follows {before.seq}")
        if after.kind == Kind.OPEN and before.kind != Kind.TOMBSTONE:
            yield Violation("I3", run, f"opened again at {after.seq} without having been deleted")


def _check_owners(
    run: str, calls: list[_Operation], timeline: _Timeline, dumped: RunDump
) -> Iterator[Violation]:
    """I2, I4, I9: every state there is someone's, of this run, once, and in the order of time."""
    owners = {call.hash: call for call in calls if call.op in _WRITES_STATE}
    for entry in dumped.entries:
        if not entry.live:
            continue
        if entry.problem is not None:
            yield Violation("I2", run, f"{entry.seq} is not whole: {entry.problem}")
            continue
        owner = owners.get(entry.hash)
        if owner is None:
            others = timeline.runs_of.get(entry.hash or "")
            whose = f"the state of {sorted(others)}" if others else "a state nobody saved"
            yield Violation("I9" if others else "I2", run, f"{entry.seq} holds {whose}")
        elif owner.outcome == "fail":
            yield Violation("I4", run, f"{owner.id} failed for sure, and stands at {entry.seq}")
        elif owner.seq not in (None, entry.seq):
            yield Violation("I4", run, f"{owner.id} was saved at {owner.seq}, not {entry.seq}")
        elif entry.seq <= owner.floor:
            yield Violation(
                "I2", run, f"{owner.id} at {entry.seq} began after {owner.floor} was acknowledged"
            )
    copies = Counter(entry.hash for entry in dumped.entries if entry.hash is not None)
    for hash_, count in copies.items():
        if count > 1:
            yield Violation("I4", run, f"{count} copies of {hash_}")


def _check_kept(run: str, calls: list[_Operation], dumped: RunDump) -> Iterator[Violation]:
    """I1: what was acknowledged is there, unless someone may have deleted it."""
    at = {entry.seq: entry for entry in dumped.entries}
    removers = [call for call in calls if call.op in _REMOVES and call.outcome != "fail"]
    seqs: dict[int, str] = {}
    for call in calls:
        if call.op not in _WRITES_STATE or call.outcome != "ack" or call.seq is None:
            continue
        if call.seq in seqs:
            yield Violation("I3", run, f"{call.seq} was given to {seqs[call.seq]} and {call.id}")
        seqs[call.seq] = call.id
        entry = at.get(call.seq)
        if entry is not None and entry.live:
            if entry.hash != call.hash and entry.problem is None:
                yield Violation("I1", run, f"{call.id} at {call.seq} is not what was saved")
        elif not any(_may_have_removed(remover, call, calls) for remover in removers):
            yield Violation("I1", run, f"{call.id}, acknowledged at {call.seq}, is lost")


def _may_have_removed(remover: _Operation, save: _Operation, calls: list[_Operation]) -> bool:
    if remover.ended < save.began:
        return False
    if remover.op == "clear":
        return True
    if remover.op == "delete":
        return remover.target == save.seq
    early = [call for call in calls if call.began < remover.ended]
    if any(call.op == "rollback" for call in early):
        return True  # what a rollback left behind is never among those kept
    newer = sum(
        call.op in _WRITES_STATE
        and call.outcome != "fail"
        and (call.seq is None or call.seq > (save.seq or 0))
        for call in early
    )
    return newer >= remover.keep


def _check_deleted(run: str, calls: list[_Operation], dumped: RunDump) -> Iterator[Violation]:
    """I8: what was over before an acknowledged deletion began is not there any more."""
    live = {entry.hash: entry.seq for entry in dumped.entries if entry.live}
    for remover in calls:
        if remover.op not in _REMOVES or remover.outcome != "ack":
            continue
        newest = _surely_kept(remover, calls) if remover.op == "prune" else []
        for call in calls:
            if call.ended > remover.began or call.op not in _WRITES_STATE or call.hash not in live:
                continue
            where = live[call.hash]
            if (
                remover.op == "clear"
                or (remover.op == "delete" and remover.target == where)
                or (remover.op == "prune" and sum(seq > where for seq in newest) >= remover.keep)
            ):
                yield Violation("I8", run, f"{call.id} at {where} is back after {remover.id}")


def _surely_kept(prune: _Operation, calls: list[_Operation]) -> list[int]:
    """The seqs that a prune must have counted among the newest; none where a rollback confuses it."""
    early = [call for call in calls if call.began < prune.ended and call.outcome != "fail"]
    if any(call.op == "rollback" for call in early):
        return []
    rivals = [call for call in early if call.op in ("clear", "delete")]
    return [
        call.seq
        for call in early
        if call.op in _WRITES_STATE and call.seq is not None and call.ended < prune.began
        if not any(_may_have_removed(rival, call, calls) for rival in rivals)
    ]


def _check_markers(run: str, calls: list[_Operation], dumped: RunDump) -> Iterator[Violation]:
    """I1, I4: every rollback is there as often as it was asked for; no marker comes from nowhere."""
    asked = Counter(c.target for c in calls if c.op == "rollback" and c.outcome != "fail")
    there = Counter(e.parent for e in dumped.entries if e.kind == Kind.ROLLBACK)
    for target, count in there.items():
        if count > asked[target]:
            yield Violation("I4", run, f"{count} rollbacks to {target}, {asked[target]} asked for")
    erased = dumped.entries[:1] and dumped.entries[0].kind == Kind.TOMBSTONE
    if not erased:
        done = Counter(c.target for c in calls if c.op == "rollback" and c.outcome == "ack")
        for target, count in done.items():
            if there[target] < count:
                yield Violation("I1", run, f"a rollback to {target} was acknowledged and is lost")
    removals = sum(call.op in _REMOVES and call.outcome != "fail" for call in calls)
    markers = sum(entry.kind in (Kind.TRIM, Kind.TOMBSTONE) for entry in dumped.entries)
    if markers > removals:
        yield Violation("I4", run, f"{markers} markers of deletions, {removals} asked for")


def _check_head(run: str, dumped: RunDump) -> Iterator[Violation]:
    """I2: the current state is the one the journal leads to."""
    current: int | None = None
    for entry in dumped.entries:
        if entry.kind in CARRY_STATE:
            current = entry.seq
        elif entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE):
            current = entry.parent
    states = {entry.seq: entry.hash for entry in dumped.entries if entry.live}
    expected = None if current is None else (current, states.get(current))
    if expected != dumped.current:
        yield Violation("I2", run, f"the journal leads to {expected}, load gives {dumped.current}")
