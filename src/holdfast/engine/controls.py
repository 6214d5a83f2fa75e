"""What any process may do to the runs of a store: look, wait, answer, pause, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine import launch
from holdfast.engine.blocking import blocking, blocking_iterator
from holdfast.engine.door import Door
from holdfast.engine.flow import Flow, Registry
from holdfast.engine.holding.slots import BEATS
from holdfast.engine.launcher import Launcher
from holdfast.engine.people import inbox, requests, resuming
from holdfast.engine.people.questions import Question
from holdfast.engine.picture import picture
from holdfast.engine.resume import dry_run as dry
from holdfast.engine.resume import recovery
from holdfast.engine.resume.activity import activity_of, is_for_workers
from holdfast.engine.resume.recovery import Orphan
from holdfast.engine.working.listing import WorkerInfo, list_workers
from holdfast.errors import CheckpointNotFoundError, RunStoppedError
from holdfast.kernel.core import Core
from holdfast.kernel.watching import Changes
from holdfast.model import Entry, Status, check_id
from holdfast.operations import listing
from holdfast.operations.dry_run import DryRun
from holdfast.operations.reading import outages_named

if TYPE_CHECKING:
    from holdfast.engine.voting.asking import Consensus
    from holdfast.keys.signing import SigningKey

_LOOK_EVERY: Final = 0.5  # seconds between two looks at a run that others execute


class Controls(Door):
    """The part of an engine that executes nothing."""

    _launcher: Launcher

    async def status(self, run_id: str) -> Status:
        """A run's status, as its newest entry says.

        Raises `CheckpointNotFoundError`, and `CheckpointCorruptedError` if that entry is damaged.
        """

        def read(core: Core) -> Entry | None:
            return core.journals.proved_at(check_id("run_id", run_id))

        with self._opened.use() as core, outages_named(run_id):
            head = await core.off_loop(partial(read, core))
        if head is None or head.status == Status.DELETED:
            raise CheckpointNotFoundError(run_id)
        return Status(head.status)

    async def outcome(self, run_id: str, *, timeout: float | None = None) -> Any:
        """Wait for the end of a run that others execute; returns its result, or raises its error.

        A run that was submitted is waited for until a worker has executed it. Raises
        `RunPausedError` if it is paused, `RunStoppedError` if nobody executes it, and
        `TimeoutError` after `timeout` seconds.
        """

        def under_way(core: Core) -> bool:
            for_workers = is_for_workers(core, run_id)
            known = listing.last_known(core, run_id)  # since then, a worker may have taken it
            if known is None:
                raise CheckpointNotFoundError(run_id)
            if for_workers:
                return True
            activity = activity_of(core, known)
            if known.status == Status.OPEN or activity.orphaned or activity.answered:
                raise RunStoppedError(run_id)
            return known.status == Status.RUNNING

        pause = min(_LOOK_EVERY, self._launcher.dead_after / BEATS)
        async with asyncio.timeout(timeout):
            with self._opened.use() as core:
                async with Changes(core, run_id, every=pause) as changes:
                    while await core.off_loop(partial(under_way, core)):
                        await changes.wait(pause)
                flow = await self._launcher.flow_of(core, run_id)
                return await core.off_loop(partial(launch.ended, core, flow.program, run_id))

    async def cancel(self, run_id: str, reason: str = "", *, by: str | None = None) -> None:
        """Cancel a run, whichever process executes it: its rollbacks run, and it is over.

        `reason` and `by`, who asks for it, are recorded.
        """
        with self._opened.use() as core:
            await core.drive_async(requests.request(core, run_id, "cancel", reason, by=by))

    async def pause(self, run_id: str, reason: str = "", *, by: str | None = None) -> None:
        """Stop a run after the steps that are under way, to be resumed later.

        `reason` and `by`, who asks for it, are recorded.
        """
        with self._opened.use() as core:
            await core.drive_async(requests.request(core, run_id, "pause", reason, by=by))

    async def submit_resume(self, run_id: str, *, by: str | None = None) -> bool:
        """Have a worker continue a run that stopped: it failed, was paused, forked or rolled back.

        Returns when that is durable; False where a worker continues it anyway. `by` is recorded.
        Raises `RunFinishedError`, `RunActiveError` while a living process executes the run, and
        `RunPausedError` where it waits for an answer or sleeps.
        """
        with self._opened.use() as core:
            return await core.drive_async(resuming.submit_resume(core, run_id, by=by))

    async def answer(
        self,
        run_id: str,
        value: object,
        *,
        question: str | None = None,
        by: str | None = None,
        sign: SigningKey | None = None,
    ) -> None:
        """Answer a run's open question, by name where it has several; then resume it.

        `by` says who answers, and is recorded. With their key in `sign`, the answer is signed, and
        `by` is the id of the key; an engine with trusted keys records and takes no other. Raises
        `QuestionError` if the question was answered already, is for others or its deadline has
        passed, and `InvalidAnswerError`.
        """
        with self._opened.use() as core:
            await core.drive_async(requests.answer(core, run_id, value, question, by=by, sign=sign))

    async def questions(
        self, run_id: str | None = None, *, assignee: str | None = None, overdue: bool = False
    ) -> AsyncIterator[Question]:
        """The open questions of a run, in the order asked; without a `run_id`, of all runs.

        Those of all runs are sorted by deadline. With `assignee`, only questions that this person
        may answer; with `overdue`, those that nobody answered in time.
        """
        with self._opened.use() as core:
            read = partial(inbox.open_questions, core, run_id, assignee=assignee, overdue=overdue)
            found = await core.off_loop(read)
        for question in found:
            yield question

    async def apply_deadlines(self, run_id: str | None = None) -> list[Question]:
        """Answer what nobody answered in time with each question's default, in one run or in all.

        Returns those questions: resume their runs to continue. `resume` does it for its own run.
        """
        with self._opened.use() as core:
            return await core.drive_async(requests.apply_deadlines(core, run_id))

    async def orphans(self) -> list[Orphan]:
        """The runs of this store that are under way and that nobody executes."""
        with self._opened.use() as core:
            return await core.off_loop(lambda: recovery.orphans(core))

    async def dry_run(self, *flows: Flow[Any], run_id: str | None = None) -> AsyncIterator[DryRun]:
        """Say of each unfinished run of these flows whether it would resume with them.

        Of all flows that this engine knows, unless some are given: then these continue their runs,
        whatever it knows. With `run_id`, of that run alone. Each run is restored and migrated, and
        its flow is asked what is next: a workflow's own code is replayed. No step is executed, no
        claim about the world is checked, nothing is written.
        """
        known = Registry(flows) if flows else self._launcher.flows
        find = partial(self._launcher.flow_of, among=known)
        with self._opened.use() as core:
            async for found in dry.dry_run(core, known.names, find, run_id):
                yield found

    async def workers(self) -> list[WorkerInfo]:
        """The processes that execute runs of this store, or wait for some. Writes nothing.

        Includes dead ones until others have taken their slots, and processes that are no workers
        while they hold runs.
        """
        with self._opened.use() as core:
            return await core.off_loop(partial(list_workers, core))

    async def verify_with_workers(
        self,
        run_id: str,
        *,
        seq: int | None = None,
        on: Collection[str] = (),
        quorum: int | None = None,
        within: float = 30.0,
    ) -> Consensus:
        """Have workers check what was claimed up to a run's current checkpoint, or up to `seq`.

        All workers that verify are asked, or those `on` these hosts, and each checks within its
        own policy. A claim that is labelled with a host is decided by the workers there. Any other
        needs as many votes as the `quorum`, or of a majority of those asked. Who has not answered
        `within` so many seconds has no vote. Where some find a claim true and others false,
        nothing is decided, and `disputed` of the result shows it.

        Raises `CheckpointNotFoundError`.
        """
        from holdfast.engine.voting import asking

        if isinstance(on, str):
            raise TypeError("on is a list of hosts, not one name")
        asking.check_asking(quorum, within)

        def ask(core: Core) -> Consensus:
            checkpoint = asking.checkpoint_at(core, run_id, seq)
            return asking.verify_with_workers(core, checkpoint, on=on, quorum=quorum, within=within)

        with self._opened.use() as core:
            return await asyncio.to_thread(ask, core)

    async def mermaid(self, run_id: str) -> str:
        """What a run did, as Mermaid text, which Markdown viewers draw."""
        with self._opened.use() as core:
            return await core.off_loop(lambda: picture(core, run_id))

    status_sync = blocking(status)
    outcome_sync = blocking(outcome)
    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    submit_resume_sync = blocking(submit_resume)
    answer_sync = blocking(answer)
    questions_sync = blocking_iterator(questions)
    apply_deadlines_sync = blocking(apply_deadlines)
    orphans_sync = blocking(orphans)
    dry_run_sync = blocking_iterator(dry_run)
    workers_sync = blocking(workers)
    verify_with_workers_sync = blocking(verify_with_workers)
    mermaid_sync = blocking(mermaid)
