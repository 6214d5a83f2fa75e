"""The limits of flows over several workers, and workers that find a lot of what is not theirs."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.engine.holding.presence import Presence
from holdfast.workflow import step, workflow
from tests.holders import as_another_process


def test_a_limit_holds_also_while_a_worker_is_late_with_its_sign_of_life(
    kept_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, most = 0, 0

    @step
    async def busy() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.05)
        now -= 1

    @workflow
    async def flow() -> None:
        await busy()

    monkeypatch.setattr(Presence, "lease_at_hand", lambda *_: None)

    async def main() -> None:
        async with hf.Engine(kept_url, flows=[flow]) as a, hf.Engine(kept_url, flows=[flow]) as b:
            as_another_process(b.checkpointer.core)
            for n in range(6):
                await a.submit(flow(), run_id=f"r{n}")
            both = (e.work(until_idle=True, per_flow={"flow": 1}) for e in (a, b))
            assert sum(await asyncio.gather(*both)) == 6

    asyncio.run(main())
    assert most == 1
