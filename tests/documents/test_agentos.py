"""The checkpoint manager's design: its examples run, and tell the truth.

Where holdfast differs on purpose, a comment names the row of docs/documents/deviations.md. The examples
look at /tmp; here that is a directory of their own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Policy, command_evidence, file_evidence, run_command
from holdfast.manager import (
    CheckpointError,
    CheckpointManager,
    CheckpointType,
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    TaskCheckpoint,
    VerificationStatus,
)
from tests.documents import agentos

NAMES = (CheckpointError, CheckpointManager, Evidence, EvidencePack, EvidenceType)


class Example:
    """Runs examples one after the other, in one namespace and one place."""

    def __init__(self, place: Path, **names: Any) -> None:
        self.tmp = place / "tmp"
        self.tmp.mkdir()
        self.names: dict[str, Any] = {name.__name__: name for name in NAMES} | names

    def __call__(self, source: str) -> dict[str, Any]:
        exec(source.replace("/tmp/", f"{self.tmp}/"), self.names)
        return self.names

    def touch(self, *names: str) -> None:
        for name in names:
            (self.tmp / name).touch()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    return tmp_path


@pytest.fixture
def example(place: Path) -> Example:
    return Example(place)


@pytest.fixture
def manager(place: Path) -> CheckpointManager:
    return CheckpointManager("memory://")


def exists(path: str | Path) -> EvidencePack:
    return EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, str(path), {"path": str(path)})])


def commit(manager: CheckpointManager, pack: EvidencePack, **snapshot: Any) -> TaskCheckpoint:
    return manager.commit_step(manager.begin_step("task", "tool_executed", snapshot), pack)


@pytest.mark.parametrize("there", [True, False])
def test_example_1(example: Example, capsys: pytest.CaptureFixture[str], there: bool) -> None:
    if there:
        example.touch("run.log")
    names = example(agentos.EXAMPLE_1)
    printed = capsys.readouterr().out
    assert printed == f"Checkpoint created: task-123@2\nVerified: {there}\n"  # deviation: A9
    assert Path(".holdfast/holdfast.db").is_file()  # deviation: A1
    names["manager"].close()


def test_the_examples_of_the_methods(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    restored: list[Any] = []
    example.touch("run.log")
    manager = CheckpointManager("memory://")
    example.names.update(manager=manager, restore_state=restored.append)
    example(agentos.BEGIN_STEP)
    checkpoint = example(agentos.COMMIT_STEP)["checkpoint"]
    assert manager.verify_checkpoint(checkpoint.checkpoint_id) is True
    last = manager.get_last_verified_checkpoint("task-123")
    assert last is not None
    assert last.snapshot_data == {"iteration": 1, "state": "planning"}
    example.names["checkpoint_id"] = checkpoint.checkpoint_id
    example(agentos.ROLLBACK)
    assert restored == [{"iteration": 1, "state": "planning"}]
    (example.tmp / "run.log").unlink()
    example(agentos.ROLLBACK)  # deviation: A2
    assert len(restored) == 1
    assert capsys.readouterr().out.startswith("Rollback failed: checkpoint task-123@2 does not")


def test_example_2_says_what_is_true_and_what_nobody_knows(example: Example) -> None:
    manager = CheckpointManager(db_path="registry.sqlite")
    example.names["manager"] = manager
    with pytest.raises(hf.InvalidEvidenceError, match="sha256"):
        example(agentos.EXAMPLE_2)  # deviation: A6
    (example.tmp / "output.txt").write_text("out")
    digest = hashlib.sha256(b"out").hexdigest()
    names = example(agentos.EXAMPLE_2.replace("abc123...", digest))
    found = [claim.verification_status.value for claim in names["evidence_pack"].evidence_list]
    assert found == ["pending"] * 4  # deviation: A11
    assert not names["checkpoint"].verified
    found = [c.verification_status.value for c in names["checkpoint"].evidence_pack.evidence_list]
    assert found == ["verified", "verified", "inconclusive", "failed"]  # deviation: A3
    with closing(sqlite3.connect("registry.sqlite")) as db, db:
        db.execute("CREATE TABLE tasks (task_id TEXT PRIMARY KEY, status TEXT)")
        db.execute("INSERT INTO tasks VALUES ('task-123', 'completed')")
    recorded = agentos.EXAMPLE_2.replace("abc123...", digest)
    recorded = recorded.replace('{"iteration": 1}', '{"iteration": 1, "exit_code": 0}')
    assert example(recorded)["checkpoint"].verified
    manager.close()


def test_example_3(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    example.touch("run.log")
    example.names["manager"] = CheckpointManager("memory://")
    example(agentos.EXAMPLE_3)
    example(agentos.BEGIN_STEP)
    example(agentos.COMMIT_STEP)
    example(agentos.EXAMPLE_3)
    (example.tmp / "run.log").unlink()
    example(agentos.EXAMPLE_3)
    assert capsys.readouterr().out.splitlines() == [
        "No verified checkpoint found, starting from beginning",
        "Resuming from iteration 1",
        "No verified checkpoint found, starting from beginning",
    ]


@pytest.mark.parametrize(("there", "valid"), [(3, True), (2, True), (1, False), (0, False)])
def test_example_4(
    example: Example, capsys: pytest.CaptureFixture[str], there: int, valid: bool
) -> None:
    example.touch(*[f"f{n}.txt" for n in (1, 2, 3)][:there])
    example.names["manager"] = CheckpointManager("memory://")
    names = example(agentos.EXAMPLE_4)
    assert capsys.readouterr().out == f"Verified: {there}/3\nIs valid: {valid}\n"
    assert names["checkpoint"].verified is valid


@pytest.mark.parametrize("there", [True, False])
def test_example_5(example: Example, capsys: pytest.CaptureFixture[str], there: bool) -> None:
    if there:
        example.touch("run.log")
    example.names["evidence_pack"] = exists(example.tmp / "run.log")
    names = example(agentos.EXAMPLE_5)
    printed = capsys.readouterr().out
    if there:
        assert printed == "Checkpoint verified successfully\n"
    else:
        path = example.tmp / "run.log"
        assert printed == f"Failed: {path} - {path} does not exist\n"
    names["manager"].close()


def test_all_examples_one_after_the_other(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    """One task, one store, as someone would paste them."""
    example.touch("run.log", "f1.txt", "f3.txt")
    example(agentos.EXAMPLE_1)
    first = example.names["manager"]
    for source in (agentos.EXAMPLE_4, agentos.EXAMPLE_5):
        example(source)
    assert capsys.readouterr().out.splitlines() == [
        "Checkpoint created: task-123@2",
        "Verified: True",
        "Verified: 2/3",
        "Is valid: True",
        "Checkpoint verified successfully",
    ]
    first.close()
    example.names["manager"].close()


class Work:
    """Iterations that write a file each, and fail when they are told to."""

    def __init__(self, example: Example, iterations: int) -> None:
        self.tried: list[int] = []
        self.done: list[int] = []
        self.fail_at: int | None = None
        self.forge_at: int | None = None
        example.names |= {
            "max_iterations": iterations,
            "get_state": lambda: "working",
            "execute_iteration": self.execute,
            "create_evidence": self.evidence,
        }
        self.run: Callable[[str], None] = example(agentos.INTEGRATION)[
            "execute_task_with_checkpoints"
        ]

    def execute(self, iteration: int) -> int:
        self.tried.append(iteration)
        if iteration == self.fail_at:
            raise RuntimeError("the machine is on fire")
        Path(f"out-{iteration}").write_text(f"{iteration}")
        self.done.append(iteration)
        return iteration

    def evidence(self, iteration: int) -> EvidencePack:
        claim = file_evidence(f"out-{iteration}")
        if iteration == self.forge_at:
            Path(f"out-{iteration}").unlink()
        return EvidencePack([claim])

    def fails(self) -> None:
        with pytest.raises(Exception, match=r"fire|verification failed"):
            self.run("task")


def test_the_integration_fails_twice_and_repeats_no_verified_iteration(example: Example) -> None:
    work = Work(example, 7)
    work.fail_at = 3
    work.fails()
    work.fail_at = 5
    work.fails()  # and its rollback goes to 2: nothing was begun, nothing is abandoned
    work.fail_at = None
    work.run("task")
    assert work.done == [1, 2, 3, 4, 5, 6, 7]  # deviation: A5
    assert work.tried == [1, 2, 3, 3, 4, 5, 5, 6, 7]


def test_the_integration_goes_back_as_far_as_it_must(example: Example) -> None:
    work = Work(example, 6)
    work.fail_at = 6
    work.fails()
    Path("out-4").write_text("something else")
    work.fail_at = None
    work.run("task")
    assert work.done == [1, 2, 3, 4, 5, 4, 5, 6]
    for path in Path().glob("out-*"):
        path.unlink()
    work.fail_at = 3
    work.fails()
    work.fail_at = None
    work.run("task")
    assert work.done[8:] == [1, 2, 3, 4, 5, 6], "all over again, on a branch of its own"
    assert work.tried[-4:] == [3, 4, 5, 6], "and what was verified there is not repeated"


def test_the_integration_stops_at_evidence_that_does_not_hold(example: Example) -> None:
    work = Work(example, 3)
    work.forge_at = 2
    work.fails()
    work.forge_at = None
    work.run("task")
    assert work.done == [1, 2, 2, 3]


def test_what_was_verified_once_is_checked_again(manager: CheckpointManager, place: Path) -> None:
    Path("a").touch()
    checkpoint = commit(manager, exists("a"))
    assert checkpoint.verified
    Path("a").unlink()
    assert manager.get_last_verified_checkpoint("task") is None  # deviation: A2
    with pytest.raises(hf.VerificationError):
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)


def test_exit_codes_are_compared(manager: CheckpointManager) -> None:
    claim = Evidence(EvidenceType.COMMAND_EXIT, "it ran", {"exit_code": 0})
    assert not EvidenceVerifier().verify_evidence(claim)  # deviation: A3
    assert claim.verification_status is VerificationStatus.INCONCLUSIVE
    assert commit(manager, EvidencePack([claim]), exit_code=0).verified
    assert not commit(manager, EvidencePack([claim]), exit_code=1).verified
    done = run_command([sys.executable, "-c", "raise SystemExit(3)"])
    assert not EvidenceVerifier().verify_evidence(command_evidence(done))


def test_packs_that_leave_open_what_they_mean(place: Path) -> None:
    claims = list(exists("a").evidence_list) + list(exists("b").evidence_list)
    for options in ({"min_verified": 1}, {"allow_partial": True}, {"require_all": False}):
        with pytest.raises(hf.InvalidEvidenceError):
            EvidencePack(claims, **options)  # deviation: A4
    with pytest.raises(hf.InvalidEvidenceError, match="empty"):
        EvidencePack([])


def test_claims_that_can_never_be_allowed(place: Path) -> None:
    (place / "inside").mkdir()
    manager = CheckpointManager("memory://", base_path=place / "inside")
    for path in ("../outside", "/etc/passwd"):
        with pytest.raises(hf.EvidencePolicyError):
            commit(manager, exists(path))  # deviation: A6
    row = {"table": "tasks", "where": {"task_id": "1"}}
    for metadata in ({"db_path": "/etc/x.db"}, {"connection": "nobody's"}, {}):
        claim = Evidence(EvidenceType.DB_ROW, "a row", row, metadata)
        with pytest.raises(hf.EvidencePolicyError):
            commit(manager, EvidencePack([claim]))  # deviation: A7


@pytest.mark.parametrize("base_path", [None, "elsewhere"])
def test_an_absolute_db_path_may_name_the_managers_own_file(
    place: Path, base_path: str | None
) -> None:
    """The program's registry holds its tasks, the journal, and what is claimed of both."""
    path = place / "store" / "registry.sqlite"
    path.parent.mkdir()
    (place / "elsewhere").mkdir()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE tasks (task_id TEXT, status TEXT)")
        db.execute("CREATE TABLE checkpoints (checkpoint_id TEXT)")
        db.execute("INSERT INTO tasks VALUES ('task-123', 'completed')")
    row = {"table": "tasks", "where": {"task_id": "task-123"}, "values": {"status": "completed"}}
    with CheckpointManager(db_path=str(path), base_path=base_path) as manager:
        claim = Evidence(
            EvidenceType.DB_ROW, "updated", row, {"db_path": f"{path.parent}//./{path.name}"}
        )
        checkpoint = commit(manager, EvidencePack([claim]))
        assert checkpoint.verified
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE tasks SET status = 'failed'")
        assert not manager.verify_checkpoint(checkpoint.checkpoint_id)
        for other in (place / "store" / "other.sqlite", f"{place}/x/../store/registry.sqlite"):
            claim = Evidence(EvidenceType.DB_ROW, "updated", row, {"db_path": str(other)})
            with pytest.raises(hf.EvidencePolicyError):
                commit(manager, EvidencePack([claim]))  # deviation: A7


def test_rows_are_read_from_connections_of_the_program(place: Path) -> None:
    with closing(sqlite3.connect("tasks.db")) as db, db:
        db.execute("CREATE TABLE tasks (task_id TEXT, status TEXT)")
        db.execute("INSERT INTO tasks VALUES ('t', 'done')")
    manager = CheckpointManager("memory://", policy=Policy(connections={"mine": "tasks.db"}))
    row = {"table": "tasks", "where": {"task_id": "t"}, "values": {"status": "done"}}
    claim = Evidence(EvidenceType.DB_ROW, "done", row, {"connection": "mine"})
    assert commit(manager, EvidencePack([claim])).verified  # deviation: A7


def test_a_checkpoint_stands_for_all_that_was_claimed_before_it(
    manager: CheckpointManager,
) -> None:
    for name in "ab":
        Path(name).touch()
        commit(manager, exists(name), name=name)
    Path("a").unlink()
    assert manager.get_last_verified_checkpoint("task") is None  # deviation: A8
    newest = manager.list_checkpoints("task", limit=1)[0]
    assert manager.verify_checkpoint(newest.checkpoint_id) is False


def test_a_list_has_every_checkpoint(manager: CheckpointManager) -> None:
    committed = [commit(manager, exists("a"), n=n) for n in range(105)]
    found = manager.list_checkpoints("task")
    assert found == committed[::-1]  # deviation: A14
    assert [one.snapshot_data for one in found] == [one.snapshot_data for one in committed[::-1]]


def test_a_pack_is_complete_when_it_is_made(manager: CheckpointManager) -> None:
    claims: list[Evidence] = []
    for name in "ab":
        Path(name).touch()
        claims.append(Evidence(EvidenceType.ARTIFACT_EXISTS, name, {"path": name}))
    pack = EvidencePack(claims)
    with pytest.raises(AttributeError):
        pack.evidence_list.append(claims[0])  # type: ignore[attr-defined]  # deviation: A15
    claims.clear()
    assert len(pack.evidence_list) == 2
    assert commit(manager, pack).verified


def test_numbers_and_ids(manager: CheckpointManager) -> None:
    found = [commit(manager, exists("a"), n=n) for n in range(3)]
    numbers = [checkpoint.sequence_number for checkpoint in found]
    assert numbers == sorted(set(numbers))
    assert numbers == [2, 4, 6]  # deviation: A9
    assert [checkpoint.checkpoint_id for checkpoint in found] == ["task@2", "task@4", "task@6"]
    step_id = manager.begin_step("task", "tool_executed", {})
    named = manager.commit_step(step_id, exists("a"), checkpoint_id="mine")
    assert named.checkpoint_id == "mine"
    with pytest.raises(hf.StepConflictError):
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("a"), "mine")


def test_verdicts_are_records_of_their_own(manager: CheckpointManager) -> None:
    Path("a").touch()
    checkpoint = commit(manager, exists("a"))
    form = json.loads(json.dumps(checkpoint.to_dict()))
    assert set(form) >= {
        "checkpoint_id", "task_id", "work_item_id", "checkpoint_type", "sequence_number",
        "snapshot_data", "evidence_pack", "metadata", "created_at", "verified", "last_verified_at",
    }  # fmt: skip
    assert form["verified"] is True
    again = TaskCheckpoint.from_dict(form)
    assert again == checkpoint
    assert again.verified is False  # deviation: A10
    claim = exists("a").evidence_list[0]
    with pytest.raises(AttributeError):
        claim.verified = True  # type: ignore[misc] # deviation: A10


def test_a_step_is_committed_once(manager: CheckpointManager) -> None:
    step_id = manager.begin_step("task", "tool_executed", {"n": 1})
    first = manager.commit_step(step_id, exists("a"))
    assert manager.commit_step(step_id, exists("a")) == first  # deviation: A12
    with pytest.raises(hf.StepConflictError):
        manager.commit_step(step_id, exists("b"))
    assert len(manager.list_checkpoints("task")) == 1


def test_an_undecided_check_is_an_error_and_not_a_failure(place: Path) -> None:
    manager = CheckpointManager("memory://", auto_verify=False)
    claim = Evidence(EvidenceType.COMMAND_EXIT, "it ran", {"exit_code": 0})
    commit(manager, EvidencePack([claim]))
    with pytest.raises(hf.VerificationError, match="no exit code was recorded"):
        manager.get_last_verified_checkpoint("task")  # deviation: A13


def test_the_verifier(place: Path) -> None:
    Path("a").touch()
    verifier = EvidenceVerifier(base_path=place)
    claims = [*exists("a").evidence_list, *exists("b").evidence_list]
    assert verifier.verify_evidence(claims[0]) is True
    assert (claims[0].verified, claims[0].verification_error) == (True, None)
    assert claims[0].verified_at is not None
    assert verifier.verify_evidence(claims[1]) is False
    assert claims[1].verification_status is VerificationStatus.FAILED
    assert verifier.verify_evidence_pack(EvidencePack(claims)) is False
    summary = verifier.verify_multiple(claims)
    wanted = {"total": 2, "verified": 1, "failed": 1, "success_rate": 0.5, "all_passed": False}
    assert wanted.items() <= summary.items()


def test_the_types_of_checkpoints(manager: CheckpointManager) -> None:
    assert [kind.value for kind in CheckpointType] == [
        "iteration_start", "iteration_end", "tool_executed", "llm_response", "approval_point",
        "state_transition", "manual_checkpoint", "error_boundary",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="iteration_start"):
        manager.begin_step("task", "something_else", {})
