"""What a check can't decide stops a resume, unless it is told to trust."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import (
    Evidence,
    EvidenceVerifier,
)
from holdfast.model import verdict_journal
from holdfast.workflow import step, workflow
from tests.engine.desk import Desk, entries, rejected
from tests.evidence.support import Answer, http_server
from tests.workflow.evidence.support import (
    WHOLE,
    by_run,
    every_store,
    fine,
    line,
    local,
    silent,
    stopped,
)
from tests.workflow.support import Flow, collect


@every_store
def test_an_undecided_check_stops_the_resume_as_often_as_it_is_tried(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    """A server that is down says nothing about the work: none of it is thrown away."""
    up: dict[str, Answer] = {"/": fine}
    checked = hf.Engine(store, verifier=local())
    with http_server(up) as (port, _):
        claim = Evidence(
            "api_response", "the service is up", {"url": f"http://127.0.0.1:{port}/", "status": 200}
        )

        @workflow("asks the service")
        def flow() -> Flow:
            yield step("a").python(desk.write, args=("a",), outputs=desk / "a").evidence(claim)
            return (yield step("b").python(desk.call, args=("b",)))

        stopped(checked, flow, desk, "a")
        before = entries(store, "r")
        up["/"] = silent
        for _ in range(3):
            with pytest.raises(hf.VerificationError, match="the service is up"):
                by_run(checked, flow)
        assert entries(store, "r") == before
        assert desk.take() == []
        up["/"] = fine
        assert by_run(checked, flow) == "b"
        assert desk.take() == ["b"]


@pytest.mark.parametrize("trust", ["stored", "skip"])
def test_trust_stored_and_skip_do_not_check(
    engine: hf.Engine, store: hf.Store, desk: Desk, trust: Any
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    (desk / "a").unlink()
    assert asyncio.run(engine.run(flow(), run_id="r", resume=True, trust=trust)) == WHOLE
    assert desk.take() == ["c"]
    assert store.last(verdict_journal("r")) is None, "nothing was looked at"


def test_a_stored_failure_counts_where_the_stored_verdicts_are_trusted(
    engine: hf.Engine, store: hf.Store, desk: Desk
) -> None:
    flow = line(desk)
    stopped(engine, flow, desk, "b")
    (desk / "b").unlink()
    with hf.SyncCheckpointer(store) as cp:
        from holdfast.evidence.trust.checking import Checker

        Checker(cp.core, EvidenceVerifier()).newest(
            cp.core.journals.branch("r"), lambda _: True, unclaimed=True
        )
        desk.write("b")
        desk.take()
        events = asyncio.run(collect(engine.resume_stream("r", flow=flow, trust="stored")))
    assert rejected(events) == ["b"]
    assert desk.take() == ["b", "c"]


@pytest.mark.parametrize("damage", ["SET body = zeroblob(40)", "SET meta = ''"])
def test_a_damaged_verdict_is_not_taken_for_none(tmp_path: Path, desk: Desk, damage: str) -> None:
    flow, path = line(desk), tmp_path / "runs.db"
    with hf.Engine(path) as engine:
        stopped(engine, flow, desk, "b")
    (desk / "b").unlink()
    with hf.SyncCheckpointer(path) as cp:
        from holdfast.evidence.trust.checking import Checker

        Checker(cp.core, EvidenceVerifier()).newest(cp.core.journals.branch("r"), lambda _: True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE holdfast_entries {damage} WHERE run = ?", [verdict_journal("r")])
    says = "r is damaged: a recorded verdict on it can't be read"
    with hf.Engine(path) as engine, pytest.raises(hf.CheckpointCorruptedError, match=says):
        engine.run_sync(flow(), run_id="r", resume=True, trust="stored")
    assert desk.take() == []
    with hf.Engine(path) as engine:
        engine.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["b", "c"], "what is found now needs no older verdict"


def test_an_unknown_kind_of_trust_is_refused(memory: hf.Engine, desk: Desk) -> None:
    with pytest.raises(ValueError, match="'verify', 'stored' or 'skip'"):
        memory.resume_sync("r", flow=line(desk), trust="blind")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="'verify', 'stored' or 'skip'"):
        hf.Engine("memory://", trust="blind")  # type: ignore[arg-type]
