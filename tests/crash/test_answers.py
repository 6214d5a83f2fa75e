"""People and workers in processes of their own: answers that race, and requests that get through."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import ask, parallel, step, workflow
from tests import forks
from tests.crash.harness import ROOT, url_of
from tests.effort import EFFORT
from tests.waiting import bounded

KINDS = pytest.mark.parametrize("kind", ["sqlite", "file"])
PEOPLE = 5 if EFFORT == 1 else 8
MOST = 100_000  # steps of a worker that nobody stops


@workflow("approval")
def approval() -> Any:
    return (yield ask("Which?", returns=int, name="which"))


def _asking() -> Any:
    return (yield ask("Well?", returns=str, name="well"))


async def _tick() -> None:
    await asyncio.sleep(0)


@workflow("restless")
def restless(sign: str) -> Any:
    """Saves step after step, as fast as it can, until there is a sign."""

    def work() -> Any:
        for count in range(MOST):
            if Path(sign).exists():
                return count
            yield step("tick").python(_tick)
        raise AssertionError("nobody gave a sign")

    return (yield parallel(_asking(), work()))


async def _answer(url: str, n: int) -> str:
    async with hf.Engine(url) as engine:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await engine.answer("r", n, by=f"person-{n}")
        except hf.QuestionError as error:
            return f"told: {error.reason}"
        return "won"


async def _work(url: str, sign: str) -> str:
    async with hf.Engine(url) as engine:
        print("ready", flush=True)
        try:
            result = await engine.run(restless(sign=sign), run_id="r", resume=True)
        except hf.RunError as error:
            return type(error).__name__
        return str(result[0])


def main(task: str, *arguments: str) -> None:
    if task == "answer":
        told = asyncio.run(_answer(arguments[0], int(arguments[1])))
    else:
        told = asyncio.run(_work(*arguments))
    print(json.dumps(told), flush=True)


def _process(task: str, *arguments: str) -> forks.Process:
    code = f"from tests.crash.test_answers import main; main({task!r}, *{list(arguments)!r})"
    return forks.start("-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)


def _said(process: forks.Process, given: str = "") -> str:
    with bounded(process):
        told, _ = process.communicate(given)
    assert process.returncode == 0
    return str(json.loads(told.splitlines()[-1]))


def _wait_for(processes: Sequence[forks.Process]) -> None:
    for process in processes:
        assert process.stdout is not None
        with bounded(process):
            assert process.stdout.readline() == "ready\n"


@KINDS
def test_of_several_people_one_answers_and_the_others_are_told_who_did(
    kind: str, tmp_path: Path
) -> None:
    url = url_of(kind, tmp_path)

    async def begin() -> None:
        async with hf.Engine(url) as engine:
            with pytest.raises(hf.RunPausedError):
                await engine.run(approval(), run_id="r")

    asyncio.run(begin())
    people = [_process("answer", url, str(n)) for n in range(PEOPLE)]
    _wait_for(people)
    for person in people:
        assert person.stdin is not None
        person.stdin.write("now\n")
        person.stdin.flush()
    told = [_said(person) for person in people]
    winner = told.index("won")
    del told[winner]
    assert len(told) == PEOPLE - 1
    assert all(f"answered already, by 'person-{winner}' at 20" in words for words in told), told
    with hf.SyncCheckpointer(url) as cp:
        answers = [e for e in cp.core.journals.trail("r") if e.kind == "answer"]
        assert [hf.CheckpointInfo(e).meta.by for e in answers] == [f"person-{winner}"]
        assert cp.verify("r").ok

    async def end() -> Any:
        async with hf.Engine(url) as engine:
            return await engine.run(approval(), run_id="r", resume=True)

    assert asyncio.run(end()) == winner


async def _asked(engine: hf.Engine) -> None:
    """Wait until the worker has begun and asked."""
    for _ in range(10_000):
        try:
            if [q async for q in engine.questions("r")]:
                return
        except hf.CheckpointNotFoundError:
            pass
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was asked")


@KINDS
def test_an_answer_gets_through_to_a_worker_elsewhere_that_never_rests(
    kind: str, tmp_path: Path
) -> None:
    url, sign = url_of(kind, tmp_path), tmp_path / "sign"
    worker = _process("work", url, str(sign))

    async def speak() -> None:
        async with hf.Engine(url) as engine:
            await _asked(engine)
            await engine.answer("r", "heard")

    _wait_for([worker])
    asyncio.run(speak())
    sign.touch()
    assert _said(worker) == "heard"


@KINDS
@pytest.mark.parametrize(
    ("action", "error", "status"),
    [("pause", "RunPausedError", "paused"), ("cancel", "RunCancelledError", "cancelled")],
)
def test_a_worker_in_another_process_is_paused_and_cancelled(
    kind: str, action: str, error: str, status: str, tmp_path: Path
) -> None:
    url, sign = url_of(kind, tmp_path), tmp_path / "never"
    worker = _process("work", url, str(sign))

    async def speak() -> None:
        async with hf.Engine(url) as engine:
            await _asked(engine)
            await getattr(engine, action)("r")

    _wait_for([worker])
    asyncio.run(speak())
    assert _said(worker) == error
    with hf.SyncCheckpointer(url) as cp:
        info = cp.run("r")
        assert info is not None
        assert info.status == status


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_an_answer_gets_through_to_a_worker_right_here_that_never_rests(
    kept_url: str, durability: Any, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"

    async def main() -> None:
        async with hf.Checkpointer(kept_url, durability=durability, deadline=60) as cp:
            engine = hf.Engine(cp)
            worker = asyncio.create_task(engine.run(restless(sign=str(sign)), run_id="r"))
            await _asked(engine)
            await engine.answer("r", "heard")
            assert not worker.done(), "it was answered while the worker was at it"
            sign.touch()
            assert (await worker)[0] == "heard"

    asyncio.run(main())
