"""Flows for the tests of workers, each of one step that tells what becomes of it."""

from __future__ import annotations

import asyncio

from holdfast.workflow import step, workflow


class Waiting:
    """Its step waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        @step
        async def waits() -> int:
            self.begun.set()
            await self.go_on.wait()
            return 1

        @workflow
        async def flow() -> int:
            return await waits()

        self.flow = flow


class Hanging:
    """Its step hangs when it is first executed, and not again."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

        @step
        async def hangs() -> int:
            again = self.begun.is_set()
            self.begun.set()
            if not again:
                await asyncio.Event().wait()
            return 1

        @workflow
        async def flow() -> int:
            return await hangs()

        self.flow = flow


class Counting:
    """Counts how many of its steps are executed at the same time."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.most = 0
        now = 0

        @step
        async def busy() -> None:
            nonlocal now
            now += 1
            self.most = max(self.most, now)
            await asyncio.sleep(seconds)
            now -= 1

        @workflow
        async def flow() -> None:
            await busy()

        self.flow = flow
