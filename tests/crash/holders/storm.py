"""What the processes of a storm do: everything that users may, to all runs, again and again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from tests.crash.holders import flows
from tests.crash.holders.oracle import note

LANES: Final = 4
EXPECTED: Final = (
    hf.RunActiveError,  # another executes it
    hf.RunFinishedError,  # it is over
    hf.RunPausedError,  # it waits for an answer
    hf.RunCancelledError,  # as a lane asked
    hf.LeaseLostError,  # it was stopped for too long, or another lane took over
    hf.CheckpointNotFoundError,  # nobody has begun it yet
    hf.QuestionError,  # another answered it
    hf.StoreError,
    hf.CheckpointSaveError,
    hf.CheckpointLoadError,
    TimeoutError,  # a lane had no patience
)
_OVER: Final = (hf.RunFinishedError, hf.RunCancelledError)


def flow_of(run: str) -> tuple[str, int]:
    """The flow of a run and its input, by its id."""
    name, _, number = run.partition("-")
    return name, int(number)


class Storm:
    """One process of a storm."""

    def __init__(self, engine: hf.Engine, runs: list[str], seed: str, over: Path) -> None:
        self._engine = engine
        self._left = list(runs)
        self._rng = random.Random(seed)
        self._over = over

    async def rage(self) -> None:
        """Until the test says that all is over."""
        lanes = [asyncio.create_task(self._lane()) for _ in range(LANES)]
        try:
            while not self._over.exists():
                await asyncio.sleep(0.05)
                for lane in lanes:
                    if lane.done():
                        lane.result()
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _lane(self) -> None:
        rng = self._rng
        while True:
            if not self._left:
                await asyncio.sleep(0.1)
                continue
            run = rng.choice(self._left)
            acts = [self._run, self._hurry, self._resume, self._take_over, self._leave]
            acts += [self._answer, self._cancel]
            act = rng.choices(acts, (40, 30, 10, 1, 3, 10, 1))[0]
            if rng.random() < 0.03:
                await self._try(run, self._recover())
            else:
                await self._try(run, act(run))
            await asyncio.sleep(rng.uniform(0, 0.02))

    async def _try(self, run: str, call: Awaitable[Any]) -> None:
        try:
            value = await call
        except EXPECTED as error:
            note("tried", run, how=type(error).__name__)
            if isinstance(error, _OVER):
                self._is_over(run)
            await asyncio.sleep(self._rng.uniform(0.05, 0.3))
        except Exception as error:  # noqa: BLE001 - the test judges it
            note("unexpected", run, how=type(error).__name__, error=str(error))
        else:
            if value is not None:
                note("outcome", run, how="completed", value=value)
                self._is_over(run)

    def _is_over(self, run: str) -> None:
        with suppress(ValueError):
            self._left.remove(run)

    def _call(self, run: str) -> Any:
        flow, n = flow_of(run)
        return flows.patient(n) if flow == "patient" else flows.mixed(n)

    async def _run(self, run: str) -> Any:
        return await self._engine.run(self._call(run), run_id=run, resume=True)

    async def _hurry(self, run: str) -> Any:
        return await self._engine.run(self._call(run), run_id=run, resume=True, wait=False)

    async def _resume(self, run: str) -> Any:
        return await self._engine.resume(run)

    async def _take_over(self, run: str) -> Any:
        note("taking over", run)
        return await self._engine.resume(run, take_over=True)

    async def _leave(self, run: str) -> Any:
        async with asyncio.timeout(self._rng.uniform(0, 0.2)):
            return await self._run(run)

    async def _answer(self, run: str) -> None:
        async for question in self._engine.questions(f"{run}//asker"):
            await self._engine.answer(question.run_id, flow_of(run)[1], question=question.key)

    async def _cancel(self, run: str) -> None:
        if flow_of(run)[0] == "patient":
            note("cancelling", run)  # whoever is killed meanwhile may have done it
            await self._engine.cancel(run)

    async def _recover(self) -> None:
        found = await self._engine.recover(wait=self._rng.random() < 0.3)
        for run, came in found.items():
            if not isinstance(came, Exception):
                note("outcome", run, how="completed", value=came)
            elif not isinstance(came, EXPECTED):
                note("unexpected", run, how=type(came).__name__, error=str(came))
