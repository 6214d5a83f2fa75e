"""Workers on several hosts that check claims when they are asked: living, dead, late and lying."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, VerificationStatus, file_evidence
from holdfast.manager import CheckpointManager
from holdfast.model import REQUESTS, Status
from holdfast.store import RunFilter
from holdfast.workflow import step, workflow
from tests.crash.holders.hosts import DEAD_AFTER, Worker, World
from tests.waiting import wait_until

VERIFIED, FAILED = VerificationStatus.VERIFIED, VerificationStatus.FAILED
INCONCLUSIVE = VerificationStatus.INCONCLUSIVE
LONG = 60.0  # seconds, which nobody needs
EVERYWHERE = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)


class Machine:
    """A store with a checkpoint whose claim is about a file that some hosts may look at."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.file = directory / "disk" / "model.bin"
        self.file.parent.mkdir()
        self.file.write_bytes(b"weights")
        self.manager = CheckpointManager(world.url, auto_verify=False)
        self.engine = hf.Engine(world.url, dead_after=DEAD_AFTER)

    def checkpoint(self, host: str | None) -> str:
        seen = file_evidence(self.file)
        claim = Evidence(seen.evidence_type, "the model", seen.expected, host=host)
        step = self.manager.begin_step("train", "tool_executed", {"epoch": 1})
        return self.manager.commit_step(step, EvidencePack([claim])).checkpoint_id

    def verifier(self, host: str, **args: Any) -> Worker:
        """Start one, and wait until others know of it."""
        before = len(self._verifiers())
        roots = args.pop("roots", [str(self.file.parent)])
        started = self.world.start("verify", host, args={"roots": roots, **args})
        wait_until(lambda: len(self._verifiers()) > before)
        return started

    def ask(self, **options: Any) -> Any:
        return self.engine.verify_with_workers_sync("train", **{"within": LONG, **options})

    def _verifiers(self) -> list[Any]:
        return [one for one in self.engine.workers_sync() if one.verifies]

    def close(self) -> None:
        self.manager.close()
        self.engine.close_sync()


@pytest.fixture
def machine(world: World, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(world, tmp_path)
    yield made
    made.close()


@EVERYWHERE
def test_a_worker_checks_what_only_its_machine_can_see(machine: Machine) -> None:
    name = machine.checkpoint("there")
    assert not machine.manager.verify_checkpoint(name), "not here"
    machine.verifier("there")
    machine.verifier("here", roots=[])
    found = machine.ask()
    assert found.holds
    (decision,) = found.decisions
    assert [vote.host for vote in decision.votes] == ["there"]
    machine.file.write_bytes(b"other")
    found = machine.ask()
    assert found.standing.status is FAILED, "no vote is kept"
    assert "on there:" in found.standing.reason


@EVERYWHERE
def test_a_lying_verifier_is_reported_and_decides_nothing(machine: Machine) -> None:
    machine.checkpoint(None)
    machine.verifier("there")
    machine.verifier("here")
    machine.verifier("elsewhere", lies=True)
    found = machine.ask()
    assert found.standing.status is INCONCLUSIVE
    (disputed,) = found.disputed
    assert sorted(vote.host for vote in disputed.votes if vote.verdict.status is FAILED) == [
        "elsewhere"
    ]
    assert "verifiers disagree" in found.standing.reason
    assert machine.ask(on=["there"]).holds


@EVERYWHERE
def test_a_dead_verifier_is_silent_and_a_quorum_decides_without_it(machine: Machine) -> None:
    machine.checkpoint(None)
    machine.verifier("there")
    machine.verifier("elsewhere").kill()
    machine.verifier("here").kill()  # of this machine: it is not waited for
    found = machine.ask(within=2, quorum=1)
    assert found.holds
    assert [name.split(":")[0] for name in found.silent] == ["elsewhere"]
    found = machine.ask(within=2, quorum=2)
    assert found.standing.status is INCONCLUSIVE
    assert "1 of 2 votes" in found.standing.reason
    assert "no answer in time from elsewhere:" in found.standing.reason


@EVERYWHERE
def test_a_late_answer_counts_for_nothing_and_is_deleted(machine: Machine, tmp_path: Path) -> None:
    machine.checkpoint("there")
    late = tmp_path / "late"
    machine.verifier("there", until=str(late))
    found = machine.ask(within=1)
    assert found.standing.status is INCONCLUSIVE
    assert found.silent
    late.touch()
    machine.world.notes.wait_for("looked")
    assert machine.ask().holds, "it answers the next request"
    assert len(machine.world.notes.find("looked")) == 2, "and each request once"
    store = machine.engine.checkpointer.store
    wait_until(lambda: not _told(store))


def test_a_request_whose_asker_was_killed_is_deleted_by_a_worker(machine: Machine) -> None:
    machine.checkpoint("there")
    machine.verifier("there")
    machine.verifier("elsewhere", until="/never")
    asker = machine.world.start("ask", args={"run": "train", "within": 3})
    machine.world.notes.wait_for("asked", count=2)
    asker.kill()
    store = machine.engine.checkpointer.store
    assert _told(store)
    wait_until(lambda: not _told(store))


def test_a_worker_looks_at_nothing_that_it_was_not_allowed(machine: Machine) -> None:
    machine.checkpoint("there")
    machine.verifier("there", roots=[])
    found = machine.ask()
    assert found.standing.status is INCONCLUSIVE
    assert "roots" in found.standing.reason


def _told(store: Any) -> list[str]:
    """The requests and votes that a store holds."""
    found = []
    for prefix in (REQUESTS, "\x1fvote\x1f"):
        where = RunFilter(status=Status.DELETED.value, prefix=prefix)
        found += [head.meta for head in store.runs(where) if "request" in head.meta]
    return found


@EVERYWHERE
def test_a_resume_asks_workers_on_other_machines_only_if_it_is_told_to(
    machine: Machine, tmp_path: Path
) -> None:
    call = fit(str(machine.file))
    with pytest.raises(hf.RunError):
        machine.engine.run_sync(call, run_id="fit")
    with pytest.raises(hf.VerificationError, match="only on there"):
        machine.engine.resume_sync("fit", flow=fit)
    with pytest.raises(hf.VerificationError, match="no worker on there"):
        machine.engine.resume_sync("fit", flow=fit, ask_workers=LONG)
    machine.verifier("there")
    FAILING.clear()
    assert machine.engine.resume_sync("fit", flow=fit, ask_workers=LONG) == "published"
    assert machine.file.read_bytes() == b"weights1", "no step ran twice"
    FAILING.append("again")


FAILING = ["at first"]


@workflow
async def fit(path: str) -> str:
    await step("fit").python(_fit, args=(path,)).evidence(_there(path))
    return str(await step("publish").python(_publish))


def _fit(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("1")


def _publish() -> str:
    if FAILING:
        raise RuntimeError("as planned")
    return "published"


def _there(path: str) -> Any:
    def claim(_: object) -> Evidence:
        seen = file_evidence(path)
        return Evidence(seen.evidence_type, "the model", seen.expected, host="there")

    return claim
