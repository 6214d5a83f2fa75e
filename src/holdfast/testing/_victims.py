"""The processes of a crash test: each executes the flow, and dies where it is told to.

A victim is made by fork(), so that it can execute a flow that was defined in a test function. It
writes down what it does in a file, one line at a time: what it wrote survives it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast import seams
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.engine import events as ev
from holdfast.engine.effects import Call
from holdfast.engine.engine import Engine
from holdfast.engine.stream import Stream
from holdfast.errors import HoldfastError
from holdfast.model import OF_CHILD, Kind
from holdfast.operations.timeline import Moment
from holdfast.testing._processes import in_a_process

_WRITING: Final = "writer.append.before"
_WRITTEN: Final = "writer.append.after"

Step = tuple[str, str]
"""The key of a step, behind what its run's id has behind that of the flow's run: child runs have
steps, too."""


@dataclass(frozen=True)
class Job:
    """What the victims of one crash test have in common."""

    call: Call[Any]
    options: Mapping[str, Any]  # of the engine
    answers: Mapping[str, Any]
    view: Callable[[Any], Any] | None
    prepare: Callable[[], object] | None
    observe: Callable[[], object] | None
    timeout: float


@dataclass
class Notes:
    """What the victims of one trial wrote down."""

    points: int = 0  # how many the first one passed
    killed: str = ""  # where
    in_flight: set[Step] = field(default_factory=set)  # began before the crash, and not recorded
    repeated: set[Step] = field(default_factory=set)  # those of them that began again
    again: set[Step] = field(default_factory=set)  # were recorded, and executed all the same
    values: dict[Step, Any] = field(default_factory=dict)  # as first recorded
    outcome: Any = None
    observed: Any = None
    imported: list[str] = field(default_factory=list)  # modules of holdfast
    ended: bool = False


def execute(job: Job, url: str, run_id: str, place: Path, *, kill_at: int = 0) -> int:
    """Execute the run in a new process; returns its exit code, negative for a signal."""

    def work() -> None:
        if job.prepare is not None:
            job.prepare()
        asyncio.run(_work(job, url, run_id, _Victim(place / "notes", kill_at)))

    return in_a_process(work, place / "output", job.timeout)


def resume(job: Job, url: str, run_id: str, place: Path) -> int:
    """Execute the run from where a victim left it, in a new process."""

    def work() -> None:
        victim = _Victim(place / "notes")
        victim.note("resumes", recorded=_recorded(url, run_id))
        asyncio.run(_work(job, url, run_id, victim))

    return in_a_process(work, place / "output", job.timeout)


def read_notes(place: Path, run_id: str) -> Notes:
    """What the victims of a trial did, from their own notes."""

    def within(step: Iterable[str]) -> Step:
        run, key = step
        return run.removeprefix(run_id), key

    found = Notes()
    began: set[Step] = set()
    recorded: set[Step] = set()
    with suppress(FileNotFoundError), (place / "notes").open(encoding="utf-8") as lines:
        for line in lines:
            note = json.loads(line)
            step = within(note.get("step", ("", "")))
            match note["what"]:
                case "began":
                    began.add(step)
                    if step in recorded:
                        found.again.add(step)
                    elif step in found.in_flight:
                        found.repeated.add(step)
                case "finished":
                    recorded.add(step)
                    found.values.setdefault(step, note["value"])
                case "killed":
                    found.killed = note["where"]
                case "resumes":
                    recorded |= set(map(within, note["recorded"]))
                    found.in_flight |= began - recorded
                case "end":
                    found.outcome, found.observed = note["outcome"], note["observed"]
                    found.imported, found.ended = note["imported"], True
                    found.points = found.points or note["points"]
    runs = {run for run, _ in began}
    children = {step for step in began if OF_CHILD.join(step) in runs}
    found.in_flight -= children  # a child run has no effect of its own: its steps have
    found.repeated -= children
    return found


class _Victim:
    """Takes notes, and dies at its point."""

    def __init__(self, path: Path, kill_at: int = 0) -> None:
        self._notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kill_at = kill_at
        self._under_way: dict[Step, str] = {}
        self._last = ""
        self.points = 0

    def note(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, **facts}) + "\n"
        os.write(self._notes, line.encode())

    def at(self, where: str) -> None:
        """A point where the process may die."""
        self.points += 1
        if self.points == self._kill_at:
            self.note("killed", where=where)
            os.kill(os.getpid(), signal.SIGKILL)

    def fault(self, point: str) -> None:
        """The kernel is about to append to a journal, or has done so. In any thread."""
        names = " and ".join(sorted(map(repr, tuple(self._under_way.values()))))
        if point == _WRITING:
            self.at(
                f"after {names}, before it was recorded" if names else self._behind("recording")
            )
        elif point == _WRITTEN:
            self.at(f"when {names} was recorded" if names else self._behind("having recorded"))

    def _behind(self, doing: str) -> str:
        where = f"after {self._last!r}" if self._last else "at the start"
        return f"{where}, {doing} what is no step"

    def see(self, event: ev.Event) -> None:
        if isinstance(event, ev.StepStarted):
            step = (event.run_id, event.step)
            if event.attempt == 1 or step not in self._under_way:
                self.at(f"before {event.step!r}")
            self.note("began", step=step)
            self._under_way[step] = event.step
        elif isinstance(event, ev.StepCompleted):
            step = (event.run_id, event.step)
            self.note("finished", step=step, value=event.to_dict()["value"])
            self._under_way.pop(step, None)
            self._last = event.step
        elif isinstance(event, ev.StepFailed):
            self._under_way.pop((event.run_id, event.step), None)


async def _work(job: Job, url: str, run_id: str, victim: _Victim) -> None:
    async with Engine(url, **job.options) as engine:
        outcome = await _outcome(engine, job, run_id, victim)
    seams.set_fault_hook(None)
    observed = None if job.observe is None else _plain(job.observe())
    imported = [name for name in sys.modules if name.startswith("holdfast.")]
    victim.note("end", outcome=outcome, observed=observed, points=victim.points, imported=imported)


async def _outcome(engine: Engine, job: Job, run_id: str, victim: _Victim) -> dict[str, Any]:
    """Execute the run to its end, with an answer to whatever it asks."""
    seams.set_fault_hook(victim.fault)
    stream: Stream = engine.stream(job.call, run_id=run_id, resume=True)
    while True:
        try:
            end = await _follow(stream, run_id, victim)
        except Exception as error:  # noqa: BLE001 - how a flow fails is compared, too
            return {"raised": type(error).__name__, "message": str(error)}
        if isinstance(end, ev.RunCompleted):
            return {"returned": _plain(end.result if job.view is None else job.view(end.result))}
        if not isinstance(end, ev.RunPaused):
            return {"ended": type(end).__name__}
        await _answer(engine, run_id, job.answers)
        stream = engine.resume_stream(run_id, flow=job.call.flow)


async def _follow(stream: Stream, run_id: str, victim: _Victim) -> ev.Event | None:
    """Execute the run until it stops; returns its last event."""
    last = None
    async with stream:
        async for event in stream:
            victim.see(event)
            last = event if event.run_id == run_id else last
    return last


async def _answer(engine: Engine, run_id: str, answers: Mapping[str, Any]) -> None:
    """Answer what the run and its child runs ask."""
    family = f"{run_id}{OF_CHILD}"
    asked = [
        one async for one in engine.questions() if f"{one.run_id}{OF_CHILD}".startswith(family)
    ]
    if not asked:
        raise RuntimeError("the flow is paused and asks nothing, so nobody can answer it")
    for question in asked:
        key = question.key
        if key not in answers:
            raise LookupError(
                f"the flow asks {key!r} ({question.prompt}); say what is answered: "
                f"answers={{{key!r}: ...}}"
            )
        by = question.assignees[0] if question.assignees else None
        await engine.answer(question.run_id, answers[key], question=key, by=by)


def _recorded(url: str, run_id: str) -> list[Step]:
    """The steps of a run and its child runs whose results are in the store."""
    with SyncCheckpointer(url) as cp:
        runs = [run for run in (cp.run(run_id),) if run is not None]
        runs += cp.children(run_id) if runs else []
        return [(run.run_id, key) for run in runs for key in _keys(cp.timeline(run.run_id))]


def _keys(moments: Iterable[Moment]) -> Iterator[str]:
    """The steps with a result. The states of a graph or pipeline are saved under its nodes' names."""
    visits: Counter[str] = Counter()
    for moment in moments:
        if moment.step is None or not moment.current:
            continue
        if moment.kind == Kind.RESULT:
            yield moment.step
        elif moment.kind == Kind.CHECKPOINT:
            visits[moment.step] += 1
            count = visits[moment.step]
            yield moment.step if count == 1 else f"{moment.step}#{count}"


def _plain(value: Any) -> Any:
    try:
        return readable.to_json(value)
    except HoldfastError:
        return repr(value)
