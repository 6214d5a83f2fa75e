"""Everything that looks at stored runs, called on a store of somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from holdfast.manager import CheckpointManager
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.views import claims, entries, forks, rows, run, runs, totals, verifying
from holdfast.views.step_detail import choose, detail_of
from holdfast.views.step_graph import graph_of
from holdfast.views.step_groups import groups_of
from holdfast.views.step_reading import steps_of

_PATIENCE: Final = 0.5  # seconds, with a run that seems to wait

Look = Callable[[hf.SyncCheckpointer, str, Path], object]


def _load_each(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    for info in cp.list_checkpoints(run_id):
        try:
            cp.load(run_id, seq=info.seq)
        except hf.HoldfastError:
            continue


def _differences(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    seqs = [info.seq for info in cp.list_checkpoints(run_id)]
    str(cp.diff(run_id, seqs[-1], seqs[0]))


def _exported(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    path = place / "run.jsonl"
    path.unlink(missing_ok=True)
    cp.export_run(run_id, path)
    with hf.SyncCheckpointer(MemoryStore()) as other:
        other.import_run(path)


def _copied(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    cp.copy_to(MemoryStore(), [run_id])


def _shown(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    info = cp.run(run_id)
    if info is not None:
        run.show(cp, info).document()
        rows.row_of(cp, info)
        runs.document(cp, info)
        totals.totals(cp, info)


def _steps(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    info = cp.run(run_id)
    if info is not None:
        steps = steps_of(cp, info)
        graph_of(steps, groups_of(steps))
        for name in {one.name for one in steps.executions}:
            choose(steps, name)
            detail_of(cp, info, steps, name).document()


def _entries(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    for moment in cp.timeline(run_id):
        try:
            entries.look(cp, run_id, moment.seq)
        except hf.HoldfastError:
            continue


def _claims(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    claims.claims(cp, run_id)
    verifying.check(cp, run_id, verifier=None, record=False).to_dict()


def _family(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    cp.children(run_id)
    cp.parent_of(run_id)
    forks.origin_of(cp, run_id)
    forks.rollbacks(cp, run_id)


def _asked(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    async def ask() -> None:
        async with hf.Engine(cp.store) as engine:
            async for _ in engine.questions():
                pass
            with suppress(TimeoutError):  # forged as submitted, it waits for a worker
                await asyncio.wait_for(engine.get(run_id), _PATIENCE)

    asyncio.run(ask())


def _task(cp: hf.SyncCheckpointer, run_id: str, place: Path) -> None:
    manager = CheckpointManager(cp.store)
    manager.list_checkpoints(run_id)
    manager.get_last_verified_checkpoint(run_id)
    manager.steps_in_flight(run_id)


LOOKS: tuple[Look, ...] = (
    lambda cp, run_id, place: cp.runs(),
    lambda cp, run_id, place: cp.stats(),
    lambda cp, run_id, place: cp.stats(run_id),
    lambda cp, run_id, place: cp.load(run_id),
    lambda cp, run_id, place: cp.load(run_id, as_type=dict),
    lambda cp, run_id, place: list(cp.iter_states(run_id)),
    lambda cp, run_id, place: cp.timeline(run_id),
    lambda cp, run_id, place: cp.verify(run_id),
    lambda cp, run_id, place: cp.thread("thread"),
    *(_load_each, _differences, _exported, _copied, _shown, _steps, _entries, _claims, _family),
    *(_asked, _task),
)


def look(
    store: Store, run_id: str, place: Path, key: hf.Keyring | None = None
) -> Iterator[tuple[str, Exception]]:
    """Do all of it; what was raised by each, if anything was."""
    for number, one in enumerate(LOOKS):
        name = getattr(one, "__name__", "")
        with hf.SyncCheckpointer(store, deadline=1.0, key=key) as cp:
            try:
                one(cp, run_id, place)
            except Exception as error:  # noqa: BLE001 - which one it is, is the question
                yield (name if name != "<lambda>" else f"look {number}"), error


def undocumented(found: Iterator[tuple[str, Any]]) -> list[str]:
    """Those errors that no caller expects."""
    return [
        f"{name}: {type(error).__name__}: {error}"
        for name, error in found
        if not isinstance(error, hf.HoldfastError)
        and not (name == "_exported" and isinstance(error, ValueError))
    ]
