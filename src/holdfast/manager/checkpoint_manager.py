"""The front door for programs that do the work themselves and say when a step begins and ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, Self
from urllib.parse import quote

from holdfast.checkpoint import Checkpoint
from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine.door import StoreLike, open_checkpointer
from holdfast.engine.voting.asking import WITHIN, Consensus, verify_with_workers
from holdfast.errors import (
    CheckpointNotFoundError,
    ConflictError,
    VerificationError,
)
from holdfast.evidence.checks import needs_snapshot
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.policy import Policy
from holdfast.evidence.trust.checking import Checker
from holdfast.evidence.trust.indexing import Index
from holdfast.evidence.trust.rule import Standing
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.evidence.world.bases import base_of, with_base
from holdfast.kernel import backlog, compose
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.kernel.store_view import real_store
from holdfast.logs import about, logger
from holdfast.manager import task_steps
from holdfast.manager.task_checkpoint import StepInFlight, TaskCheckpoint, checkpoints_of, of_task
from holdfast.migrations import Migrations, version_of
from holdfast.model import Entry, check_id
from holdfast.model import checkpoint_id as name_checkpoint
from holdfast.operations import deleting, iterating, reading

OnRejected = Callable[[TaskCheckpoint, Standing], object]
"""Called with every checkpoint that is skipped, and why."""

_log: Final = logger("holdfast.evidence")


class CheckpointManager:
    """Begins and commits the steps of tasks, with evidence that is checked before it counts.

    Blocking. May be shared between threads, and several processes may work on one store: a step
    begun by one can be committed by another. A task is a run; its id is the run's.

    A checkpoint *verifies* when the newest claim of each fact on its branch, up to it,
    verifies now. `get_last_verified_checkpoint` finds only those, and only they can be rolled back
    to. Earlier verdicts are shown and never believed.
    """

    def __init__(
        self,
        store: StoreLike = None,
        *,
        owner: str | None = None,
        db_path: str | os.PathLike[str] | None = None,
        base_path: str | os.PathLike[str] | None = None,
        auto_verify: bool = True,
        policy: Policy | None = None,
        verifier: EvidenceVerifier | None = None,
        on_rejected: OnRejected | None = None,
        migrate: Migrations | None = None,
    ) -> None:
        """Open a manager on a store: a URL, path, `Store` or checkpointer; None is the default.

        - `owner`: see and change the tasks of this owner only, as a checkpointer with it does.
        - `db_path`: a SQLite file, instead of a store.
        - `base_path`: the root of relative paths of evidence, which no path may leave; short for
          a `policy` that says so. `policy`: all that checks may look at. The connection "default"
          of `db_row` is the manager's own SQLite file unless the policy has one.
        - `auto_verify`: check a checkpoint's evidence when it is committed.
        - `verifier`: one of your own, instead of `base_path` and `policy`.
        - `on_rejected`: called for each checkpoint that is skipped in a search.
        - `migrate`: makes snapshots of its version of older ones, where checkpoints are read; steps
          that are begun are of its version. `MigrationError` where it can't.
        """
        if db_path is not None:
            if store is not None:
                raise TypeError("give a store or a db_path, not both")
            store = f"sqlite:///{quote(os.fspath(db_path))}"
        self._opened = open_checkpointer(store, SyncCheckpointer, owner=owner)
        self.auto_verify = auto_verify
        if verifier is None:
            verifier = EvidenceVerifier(base_path, policy=self._policy(policy or Policy()))
        elif policy is not None or base_path is not None:
            raise TypeError("give a verifier, or a policy and base_path, not both")
        self.verifier = verifier
        self._on_rejected = on_rejected
        self._migrate = migrate
        version_of(None, migrate)  # raises for anything else
        self._lock = threading.Lock()
        self._index = Index()
        self._going_back: dict[str, task_steps.GoingBack] = {}

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """The checkpointer behind this manager."""
        return self._opened.checkpointer

    # --- steps

    def begin_step(
        self,
        task_id: str,
        checkpoint_type: str,
        snapshot: Mapping[str, Any],
        work_item_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Begin a step, durably, with the state that it will be committed with; returns its id.

        The snapshot is copied now. Until it is committed the step is in flight, whatever happens
        to this process. After `rollback_to_checkpoint` the step continues from there, and later
        steps and checkpoints are abandoned; `ConflictError` if another process has committed a
        checkpoint in between. If it continues from the current one, steps of other work items stay
        as they are. Raises what `Checkpointer.save` raises.
        """
        core, run = self._core(), check_id("task_id", task_id)
        draft = task_steps.begin_draft(core, run, checkpoint_type, snapshot, work_item_id, metadata)
        if self._migrate is not None:
            draft = compose.of_version(draft, self._migrate.version)
        with self._lock:
            back = self._going_back.pop(run, None)
        try:
            entry = core.drive(task_steps.begin(core, run, draft, back))
        except (ConflictError, CheckpointNotFoundError):
            raise  # the caller decides again whether to go back
        except BaseException:
            if back is not None:
                with self._lock:
                    self._going_back.setdefault(run, back)
            raise
        return name_checkpoint(run, entry.seq)

    def commit_step(
        self, step_id: str, evidence_pack: EvidencePack, checkpoint_id: str | None = None
    ) -> TaskCheckpoint:
        """Commit a begun step as a checkpoint with its evidence, durably and once.

        Committing it again with the same evidence returns the same checkpoint. `checkpoint_id` is
        your own name for it. With `auto_verify` its own evidence is checked: see `verified` of the
        returned checkpoint. It is committed in any case; a failed check is logged as a warning.

        Raises `StepNotFoundError`; `StepConflictError` if it was committed with other evidence,
        if it was abandoned, if the task was rolled back to before it, if the name is taken, or if
        another process has begun and committed steps of the same work item since: abandon it then,
        and begin again.
        Steps that one process has begun may be committed in any order. `EvidencePolicyError` and
        `InvalidEvidenceError` for claims that could never be verified here.
        """
        if not isinstance(evidence_pack, EvidencePack):
            raise TypeError(f"commit_step takes an EvidencePack, not {evidence_pack!r}")
        if checkpoint_id is not None:
            task_steps.check_alias(checkpoint_id)
        core = self._core()
        with reading.outages_named(str(step_id)):
            begun = task_steps.find(core, step_id)
        base = base_of(self.verifier.policy)
        claims = [with_base(claim, base) for claim in evidence_pack.evidence_list]
        pack = replace(evidence_pack, evidence_list=claims)
        self.verifier.refuse_unverifiable(pack)
        observe = partial(self._observe, core, begun)
        entry, is_new = core.drive(
            task_steps.commit(core, begun, pack, checkpoint_id, observe, self._index)
        )
        if self.auto_verify:
            checker = self._checker(core)
            standing = checker.committed(entry, pack) if is_new else checker.check_own(entry)
            if not standing.holds:
                name = name_checkpoint(entry.run, entry.seq)
                _log.warning(
                    "%s is committed, but %s", name, standing.reason, extra=about(entry.run)
                )
        return self._required(core, entry.run, entry.seq)

    def abandon_step(self, step_id: str) -> None:
        """Say, durably, that a begun step will never be committed: it is in flight no more.

        Does nothing if it was abandoned already, or if the task was rolled back to before it.
        Raises `StepNotFoundError`, and `StepConflictError` if it was committed.
        """
        core = self._core()
        with reading.outages_named(str(step_id)):
            begun = task_steps.find(core, step_id)
        core.drive(task_steps.abandon(core, begun))

    def steps_in_flight(self, task_id: str | None = None) -> list[StepInFlight]:
        """The steps that were begun and not committed, oldest first, of one task or of all.

        Steps that were abandoned or rolled back are not among them. Their snapshots are as they were
        given, whatever `migrate` says.
        """
        core = self._core()
        with reading.outages_named(task_id):
            if task_id is not None:
                return task_steps.in_flight(core, check_id("task_id", task_id))
            found: list[StepInFlight] = []
            for head in all_runs(core.journals.store):
                if head.flow is None:
                    found += task_steps.in_flight(core, head.run)
            return found

    # --- trust

    def verify_with_workers(
        self,
        checkpoint_id: str,
        *,
        on: Collection[str] = (),
        quorum: int | None = None,
        within: float = WITHIN,
    ) -> Consensus:
        """Have workers check a checkpoint, as `Engine.verify_with_workers` does.

        Raises `CheckpointNotFoundError`.
        """
        core = self._core()
        with reading.outages_named(checkpoint_id):
            entry = self._find(core, checkpoint_id).entry
            return verify_with_workers(core, entry, on=on, quorum=quorum, within=within)

    def verify_checkpoint(self, checkpoint_id: str) -> bool:
        """Whether a checkpoint verifies now. The verdicts are recorded beside the task's journal.

        Raises `CheckpointNotFoundError`.
        """
        core = self._core()
        with reading.outages_named(checkpoint_id):
            return self._checker(core).check(self._find(core, checkpoint_id).entry).holds

    def get_last_verified_checkpoint(
        self,
        task_id: str,
        checkpoint_type: str | None = None,
        *,
        work_item_id: str | None = None,
    ) -> TaskCheckpoint | None:
        """The newest checkpoint on the task's branch that verifies now; None if there is none.

        Those that fail are skipped. Where a check can't decide (INCONCLUSIVE, ERROR) and the
        checkpoint verified before, or was never checked, `VerificationError` is raised: an older
        one would throw good work away. This changes nothing: the next `begin_step` continues the
        task from its current checkpoint, unless `rollback_to_checkpoint` or `resume_or_start` is
        called before.
        """
        core, run = self._core(), check_id("task_id", task_id)
        wanted = task_steps.matching(checkpoint_type, work_item_id)
        with reading.outages_named(run), of_task():
            found = self._checker(core).newest_in(run, wanted)
        if self._on_rejected is not None:
            for entry, standing in found.rejected:
                loaded = iterating.load_listed(core, run, [entry.seq], self._migrate)
                self._on_rejected(checkpoints_of(core, loaded)[0], standing)
        return None if found.entry is None else self._required(core, run, found.entry.seq)

    def rollback_to_checkpoint(self, checkpoint_id: str) -> Any:
        """Check that a checkpoint verifies now, and return its snapshot.

        This manager's next `begin_step` for its task continues from there. Until then nothing
        changes. Raises `VerificationError`, with the evidence that did not verify, and
        `CheckpointNotFoundError`.
        """
        core = self._core()
        with reading.outages_named(checkpoint_id):
            loaded = self._find(core, checkpoint_id, self._migrate)
            seen = task_steps.current(core, loaded.run_id)
            standing = self._checker(core).check(loaded.entry)
        if not standing.holds:
            with of_task():
                raise VerificationError(checkpoint_id, standing.against)
        self._go_back(loaded.run_id, loaded.seq, seen)
        return loaded.state

    def resume_or_start(self, task_id: str, checkpoint_type: str | None = None) -> Any:
        """The snapshot of the newest checkpoint that verifies; None to start from the beginning.

        The next `begin_step` continues from there, or begins a branch of its own. Raises as
        `get_last_verified_checkpoint` does.
        """
        core, run = self._core(), check_id("task_id", task_id)
        with reading.outages_named(run):
            seen = task_steps.current(core, run)
        found = self.get_last_verified_checkpoint(task_id, checkpoint_type)
        self._go_back(run, None if found is None else found.seq, seen)
        return None if found is None else found.state

    # --- checkpoints

    def get_checkpoint(self, checkpoint_id: str) -> TaskCheckpoint | None:
        """One checkpoint, by its id or your own name for it; None if there is none."""
        core = self._core()
        with reading.outages_named(checkpoint_id):
            place = task_steps.resolve(core, checkpoint_id)
        if place is None:
            return None
        loaded = reading.load(core, place[0], seq=place[1], migrate=self._migrate)
        return None if loaded is None else checkpoints_of(core, [loaded])[0]

    def list_checkpoints(
        self,
        task_id: str,
        limit: int | None = None,
        checkpoint_type: str | None = None,
        *,
        work_item_id: str | None = None,
    ) -> list[TaskCheckpoint]:
        """A task's checkpoints, newest first, also those that were rolled back.

        All of them, or at most `limit`. They come with their snapshots: give a limit where these
        are large.
        """
        reading.check_limit(limit)
        core, run = self._core(), check_id("task_id", task_id)
        wanted = task_steps.matching(checkpoint_type, work_item_id)
        with reading.outages_named(run):
            listed = reading.checkpoints(core, run, most=limit)
            seqs = (info.seq for info in listed if info.damage or wanted(info.entry))
            loaded = iterating.load_listed(core, run, list(islice(seqs, limit)), self._migrate)
            return checkpoints_of(core, loaded)

    def delete_checkpoint(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint with its snapshot and evidence; False if there is no such one."""
        core = self._core()
        place = task_steps.resolve(core, checkpoint_id)
        try:
            return place is not None and deleting.delete(core, place[0], seq=place[1]) == 1
        except CheckpointNotFoundError:
            return False

    def close(self) -> None:
        """Close what this opened. A second call does nothing."""
        self._opened.close_sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CheckpointManager({self.checkpointer.store.url!r})"

    # --- below

    def _core(self) -> Core:
        core = self.checkpointer.core
        if core.unsettled:
            core.drive(backlog.flush(core))
        return core

    def _checker(self, core: Core) -> Checker:
        return Checker(core, self.verifier)

    def _observe(self, core: Core, begun: Entry, pack: EvidencePack) -> None:
        """Check the evidence of a step that is about to be committed."""
        if not self.auto_verify:
            return
        snapshot = None
        if any(map(needs_snapshot, pack.evidence_list)):
            snapshot = core.journals.value(begun.run, begun.seq, begun)
        self.verifier.telling(core, begun.run).check(pack.evidence_list, snapshot=snapshot)

    def _policy(self, policy: Policy) -> Policy:
        """The policy, with the manager's own SQLite file as the connection "default"."""
        store: Any = real_store(self.checkpointer.store)
        if "default" in policy.connections or not store.url.startswith("sqlite:"):
            return policy
        return replace(policy, connections={**policy.connections, "default": store.path})

    def _find(self, core: Core, name: str, migrate: Migrations | None = None) -> Checkpoint:
        place = task_steps.resolve(core, name)
        if place is None:
            raise CheckpointNotFoundError("", name)
        return reading.require(core, place[0], place[1], None, migrate)

    def _required(self, core: Core, run: str, seq: int) -> TaskCheckpoint:
        loaded = reading.require(core, run, seq, None, self._migrate)
        with reading.outages_named(run):
            return checkpoints_of(core, [loaded])[0]

    def _go_back(self, run: str, target: int | None, seen: int | None) -> None:
        with self._lock:
            self._going_back[run] = task_steps.GoingBack(target, seen)
