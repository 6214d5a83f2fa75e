"""Whatever is deleted, changed or restored between interruptions: a run ends as if nothing had been."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.engine.events import CheckpointRejected, Event, StepCompleted
from holdfast.model import Kind
from holdfast.workflow import Workflow, parallel, step, workflow
from tests.effort import examples
from tests.workflow.support import Flow

FILES = "uvwxyz"


class Part(NamedTuple):
    """One step: what it is called, and what it writes."""

    name: str
    files: tuple[str, ...]


Plan = list[list[Part]]
Harm = tuple[str, str]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Stages, one after another, of steps side by side. Any may rewrite what an earlier one wrote."""
    plan: Plan = []
    for stage in range(draw(st.integers(1, 4))):
        pool = draw(st.permutations(FILES))
        parts = []
        for index in range(draw(st.integers(1, 3))):
            count = draw(st.integers(0, 2))
            parts.append(Part(f"s{stage}{'abc'[index]}", tuple(pool[:count])))
            pool = pool[count:]  # those side by side do not write the same
        plan.append(parts)
    return plan


harms = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(["delete", "change", "restore"])), max_size=3
)


class World:
    """The files, what was called, and what is to be found there."""

    def __init__(self, place: Path, plan: Plan) -> None:
        self.place = place
        self.plan = plan
        self.calls: list[str] = []
        self.known: dict[str, str] = {}  # what a step wrote last, by file

    def work(self, part: Part, before: int) -> int:
        self.calls.append(part.name)
        for name in part.files:
            self.known[name] = text(part.name, before)
            (self.place / name).write_text(self.known[name])
        return before + len(part.name) + len(part.files)

    def flow(self) -> Workflow[..., Any]:
        @workflow("random")
        def flow() -> Flow:
            total = 0
            for stage in self.plan:
                made = [
                    step(part.name)
                    .python(self.work, args=(part, total))
                    .inline()
                    .outputs([self.place / name for name in part.files])
                    for part in stage
                ]
                total = sum((yield parallel(*made)))
            return total

        return flow

    def harm(self, name: str, how: str) -> None:
        path = self.place / name
        if how == "delete":
            path.unlink(missing_ok=True)
        elif how == "change":
            path.write_text("something else")
        elif name in self.known:
            path.write_text(self.known[name])

    def holding(self, recorded: list[str]) -> int:
        """How many of the recorded steps, from the first on, may be gone on from."""
        parts = {part.name: (part, total) for part, total in self.expected()}
        for count in range(len(recorded), -1, -1):
            claimed = {
                name: text(part.name, total)
                for part, total in map(parts.__getitem__, recorded[:count])
                for name in part.files
            }
            if all(self.found(name) == content for name, content in claimed.items()):
                return count
        raise AssertionError("nothing recorded claims nothing")

    def found(self, name: str) -> str | None:
        path = self.place / name
        return path.read_text() if path.exists() else None

    def expected(self) -> list[tuple[Part, int]]:
        """Every step with the sum it is given."""
        found, total = [], 0
        for stage in self.plan:
            found += [(part, total) for part in stage]
            total = sum(total + len(part.name) + len(part.files) for part in stage)
        return found

    @property
    def result(self) -> int:
        """What the run is to come to."""
        (_, total) = self.expected()[-1]
        return sum(total + len(part.name) + len(part.files) for part in self.plan[-1])


def text(name: str, before: int) -> str:
    return f"{name} was given {before}"


def recorded(cp: hf.SyncCheckpointer) -> list[str]:
    """The steps that count, in the order in which they were recorded."""
    if cp.run("r") is None:
        return []
    trail = cp.core.journals.trail("r")
    return [str(entry.step) for entry in trail if entry.kind == Kind.RESULT]


async def _follow(engine: hf.Engine, flow: Workflow[..., Any], stop: int) -> list[Event]:
    """Start the run or go on with it, up to so many finished steps."""
    events: list[Event] = []
    async for event in engine.stream(flow(), run_id="r", resume=True):
        events.append(event)
        stop -= isinstance(event, StepCompleted)
        if not stop:
            break
    return events


@settings(max_examples=examples(25), deadline=None)
@given(plan=plans(), rounds=st.lists(st.tuples(st.integers(1, 6), harms), max_size=5))
def test_a_run_ends_as_if_nobody_had_touched_its_files(
    plan: Plan, rounds: list[tuple[int, list[Harm]]]
) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        hf.SyncCheckpointer("memory://") as cp,
    ):
        world = World(Path(place), plan)
        flow, engine = world.flow(), hf.Engine(cp)
        for stop, done in [*rounds, (1000, [])]:
            before = recorded(cp)
            holds = world.holding(before)
            world.calls.clear()
            events = asyncio.run(_follow(engine, flow, stop))
            assert not set(world.calls) & set(before[:holds]), "what holds is not run again"
            passed_over = [event for event in events if isinstance(event, CheckpointRejected)]
            assert len(passed_over) == len(before) - holds
            assert len(set(world.calls)) == len(world.calls), "nothing is run twice"
            for name, how in done:
                world.harm(name, how)
        assert engine.outcome_sync("r") == world.result
        final = {
            name: text(part.name, total) for part, total in world.expected() for name in part.files
        }
        assert {name: world.found(name) for name in final} == final
        assert cp.verify("r").ok
