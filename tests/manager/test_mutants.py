"""The mistakes that this is built to exclude, made on purpose: a test must notice each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import dump_meta
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust import records, rule, storing
from holdfast.evidence.trust.checking import Checker, Found
from holdfast.evidence.trust.rule import CheckpointClaims, Requirement, Standing
from holdfast.evidence.verdicts import VerificationStatus, inconclusive
from holdfast.kernel.appending import append
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.manager import CheckpointManager, TaskCheckpoint, task_steps
from holdfast.model import Entry

from . import test_steps, test_trust

Mutate = Callable[[pytest.MonkeyPatch], None]


def believes_what_was_found_earlier(patch: pytest.MonkeyPatch) -> None:
    def stored(self: Checker, entry: Entry) -> Standing:
        held = records.ever_held(self._core, entry)
        return Standing(
            entry.seq, VerificationStatus.VERIFIED if held else VerificationStatus.FAILED
        )

    patch.setattr(Checker, "check", stored)


def searches_by_what_was_found_earlier(patch: pytest.MonkeyPatch) -> None:
    def newest(self: Checker, branch: Iterable[Entry], wanted: Callable[[Entry], bool]) -> Found:
        found = filter(wanted, branch)
        return Found(next((e for e in found if records.ever_held(self._core, e)), None), [])

    patch.setattr(Checker, "newest", newest)


def looks_at_the_newest_only(patch: pytest.MonkeyPatch) -> None:
    real = Checker.newest_in

    def newest(self: Checker, run: str, wanted: Callable[[Entry], bool]) -> Found:
        first = next(self._core.journals.branch(run))
        return real(self, run, lambda entry: entry.seq == first.seq)

    patch.setattr(Checker, "newest_in", newest)


def asks_superseded_claims_again(patch: pytest.MonkeyPatch) -> None:
    def binding(branch: Sequence[CheckpointClaims], of: int) -> list[Requirement]:
        return [
            Requirement(tuple(rule.BoundClaim(seq, *c) for c in pack.claims), pack.required)
            for seq, packs, _ in branch
            for pack in packs
        ]

    patch.setattr(rule, "binding", binding)


def forgets_older_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checker, "check", Checker.check_own)


def takes_doubt_for_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "ever_held", lambda core, entry: False)


def goes_back_at_once(patch: pytest.MonkeyPatch) -> None:
    real = CheckpointManager.rollback_to_checkpoint

    def rollback(self: CheckpointManager, checkpoint_id: str) -> Any:
        snapshot = real(self, checkpoint_id)
        store = self.checkpointer.store
        found = self.get_checkpoint(checkpoint_id)
        assert found is not None
        hf.SyncCheckpointer(store).rollback(found.run_id, seq=found.seq)
        return snapshot

    patch.setattr(CheckpointManager, "rollback_to_checkpoint", rollback)


def never_goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckpointManager, "_go_back", lambda *args: None)


def shows_verdicts_on_anything(patch: pytest.MonkeyPatch) -> None:
    class Any_(dict[int, str]):  # noqa: N801
        def get(self, key: Any, default: Any = None) -> Any:
            return Same()

    class Same:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    real = records.notes

    def notes(core: Core, run: str, digests: Any, *, decides: bool = False) -> Any:
        return real(core, run, Any_(digests), decides=decides)

    patch.setattr(records, "notes", notes)


def commits_twice(patch: pytest.MonkeyPatch) -> None:
    def commit(core: Core, begun: Entry, pack: EvidencePack, alias: str | None, *_: Any) -> Any:
        encoding = core.journals.chain(begun.run, begun.seq, begun).encoding
        meta = dump_meta(storing.evidence_meta(pack))
        draft = Draft("checkpoint", "open", encoding, meta=meta)
        return (yield from append(core, begun.run, draft)), False

    patch.setattr(task_steps, "commit", commit)


def keeps_the_callers_snapshot(patch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    begin, commit = CheckpointManager.begin_step, CheckpointManager.commit_step

    def begin_step(self: CheckpointManager, task: str, kind: str, snapshot: Any) -> str:
        step_id = begin(self, task, kind, {})
        kept[step_id] = snapshot
        return step_id

    def commit_step(self: CheckpointManager, step_id: str, pack: EvidencePack) -> TaskCheckpoint:
        found = commit(self, step_id, pack)
        form = found.to_dict() | {"state": kept[step_id]}
        return TaskCheckpoint.from_dict(form)

    patch.setattr(CheckpointManager, "begin_step", begin_step)
    patch.setattr(CheckpointManager, "commit_step", commit_step)


def stores_the_verdict_with_the_claim(patch: pytest.MonkeyPatch) -> None:
    def meta(pack: EvidencePack) -> dict[str, Any]:
        return {"evidence": pack.to_dict()}

    patch.setattr(task_steps, "evidence_meta", meta)


CAUGHT_BY: dict[Mutate, Callable[[CheckpointManager], None]] = {
    believes_what_was_found_earlier: test_trust.test_what_was_found_earlier_is_never_believed,
    searches_by_what_was_found_earlier: test_trust.test_what_was_found_earlier_is_never_believed,
    looks_at_the_newest_only: test_trust.test_the_newest_fails_and_an_older_good_one_is_found,
    asks_superseded_claims_again: test_trust.test_a_rewritten_file_is_no_failure,
    forgets_older_claims: test_trust.test_an_older_claim_that_nothing_supersedes_still_counts,
    takes_doubt_for_failure: lambda manager: (
        test_trust.test_an_undecided_check_does_not_throw_good_work_away(
            manager, inconclusive("no connection")
        )
    ),
    goes_back_at_once: test_trust.test_going_back_branches_with_the_next_step_only,
    never_goes_back: test_trust.test_going_back_branches_with_the_next_step_only,
    shows_verdicts_on_anything: test_trust.test_a_verdict_on_anything_else_is_not_shown,
    stores_the_verdict_with_the_claim: test_trust.test_verdicts_never_stand_in_the_checkpoint,
    commits_twice: test_steps.test_a_step_is_committed_once,
    keeps_the_callers_snapshot: test_steps.test_the_snapshot_is_copied_when_the_step_begins,
}


@pytest.mark.parametrize("mutate", CAUGHT_BY, ids=lambda mutate: mutate.__name__)
def test_a_test_notices(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    with CheckpointManager("memory://") as manager:
        mutate(monkeypatch)
        with pytest.raises((AssertionError, pytest.fail.Exception, hf.HoldfastError)):
            CAUGHT_BY[mutate](manager)
