"""The process dies while an owner is forgotten: doing it again finishes it, with one receipt."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.model import FORGETTINGS
from holdfast.store import RunFilter
from holdfast.workflow import step, workflow
from tests import faults
from tests.crash.harness import url_of
from tests.effort import some
from tests.servers import children


@workflow
async def inner() -> int:
    return await step("count").python(lambda: 1)


@workflow
async def whole() -> int:
    return await inner()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_kill_at_any_point_leaves_what_the_next_forgetting_finishes(
    kind: str, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with hf.SyncCheckpointer(url_of(kind, model)) as cp:
        hf.Engine(cp).run_sync(whole(), run_id="job", owner="ann", thread_id="t")
        cp.save("notes", {"n": 1}, owner="ann")
        cp.save("his", {"n": 1}, owner="bob", thread_id="t")
    names = {"job", "job//inner", "notes"}
    shutil.copytree(model, tmp_path / "dry")
    with hf.SyncCheckpointer(url_of(kind, tmp_path / "dry")) as cp, faults.record() as points:
        cp.forget(owner="ann")
    assert len(points) >= 6
    left: set[int] = set()
    for nth in some(range(1, len(points) + 1), 4, seed=1):
        point = points[nth - 1]
        place = tmp_path / str(nth)
        shutil.copytree(model, place)
        url = url_of(kind, place)
        assert children.run((children.forget_and_die, url, "ann", nth)) == [-signal.SIGKILL], point
        with hf.SyncCheckpointer(url) as cp:
            left.add(len(cp.runs(owner="ann", roots=True)))
            finished = cp.store.runs(RunFilter(prefix=FORGETTINGS, status="completed"))
            receipt = cp.forget(owner="ann")
            if not finished:  # else the process died when all was done
                assert {run.run_id for run in receipt.runs} == names, point
                assert all(run.tombstone for run in receipt.runs), point
            assert cp.verify_receipt(receipt).ok, point
            assert len(cp.store.runs(RunFilter(prefix=FORGETTINGS))) == 1, point
            assert [run.run_id for run in cp.runs()] == ["his"], point
            assert cp.forget(owner="ann").runs == (), point
        shutil.rmtree(place)
    assert left == {0, 1, 2}, "it died before, between and after all of them"
