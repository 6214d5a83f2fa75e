"""A worker is asked through the store to verify: what it answers, and what it never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.holding import slots
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.process import this_process
from holdfast.engine.voting import rows
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy, file_evidence
from holdfast.kernel.core import Core
from holdfast.manager import CheckpointManager
from holdfast.model import Entry, request_journal, vote_journal
from tests.engine.test_recovering import in_loop
from tests.waiting import in_time


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "model").write_text("weights")
    url = f"sqlite:///{tmp_path}/runs.db"
    with CheckpointManager(url) as manager:
        step = manager.begin_step("train", "tool_executed", {})
        manager.commit_step(step, EvidencePack([file_evidence(tmp_path / "model")]))
    return url


def policy(*roots: Path) -> Policy:
    return Policy(roots=roots, own_word=False, hosts=frozenset())


@asynccontextmanager
async def verifier(url: str, root: Path) -> AsyncIterator[hf.Engine]:
    """A worker of this process that verifies."""
    async with hf.Engine(url) as engine:
        stop = asyncio.Event()
        verify = EvidenceVerifier(policy=policy(root))
        working = asyncio.create_task(engine.work(verify=verify, stop=stop))
        try:
            while not any(one.verifies for one in await engine.workers()):
                await asyncio.sleep(0.01)
            yield engine
        finally:
            stop.set()
            await working


def put(core: Core, name: str, facts: dict[str, Any]) -> Entry:
    entry = slots.replace(core, name, core.journals.head(name), facts)
    assert entry is not None
    return entry


@in_loop
async def test_nobody_is_waited_for_if_no_worker_verifies(url: str) -> None:
    async with hf.Engine(url) as engine:
        with in_time():
            found = await engine.verify_with_workers("train", within=600)
    assert not found.holds
    assert "`holdfast worker --verify`" in found.standing.reason
    assert (found.silent, found.disputed) == ((), ())


@in_loop
async def test_the_manager_asks_about_one_checkpoint(url: str, tmp_path: Path) -> None:
    async with verifier(url, tmp_path):
        with CheckpointManager(url) as manager:
            (checkpoint,) = manager.list_checkpoints("train")
            ask = manager.verify_with_workers
            found = await asyncio.to_thread(ask, checkpoint.checkpoint_id, within=60)
            assert found.holds
            (tmp_path / "model").unlink()
            found = await asyncio.to_thread(ask, checkpoint.checkpoint_id, within=60)
    assert not found.holds
    assert "does not exist" in found.standing.reason


@in_loop
async def test_malformed_requests_are_ignored_and_others_are_answered(
    url: str, tmp_path: Path
) -> None:
    async with hf.Engine(url) as other:
        core = other.checkpointer.core
        (entry,) = core.journals.branch("train")
        whole: dict[str, Any] = {
            "request": "x",
            "run": "train",
            "seq": entry.seq,
            "digest": entry.digest.hex(),
            "within": 60.0,
        }
        hostile: list[dict[str, Any]] = [
            {"request": 7},
            {**whole, "run": "no such run"},
            {**whole, "run": "\x1fstore", "seq": 0},
            {**whole, "run": ""},
            {**whole, "seq": 10**30},
            {**whole, "seq": -1},
            {**whole, "digest": "0" * 64},
            {**whole, "within": 1e9},
            {**whole, "within": "soon"},
            {**whole, "request": "x" * 10_000},
            {**whole, "more": "x" * 500_000},
        ]
        for number, facts in enumerate(hostile):
            put(core, request_journal(number), facts)
        async with verifier(url, tmp_path) as engine:
            found = await engine.verify_with_workers("train", within=60)
            assert found.holds
        for number in range(len(hostile)):
            prefix = vote_journal(number, 0)
            row = core.journals.head(prefix)
            assert row is None or '"votes"' not in row.meta


@in_loop
async def test_votes_that_no_verifier_gave_count_for_nothing(url: str, tmp_path: Path) -> None:
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        (entry,) = core.journals.branch("train")
        digest = entry.digest.hex()
        good: dict[str, Any] = {
            "request": "id",
            "holder": "0|nonce|host|place|7|start",
            "digest": digest,
            "votes": {"verified": ["a" * 32]},
            "reasons": {},
        }
        hostile: list[dict[str, Any]] = [
            {**good, "request": "another"},
            {**good, "digest": "0" * 64},
            {**good, "holder": "1|nonce|host|place|7|start"},
            {**good, "holder": "nobody"},
            {**good, "votes": {"sure": ["a" * 32]}},
            {**good, "votes": {"verified": [7]}},
            {**good, "votes": {"verified": 7}},
            {**good, "votes": []},
            {**good, "reasons": {"a" * 32: 7}},
            {**good, "more": "x" * 500_000},
        ]
        for facts in hostile:
            put(core, vote_journal(0, 0), facts)
            assert list(rows.votes(core, 0, "id", digest)) == []
        put(core, vote_journal(0, 0), {**good, "votes": {"verified": ["a"], "failed": ["a"]}})
        (both,) = rows.votes(core, 0, "id", digest)
        assert both.found == {}, "a vote for both sides is none"
        put(core, vote_journal(0, 0), good)
        (vote,) = rows.votes(core, 0, "id", digest)
        assert vote.found.keys() == {"a" * 32}


@in_loop
async def test_a_request_that_waits_keeps_its_place_until_it_is_taken_back(url: str) -> None:
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        (entry,) = core.journals.branch("train")
        first = rows.place_request(core, "one", entry, 30)
        second = rows.place_request(core, "two", entry, 30)
        assert first is not None
        assert second is not None
        assert (first[0], second[0]) == (0, 1)
        assert [one.id for one in rows.requests(core)] == ["one", "two"]
        rows.withdraw(core, *first)
        third = rows.place_request(core, "three", entry, 30)
        assert third is not None
        assert third[0] == 0
        rows.withdraw(core, *first)  # late: it is another's place now
        assert [one.id for one in rows.requests(core)] == ["three", "two"]
        for number in range(2, rows.MOST_REQUESTS):
            assert rows.place_request(core, str(number), entry, 30) is not None
        assert rows.place_request(core, "too many", entry, 30) is None


@in_loop
async def test_one_worker_answers_a_request_once(url: str, tmp_path: Path) -> None:
    async with hf.Engine(url) as engine:
        core = engine.checkpointer.core
        (entry,) = core.journals.branch("train")
        rows.place_request(core, "id", entry, 30)
        (request,) = rows.requests(core)
        holder = Holder(3, "nonce", this_process())
        assert rows.place_vote(core, request, holder, []) is not None
        assert rows.place_vote(core, request, holder, []) is None


def test_requests_and_votes_are_neither_listed_nor_copied_nor_exported(
    url: str, tmp_path: Path
) -> None:
    with hf.SyncCheckpointer(url) as cp:
        (entry,) = cp.core.journals.branch("train")
        assert rows.place_request(cp.core, "id", entry, 30) is not None
        assert [info.run_id for info in cp.runs()] == ["train"]
        cp.export_run("train", tmp_path / "train.jsonl")
        assert '"request' not in (tmp_path / "train.jsonl").read_text()
        with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/copy.db") as copy:
            cp.copy_to(copy.store)
            assert rows.requests(copy.core) == []


@pytest.mark.parametrize(
    "loose",
    [Policy(), Policy(own_word=False), Policy(hosts=frozenset())],
    ids=["usual", "any host", "any path"],
)
@in_loop
async def test_a_worker_verifies_only_within_a_policy_that_denies_by_default(
    url: str, loose: Policy
) -> None:
    async with hf.Engine(url) as engine:
        with pytest.raises(ValueError, match="own_word=False"):
            await engine.work(verify=EvidenceVerifier(policy=loose))


@in_loop
async def test_what_can_not_be_asked_is_refused(url: str) -> None:
    async with hf.Engine(url) as engine:
        ask = engine.verify_with_workers
        with pytest.raises(ValueError, match="quorum"):
            await ask("train", quorum=0)
        with pytest.raises(TypeError, match="quorum"):
            await ask("train", quorum=True)
        with pytest.raises(ValueError, match="within"):
            await ask("train", within=0)
        with pytest.raises(TypeError, match="hosts"):
            await ask("train", on="gpu-1")
        with pytest.raises(hf.CheckpointNotFoundError):
            await ask("no such run")
        with pytest.raises(ValueError, match="idle"):
            await engine.work(verify=EvidenceVerifier(policy=policy()), until_idle=True)
        with pytest.raises(ValueError, match="within"):
            hf.Engine(url, ask_workers=-1)


def test_a_claim_that_nobody_here_can_check_leaves_no_verdict(url: str) -> None:
    there = Evidence("artifact_exists", "x", {"path": "/srv/x"}, host="gpu-1")
    with CheckpointManager(url) as manager:
        step = manager.begin_step("task", "tool_executed", {})
        made = manager.commit_step(step, EvidencePack([there]))
        assert not manager.verify_checkpoint(made.checkpoint_id)
        with pytest.raises(hf.VerificationError, match="holdfast verify --worker"):
            manager.get_last_verified_checkpoint("task")
    assert json.dumps(made.to_dict(), default=str)
