"""Signals that tell workers to stop, and what they do once the workers have ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from holdfast.engine.working.signals import stopping
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_do_what_they_did_before_in_whatever_order_workers_end() -> None:
    def ours(*_: object) -> None:
        pass

    async def main() -> None:
        first, second = stopping(None), stopping(None)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)

    with asyncio.Runner() as runner:
        signal.signal(signal.SIGINT, ours)
        signal.signal(signal.SIGTERM, ours)
        runner.run(main())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == [ours, ours]


def test_one_signal_tells_every_worker_and_the_next_one_does_what_it_did_before() -> None:
    struck: list[int] = []

    async def main() -> None:
        with stopping(None) as first, stopping(None) as second:
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(first.wait(), second.wait())
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, lambda *_: struck.append(1))
    asyncio.run(main())
    assert struck == [1]
