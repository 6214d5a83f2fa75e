"""The mistakes that verified resumes are built to exclude, made on purpose: a test must notice each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import CALLED_WITH
from holdfast.engine import child_runs, context, launch, retry
from holdfast.engine import claims as claims_module
from holdfast.engine.claims import Claiming
from holdfast.engine.options import Options
from holdfast.engine.program import Task
from holdfast.engine.resume import takeover, trust
from holdfast.engine.resume.history import History
from holdfast.engine.resume.trust import Retreat
from holdfast.engine.run import attempt, record
from holdfast.engine.run.record import Recorder
from holdfast.evidence.trust import checking, rule
from holdfast.evidence.trust.checking import Checker, Found
from holdfast.evidence.trust.gathering import Gathering
from holdfast.evidence.trust.rule import CheckpointClaims, Requirement
from holdfast.evidence.verdicts import Verdict, VerificationStatus, verified
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.graph import CheckpointStrategy
from holdfast.kernel import appending
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.model import Kind
from holdfast.workflow.workflow_program import WorkflowProgram
from tests.engine import test_hostile_evidence as hostile
from tests.engine.desk import Desk
from tests.graph import test_evidence as graphs
from tests.workflow.evidence import (
    test_child_runs,
    test_claims,
    test_forks,
    test_going_back,
    test_parallel,
    test_status,
    test_strategies,
    test_undecided,
)
from tests.workflow.evidence.support import by_run

Mutate = Callable[[pytest.MonkeyPatch], None]
Test = Callable[["Tools"], None]


class Tools:
    """What the tests are given."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self.desk = Desk(place)
        self.store = hf.open_store("memory://")
        self.engine = hf.Engine(self.store)


# --- looking


def never_looks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trust, "examine", lambda *args: None)


def trusts_stored_verdicts(patch: pytest.MonkeyPatch) -> None:
    real = trust.examine

    def examine(core: Core, history: History, options: Options) -> Retreat | None:
        return real(core, history, Options(trust="stored"))

    patch.setattr(trust, "examine", examine)


def calls_everything_verified(patch: pytest.MonkeyPatch) -> None:
    def check(self: Any, claims: Sequence[Any], **options: Any) -> list[Verdict]:
        found = [verified()._replace(evidence=claim.digest) for claim in claims]
        for claim, verdict in zip(claims, found, strict=True):
            claim.judge(verdict)
        return found

    patch.setattr(EvidenceVerifier, "check", check)


def starts_from_zero(patch: pytest.MonkeyPatch) -> None:
    real = trust.examine

    def examine(core: Core, history: History, options: Options) -> Retreat | None:
        found = real(core, history, options)
        return None if found is None else found._replace(to=None)

    patch.setattr(trust, "examine", examine)


def goes_back_one_step_at_most(patch: pytest.MonkeyPatch) -> None:
    real = trust.examine

    def examine(core: Core, history: History, options: Options) -> Retreat | None:
        found = real(core, history, options)
        if found is None or found.rejected[0].seq == found.rejected[-1].seq:
            return found
        newest = core.journals.entry(history.run, found.rejected[0].seq)
        assert newest is not None
        assert newest.parent is not None
        return found._replace(to=core.journals.entry(history.run, newest.parent))

    patch.setattr(trust, "examine", examine)


def takes_doubt_for_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checking, "_UNDECIDED", ())


def takes_doubt_for_failure_the_second_time(patch: pytest.MonkeyPatch) -> None:
    real = Checker.newest

    def newest(self: Checker, branch: Any, wanted: Any, **options: Any) -> Found:
        from holdfast.evidence.trust import records

        branch = list(branch)
        if records.ever_held(self._core, branch[0]) is False:
            patch.setattr(checking, "_UNDECIDED", ())
        return real(self, branch, wanted, **options)

    patch.setattr(Checker, "newest", newest)


def takes_doubt_for_proof(patch: pytest.MonkeyPatch) -> None:
    real = rule._status

    def status(*args: Any) -> VerificationStatus:
        found = real(*args)
        failed = found is VerificationStatus.FAILED
        return found if failed else VerificationStatus.VERIFIED

    patch.setattr(rule, "_status", status)


def asks_superseded_claims_again(patch: pytest.MonkeyPatch) -> None:
    def binding(branch: Sequence[CheckpointClaims], of: int) -> list[Requirement]:
        return [
            Requirement(tuple(rule.BoundClaim(seq, *c) for c in pack.claims), pack.required)
            for seq, packs, before in branch
            for group in (*(group.packs for group in before), packs)
            for pack in group
        ]

    patch.setattr(rule, "binding", binding)


def looks_at_the_newest_claims_only(patch: pytest.MonkeyPatch) -> None:
    real = rule.binding

    def binding(branch: Sequence[CheckpointClaims], of: int) -> list[Requirement]:
        return real(branch[-1:], of)

    patch.setattr(rule, "binding", binding)


def forgets_the_claims_of_runs_within(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gathering, "_binding_in", lambda *args: [])


def forgets_what_a_fork_inherits(patch: pytest.MonkeyPatch) -> None:
    real = rule.successive
    patch.setattr(rule, "successive", lambda branch: real([c._replace(before=()) for c in branch]))


def calls_what_is_unclaimed_verified(patch: pytest.MonkeyPatch) -> None:
    real = rule._standing

    def standing(seq: int, asked: Any, verdicts: Any) -> Any:
        found = real(seq, asked, verdicts)
        return found if asked else found._replace(status=VerificationStatus.VERIFIED)

    patch.setattr(rule, "_standing", standing)


def refuses_what_is_unclaimed(patch: pytest.MonkeyPatch) -> None:
    real = Checker.newest

    def newest(self: Checker, branch: Any, wanted: Any, **options: Any) -> Found:
        return real(self, branch, wanted, **(options | {"unclaimed": False}))

    patch.setattr(Checker, "newest", newest)


# --- writing it down


def claims_before_it_says_that_it_goes_back(patch: pytest.MonkeyPatch) -> None:
    """Whoever dies in between leaves a run that goes on from what does not hold."""
    append_at = appending.append_at

    def separately(core: Core, run: str, seq: int, drafts: list[Draft]) -> Any:
        written = None
        for draft in reversed(drafts):
            written = yield from append_at(core, run, seq, [draft])
            seq += 1
        return written

    patch.setattr(takeover, "append_at", separately)


def gives_no_reasons(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trust, "_MOST", 0)


def tells_nobody(patch: pytest.MonkeyPatch) -> None:
    real = launch._take_over

    async def take_over(*args: Any, **options: Any) -> Any:
        return (await real(*args, **options))._replace(rejected=())

    patch.setattr(launch, "_take_over", take_over)


def takes_repairs_for_doing_anew(patch: pytest.MonkeyPatch) -> None:
    def epoch_of(self: History, entry: Any) -> int:
        return entry.seq if entry.kind == Kind.ROLLBACK else self.meta(entry).epoch

    patch.setattr(History, "_epoch_of", epoch_of)


def forgets_that_it_was_gone_back_in(patch: pytest.MonkeyPatch) -> None:
    real = Retreat.draft.fget  # type: ignore[attr-defined]
    patch.setattr(Retreat, "draft", property(lambda self: real(self._replace(epoch=0))))


def claims_though_it_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(History, "still_waits", False)


def repairs_what_is_being_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(History, "ending", False)


# --- claiming


def loses_claims_of_states_that_are_not_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record, "EVIDENCE", "no such word")


def loses_claims_at_the_end(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Recorder) -> None:
        if not self._options.strategy.saves_all:
            self._kept = []

    patch.setattr(Recorder, "forget_unsaved", forget)


def claims_without_checking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims_module, "_check", lambda *args: None)


def lets_doubt_pass_when_the_step_is_finished(patch: pytest.MonkeyPatch) -> None:
    real = claims_module._check

    def check(*args: Any) -> None:
        try:
            real(*args)
        except hf.ClaimFailedError as error:
            if any(c.verification_status is VerificationStatus.FAILED for c in error.evidence):
                raise

    patch.setattr(claims_module, "_check", check)


def refuses_only_what_was_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claiming, "refuse", lambda *args: None)


def overlooks_what_is_not_there(patch: pytest.MonkeyPatch) -> None:
    real = claims_module._files

    def files(path: str, *args: Any) -> Any:
        return real(path, *args) if Path(path).exists() else []

    patch.setattr(claims_module, "_files", files)


def claims_what_is_read_when_the_step_is_finished(patch: pytest.MonkeyPatch) -> None:
    real = Claiming.after

    def after(self: Claiming, verifier: Any, task: Task, value: Any, read: Any, *rest: Any) -> Any:
        return real(self, verifier, task, value, self.before(verifier, task), *rest)

    patch.setattr(Claiming, "after", after)
    patch.setattr(Claiming, "before", lambda self, verifier, task: [])


def keeps_the_claims_of_failed_attempts(patch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def info(*args: Any, **options: Any) -> Any:
        made = real(*args, **options)
        made._claimed = kept
        return made

    real = context.StepInfo
    patch.setattr(attempt, "StepInfo", info)


def checks_before_the_transaction(patch: pytest.MonkeyPatch) -> None:
    real = Claiming.after

    def after(self: Claiming, verifier: Any, task: Task, *rest: Any) -> Any:
        return real(self, verifier, Task(task.key, task.name), *rest)

    patch.setattr(Claiming, "after", after)


def names_arguments_when_the_step_is_finished(patch: pytest.MonkeyPatch) -> None:
    real = attempt.Attempts._claims

    async def claims(self: Any, task: Task, *rest: Any) -> Any:
        found = await real(self, task, *rest)
        named = {CALLED_WITH: claims_module.inputs_of(task)}
        return {**found, **named} if CALLED_WITH in found else found

    patch.setattr(attempt.Attempts, "_claims", claims)


def restores_steps_whatever_they_are_called_with(patch: pytest.MonkeyPatch) -> None:
    real = WorkflowProgram.restore

    def restore(self: WorkflowProgram, history: History, **options: Any) -> int:
        return real(self, history)

    patch.setattr(WorkflowProgram, "restore", restore)


def never_tries_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry, "_OF_THE_STEP", (TimeoutError,))


# --- runs within


def believes_a_finished_run_within(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trust, "begin_anew", lambda *args: None)


def gives_other_inputs_the_old_run_within(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(child_runs, "began_otherwise", lambda *args: False)
    real = takeover.check_begun
    for module in (launch, takeover):
        patch.setattr(
            module, "check_begun", lambda program, history, inputs: real(program, history, None)
        )


def compares_with_all_results(patch: pytest.MonkeyPatch) -> None:
    from holdfast.operations import reading

    def snapshot(self: Any, run: str, seq: int) -> Any:
        loaded = reading.load(self._core, run, seq=seq)
        return None if loaded is None else loaded.state

    patch.setattr(checking._Look, "_snapshot", snapshot)


def lost(tools: Tools) -> None:
    test_going_back.test_a_lost_file_is_made_again_and_what_came_before_it_is_not(
        tools.engine, tools.desk, by_run, "b", "bc"
    )


def of_engine(test: Callable[[hf.Engine, Desk], None]) -> Test:
    return lambda tools: test(tools.engine, tools.desk)


def of_store(test: Callable[[hf.Engine, hf.Store, Desk], None]) -> Test:
    return lambda tools: test(tools.engine, tools.store, tools.desk)


CAUGHT_BY: dict[Mutate, Test] = {
    never_looks: lost,
    trusts_stored_verdicts: lambda tools: hostile.test_a_stored_verdict_is_never_a_reason_to_trust(
        tools.desk
    ),
    calls_everything_verified: lost,
    starts_from_zero: lost,
    goes_back_one_step_at_most: lost,
    takes_doubt_for_failure: of_store(
        test_undecided.test_an_undecided_check_stops_the_resume_as_often_as_it_is_tried
    ),
    takes_doubt_for_failure_the_second_time: of_store(
        test_undecided.test_an_undecided_check_stops_the_resume_as_often_as_it_is_tried
    ),
    takes_doubt_for_proof: of_store(
        test_undecided.test_an_undecided_check_stops_the_resume_as_often_as_it_is_tried
    ),
    asks_superseded_claims_again: of_engine(
        test_going_back.test_a_file_that_is_rewritten_by_a_later_step_is_no_failure
    ),
    looks_at_the_newest_claims_only: lost,
    forgets_the_claims_of_runs_within: lambda tools: (
        test_child_runs.test_claims_of_child_runs_are_checked_and_repaired_there(
            tools.engine, tools.desk, "i2", ["i2", "m2", "o2"]
        )
    ),
    forgets_what_a_fork_inherits: lambda tools: (
        graphs.test_a_fork_is_checked_for_the_claims_of_its_origin(tools.store, tools.desk)
    ),
    calls_what_is_unclaimed_verified: lambda tools: (
        hostile.test_nothing_claimed_is_never_called_verified(tools.desk)
    ),
    refuses_what_is_unclaimed: of_engine(
        test_going_back.test_checkpoints_without_claims_are_not_skipped
    ),
    claims_before_it_says_that_it_goes_back: of_store(
        test_going_back.test_the_rollback_is_written_with_the_claim_before_anything_is_run_again
    ),
    gives_no_reasons: of_store(
        test_going_back.test_each_skipped_checkpoint_is_reported_with_its_reason
    ),
    tells_nobody: of_store(
        test_going_back.test_each_skipped_checkpoint_is_reported_with_its_reason
    ),
    takes_repairs_for_doing_anew: of_engine(
        test_strategies.test_a_repaired_step_keeps_its_idempotency_key
    ),
    forgets_that_it_was_gone_back_in: of_store(
        test_strategies.test_a_repair_remembers_that_the_run_was_rolled_back
    ),
    claims_though_it_waits: of_store(
        test_status.test_a_run_that_waits_for_an_answer_is_checked_when_it_is_resumed
    ),
    repairs_what_is_being_undone: of_store(
        test_status.test_a_cancelled_run_is_undone_without_checking_its_evidence
    ),
    loses_claims_of_states_that_are_not_saved: lambda tools: (
        graphs.test_claims_of_nodes_that_are_not_saved_by_themselves_are_kept(
            tools.store, tools.desk, CheckpointStrategy.MARKED
        )
    ),
    loses_claims_at_the_end: lambda tools: (
        test_strategies.test_a_file_rewritten_by_a_step_that_is_not_saved_by_itself_is_no_failure(
            tools.store, tools.desk, "marked"
        )
    ),
    claims_without_checking: of_engine(
        test_claims.test_a_claim_that_does_not_verify_fails_the_step_which_is_retried
    ),
    lets_doubt_pass_when_the_step_is_finished: of_engine(
        test_claims.test_a_partial_pack_is_not_satisfied_by_undecided_checks
    ),
    refuses_only_what_was_done: lambda tools: (
        graphs.test_a_node_that_could_never_be_verified_is_not_called(tools.store, tools.desk)
    ),
    overlooks_what_is_not_there: of_engine(
        test_claims.test_a_declared_output_that_is_not_there_fails_the_step
    ),
    claims_what_is_read_when_the_step_is_finished: of_engine(
        test_going_back.test_a_file_that_is_read_and_changed_is_claimed_as_the_step_found_it
    ),
    keeps_the_claims_of_failed_attempts: of_engine(
        test_claims.test_a_failed_attempt_leaves_no_claim_behind
    ),
    checks_before_the_transaction: lambda tools: (
        test_claims.test_with_a_transaction_evidence_is_checked_by_the_resume_only(
            tools.desk, tools.desk.place
        )
    ),
    names_arguments_when_the_step_is_finished: of_engine(
        test_parallel.test_a_step_that_changes_its_arguments_is_still_the_same_step
    ),
    restores_steps_whatever_they_are_called_with: of_store(
        test_forks.test_a_step_of_a_fork_that_is_called_with_an_edited_value_is_done_again
    ),
    never_tries_again: of_engine(
        test_claims.test_a_claim_that_does_not_verify_fails_the_step_which_is_retried
    ),
    believes_a_finished_run_within: of_engine(
        test_child_runs.test_outputs_of_a_subworkflow_step_are_made_again_by_the_child_run
    ),
    gives_other_inputs_the_old_run_within: of_engine(
        test_child_runs.test_a_child_run_with_other_inputs_after_a_repair_is_a_new_run
    ),
    compares_with_all_results: of_engine(
        test_claims.test_a_claim_is_compared_with_the_result_of_its_step_then_and_later
    ),
}


@pytest.mark.parametrize("mutate", CAUGHT_BY, ids=lambda mutate: mutate.__name__)
def test_a_test_notices(mutate: Mutate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    CAUGHT_BY[mutate](Tools(tmp_path / "sound"))
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, hf.HoldfastError, OSError)):
        CAUGHT_BY[mutate](Tools(tmp_path / "broken"))
