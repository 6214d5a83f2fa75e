"""What errors of pipelines advise works."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.iamodules import BaseCheckpointer
from holdfast.pipeline import HumanInputStep, Pipeline


def asking(**options: Any) -> Pipeline:
    flow = {"start_at": "ask", "paths": [{"from": "ask", "to": "end"}]}
    return Pipeline([HumanInputStep("ask", "Well?")], flow, **options)


def test_a_thread_that_began_with_other_data_is_resumed_with_its_own(
    cp: hf.SyncCheckpointer,
) -> None:
    pipeline = asking(checkpointer=cp)
    assert pipeline.run_sync({"a": 1}, "t").status == "paused"
    with pytest.raises(hf.InputMismatchError, match="which uses the recorded inputs"):
        pipeline.run_sync({"a": 2}, "t", resume=True)
    assert pipeline.resume_sync("t", answer="yes").output == "yes"


def test_a_pipeline_that_saves_nothing_is_given_a_checkpointer(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(ValueError, match="give the pipeline checkpointer="):
        asking().run_sync(1, "t")
    with pytest.raises(ValueError, match="give it checkpointer="):
        asking().resume_sync("t")
    pipeline = asking(checkpointer=cp)
    pipeline.run_sync(1, "t")
    assert pipeline.resume_sync("t", answer=None).status == "completed"


def test_a_resume_is_by_thread_or_by_run(cp: hf.SyncCheckpointer) -> None:
    pipeline = asking(checkpointer=cp)
    run_id = pipeline.run_sync(1, "t").run_id
    for wrong in ({}, {"thread_id": "t", "run_id": run_id}):
        with pytest.raises(ValueError, match="give either the thread_id, or the run_id"):
            pipeline.resume_sync(**wrong)  # type: ignore[arg-type]
    assert pipeline.resume_sync(run_id=run_id).status == "paused"


def test_a_thread_that_waits_is_deleted_with_force(cp: hf.SyncCheckpointer) -> None:
    asking(checkpointer=cp).run_sync(1, "t")
    view = BaseCheckpointer(cp)
    with pytest.raises(hf.RunActiveError, match="pass force=True to delete it anyway"):
        asyncio.run(view.clear_all_checkpoints("t"))
    asyncio.run(view.clear_all_checkpoints("t", force=True))
    with pytest.raises(hf.CheckpointNotFoundError):
        asking(checkpointer=cp).resume_sync("t")
