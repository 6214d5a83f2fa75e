"""A worker: executes what nobody else does, within its limits, until it is told to stop."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.engine import launch
from holdfast.engine.holding.presence import Offer, Presence
from holdfast.engine.launcher import Launcher
from holdfast.engine.run.failures import message_of, type_name
from holdfast.engine.working.candidates import Candidate, Finder
from holdfast.engine.working.pacing import Backoff, Pace
from holdfast.engine.working.permits import Permit, Permits, check_limits
from holdfast.errors import (
    HoldfastError,
    RunActiveError,
    RunCancelledError,
    RunError,
    RunFinishedError,
    RunPausedError,
    StoreClosedError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.watching import Changes
from holdfast.logs import about, logger

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

log = logger()

MOST_AT_ONCE: Final = 10_000
_OTHERS: Final = 0.1  # seconds that others have to take their share of what is due
_POLL: Final = 1.0  # seconds, until what could not be begun is looked at again
_AT_LEAST: Final = 0.02  # seconds between any two
_DEAF: Final = 10.0  # seconds, until a store that could not be watched is watched again
_LISTEN: Final = 1.5  # seconds between two polls of a store that does not notify
_LONGEST_PAUSE: Final = 60.0  # seconds, until a run that was refused is tried again
_LONGEST_WHILE_ACTIVE: Final = 10.0  # the same of one that another process executes


class WorkOptions(NamedTuple):
    """The limits of a worker."""

    at_once: int = 10
    per_flow: Mapping[str, int] = {}
    drain: float = 30.0
    until_idle: bool = False

    def check(self) -> WorkOptions:
        """Raise `TypeError` or `ValueError` for limits that can't be."""
        at_once: object = self.at_once
        if isinstance(at_once, bool) or not isinstance(at_once, int):
            raise TypeError(f"at_once must be an int, not {at_once!r}")
        if not 1 <= at_once <= MOST_AT_ONCE:
            raise ValueError(f"at_once must be between 1 and {MOST_AT_ONCE:,}, not {at_once}")
        drain: object = self.drain
        if isinstance(drain, bool) or not isinstance(drain, int | float):
            raise TypeError(f"drain must be a number of seconds, not {drain!r}")
        if not 0 <= drain < math.inf:
            raise ValueError(f"drain must be 0 seconds or more, not {drain}")
        return self._replace(per_flow=check_limits(self.per_flow))

    def check_flows(self, flows: Collection[str]) -> None:
        """Raise `ValueError` for a limit of a flow that is not among those to be executed."""
        if self.until_idle and not flows:
            raise ValueError("a worker that only verifies is never idle: stop it with `stop`")
        for name in self.per_flow:
            if name not in flows:
                known = ", ".join(map(repr, sorted(flows)))
                raise ValueError(f"per_flow limits {name!r}, but this worker executes {known}")


What = Literal["began", "completed", "failed", "cancelled", "paused", "left", "refused"]
"""What happened: a run is `left` unfinished to others when the worker stops, and `refused` when it
can't be executed here."""


class WorkerEvent(NamedTuple):
    """What a worker tells its listener: that it began, stopped executing or refused a run."""

    event: What
    run_id: str
    flow: str
    seconds: float = 0.0  # since it began
    detail: str = ""  # the error, or until when the run is paused


Listener = Callable[[WorkerEvent], object]


class Worker:
    """Executes the runs of some flows on this event loop, and verifies for others if it may."""

    def __init__(
        self,
        core: Core,
        launcher: Launcher,
        flows: tuple[str, ...],
        options: WorkOptions,
        listener: Listener | None = None,
        verifier: EvidenceVerifier | None = None,
    ) -> None:
        self._core = core
        self._launcher = launcher
        at_once = options.at_once if flows else 0
        self._offer = Offer(tuple(sorted(flows)), at_once, verifier is not None)
        self._verifier = verifier  # what checks claims for others
        self._options = options
        self._listener = listener
        self._finder = Finder(core, frozenset(flows), launcher.dead_after, self._may_try)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by run
        self._aside: list[asyncio.Task[None]] = []  # what else it does
        self._backoff = Backoff()
        self._full: dict[str, float] = {}  # flows all of whose permits are taken: until when
        self._bell = asyncio.Event()
        self._shown = False  # others see in our slot what we do
        self._pace = Pace()
        self._out = False  # the store could not be asked for runs, and that was logged
        self.done = 0  # runs that it has executed until they stopped

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, or until nothing is left if that was asked for; then drain."""
        presence = await launch.presence_in(self._core, "", self._launcher.options(None, {}))
        dead_after = self._launcher.dead_after
        permits = Permits(self._core, presence, self._options.per_flow, dead_after)
        self._aside.append(asyncio.create_task(self._ring_at(stop)))
        if self._offer.flows:
            self._aside.append(asyncio.create_task(self._listen()))
        try:
            with presence.offering(self._offer), self._answering(presence):
                while not stop.is_set():
                    self._bell.clear()
                    if self._wants_to_look():
                        found = await self._look(presence, permits)
                        if self._options.until_idle and not self._tasks and not found:
                            return
                    await self._wait()
                await self._drain()
        finally:
            try:
                await self._leave()
            finally:
                for task in self._aside:
                    task.cancel()

    @contextmanager
    def _answering(self, presence: Presence) -> Iterator[None]:
        """Verify what others ask for, in a thread."""
        if self._verifier is None:
            yield
            return
        from holdfast.engine.voting.answering import Answering

        answering = Answering(self._core, presence, self._verifier, self._launcher.dead_after)
        answering.start()
        try:
            yield
        finally:
            answering.stop()

    # --- when to look for runs

    async def _ring_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._bell.set()

    async def _listen(self) -> None:
        """Hear what others do to runs."""
        while True:
            changes = Changes(self._core, every=_LISTEN)
            try:
                while True:
                    for change in await changes.wait():
                        if change.run_id not in self._tasks and self._pace.hear(change):
                            self._bell.set()
            except StoreClosedError:
                return
            except HoldfastError as error:
                log.warning(
                    "the worker can't watch the store, and looks for runs now and then: %s", error
                )
            finally:
                changes.close()
            await asyncio.sleep(_DEAF)

    def _wants_to_look(self) -> bool:
        if len(self._tasks) >= self._options.at_once or not self._offer.flows:
            return False
        if self._finder.somebody_died():
            self._pace.look_soon()
        return self._pace.is_time(self._finder.at_news)

    async def _wait(self) -> None:
        """Until a run has stopped, there is something new, or it is time to look again."""
        full = len(self._tasks) >= self._options.at_once or not self._offer.flows
        left = max(_AT_LEAST, min(self._pace.seconds_left, _POLL))
        with suppress(TimeoutError):
            async with asyncio.timeout(None if full else left):
                await self._bell.wait()

    async def _look(self, presence: Presence, permits: Permits) -> int:
        """Begin what there is room for; returns how many runs were found."""
        room = self._options.at_once - len(self._tasks)
        news, began = self._pace.begin(), monotonic()
        try:
            if not self._shown or presence.lease_at_hand(self._core) is None:
                dead_after = self._launcher.dead_after
                await self._core.off_loop(partial(presence.lease, self._core, dead_after))
                self._shown = True
            found = await self._core.off_loop(partial(self._finder.find, news=news))
        except HoldfastError as error:
            if not self._out:
                log.warning("the worker can't look for runs: %s", error)
            self._out = True
            self._pace.end(in_vain=True)
            self._pace.look_within(_POLL)
            return 1
        self._out = False
        self._pace.look_within(min(self._finder.every * _jitter(), self._finder.due_in))
        ready = [one for one in found if self._may_try(one)]
        self._pace.end(in_vain=not ready)
        share = min(room, math.ceil(len(ready) / self._finder.workers))
        for one in ready[:share]:
            task = asyncio.create_task(self._execute(one, permits))
            self._tasks[one.run_id] = task
            task.add_done_callback(partial(self._over, one.run_id))
        if ready[share:]:
            self._leave_to_others(ready[share:], room=share < room)
        if len(found) > share:  # some wait for a permit, or were tried before
            again = min(self._backoff.not_before(one.run_id) for one in found)
            self._pace.look_no_later_than(max(again, began + _POLL))
        return sum(one.run_id not in self._backoff for one in found)

    def _leave_to_others(self, left: list[Candidate], *, room: bool) -> None:
        """Look again for what was not begun. If there was room for it, others have time first."""
        self._pace.look_at_once()
        if room:
            orphaned = any(one.orphaned for one in left)
            self._pace.wait_for_others(1.25 * self._finder.at_news if orphaned else _OTHERS)

    def _may_try(self, one: Candidate) -> bool:
        not_before = max(self._backoff.not_before(one.run_id), self._full.get(one.flow, 0.0))
        return one.run_id not in self._tasks and monotonic() >= not_before

    def _over(self, run_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(run_id, None)
        self._finder.taken(run_id)
        self._bell.set()
        if self._options.until_idle and not self._tasks:
            self._pace.look_at_once()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the worker failed in run %s", run_id, exc_info=error, extra=about(run_id))

    # --- one run

    async def _execute(self, one: Candidate, permits: Permits) -> None:
        permit = None
        if permits.limits(one.flow):
            permit = await self._permit(one, permits)
            if permit is None:
                self._full[one.flow] = monotonic() + _POLL
                return
        try:
            await self._claim_and_execute(one)
        finally:
            if permit is not None:
                await asyncio.shield(self._give_back(permit, permits))
                self._full.pop(one.flow, None)
                self._pace.look_at_once()

    async def _permit(self, one: Candidate, permits: Permits) -> Permit | None:
        take = self._core.off_loop(partial(permits.take, one.flow))
        taking = asyncio.ensure_future(take)
        try:
            return await asyncio.shield(taking)
        except HoldfastError:
            return None
        except asyncio.CancelledError:
            with suppress(HoldfastError):
                permit = await taking
                if permit is not None:
                    await asyncio.shield(self._give_back(permit, permits))
            raise

    async def _give_back(self, permit: Permit, permits: Permits) -> None:
        """Let others have a permit, in an outage as soon as it is over."""
        permits.release(permit)
        try:
            await self._core.off_loop(partial(permits.give_back, permit))
        except HoldfastError:
            retrying = asyncio.create_task(self._give_back_later(permit, permits))
            self._aside.append(retrying)
            retrying.add_done_callback(self._aside.remove)

    async def _give_back_later(self, permit: Permit, permits: Permits) -> None:
        while True:
            await asyncio.sleep(_POLL)
            with suppress(HoldfastError):
                await self._core.off_loop(partial(permits.give_back, permit))
                return

    async def _claim_and_execute(self, one: Candidate) -> None:
        began = monotonic()
        try:
            ready = await self._launcher.resume(
                self._core, one.run_id, None, {"wait": False}, in_worker=True
            )
        except (RunActiveError, RunFinishedError, RunPausedError):
            # Another was faster, or the run was asked to pause.
            self._backoff.put_off(one.run_id, _LONGEST_WHILE_ACTIVE)
            return
        except (Exception, SystemExit) as error:
            self._refused(one, error)
            return
        self._tell("began", one, began)
        try:
            await launch.execute(ready)
        except asyncio.CancelledError:
            self._tell("left", one, began)
            raise
        except RunPausedError as paused:
            until = "" if paused.until is None else paused.until.isoformat(timespec="seconds")
            self._tell("paused", one, began, until)
        except RunCancelledError:
            self._tell("cancelled", one, began)
        except RunError as error:
            self._tell("failed", one, began, str(error))
        except (HoldfastError, SystemExit) as error:
            self._refused(one, error, began)
            return
        except Exception as error:
            self._tell("failed", one, began, f"{type_name(error)}: {message_of(error)}")
        else:
            self._tell("completed", one, began)
        self.done += 1
        self._backoff.executed(one.run_id, _POLL)  # the index may lag behind

    def _refused(self, one: Candidate, error: BaseException, began: float | None = None) -> None:
        """A run could not be claimed or saved: leave it to others for a while, and say so once."""
        why = str(error) if isinstance(error, HoldfastError) else repr(error)
        first = self._backoff.put_off(one.run_id, _LONGEST_PAUSE)
        if first:
            said = why if isinstance(error, HoldfastError) else type_name(error)  # no values
            log.warning(
                "run %s is left alone for now: %s", one.run_id, said, extra=about(one.run_id)
            )
        if first or began is not None:
            self._tell("refused", one, began or monotonic(), why)

    def _tell(self, what: What, one: Candidate, began: float, detail: str = "") -> None:
        if self._listener is not None:
            try:
                self._listener(WorkerEvent(what, one.run_id, one.flow, monotonic() - began, detail))
            except Exception:
                log.exception("the listener of a worker failed")

    # --- the end

    async def _drain(self) -> None:
        """Let the runs that are under way finish, for as long as that may take."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._options.drain)

    async def _leave(self) -> None:
        """Stop executing what is still under way, and leave it to others."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def flows_of(launcher: Launcher, verifier: EvidenceVerifier | None) -> tuple[str, ...]:
    """The names of the flows that a worker of this engine executes.

    Raises `TypeError` for none, unless it verifies for others.
    """
    names: tuple[str, ...] = tuple(launcher.flows.names)
    if not names and verifier is None:
        raise TypeError("a worker needs flows: work(digest, ...), or Engine(store, flows=[digest])")
    return names


def _jitter() -> float:
    """So that workers that were started together do not look together for ever."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - nothing secret
