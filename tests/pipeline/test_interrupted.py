"""A run that is interrupted, wherever, comes to the same as one that is not."""

from __future__ import annotations

import json
import os
import signal
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import CheckpointSaved
from holdfast.engine.people import requests
from holdfast.pipeline import HumanInputStep, Pipeline, Step
from tests import forks
from tests.effort import examples
from tests.pipeline.flows import path, run, when

PLAIN = ("plain", None)
ROWS = st.recursive(
    st.one_of(
        st.just(PLAIN),
        st.tuples(st.just("loop"), st.integers(1, 3)),
        st.tuples(st.just("breaks"), st.sampled_from(["resumed", "passed over", "fallback"])),
        st.just(("asks", None)),
    ),
    lambda row: st.one_of(
        st.tuples(st.just("either"), st.tuples(st.booleans(), row, row)),
        st.tuples(st.just("fork"), st.lists(st.lists(row, max_size=2), min_size=2, max_size=3)),
    ),
    max_leaves=6,
)
SHAPES = st.lists(ROWS, min_size=1, max_size=4)


class Ran:
    """What was executed, by visit."""

    def __init__(self, *, breaks: bool) -> None:
        self.count: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.breaks = breaks


class Work(Step):
    """Says which visit it is and what it was given: the same whenever it is asked."""

    def run(self, data: Any) -> Any:
        ran: Ran = self.services["ran"]
        key = current_step().step
        ran.count[key] += 1
        mode = self.config.get("breaks")
        if mode in ("passed over", "fallback") or (mode and ran.breaks and ran.count[key] == 1):
            raise RuntimeError(f"{key} is broken")
        return self._made(data, int(key.rpartition("#")[2]) if "#" in key else 1)

    def _made(self, data: Any, visit: int) -> Any:
        self.services["ran"].done[current_step().step] += 1
        given = zlib.crc32(json.dumps(data, sort_keys=True).encode())
        return {"visit": visit, "given": given}


class Fallback(Work):
    """Has an answer to its failures."""

    def fallback(self, data: Any, error: hf.StepFailedError) -> Any:
        self.services["ran"].count[current_step().step] += 1
        return self._made([data, error.message], 0)


class Builder:
    """Makes a pipeline of a shape."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.paths: list[dict[str, Any]] = []

    def work(self, kind: type[Work] = Work, **settings: Any) -> str:
        step = kind(f"s{len(self.steps)}", inline=True, **settings)
        self.steps.append(step)
        return step.id

    def row(self, shape: list[Any], source: str) -> str:
        """Put a row of pieces behind a step; returns the last step of it."""
        for kind, of in shape:
            source = getattr(self, f"_{kind}")(of, source)
        return source

    def _next(self, source: str, name: str) -> str:
        self.paths.append(path(source, name))
        return name

    def _plain(self, _: None, source: str) -> str:
        return self._next(source, self.work())

    def _loop(self, rounds: int, source: str) -> str:
        first = self._next(source, self.work())
        last = self._next(first, self.work())
        self.paths.append(path(last, first, when(f"{last}.visit", "less_than", rounds)))
        return self._next(last, self.work())

    def _breaks(self, mode: str, source: str) -> str:
        kind = Fallback if mode == "fallback" else Work
        name = self.work(
            kind, config={"breaks": mode}, continue_on_error=True if mode == "passed over" else None
        )
        return self._next(source, name)

    def _asks(self, _: None, source: str) -> str:
        step = HumanInputStep(f"s{len(self.steps)}", prompt="What now, after {pipeline_input}?")
        self.steps.append(step)
        return self._next(self._next(source, step.id), self.work())

    def _either(self, of: tuple[bool, Any, Any], source: str) -> str:
        first, one, other = of
        choice = self._next(source, self.work())
        ends = []
        for taken, piece in ((True, one), (False, other)):
            head = self.work()
            wanted = when("pipeline_input", "equals", 7 if taken is first else 8)
            self.paths.append(path(choice, head, wanted if taken else None))
            ends.append(self.row([piece], head))
        meet = self.work()
        for end in ends:
            self._next(end, meet)
        return meet

    def _fork(self, rows: list[list[Any]], source: str) -> str:
        fork = self._next(source, self.work())
        heads = [self.work() for _ in rows]
        self.paths.append(path(fork, heads))
        ends = [self.row(row, head) for row, head in zip(rows, heads, strict=True)]
        meet = self.work()
        for end in ends:
            self._next(end, meet)
        return meet


def build(shape: list[Any], ran: Ran, cp: hf.SyncCheckpointer) -> Pipeline:
    builder = Builder()
    first = builder.work()
    builder.paths.append(path(builder.row(shape, first), "end"))
    flow = {"start_at": first, "paths": builder.paths}
    return Pipeline(builder.steps, flow, {"ran": ran}, cp)


async def carried_out(pipeline: Pipeline, every: int | None) -> dict[str, Any]:
    """The outputs of a run that is dropped after so many checkpoints, again and again."""
    cp = pipeline.checkpointer
    assert isinstance(cp, hf.SyncCheckpointer)
    core, fresh = cp.core, True
    for _ in range(1000):
        stream = pipeline.stream(7, "thread") if fresh else pipeline.resume_stream("thread")
        fresh, seen = False, 0
        try:
            async with stream:
                async for event in stream:
                    seen += isinstance(event, CheckpointSaved)
                    if seen == every:
                        break
        except hf.StepFailedError:
            continue  # somebody mended it
        try:
            result = await pipeline.resume("thread") if seen != every else None
        except hf.RunFinishedError:
            outputs: dict[str, Any] = cp.load(cp.runs()[0].run_id).state["steps"]  # type: ignore[union-attr]
            return outputs
        for question in result.questions if result is not None else ():
            key, said = question.key, f"to {question.key}"
            await core.drive_async(requests.answer(core, question.run_id, said, key))
    raise AssertionError("it never comes to an end")


@given(SHAPES, st.integers(1, 3))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_interrupted_run_comes_to_the_same_and_runs_no_visit_twice(
    shape: list[Any], every: int
) -> None:
    once, ran = Ran(breaks=False), Ran(breaks=True)
    with hf.SyncCheckpointer("memory://") as cp:
        expected = run(carried_out(build(shape, once, cp), None))
    with hf.SyncCheckpointer("memory://") as cp:
        assert run(carried_out(build(shape, ran, cp), every)) == expected
        for info in cp.runs():
            assert cp.verify(info.run_id).ok
    assert set(ran.count) == set(once.count)
    assert set(once.count.values()) == {1}
    twice = {key for key, count in ran.done.items() if count > 1}
    assert all(">" in key for key in twice), "only branches that were under way when it stopped"


# --- killed

WORKER = """
import asyncio, os, signal, sys
from holdfast.pipeline import Pipeline

url, journal, kill_at = sys.argv[1:]

def step(name):
    def fn(data):
        with open(journal, "a") as file:
            file.write(name + "\\n")
        if name == kill_at and os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"by": name, "of": data}
    return {"id": name, "function": fn}

paths = [("a", ["b", "c"]), ("b", "d"), ("c", "d"), ("d", "e"), ("e", "end")]
flow = {"start_at": "a", "paths": [{"from": a, "to": b} for a, b in paths]}
pipeline = Pipeline([step(name) for name in "abcde"], flow, checkpointer=url)
if os.environ.get("KILL"):
    pipeline.run_sync("in", "thread")
elif os.environ.get("RECOVER"):
    (result,) = asyncio.run(pipeline.recover()).values()
    print(result["e"]["by"])
else:
    print(pipeline.resume_sync("thread").output["by"])
"""


@pytest.mark.parametrize(("kill_at", "how"), [("a", ""), ("b", ""), ("d", "1"), ("e", "")])
def test_a_killed_run_is_resumed_or_recovered_and_only_what_was_under_way_runs_again(
    kill_at: str, how: str, tmp_path: Path
) -> None:
    journal, url = tmp_path / "journal", f"sqlite:///{tmp_path}/runs.db"
    command = ("-c", WORKER, url, str(journal), kill_at)
    killed = forks.run(*command, env={**os.environ, "KILL": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    env = {**os.environ, "RECOVER": how}
    resumed = forks.run(*command, env=env, capture_output=True, check=True)
    assert resumed.stdout == "e\n"
    ran = Counter(journal.read_text().split())
    assert set(ran) == set("abcde")
    under_way = {"b", "c"} if kill_at == "b" else {kill_at}
    assert {name for name, count in ran.items() if count > 1} <= under_way
    assert ran[kill_at] == 2
