"""What users do with a run: each returns what it found, by place, errors included."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.codec import envelope
from holdfast.kernel.entries import is_live, state_seq
from holdfast.kernel.proving import MARKERS
from holdfast.manager import CheckpointManager
from holdfast.model import Entry, Kind
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from tests.damage import lives
from tests.damage.damage import Damage
from tests.damage.lives import Life

Found = dict[Any, Any]
"""What was found at each place; where there was an error, that."""


class Trouble(NamedTuple):
    """An error."""

    error: BaseException

    @property
    def seq(self) -> int | None:
        return getattr(self.error, "seq", None)


@dataclass(frozen=True)
class Case:
    """What an operation is tried on."""

    life: Life
    entries: list[Entry]  # of the run, as they were before the damage
    place: Path
    url: str | None
    damage: Damage | None = None

    @property
    def run(self) -> str:
        return self.life.run

    @property
    def live(self) -> list[int]:
        """The seqs of its checkpoints."""
        return [entry.seq for entry in self.entries if is_live(entry)]

    @property
    def head(self) -> Entry:
        return self.entries[-1]

    @property
    def is_folded(self) -> bool:
        return any(entry.kind == Kind.RESULT for entry in self.entries)

    @property
    def bad(self) -> frozenset[int]:
        """The damaged seqs of the run itself."""
        ours = self.damage is not None and self.damage.run == self.run
        return self.damage.seqs if ours and self.damage else frozenset()

    @property
    def intact(self) -> int | None:
        """A checkpoint that the damage does not touch."""
        ours = self.damage is not None and self.damage.run == self.run
        named = self.damage.named if ours and self.damage else frozenset()
        floor = min(named, default=1 << 60) if self.is_folded else 1 << 60
        good = [seq for seq in self.live if seq not in named and seq < floor]
        return good[-1] if good and good[-1] < self.live[-1] else good[0] if good else None


def short(value: Any) -> Any:
    """A value that is quick to compare."""
    text = json.dumps(value, default=repr, sort_keys=True)
    return text if len(text) < 100 else hashlib.sha256(text.encode()).hexdigest()


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a call returns, or its error."""
    try:
        return call(*args, **options)
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return Trouble(error)


def about(checkpoint: Any) -> Any:
    """A checkpoint with its state."""
    if checkpoint is None:
        return None
    return (*listed(checkpoint), checkpoint.metadata, short(checkpoint.state))


def listed(info: Any) -> tuple[Any, ...]:
    """What lists show of a checkpoint."""
    return (
        info.seq, info.parent_id, info.step, info.step_index, info.type, info.status, info.owner,
        info.duration, info.created_at, info.run_id,
    )  # fmt: skip


# --- reading


def load_latest(case: Case, store: Store) -> Found:
    return {"latest": about(hf.SyncCheckpointer(store).load(case.run))}


def load_by_seq(case: Case, store: Store) -> Found:
    def load(seq: int) -> Any:
        return about(hf.SyncCheckpointer(store).load(case.run, seq=seq))

    return {entry.seq: attempt(load, entry.seq) for entry in case.entries}


def load_by_step(case: Case, store: Store) -> Found:
    def load(step: str) -> Any:
        return about(hf.SyncCheckpointer(store).load(case.run, step=step))

    steps = {entry.step for entry in case.entries if entry.step is not None}
    return {step: attempt(load, step) for step in sorted(steps)}


def list_checkpoints(case: Case, store: Store) -> Found:
    found = {}
    for info in hf.SyncCheckpointer(store).list_checkpoints(case.run):
        found[info.seq] = _marked(case, info) or listed(info)
    return found


def _marked(case: Case, item: Any) -> Trouble | None:
    """The damage that a list marks."""
    reason = getattr(item, "damage", None)
    return reason and Trouble(hf.CheckpointCorruptedError(case.run, item.seq, reason))


def iter_states(case: Case, store: Store) -> Found:
    """It stops at a damaged one, and can be continued behind it."""
    found: Found = {}
    after: int | None = None
    while True:
        states = hf.SyncCheckpointer(store).iter_states(case.run, after=after)
        try:
            for checkpoint in states:
                found[checkpoint.seq] = about(checkpoint)
            return found
        except hf.CheckpointCorruptedError as error:
            if error.seq is None or (after is not None and error.seq <= after):
                return {seq: Trouble(error) for seq in case.live} | found
            first = -1 if after is None else after + 1
            passed = {seq for seq in case.live if first <= seq < error.seq} - found.keys()
            found |= dict.fromkeys({*passed, error.seq}, Trouble(error))
            after = error.seq


def timeline(case: Case, store: Store) -> Found:
    found: Found = {}
    for moment in hf.SyncCheckpointer(store).timeline(case.run):
        about = (moment.kind, moment.step, moment.status, moment.took, moment.note, moment.size)
        if moment.note.startswith("damaged: "):
            error = hf.CheckpointCorruptedError(case.run, moment.seq, moment.note)
            found[moment.seq] = Trouble(error)
        else:
            found[moment.seq] = about
    return found


def runs(case: Case, store: Store) -> Found:
    return {run.run_id: _run(run) for run in hf.SyncCheckpointer(store).runs()}


def one_run(case: Case, store: Store) -> Found:
    """It is proved, unlike those of a list."""
    run = hf.SyncCheckpointer(store).run(case.run)
    if run is not None and run.damage:
        error = hf.CheckpointCorruptedError(case.run, case.head.seq, run.damage)
        return {"run": Trouble(error)}
    return {"run": None if run is None else _run(run)}


def _run(run: Any) -> Any:
    return run.run_id, run.status, run.step, run.owner, run.thread_id, run.flow


def diff(case: Case, store: Store) -> Found:
    def differ(a: int, b: int) -> str:
        return str(hf.SyncCheckpointer(store).diff(case.run, a, b))

    live = case.live
    return {pair: attempt(differ, *pair) for pair in itertools.pairwise(live)}


# --- going on


def save(case: Case, store: Store) -> Found:
    cp = hf.SyncCheckpointer(store)
    cp.save(case.run, {"saved": "behind it"}, step="new")
    again = hf.SyncCheckpointer(store).load(case.run)
    return {"latest": again and (again.seq, again.step, again.state)}


def fork(case: Case, store: Store) -> Found:
    def forked(seq: int) -> Any:
        made = hf.SyncCheckpointer(store).fork(case.run, seq=seq, run_id=f"fork-of-{seq}")
        again = hf.SyncCheckpointer(store).load(made.run_id)
        return again and (again.step, short(again.state))

    return {seq: attempt(forked, seq) for seq in case.live[:: max(1, len(case.live) // 3)]}


def rollback(case: Case, store: Store) -> Found:
    """To one that the damage does not touch."""
    target = case.intact
    if target is None:
        return {}
    hf.SyncCheckpointer(store).rollback(case.run, seq=target)
    again = hf.SyncCheckpointer(store).load(case.run)
    return {target: again and (again.step, short(again.state))}


def delete(case: Case, store: Store) -> Found:
    """The bad one; then all others are loaded."""
    cp = hf.SyncCheckpointer(store)
    bad = sorted(case.bad & set(case.live))
    deleted = {f"deleted {seq}": attempt(cp.delete, case.run, seq=seq, force=True) for seq in bad}
    found = load_by_seq(case, store)
    left = {seq: one for seq, one in found.items() if seq not in case.bad}
    return left | deleted | latest_of(case, store)


def latest_of(case: Case, store: Store) -> Found:
    return {"latest": attempt(lambda: load_latest(case, store)["latest"])}


def prune(case: Case, store: Store) -> Found:
    """Those that stay are as before; damaged ones stay, and do not count."""
    before = load_by_seq(case, store)
    cp = hf.SyncCheckpointer(store)
    said = attempt(lambda: cp.prune(case.run, keep_latest=2, force=True) >= 0)
    found = load_by_seq(case, store)
    for seq, now in found.items():
        is_known = case.is_folded and not isinstance(now, Trouble)  # fewer results are left
        if now is None or now == before[seq] or is_known:
            found[seq] = "deleted, or as it was"
    if isinstance(said, Trouble):  # nothing was pruned, so more results are left
        return found | {"pruned": said, "latest": said}
    return found | {"pruned": said} | latest_of(case, store)


def export(case: Case, store: Store) -> Found:
    """To a file, and from there into a new store."""
    path = case.place / "export.jsonl"
    path.unlink(missing_ok=True)
    said = attempt(hf.SyncCheckpointer(store).export_run, case.run, path)
    if not path.exists():
        return {"said": said}
    there = MemoryStore()
    imported = attempt(hf.SyncCheckpointer(there).import_run, path)
    if isinstance(imported, Trouble) and not isinstance(said, Trouble):
        raise imported.error
    return _there(case, there, said)


def copy(case: Case, store: Store) -> Found:
    """Into a new store."""
    there = MemoryStore()
    said = attempt(hf.SyncCheckpointer(store).copy_to, there, [case.run])
    return _there(case, there, said)


def _there(case: Case, there: Store, said: Any) -> Found:
    """What is in the other store. It ends before a damaged end: then the error named that."""
    head = there.last(case.run)
    if head is None and isinstance(said, Trouble):
        raise said.error
    integrity = hf.SyncCheckpointer(there).verify(case.run)
    found = {
        **load_by_seq(case, there),
        "said": said,
        "intact": integrity.ok or Trouble(ValueError(str(integrity.problems))),
    }
    found |= latest_of(case, there)
    if isinstance(said, Trouble) and head is not None and head.seq < case.head.seq:
        beyond = {place for place in found if isinstance(place, int) and place > head.seq}
        found |= dict.fromkeys(beyond | {"latest"}, said)
    return found


def verify(case: Case, store: Store) -> Found:
    return {"problems": {each.seq for each in hf.SyncCheckpointer(store).verify(case.run).problems}}


def watch(case: Case, store: Store) -> Found:
    """The first look at a run, which says what there is."""
    with hf.SyncCheckpointer(store).watch(case.run) as changes:
        return {"first": [(change.run_id, change.seq) for change in changes.wait(5)]}


def doctor(case: Case, store: Store) -> Found:
    """Reads everything; says which run is damaged, and where."""
    if case.url is None:
        return {}
    done = CliRunner().invoke(holdfast, ["doctor", "--store", case.url, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    found = [each for each in json.loads(done.stdout)["findings"] if each["what"] == "damage"]
    return {"damage": [(each["status"], each["found"]) for each in found]}


# --- tasks


def task_checkpoints(case: Case, store: Store) -> Found:
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        found = {}
        for one in manager.list_checkpoints(case.run):
            found[one.seq] = _marked(case, one) or _task(one)
        return found


def by_alias(case: Case, store: Store) -> Found:
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        return {"named-1": _task(manager.get_checkpoint("named-1"))}


def last_verified(case: Case, store: Store) -> Found:
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        found = manager.get_last_verified_checkpoint(case.run)
        if found is not None and found.snapshot_data == lives.large(found.seq // 2 - 1):
            return {"verified": "one as it was"}
        return {"verified": _task(found)}


def begin_step(case: Case, store: Store) -> Found:
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        begun = manager.begin_step(case.run, "iteration_end", {"next": True})
        return {"begun": begun, "in flight": [s.step_id for s in manager.steps_in_flight(case.run)]}


def begin_behind_rollback(case: Case, store: Store) -> Found:
    target = case.intact
    if target is None:
        return {}
    with CheckpointManager(hf.SyncCheckpointer(store)) as manager:
        state = manager.rollback_to_checkpoint(f"{case.run}@{target}")
        manager.begin_step(case.run, "iteration_end", {"next": True})
        return {target: short(state)}


def _task(one: Any) -> Any:
    if one is None:
        return None
    return (one.checkpoint_id, one.task_id, one.checkpoint_type, short(one.snapshot_data))


# --- flows


def resume(case: Case, store: Store) -> Found:
    return {"result": _executed(case, store)}


def recover(case: Case, store: Store) -> Found:
    lives.DONE.clear()

    async def call() -> Any:
        async with hf.Engine(store) as engine:
            return await engine.recover(case.life.executed_by)

    found = asyncio.run(call())
    done = tuple(sorted(lives.DONE))
    return {
        run: Trouble(one) if isinstance(one, BaseException) else (short(one), done)
        for run, one in found.items()
    }


def go_back_and_resume(case: Case, store: Store) -> Found:
    """To one that the damage does not touch: that and all before it is used, nothing else."""
    target = case.intact
    if target is None:
        return {}
    hf.SyncCheckpointer(store).rollback(case.run, seq=target)
    return {target: _executed(case, store)}


def _executed(case: Case, store: Store) -> Any:
    """What a resume returns, and which steps it executed."""
    lives.DONE.clear()

    async def call() -> Any:
        async with hf.Engine(store) as engine:
            return await engine.resume(case.run, flow=case.life.executed_by)

    try:
        result = asyncio.run(call())
    except hf.RunPausedError as paused:
        result = str(paused)
    except Exception:
        assert not lives.DONE, f"it executed {lives.DONE} and failed then"
        raise
    return short(result), tuple(sorted(lives.DONE))


class Operation(NamedTuple):
    """One that is tried on every damage."""

    do: Callable[[Case, Store], Found]
    needs: Callable[[Case, Any], Iterable[int]]
    """The seqs that what is found at a place depends on."""
    shows_index: bool = False
    """It is a list that reads no bodies."""
    goes_by_index: bool = False
    """It is a list of what the index says is there."""

    @property
    def name(self) -> str:
        return self.do.__name__

    def is_asked(self, damage: Damage) -> bool:
        """Whether it has to notice. An entry that was forged with its digest is in order by itself.

        It is noticed by those who look at the entry behind it, too.
        """
        return damage.name != "forge with digest" or self.do in (verify, resume, recover)


def _all(case: Case, place: Any) -> Iterable[int]:
    return [entry.seq for entry in case.entries]


def _none(case: Case, place: Any) -> Iterable[int]:
    return ()


def _beginning(case: Case, place: Any) -> Iterable[int]:
    """A flow begins with its inputs."""
    return (0,)


def _forked(case: Case, place: Any) -> Iterable[int]:
    """A fork of a flow's run needs its beginning, too, and what was claimed before it."""
    return {0, *(range(place) if _is_sealed(case) else ()), *_state(case, place)}


def _is_sealed(case: Case) -> bool:
    """Whether only the key tells which of its checkpoints claim something."""
    return any(envelope.glance(entry).is_sealed for entry in case.entries if entry.body)


def _pruned(case: Case, place: Any) -> Iterable[int]:
    """What is pruned depends on what is current, on what child runs claim, and on claims."""
    if _is_sealed(case) or case.is_folded:  # the current state is that of all results
        return _all(case, place)
    if place not in ("pruned", "latest"):
        return _state(case, place)
    if case.damage is not None and case.damage.run != case.run:
        return case.damage.named
    return [seq for seq in (case.head.seq, state_seq(case.head)) if seq is not None]


def _state(case: Case, place: Any) -> Iterable[int]:
    """Of a checkpoint: itself; if it is a dict of results, all of them."""
    if place == "latest":
        current = state_seq(case.head)
        return {case.head.seq, *_state(case, current or 0)}
    if not isinstance(place, int):
        return _all(case, place)
    return range(place + 1) if case.is_folded else (place,)


def _on_branch(case: Case, place: Any) -> Iterable[int]:
    """A checkpoint, and the entries that say which ones led to it, or are deleted."""
    said = {entry.seq for entry in case.entries if entry.kind in (*MARKERS, Kind.ROLLBACK)}
    return {case.head.seq, *said, *_state(case, place)}


def _left(case: Case, place: Any) -> Iterable[int]:
    """What is missing altogether can't be deleted; nor the current one behind another bad one,
    nor any as long as a bad end says which one is current."""
    if str(place).startswith("deleted"):
        assert case.damage is not None
        missing = case.bad if case.damage.name in ("delete", "swap") else frozenset[int]()
        return {*missing, case.head.seq}
    return _state(case, place)


def _pair(case: Case, place: tuple[int, int]) -> Iterable[int]:
    return {seq for one in place for seq in _state(case, one)}


def _place(case: Case, place: Any) -> Iterable[int]:
    return (place,) if isinstance(place, int) else _all(case, place)


def _head(case: Case, place: Any) -> Iterable[int]:
    return (case.head.seq,)


PLAIN = (
    Operation(load_latest, _state),
    Operation(load_by_seq, _state),
    Operation(load_by_step, _all),
    Operation(list_checkpoints, _place, shows_index=True),
    Operation(iter_states, _on_branch),
    Operation(timeline, _place, shows_index=True),
    Operation(runs, _head, shows_index=True),
    Operation(one_run, _head, shows_index=True),
    Operation(diff, _pair),
    Operation(save, _head),
    Operation(fork, _forked),
    Operation(rollback, _none),
    Operation(delete, _left),
    Operation(prune, _pruned),
    Operation(export, _state),
    Operation(copy, _state),
    Operation(verify, _all),
    Operation(watch, _head),
    Operation(doctor, _all),
)
OF_TASKS = (
    Operation(task_checkpoints, _place, goes_by_index=True),
    Operation(by_alias, _all),
    Operation(last_verified, _all),
    Operation(begin_step, _all),
    Operation(begin_behind_rollback, _none),
)
OF_FLOWS = (
    Operation(resume, _all),
    Operation(recover, _all, goes_by_index=True),
    Operation(go_back_and_resume, _beginning),
)


def operations_on(life: Life) -> tuple[Operation, ...]:
    """Those that a run can be used with."""
    if life.executed_by is not None:
        return (*PLAIN, *OF_FLOWS)
    return (*PLAIN, *OF_TASKS) if life.make is lives.task else PLAIN
