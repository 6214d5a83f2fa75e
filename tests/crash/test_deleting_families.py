"""The process dies while a run is deleted with its child runs: the next deletion finishes it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.model import OF_CHILD
from holdfast.workflow import step, workflow
from tests import faults
from tests.crash.harness import url_of
from tests.servers import children


@workflow
async def inner() -> int:
    return await step("count").python(lambda: 1)


@workflow
async def sub() -> int:
    return await inner()


@workflow
async def whole() -> int:
    return await sub()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_kill_at_any_point_of_a_deletion_leaves_what_the_next_one_finishes(
    kind: str, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with hf.SyncCheckpointer(url_of(kind, model)) as cp:
        for run_id in ("x", "x/y"):
            hf.Engine(cp).run_sync(whole(), run_id=run_id)
    rest = ["x/y", "x/y//sub", "x/y//sub//inner"]
    shutil.copytree(model, tmp_path / "dry")
    with hf.SyncCheckpointer(url_of(kind, tmp_path / "dry")) as cp, faults.record() as points:
        cp.clear("x")
    assert len(points) >= 6
    left: set[tuple[str, ...]] = set()
    for nth, point in enumerate(points, 1):
        place = tmp_path / str(nth)
        shutil.copytree(model, place)
        url = url_of(kind, place)
        assert children.run((children.clear_and_die, url, "x", nth)) == [-signal.SIGKILL], point
        with hf.SyncCheckpointer(url) as cp:
            found = sorted(run.run_id for run in cp.runs() if run.run_id not in rest)
            left.add(tuple(found))
            assert found == ["x", "x//sub", "x//sub//inner"][: len(found)], point
            assert all(cp.verify(run.run_id).ok for run in cp.runs()), point
            cp.clear("x")
            assert sorted(run.run_id for run in cp.runs()) == rest, point
            assert hf.Engine(cp).run_sync(whole(), run_id="x") == 1
            assert all(OF_CHILD in child.run_id for child in cp.children("x"))
            assert len(cp.children("x")) == 2
    assert len(left) == 4, "it died before, between and after all of them"
