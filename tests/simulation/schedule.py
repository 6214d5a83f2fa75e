"""One schedule: a few processes, a few runs, and what happens to them, all from one seed."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from holdfast.engine import launch
from holdfast.engine.effects import Call
from holdfast.errors import HoldfastError, RunActiveError, RunExistsError, RunPausedError
from holdfast.model import Status
from tests.simulation import flows
from tests.simulation.flows import FLOWS, DoomedError
from tests.simulation.loop import CURRENT, NOBODY, Loop, StuckError
from tests.simulation.machine import Machine, no_real_process
from tests.simulation.world import WORLD, World

_DEAD_AFTER: Final = (12.0, 12.0, 24.0)
_SAVES: Final = (5.0, 30.0, 100.0)  # deadlines, in seconds
_FLOWS: Final = (*FLOWS, flows.chain, flows.chain, flows.family, flows.saga, flows.talk)
_CONTESTED: Final = (flows.family, flows.family, flows.house, flows.chain)
_MOST_ROUNDS: Final = 60  # of the last process, until every run has ended


class Outcome(NamedTuple):
    """What a schedule came to."""

    seed: int
    violations: list[str]
    trace: list[str]
    steps: int
    seconds: float  # of virtual time

    def __str__(self) -> str:
        found = "\n".join(self.violations)
        return f"{found}\nTo see it again: python -m tests.simulation {self.seed} --trace"


class Job(NamedTuple):
    """A run that is to be executed."""

    run: str
    flow: Any
    lengths: list[float]

    def call(self) -> Call[Any]:
        """The call that starts it."""
        call: Call[Any] = self.flow(self.lengths)
        return call

    @property
    def result(self) -> int | None:
        """What it returns; None if it fails."""
        each = len(self.lengths)
        return {
            "chain": each,
            "fan": each + 1,
            "talk": each,
            "family": each + 1,
            "house": 2 * each + 1,
            "verdict": each,
            "rest": each + 1,
            "crew": 2 * each + 1,
        }.get(self.flow.name)


def simulate(seed: int, emphasis: Emphasis | None = None, *, trace: bool = False) -> Outcome:
    """Carry out the schedule of a seed; with this emphasis, if one is given."""
    loop = Loop(seed)
    world = World(loop, trace=trace)
    token = WORLD.set(world)
    with no_real_process():
        random.seed(seed)  # for whoever asks the global one
        try:
            loop.run(Schedule(world, seed).main(emphasis))
        except StuckError as error:
            world.violations.append(str(error))
        finally:
            WORLD.reset(token)
    return Outcome(seed, world.violations, world.trace or [], loop.steps, loop.now)


class Schedule:
    """Draws what happens, and lets it happen."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.loop = world.loop
        self.random = Random(f"{seed} plan")
        self.machines: list[Machine] = []
        self.jobs: list[Job] = []
        self.cancelled: set[str] = set()
        self.stopped: set[str] = set()  # runs that are not continued by themselves
        self.deaths: list[tuple[float, str, float]] = []  # when, which run, whose `dead_after`
        self.troubled: list[tuple[float, float]] = []  # when the watcher could not do its work
        self.watcher: Machine | None = None

    async def main(self, emphasis: Emphasis | None) -> None:
        """What happens to the processes, until every run has ended."""
        self.world.doomed.add("saga")
        drawn = self.random.choice(_EMPHASES)
        (emphasis or drawn)(self)
        until = self.random.uniform(20, 80)
        while self.loop.now < until and not all(self._has_ended(job) for job in self.jobs):
            await asyncio.sleep(5)
        await self._finish()

    # --- what is drawn

    def anything(self) -> None:
        """Any processes, runs and events."""
        draw = self.random
        for number in range(draw.choice((2, 2, 2, 3, 3, 4))):
            self._add(f"p{number}", draw.choice("ab"))
        for number in range(draw.choice((1, 1, 1, 2, 2, 3))):
            self.jobs.append(Job(f"r{number}", draw.choice(_FLOWS), self._lengths()))
        if draw.random() < 0.2:
            self._add_watcher(draw.choice("abc"))
        for job in self.jobs:
            self._spawn(draw.choice(self.machines), partial(self._run, job))
        for _ in range(draw.choice((1, 2, 2, 3, 4, 6))):
            self._plan(self._action(), draw.choice(self.machines))
        for _ in range(draw.choice((0, 1, 1, 2, 2, 3))):
            self._plan(self._hazard(), draw.choice(self.machines))

    def silence(self) -> None:
        """The holder of a run is not heard of for a while, and a process elsewhere watches it."""
        draw, holder = self.random, self._begin_one()
        self._add_watcher("b", dead_after=draw.choice(_DEAD_AFTER))
        seconds = holder.dead_after * draw.choice((0.5, 0.8, 1.2, 1.5, 2.5))
        kind = draw.choice(("pause", "pause", "cut", "outage", "kill"))
        self._plan(self._event(kind, holder, seconds), holder, calls=40)
        if draw.random() < 0.3:
            self._plan(self._hazard(), holder)

    def race(self) -> None:
        """Several processes want to continue a run at the same moment."""
        draw, holder = self.random, self._begin_one()
        for number in range(draw.choice((1, 2, 3))):
            self._add(f"p{number + 1}", "a")

        def all_at_once() -> None:
            self._event(draw.choice(("kill", "kill", "drop")), holder, 0.0)()
            for machine in self.machines[1:] * draw.choice((1, 2)):
                do = draw.choice((self._run, self._resume, self._recover, self._recover))
                later = partial(self._spawn, machine, partial(do, self.jobs[0]))
                self.loop.call_later(draw.random(), later)

        self._plan(all_at_once, holder, calls=30)

    def contest(self) -> None:
        """A run is taken over, again and again, by whoever wants it."""
        draw = self.random
        self._begin_one(_CONTESTED)
        self._add("p1", draw.choice("ab"))

        def force(machine: Machine, seconds: float) -> None:
            self._spawn(machine, partial(self._force, self.jobs[0]))
            for other in self.machines:
                if other is not machine:
                    self.pause(other, seconds)

        for _ in range(draw.choice((1, 1, 2, 3, 5))):
            machine = draw.choice(self.machines)
            if draw.random() < 0.2:
                self._plan(self._event("drop", machine, 0.0), machine)
            else:
                other = draw.choice([one for one in self.machines if one is not machine])
                self._plan(
                    partial(force, machine, draw.choice((0.01, 0.2, 0.5, 1.0, 2.0))),
                    other,
                    calls=30,
                )

    def blackout(self) -> None:
        """Nobody reaches the store for a while, and the holder of a run is in a long step."""
        draw, holder = self.random, self._begin_one((flows.chain,), [28.0, 1.0])
        self._add_watcher("b")
        seconds = holder.dead_after * draw.uniform(0.5, 2.0)
        self.loop.call_later(draw.uniform(1, 10), self._event("outage", holder, seconds))

    def deafness(self) -> None:
        """Whoever begins a run writes to the store, and hears no replies for a while."""
        draw, holder = self.random, self._begin_one((flows.chain,), [0.4] * 6)
        self._add_watcher("b")
        seconds = holder.dead_after * draw.uniform(0.9, 1.2)
        cut_off = partial(self.cut_off, holder, seconds, "after")
        holder.store.triggers[draw.randrange(3, 16)] = partial(_as_nobody, cut_off)

    def abandonment(self) -> None:
        """Whoever executes a run drops it while steps are slow to stop; another one takes it."""
        draw, holder = self.random, self._begin_one((flows.fan, flows.house), [-5.0, 4.0, -3.0])
        self._add_watcher(draw.choice("ab"))
        self.loop.call_later(draw.uniform(0, 8), self._event("drop", holder, 0.0))

    def tug_of_war(self) -> None:
        """A run in a long step is taken over again and again."""
        draw = self.random
        self._begin_one((flows.chain,), [28.0, 1.0])
        for number in range(1, draw.choice((3, 4, 5))):
            machine = self._add(f"p{number}", draw.choice("ab"))
            take = partial(self._spawn, machine, partial(self._force, self.jobs[0]))
            self.loop.call_later(number * 4 + draw.uniform(0, 4), take)

    def shifts(self) -> None:
        """Workers execute runs that rest now and then, and leave them meanwhile."""
        draw = self.random
        for number in range(draw.choice((1, 2, 2, 3))):
            self._add(f"p{number}", draw.choice("ab"))
        for number in range(draw.choice((1, 1, 2))):
            flow = draw.choice((flows.rest, flows.rest, flows.crew, flows.saga))
            self.jobs.append(Job(f"r{number}", flow, self._lengths()))
            self._spawn(self.machines[0], partial(self._submit, self.jobs[-1]))
        for machine in self.machines:
            self._spawn(machine, partial(self._toil, machine))
        asks = (self._cancel, self._pause, self._answer, self._answer, self._answer, self._resume)
        for _ in range(draw.choice((1, 2, 3, 4))):
            do = partial(draw.choice(asks), draw.choice(self.jobs))
            happen = partial(self._spawn, draw.choice(self.machines), do)
            if draw.random() < 0.7:
                at_pauses = draw.choice(self.machines).store.at_pauses
                at_pauses.append(partial(_as_nobody, happen))
            else:
                self._plan(happen, draw.choice(self.machines), calls=90)
        for _ in range(draw.choice((0, 0, 1, 2))):
            self._plan(self._hazard(), draw.choice(self.machines), calls=90)

    def _begin_one(
        self, among: Sequence[Any] = _FLOWS, lengths: list[float] | None = None
    ) -> Machine:
        """One run, and the process that begins it."""
        draw = self.random
        holder = self._add("p0", "a")
        self.jobs.append(Job("r0", draw.choice(among), lengths or self._lengths()))
        self._spawn(holder, partial(self._run, self.jobs[0]))
        return holder

    def _add_watcher(self, place: str, dead_after: float | None = None) -> None:
        self.watcher = self._add("watcher", place, dead_after)
        self._spawn(self.watcher, partial(self._watch, self.watcher))

    def _add(self, name: str, place: str, dead_after: float | None = None) -> Machine:
        draw = self.random
        seconds = dead_after or draw.choice(_DEAD_AFTER)
        engines = draw.choice((1, 1, 2))
        self.machines.append(
            Machine(self.world, name, place, seconds, draw.choice(_SAVES), engines)
        )
        return self.machines[-1]

    def _lengths(self) -> list[float]:
        draw = self.random
        found = [round(draw.uniform(0.1, 4.0), 1) for _ in range(draw.choice((2, 2, 3)))]
        if draw.random() < 0.3:
            found[draw.randrange(len(found))] = draw.choice((14.0, 28.0))
        if draw.random() < 0.2:
            found[draw.randrange(len(found))] *= -1  # slow to stop
        return found

    def _spawn(self, machine: Machine, do: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        machine.tasks.append(self.loop.spawn(machine.process, _caught(self.world, do)))

    def _plan(self, happen: Callable[[], object], machine: Machine, calls: int = 60) -> None:
        """Let something happen: at some time, or when a process calls the store or hears of it."""
        draw = self.random
        if draw.random() < 0.6:
            machine.store.triggers[draw.randrange(1, calls)] = partial(_as_nobody, happen)
        else:
            self.loop.call_later(draw.uniform(0, 40), happen)

    # --- what processes do

    def _action(self) -> Callable[[], object]:
        draw, job = self.random, self.random.choice(self.jobs)
        do = draw.choice(
            (self._run, self._run, self._resume, self._recover, self._recover, self._force,
             self._cancel, self._pause, self._answer, self._answer)
        )  # fmt: skip
        if do in (self._cancel, self._pause) and draw.random() < 0.5:
            do = self._resume
        return partial(self._spawn, draw.choice(self.machines), partial(do, job))

    async def _run(self, job: Job) -> None:
        try:
            found = await self._engine.run(job.call(), run_id=job.run, resume=True)
        except (RunActiveError, RunExistsError) as error:
            self.world.violate(f"can't run {job.run}: {error}")
        else:
            self._check_result(job, found)

    async def _submit(self, job: Job) -> None:
        await self._engine.submit(job.call(), run_id=job.run)

    async def _toil(self, machine: Machine) -> None:
        """Execute what is there, as a worker would."""
        while True:
            for job in self.jobs:
                self._spawn(machine, partial(self._work, job))
            await asyncio.sleep(self.loop.random.choice((2.0, 4.0, 8.0)))

    async def _work(self, job: Job) -> None:
        engine = self._engine
        with engine._opened.use() as core:
            found = engine._launcher.resume(core, job.run, None, {"wait": False}, in_worker=True)
            await launch.execute(await found)

    async def _resume(self, job: Job) -> None:
        await self._engine.resume(job.run)

    async def _recover(self, job: Job) -> None:
        await self._recover_with(self._engine)

    async def _recover_with(self, engine: Any) -> None:
        for came in (await engine.recover()).values():
            if isinstance(came, Exception):
                self.world.raised(came)

    async def _force(self, job: Job) -> None:
        taking = (CURRENT.get(), job.run)
        self.world.forced.append(taking)
        try:
            await self._engine.resume(job.run, take_over=True)
        except asyncio.CancelledError:
            raise  # its claim may be on its way
        except BaseException:
            self.world.forced.remove(taking)
            raise
        self.world.forced.remove(taking)

    async def _cancel(self, job: Job) -> None:
        self.cancelled.add(job.run)
        self.stopped.add(job.run)
        await self._engine.cancel(job.run)

    async def _pause(self, job: Job) -> None:
        self.stopped.add(job.run)
        await self._engine.pause(job.run)

    async def _answer(self, job: Job) -> None:
        await self._answer_all(self._engine)

    async def _answer_all(self, engine: Any) -> None:
        async for question in engine.questions():
            await engine.answer(question.run_id, True, question=question.key)

    async def _watch(self, machine: Machine) -> None:
        """Recover again and again, as a worker would."""
        while True:
            self._spawn(machine, partial(machine.engines[0].recover, wait=False))
            await asyncio.sleep(1.5)

    @property
    def _engine(self) -> Any:
        process = CURRENT.get()
        machine = next(one for one in self.machines if one.process is process)
        return machine.engines[int(self.loop.random.random() * len(machine.engines))]

    # --- what happens to them

    def _hazard(self) -> Callable[[], object]:
        draw = self.random
        kind = draw.choice(("kill", "kill", "pause", "pause", "cut", "outage", "drop", "exit"))
        seconds = draw.choice((3.0, 9.0, 14.0, 20.0, 35.0, 50.0))
        return self._event(kind, draw.choice(self.machines), seconds)

    def _event(self, kind: str, machine: Machine, seconds: float) -> Callable[[], object]:
        how = self.random.choice(("before", "before", "after"))
        chance = self.random.random()
        happen: dict[str, Callable[[], object]] = {
            "kill": lambda: self.kill(machine),
            "pause": lambda: self.pause(machine, seconds),
            "cut": lambda: self.cut_off(machine, seconds, how),
            "outage": lambda: self.outage(seconds, how),
            "drop": lambda: self.drop(machine, chance),
            "exit": lambda: self.exit(machine),
        }
        return happen[kind]

    def kill(self, machine: Machine) -> None:
        """As kill -9 does."""
        if machine.process.killed:
            return
        self.world.tell(f"KILL {machine.name}")
        for run, seen in self.world.runs.items():
            if seen.tenure is not None and seen.tenure.process is machine.process:
                self.deaths.append((self.loop.now, run, machine.dead_after))
        self.loop.kill(machine.process)
        self._trouble(machine, 1e9)

    def pause(self, machine: Machine, seconds: float) -> None:
        """As SIGSTOP does, then SIGCONT."""
        if not machine.process.killed and not machine.process.paused:
            self.world.tell(f"PAUSE {machine.name} for {seconds} s")
            self.loop.pause(machine.process)
            self._trouble(machine, seconds)
            self.loop.call_later(seconds, partial(self._wake, machine))

    def _wake(self, machine: Machine) -> None:
        process = machine.process
        if process.paused and self.world.dropped.get(process, -1.0) >= process.paused_at:
            self.world.dropped[process] = self.loop.now  # it happens now
        self.loop.unpause(process)

    def cut_off(self, machine: Machine, seconds: float, how: str) -> None:
        """The process can't reach the store."""
        self.world.tell(f"CUT OFF {machine.name} for {seconds} s, {how}")
        machine.store.outage = how
        self._trouble(machine, seconds)
        self.loop.call_later(seconds, partial(setattr, machine.store, "outage", None))

    def outage(self, seconds: float, how: str) -> None:
        """Nobody can reach the store."""
        self.world.tell(f"OUTAGE for {seconds} s, {how}")
        self.world.outage = how
        self._trouble(self.watcher, seconds)
        self.loop.call_later(seconds, partial(setattr, self.world, "outage", None))

    def drop(self, machine: Machine, chance: float) -> None:
        """A task of the process is cancelled."""
        tasks = [task for task in machine.tasks if not task.done()]
        if tasks and not machine.process.killed:
            self.world.tell(f"DROP a task of {machine.name}")
            self.world.dropped[machine.process] = self.loop.now
            tasks[int(chance * len(tasks))].cancel()
            self._trouble(machine, 1e9)

    def exit(self, machine: Machine) -> None:
        """The process stops what it does and ends, as after Ctrl-C."""
        if machine.process.killed:
            return
        self.world.tell(f"EXIT {machine.name}")
        self.world.dropped[machine.process] = self.loop.now
        self._trouble(machine, 1e9)
        self.loop.spawn(machine.process, self._exit(machine))

    async def _exit(self, machine: Machine) -> None:
        for task in machine.tasks:
            task.cancel()
        if machine.tasks:
            await asyncio.wait(machine.tasks)
        machine.end()
        _as_nobody(partial(self.kill, machine))

    def _trouble(self, machine: Machine | None, seconds: float) -> None:
        if machine is not None and machine is self.watcher:
            self.troubled.append((self.loop.now, self.loop.now + seconds))

    # --- the end

    async def _finish(self) -> None:
        """Everything works again, and somebody recovers until every run has ended."""
        self.world.tell("FINISH")
        self.world.outage = None
        for machine in self.machines:
            machine.store.outage = None
            machine.store.triggers.clear()
            self._wake(machine)
        last = self._add("last", "z")
        task = self.loop.spawn(last.process, self._recover_all(last))
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]
        for job in self.jobs:
            self._check_end(job)
        self._check_deaths()

    async def _recover_all(self, last: Machine) -> None:
        for number in range(_MOST_ROUNDS):
            await _caught(self.world, partial(self._recover_with, last.engines[0]))
            await _caught(self.world, partial(self._answer_all, last.engines[0]))
            for job in self.jobs:
                seen = self.world.runs.get(job.run)
                if seen is None or not seen.status:  # nobody came to begin it
                    await _caught(self.world, partial(self._run, job))
                elif (
                    seen.status in (Status.SUBMITTED, Status.PAUSED) and job.run not in self.stopped
                ):
                    await _caught(self.world, partial(self._work, job))
                elif self._is_given_up(job) or job.run in self.stopped:
                    await _caught(self.world, partial(self._resume, job))
            if all(self._has_ended(job) for job in self.jobs):
                return
            await asyncio.sleep(min(1 + number, 5))

    def _is_given_up(self, job: Job) -> bool:
        """Whether too many of its holders died in one step."""
        return self.world.runs[job.run].status == Status.FAILED and job.result is not None

    def _has_ended(self, job: Job) -> bool:
        seen = self.world.runs.get(job.run)
        if seen is None:
            return False
        ends = {Status.COMPLETED, Status.CANCELLED}
        return seen.status in (ends if job.result is not None else {*ends, Status.FAILED})

    def _check_end(self, job: Job) -> None:
        seen = self.world.runs.get(job.run)
        if not self._has_ended(job):
            status = "absent" if seen is None else seen.status
            self.world.violate(f"{job.run} ({job.flow.name}) never ends: it is {status}")
            return
        assert seen is not None
        if seen.status == Status.CANCELLED and job.run not in self.cancelled:
            self.world.violate(f"{job.run} was cancelled, but nobody asked for that")
        if seen.status == Status.COMPLETED and job.result is None:
            self.world.violate(f"{job.run} is completed, though it must fail")
        if job.flow.name == "saga":
            self._check_undone(job, seen.results)

    def _check_undone(self, job: Job, results: dict[str, int]) -> None:
        for step in results:
            undone = self.world.effects.get((job.run, f"undo/{step}"), [])
            if not any(effect.finished for effect in undone):
                self.world.violate(f"{step} of {job.run} was not undone")

    def _check_result(self, job: Job, found: object) -> None:
        if found != job.result:
            self.world.violate(f"{job.run} returns {found}, not {job.result}")

    def _check_deaths(self) -> None:
        """A watcher that works takes a dead holder's runs over in time."""
        if self.watcher is None:
            return
        for died, run, dead_after in self.deaths:
            until = died + 2 * dead_after
            seen = self.world.runs[run]
            claimed = seen.parent is not None or any(died <= at <= until for at in seen.changes)
            busy = any(begun < until and ended > died for begun, ended in self.troubled)
            if not claimed and not busy and until < self.loop.now:
                self.world.violate(f"nobody takes {run} over, whose holder died at {died:.1f} s")


Emphasis = Callable[[Schedule], None]
_EMPHASES: Final[tuple[Emphasis, ...]] = (
    Schedule.anything, Schedule.anything, Schedule.anything, Schedule.silence, Schedule.silence,
    Schedule.silence, Schedule.race, Schedule.race, Schedule.contest, Schedule.contest,
    Schedule.blackout, Schedule.tug_of_war, Schedule.deafness, Schedule.abandonment,
    Schedule.shifts,
)  # fmt: skip


def _as_nobody(happen: Callable[[], object]) -> None:
    """Let something happen to a process from inside of it."""
    token = CURRENT.set(NOBODY)
    try:
        happen()
    finally:
        CURRENT.reset(token)


async def _caught(world: World, do: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """What a process does; errors that a user may see are no violations."""
    try:
        await do()
    except (HoldfastError, DoomedError, RunPausedError) as error:
        world.raised(error)
    except Exception as error:  # noqa: BLE001
        world.violate(f"raises {error!r}")


def failures_in(seeds: Iterable[int], emphasis: Emphasis | None = None) -> list[Outcome]:
    """The schedules of these seeds that violate something."""
    with many():
        outcomes = (simulate(seed, emphasis) for seed in seeds)
        return [outcome for outcome in outcomes if outcome.violations]


@contextmanager
def many() -> Iterator[None]:
    """Around many schedules: collect garbage seldom, and log nothing."""
    logger, thresholds = logging.getLogger("holdfast"), gc.get_threshold()
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    gc.set_threshold(20_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        logger.setLevel(level)
