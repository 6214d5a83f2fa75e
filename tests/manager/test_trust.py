from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import dump_meta
from holdfast.evidence import Evidence, EvidencePack, VerificationStatus, verdicts
from holdfast.evidence.context import Context
from holdfast.evidence.trust.rule import Standing
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.manager import CheckpointManager, TaskCheckpoint
from holdfast.model import Kind, verdict_journal

from .support import exists, exit_code, numbers, step, unchanged


def newest(manager: CheckpointManager, *args: Any) -> Any:
    found = manager.get_last_verified_checkpoint("task", *args)
    return None if found is None else found.snapshot_data["n"]


def test_the_newest_fails_and_an_older_good_one_is_found(manager: CheckpointManager) -> None:
    for n in range(4):
        Path(f"{n}").touch()
        step(manager, {"n": n}, exists(f"{n}"))
    assert newest(manager) == 3
    Path("3").unlink()
    assert newest(manager) == 2
    Path("2").unlink()
    assert newest(manager) == 1
    Path("2").touch()
    assert newest(manager) == 2, "what is put right holds again"
    Path("0").unlink()
    assert newest(manager) is None, "the first claim is on the branch of all of them"


def test_a_changed_artifact_is_noticed(manager: CheckpointManager) -> None:
    Path("report").write_text("one")
    step(manager, {"n": 1}, exists("report"))
    two = step(manager, {"n": 2}, unchanged("report"))
    assert two.verified
    Path("report").write_text("two")
    assert manager.verify_checkpoint(two.checkpoint_id) is False
    assert newest(manager) == 1
    with pytest.raises(hf.VerificationError, match="report") as raised:
        manager.rollback_to_checkpoint(two.checkpoint_id)
    assert isinstance(raised.value, hf.CheckpointError)
    assert [claim.verification_status for claim in raised.value.evidence] == ["failed"]


def test_a_rewritten_file_is_no_failure(manager: CheckpointManager) -> None:
    for n in range(3):
        Path("log").write_text("x" * n)
        step(manager, {"n": n}, unchanged("log"))
    assert newest(manager) == 2
    found = [manager.verify_checkpoint(c.checkpoint_id) for c in manager.list_checkpoints("task")]
    assert found == [True, False, False], "the older states do not fit the file any more"


def test_an_older_claim_that_nothing_supersedes_still_counts(manager: CheckpointManager) -> None:
    Path("a").touch()
    Path("b").touch()
    step(manager, {"n": 1}, exists("a"))
    two = step(manager, {"n": 2}, exists("b"))
    Path("a").unlink()
    assert manager.verify_checkpoint(two.checkpoint_id) is False
    with pytest.raises(hf.VerificationError, match="a is there"):
        manager.rollback_to_checkpoint(two.checkpoint_id)


def test_partial_packs_need_as_many_as_they_say(manager: CheckpointManager) -> None:
    for name in "abc":
        Path(name).touch()
    pack = exists("a", "b", "c", require_all=False, allow_partial=True, min_verified=2)
    checkpoint = step(manager, {"n": 1}, pack)
    Path("a").unlink()
    assert manager.verify_checkpoint(checkpoint.checkpoint_id)
    Path("b").unlink()
    assert not manager.verify_checkpoint(checkpoint.checkpoint_id)
    with pytest.raises(hf.VerificationError) as raised:
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert len(raised.value.evidence) == 2


def test_what_was_found_earlier_is_never_believed(manager: CheckpointManager) -> None:
    """A stored VERIFIED, however often, is shown and changes nothing."""
    Path("a").touch()
    checkpoint = step(manager, {"n": 1}, exists("a"))
    for _ in range(3):
        assert manager.verify_checkpoint(checkpoint.checkpoint_id)
    Path("a").unlink()
    shown = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert shown is not None
    assert shown.verified, "nobody looked since"
    assert newest(manager) is None
    with pytest.raises(hf.VerificationError):
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    shown = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert shown is not None
    assert shown.verified is False


def test_a_verdict_on_anything_else_is_not_shown(manager: CheckpointManager) -> None:
    """A forged note speaks of a digest: one that is not the checkpoint's is not heard."""
    Path("a").touch()
    good = step(manager, {"n": 1}, exists("a"))
    bad = step(manager, {"n": 2}, exists("gone"))
    core = manager.checkpointer.core
    notes = list(core.journals.entries(verdict_journal("task"), bodies=True))
    assert [note.kind for note in notes] == [Kind.VERDICT, Kind.VERDICT]
    value = core.journals.decode(core.journals.chain(notes[0].run, notes[0].seq).encoding)
    assert value["found"] == [[good.seq, good.digest, "verified"]]
    assert bad.evidence_pack is not None
    fine = verdicts.verified()._replace(evidence=bad.evidence_pack.evidence_list[0].digest)
    forgeries: list[Any] = [
        {
            "found": [[bad.seq, good.digest, "verified"]],
            "checked": [[bad.seq, good.digest, [fine.to_dict()]]],
        },
        {"found": [[bad.seq, good.digest, "verified"]], "checked": []},
        {"found": [[bad.seq, "", "verified"]], "checked": [[bad.seq, good.digest, []]]},
        {"found": 7},
        {"checked": []},
        [],
    ]
    for forged in forgeries:
        draft = Draft(
            "verdict",
            "open",
            core.journals.encode(forged),
            meta=dump_meta({"checkpoints": [bad.seq]}),
        )
        core.drive(append(core, verdict_journal("task"), draft))
    shown = manager.get_checkpoint(bad.checkpoint_id)
    assert shown is not None
    assert shown.verified is False
    assert shown.evidence_pack is not None
    assert shown.evidence_pack.evidence_list[0].verification_status == "failed"


def test_verdicts_never_stand_in_the_checkpoint(manager: CheckpointManager) -> None:
    Path("a").touch()
    pack = exists("a")
    manager.verifier.verify_evidence_pack(pack)
    checkpoint = step(manager, {"n": 1}, pack)
    stored = manager.checkpointer.core.journals.entry("task", checkpoint.seq)
    assert stored is not None
    assert "verified" not in stored.meta.replace("min_verified", "")
    before = stored
    manager.verify_checkpoint(checkpoint.checkpoint_id)
    assert manager.checkpointer.core.journals.entry("task", checkpoint.seq) == before


def test_the_callers_pack_is_not_judged(manager: CheckpointManager) -> None:
    Path("a").touch()
    pack = exists("a")
    assert step(manager, {"n": 1}, pack).verified
    assert pack.evidence_list[0].verification_status == "pending"


def test_without_auto_verify_nothing_is_checked_until_asked(url: str) -> None:
    Path("a").touch()
    with CheckpointManager(url, auto_verify=False) as manager:
        checkpoint = step(manager, {"n": 1}, exists("a"))
        assert checkpoint.verified is False
        assert checkpoint.last_verified_at is None
        assert checkpoint.evidence_pack is not None
        assert checkpoint.evidence_pack.evidence_list[0].verification_status == "pending"
        assert manager.verify_checkpoint(checkpoint.checkpoint_id)
        again = manager.get_checkpoint(checkpoint.checkpoint_id)
        assert again is not None
        assert again.verified


def test_exit_codes_are_those_of_their_own_snapshot(manager: CheckpointManager) -> None:
    assert step(manager, {"n": 1, "exit_code": 0}, exit_code(0)).verified
    assert not step(manager, {"n": 2, "exit_code": 3}, exit_code(0)).verified
    assert not step(manager, {"n": 3}, exit_code(0)).verified
    assert newest(manager) == 1


def test_the_default_connection_is_the_managers_own_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    row = {"table": "tasks", "where": {"task_id": "t"}, "values": {"status": "done"}}
    pack = EvidencePack([Evidence("db_row", "done", row)])
    with CheckpointManager(db_path=path) as manager:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE tasks (task_id TEXT, status TEXT)")
            db.execute("INSERT INTO tasks VALUES ('t', 'done')")
        assert step(manager, {"n": 1}, pack).verified
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE tasks SET status = 'failed'")
        assert newest(manager) is None
    with CheckpointManager("memory://") as manager, pytest.raises(hf.EvidencePolicyError):
        step(manager, {"n": 1}, pack)


def test_nothing_claimed_is_never_verified(manager: CheckpointManager) -> None:
    by_hand = hf.SyncCheckpointer(manager.checkpointer.store).save("task", {"n": 0})
    assert newest(manager) is None
    assert manager.verify_checkpoint(by_hand.checkpoint_id) is False
    with pytest.raises(hf.VerificationError, match="it claims nothing"):
        manager.rollback_to_checkpoint(by_hand.checkpoint_id)
    shown = manager.get_checkpoint(by_hand.checkpoint_id)
    assert shown is not None
    assert (shown.evidence_pack, shown.verified, shown.checkpoint_type) == (None, False, None)


class Weather:
    """A check that says what it is told to."""

    def __init__(self, manager: CheckpointManager) -> None:
        self.now = verdicts.verified()
        manager.verifier.register_check("weather", self)
        self.pack = EvidencePack([Evidence("weather", "it is fine", {}, {"subject": "sky"})])

    def __call__(self, claim: Evidence, context: Context) -> Any:
        return self.now


@pytest.mark.parametrize(
    "untold", [verdicts.inconclusive("no connection"), verdicts.error("it broke")]
)
def test_an_undecided_check_does_not_throw_good_work_away(
    manager: CheckpointManager, untold: verdicts.Verdict
) -> None:
    weather = Weather(manager)
    Path("a").touch()
    step(manager, {"n": 1}, exists("a"))
    two = step(manager, {"n": 2}, weather.pack)
    weather.now = untold
    for _ in range(2):
        with pytest.raises(hf.VerificationError, match=f"{untold.reason}.*older checkpoint"):
            manager.get_last_verified_checkpoint("task")
    with pytest.raises(hf.VerificationError, match=f"{untold.reason}.*older checkpoint"):
        manager.rollback_to_checkpoint(two.checkpoint_id)
    with pytest.raises(hf.VerificationError):
        manager.resume_or_start("task")
    assert manager.verify_checkpoint(two.checkpoint_id) is False
    weather.now = verdicts.verified()
    assert newest(manager) == 2
    weather.now = verdicts.failed("it rains")
    assert newest(manager) == 1


def test_a_checkpoint_that_never_verified_is_skipped(manager: CheckpointManager) -> None:
    weather = Weather(manager)
    weather.now = verdicts.inconclusive("no connection")
    Path("a").touch()
    step(manager, {"n": 1}, exists("a"))
    assert not step(manager, {"n": 2}, weather.pack).verified
    assert newest(manager) == 1


def test_a_checkpoint_that_was_never_checked_is_not_skipped(url: str) -> None:
    with CheckpointManager(url, auto_verify=False) as manager:
        weather = Weather(manager)
        weather.now = verdicts.inconclusive("no connection")
        Path("a").touch()
        step(manager, {"n": 1}, exists("a"))
        step(manager, {"n": 2}, weather.pack)
        with pytest.raises(hf.VerificationError, match="no connection"):
            manager.get_last_verified_checkpoint("task")


def test_skipped_checkpoints_are_reported_with_their_reasons(url: str, caplog: Any) -> None:
    told: list[tuple[TaskCheckpoint, Standing]] = []
    with CheckpointManager(url, on_rejected=lambda *found: told.append(found)) as manager:
        for n in range(3):
            Path(f"{n}").touch()
            step(manager, {"n": n}, exists(f"{n}"))
        Path("1").unlink()
        assert newest(manager) == 0
        assert numbers([checkpoint for checkpoint, _ in told]) == [2, 1]
        assert {standing.status for _, standing in told} == {VerificationStatus.FAILED}
        assert all("1 is there" in str(standing.against[0]) for _, standing in told)
        assert "verification failed" in caplog.text


def test_types_are_looked_for_among_what_holds(manager: CheckpointManager) -> None:
    Path("a").touch()
    step(manager, {"n": 1}, exists("a"), kind="approval_point")
    step(manager, {"n": 2}, exists("a"), kind="tool_executed")
    assert newest(manager, "approval_point") == 1
    assert newest(manager, "llm_response") is None
    assert newest(manager) == 2


def test_going_back_branches_with_the_next_step_only(manager: CheckpointManager) -> None:
    Path("a").touch()
    one = step(manager, {"n": 1}, exists("a"))
    two = step(manager, {"n": 2}, exists("a"))
    waiting = manager.begin_step("task", "iteration_end", {"n": 9})
    assert manager.rollback_to_checkpoint(one.checkpoint_id) == {"n": 1}
    assert newest(manager) == 2, "nothing was begun, nothing is left behind"
    three = step(manager, {"n": 3}, exists("a"))
    assert three.parent_id == f"task@{one.seq}"
    assert newest(manager) == 3
    assert numbers(manager.list_checkpoints("task")) == [3, 2, 1]
    assert manager.steps_in_flight("task") == []
    with pytest.raises(hf.StepConflictError, match="was rolled back"):
        manager.commit_step(waiting, exists("a"))
    four = step(manager, {"n": 4}, exists("a"))
    assert four.parent_id == f"task@{three.seq}", "one rollback is one branch"
    assert manager.rollback_to_checkpoint(two.checkpoint_id) == {"n": 2}, "also to what was left"
    assert step(manager, {"n": 5}, exists("a")).parent_id == f"task@{two.seq}"


def test_another_manager_is_not_moved_by_a_rollback(kept_url: str) -> None:
    Path("a").touch()
    with CheckpointManager(kept_url) as one, CheckpointManager(kept_url) as two:
        first = step(one, {"n": 1}, exists("a"))
        second = step(one, {"n": 2}, exists("a"))
        one.rollback_to_checkpoint(first.checkpoint_id)
        third = step(two, {"n": 3}, exists("a"))
        assert third.parent_id == f"task@{second.seq}"
        with pytest.raises(hf.ConflictError):
            one.begin_step("task", "iteration_end", {"n": 4})
        assert newest(one) == 3, "the other's work was not left behind unseen"


def test_claims_left_behind_do_not_count(manager: CheckpointManager) -> None:
    Path("a").touch()
    Path("b").touch()
    one = step(manager, {"n": 1}, exists("a"))
    step(manager, {"n": 2}, exists("b"))
    Path("b").unlink()
    manager.rollback_to_checkpoint(one.checkpoint_id)
    step(manager, {"n": 3}, exists("a"))
    assert newest(manager) == 3


def test_starting_over_is_a_branch_of_its_own(manager: CheckpointManager) -> None:
    for n in (1, 2):
        Path(f"{n}").touch()
        step(manager, {"n": n}, exists(f"{n}"))
    Path("1").unlink()
    Path("2").unlink()
    assert newest(manager) is None
    assert manager.resume_or_start("task") is None
    Path("1").touch()
    first = step(manager, {"n": 3}, exists("1"))
    assert first.parent_id is None
    assert newest(manager) == 3, "the claim on 2 was left behind"


def test_looking_for_a_checkpoint_does_not_move_the_task(manager: CheckpointManager) -> None:
    Path("a").touch()
    one = step(manager, {"n": 1}, exists("a"))
    Path("a").unlink()
    assert newest(manager) is None
    Path("a").touch()
    assert step(manager, {"n": 2}, exists("a")).parent_id == f"task@{one.seq}"
    assert manager.rollback_to_checkpoint(one.checkpoint_id) == {"n": 1}
    assert newest(manager) == 2
    assert step(manager, {"n": 3}, exists("a")).parent_id == f"task@{one.seq}"


def test_a_rollback_to_what_was_deleted_meanwhile(manager: CheckpointManager) -> None:
    Path("a").touch()
    one = step(manager, {"n": 1}, exists("a"))
    step(manager, {"n": 2}, exists("a"))
    manager.rollback_to_checkpoint(one.checkpoint_id)
    manager.delete_checkpoint(one.checkpoint_id)
    with pytest.raises(hf.CheckpointNotFoundError):
        manager.begin_step("task", "iteration_end", {"n": 3})
    assert newest(manager) == 2


def test_resume_or_start(manager: CheckpointManager) -> None:
    assert manager.resume_or_start("task") is None
    Path("a").touch()
    step(manager, {"n": 1}, exists("a"))
    Path("b").touch()
    step(manager, {"n": 2}, exists("b"))
    manager.begin_step("task", "iteration_end", {"n": 9})
    assert manager.resume_or_start("task") == {"n": 2}
    Path("b").unlink()
    assert manager.resume_or_start("task") == {"n": 1}
    assert len(manager.steps_in_flight()) == 1, "until something is begun"
    step(manager, {"n": 3}, exists("a"))
    assert manager.steps_in_flight() == []
    assert newest(manager) == 3


def test_checkpoints_of_an_unknown_task(manager: CheckpointManager) -> None:
    assert newest(manager) is None
    assert manager.get_checkpoint("nobody@3") is None
    assert manager.get_checkpoint("nobody") is None
    for call in (manager.verify_checkpoint, manager.rollback_to_checkpoint):
        for name in ("nobody@3", "nobody"):
            with pytest.raises(hf.CheckpointNotFoundError, match="nobody"):
                call(name)


def test_verdicts_go_with_the_run(manager: CheckpointManager) -> None:
    Path("a").touch()
    step(manager, {"n": 1}, exists("a"))
    hf.SyncCheckpointer(manager.checkpointer.store).clear("task")
    kinds = [e.kind for e in manager.checkpointer.store.read(verdict_journal("task"))]
    assert kinds == ["tombstone"]
    assert [run.run for run in manager.checkpointer.store.runs()] == []


def test_an_outage_is_an_error_and_never_an_absence(
    manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a").touch()
    step_id = manager.begin_step("task", "iteration_end", {"n": 1})
    checkpoint = step(manager, {"n": 2}, exists("a"))

    def away(*args: Any, **options: Any) -> Any:
        raise hf.StoreUnavailableError("it is away")

    with monkeypatch.context() as patch:
        for name in ("read", "last", "runs"):
            patch.setattr(manager.checkpointer.store, name, away)
        for call in (
            lambda: manager.get_last_verified_checkpoint("task"),
            lambda: manager.resume_or_start("task"),
            lambda: manager.rollback_to_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.verify_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.get_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.get_checkpoint("a name"),
            lambda: manager.list_checkpoints("task"),
            lambda: manager.commit_step(step_id, exists("a")),
            lambda: manager.steps_in_flight("task"),
            manager.steps_in_flight,
        ):
            with pytest.raises(hf.CheckpointLoadError, match="it is away"):
                call()
    assert manager.commit_step(step_id, exists("a")).verified
