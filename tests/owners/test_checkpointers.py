"""No operation of a checkpointer that is bound to an owner tells of another's runs, or changes one.

Every public name of the class is in `CALLS`: a new operation fails until it is tried here, too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.kernel.store_view import real_store
from holdfast.stores.memory import MemoryStore
from tests.owners.conftest import Two, in_memory
from tests.owners.world import KINDS, STEP, THREAD, Asked, told

Cp = hf.SyncCheckpointer
Call = Callable[[Cp, Asked, Path], Any]

THINNED = hf.Retention(keep_latest=1)
EXPIRED = hf.Retention(run_ttl=timedelta(microseconds=1))


def on_runs(call: Callable[[Cp, str], Any]) -> list[Call]:
    """The call for each of the runs that an owner has."""
    return [
        lambda cp, of, _, kind=kind: call(cp, getattr(of, kind))  # type: ignore[misc]
        for kind in KINDS[:5]
    ]


def written(call: Callable[[Cp, Asked, Path], Any]) -> Call:
    """The call, and what it wrote into files."""

    def made(cp: Cp, of: Asked, files: Path) -> Iterator[Any]:
        where = files / "written.jsonl"
        try:
            yield call(cp, of, where)
        finally:
            if where.is_file():
                yield where.read_bytes().decode("latin-1")
                where.unlink()

    return lambda cp, of, files: list(made(cp, of, files))


def attested(cp: Cp, run: str) -> Any:
    envelope = cp.attest(run, sign=hf.SigningKey.ed25519("k", b"k" * 32))
    return base64.b64decode(envelope["payload"]).decode()


def proved(cp: Cp, of: Asked, files: Path) -> Any:
    names: list[str] = []
    return cp.verify_chain(progress=names.append), names


def checked(cp: Cp, of: Asked, files: Path) -> Any:
    """A receipt for an owner of whom nothing was there."""
    with hf.SyncCheckpointer(MemoryStore()) as empty:
        return cp.verify_receipt(empty.forget(owner=of.owner))


def anchored(cp: Cp, of: Asked, files: Path) -> Any:
    """An anchor with a run that is not there any more: a report would name it."""
    with hf.SyncCheckpointer(MemoryStore()) as other:
        other.save(of.words, 1)
        other.anchor(files / "anchors")
    return cp.verify_anchor(files / "anchors")


def proved_in_anchor(cp: Cp, of: Asked, files: Path) -> Any:
    with hf.SyncCheckpointer(MemoryStore()) as other:
        other.save(of.words, 1)
        other.anchor(files / "others")
    return cp.prove_anchored(files / "others", of.words)


def remembered(cp: Cp, of: Asked, files: Path) -> Any:
    """What all owners remember in one file, of which a run was altered since."""
    heads = files / f"heads-{of.owner}"
    with hf.SyncCheckpointer(real_store(cp.store), remember=heads) as all_owners:
        all_owners.load(of.task)
    with hf.SyncCheckpointer(cp.store, remember=heads) as own:
        return own.check_remembered()


def accepted(cp: Cp, of: Asked, files: Path) -> Any:
    with hf.SyncCheckpointer(cp.store, remember=files / "accepted") as own:
        return own.accept_history([of.saved]) and of.canary


def copied(cp: Cp, of: Asked, files: Path) -> Any:
    target = MemoryStore()
    cp.copy_to(target)
    with hf.SyncCheckpointer(target) as there:
        return there.runs(), [run.run_id for run in there.runs()]


def imported(cp: Cp, of: Asked, files: Path) -> Any:
    """Bring in what another exported, where it is, and where it is not."""
    with hf.SyncCheckpointer(real_store(cp.store)) as all_owners:
        all_owners.export_run(of.saved, files / "theirs.jsonl")
    with hf.SyncCheckpointer(MemoryStore(), owner=cp.owner) as empty:
        return [
            told(lambda: empty.import_run(files / "theirs.jsonl")),
            told(lambda: cp.import_runs(files / "theirs.jsonl")),
            [empty.load(run.run_id) for run in empty.runs()],
        ]


CALLS: dict[str, list[Call]] = {
    # What reads.
    "load": [
        *on_runs(lambda cp, run: cp.load(run)),
        lambda cp, of, _: cp.load(checkpoint_id=f"{of.saved}@1"),
        lambda cp, of, _: cp.load(of.saved, seq=1),
        lambda cp, of, _: cp.load(of.saved, step=STEP),
    ],
    "list_checkpoints": on_runs(lambda cp, run: cp.list_checkpoints(run)),
    "iter_checkpoints": on_runs(lambda cp, run: cp.iter_checkpoints(run)),
    "iter_states": on_runs(lambda cp, run: cp.iter_states(run, left_behind=True)),
    "run": on_runs(lambda cp, run: cp.run(run)),
    "runs": [
        lambda cp, of, _: cp.runs(),
        lambda cp, of, _: cp.runs(owner=of.owner),
        lambda cp, of, _: cp.runs(thread_id=THREAD, prefix=of.saved),
        lambda cp, of, _: cp.runs(after=of.saved),
        lambda cp, of, _: cp.runs(asking=True, labels={"about": of.words}),
    ],
    "iter_runs": [lambda cp, of, _: cp.iter_runs(owner=of.owner)],
    "count_runs": [lambda cp, of, _: cp.count_runs()],
    "tally": [lambda cp, of, _: cp.tally(datetime.now(UTC))],
    "stats": [lambda cp, of, _: cp.stats(), *on_runs(lambda cp, run: cp.stats(run))],
    "thread": [lambda cp, of, _: cp.thread(THREAD)],
    "children": on_runs(lambda cp, run: cp.children(run)),
    "parent_of": [lambda cp, of, _: cp.parent_of(f"{of.asks}//part") and of.canary],
    "diff": [lambda cp, of, _: cp.diff(of.saved, 1, 2).text()],
    "timeline": on_runs(lambda cp, run: cp.timeline(run)),
    "verify": on_runs(lambda cp, run: cp.verify(run)),
    "verify_chain": [proved, *on_runs(lambda cp, run: cp.verify_chain([run]))],
    "verify_receipt": [checked],
    "check_remembered": [remembered],
    "accept_history": [accepted],
    "anchor": [written(lambda cp, of, file: cp.anchor(file))],
    "verify_anchor": [anchored],
    "prove_anchored": [proved_in_anchor],
    "dry_run": [lambda cp, of, _: cp.dry_run(hf.Migrations(2, {1: None}))],
    "attest": on_runs(attested),
    "export_run": [written(lambda cp, of, file: cp.export_run(of.saved, file))],
    "export_runs": [written(lambda cp, of, file: cp.export_runs(of.runs, file))],
    "export_checkpoints": [written(lambda cp, of, file: cp.export_checkpoints(file))],
    "export_data": [
        written(lambda cp, of, file: cp.export_data(file, owner=of.owner)),
        written(lambda cp, of, file: cp.export_data(file, thread_id=THREAD)),
        written(lambda cp, of, file: cp.export_data(file, run_id=of.saved)),
    ],
    "import_run": [imported],
    "import_runs": [imported],
    "copy_to": [copied, *on_runs(lambda cp, run: cp.copy_to(MemoryStore(), [run]))],
    "watch": [lambda cp, of, _: cp.watch(of.saved, every=0.01).wait(0.1) and of.canary],
    "flush": [lambda cp, of, _: cp.flush()],
    "rekey": [lambda cp, of, _: cp.rekey()],
    "cut_over": [lambda cp, of, _: cp.cut_over()],
    # What writes.
    "fork": [
        *on_runs(lambda cp, run: cp.fork(run).state),
        lambda cp, of, _: cp.fork(cp.runs(thread_id=THREAD)[-1].run_id, run_id=of.saved),
        lambda cp, of, _: cp.fork(cp.runs(thread_id=THREAD)[-1].run_id, owner=of.owner),
    ],
    "save": on_runs(lambda cp, run: cp.save(run, {"mine": True}, step=STEP)),
    "save_many": on_runs(lambda cp, run: cp.save_many([{"run_id": run, "state": 1}] * 2)),
    "rollback": on_runs(lambda cp, run: cp.rollback(run, seq=1)),
    "complete": on_runs(lambda cp, run: cp.complete(run)),
    # What deletes, at last also Ann's own.
    "delete": [lambda cp, of, _: cp.delete(of.saved, seq=1, force=True)],
    "prune": [lambda cp, of, _: cp.prune(of.saved, keep_latest=3, force=True)],
    "apply_retention": [lambda cp, of, _: Cp(cp.store, retention=THINNED).apply_retention()],
    "retain": [lambda cp, of, _: Cp(cp.store, retention=EXPIRED).retain(of.done)],
    "clear": [lambda cp, of, _: cp.clear(of.due, force=True)],
    "delete_thread": [
        lambda cp, of, _: cp.delete_thread(of.saved, force=True),
        lambda cp, of, _: cp.delete_thread(THREAD, force=True),
    ],
    "forget": [
        lambda cp, of, _: cp.forget(run_id=of.task, force=True),
        lambda cp, of, _: cp.forget(thread_id=THREAD, force=True),
        lambda cp, of, _: cp.forget(owner=of.owner, force=True),
    ],
    # What is not an operation.
    "close": [],
    "core": [],
    "degraded": [],
    "keys": [],
    "owner": [],
    "store": [lambda cp, of, _: cp.store],
}


def test_every_operation_is_tried() -> None:
    for kind in (hf.SyncCheckpointer, hf.Checkpointer):
        assert {name for name in dir(kind) if not name.startswith("_")} == CALLS.keys()


def noticed(two: Two, owner: str | None) -> list[str]:
    """The operations that told of another's runs, or changed one, and what they told."""
    found = []
    before = two.untouched()
    for name, calls in CALLS.items():
        for call in calls:
            bob = Asked(two.bob)
            with hf.SyncCheckpointer(two.store, owner=owner) as cp:
                text = told(lambda: call(cp, bob, two.files))  # noqa: B023
            if two.bob.among(text, bob.named):
                found.append(f"{name} tells {text}")
            if two.untouched() != before:
                found.append(f"{name} changes something")
                before = two.untouched()
    return found


def test_no_operation_tells_or_changes_anything_of_another_owner(two: Two) -> None:
    assert noticed(two, "ann") == []
    with hf.SyncCheckpointer(two.store, owner="bob") as cp:
        assert {run.run_id for run in cp.thread(THREAD)} == {two.bob.saved, two.bob.asks}


NUMBERS = {"count_runs", "stats", "tally", "verify"}
NOTHING = {"flush", "rekey", "cut_over", "store", "check_remembered", "accept_history"}


def test_the_same_calls_without_a_binding_are_noticed(tmp_path: Path) -> None:
    tried = {name for name in CALLS if CALLS[name]} - NUMBERS - NOTHING
    assert tried - {one.partition(" ")[0] for one in noticed(in_memory(tmp_path), None)} == set()


def test_numbers_count_the_owners_own_runs_only(two: Two) -> None:
    with hf.SyncCheckpointer(two.store, owner="ann") as ann, hf.SyncCheckpointer(two.store) as all_:
        assert 2 * ann.stats().checkpoints == all_.stats().checkpoints
        assert {name: 2 * n for name, n in ann.count_runs().items()} == all_.count_runs()
        since = datetime.now(UTC) - timedelta(hours=1)
        started = [sum(hour.started for hour in cp.tally(since)) for cp in (ann, all_)]
        assert 2 * started[0] == started[1] > 0
        assert ann.stats(two.bob.saved).checkpoints == 0
        with pytest.raises(hf.CheckpointNotFoundError):
            ann.verify(two.bob.saved)
