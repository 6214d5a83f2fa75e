"""The flows of the simulation: every step is an effect that the world sees begin and end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import holdfast as hf
from holdfast.workflow import Retry, ask, parallel, sleep, step, workflow
from tests.simulation.world import CRASHES, WORLD

_ONCE = Retry(attempts=1, crashes=CRASHES)


class DoomedError(Exception):
    """What a flow fails with on purpose."""


async def _take(seconds: float) -> None:
    """An effect that takes so long. Below zero it is slow to stop when it is cancelled."""
    world, info = WORLD.get(), hf.current_step()
    assert info is not None
    effect = world.begin(info.run_id, info.step, stubborn=seconds < 0)
    finished = False
    try:
        await asyncio.sleep(abs(seconds))
        finished = True
    except asyncio.CancelledError:
        if seconds < 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
        raise
    finally:
        world.end(effect, finished=finished)


@step(retry=_ONCE)
async def act(seconds: float) -> int:
    await _take(seconds)
    return 1


async def take_back(result: int) -> None:
    await _take(0.5)


@step(retry=_ONCE, with_rollback=take_back)
async def book(seconds: float) -> int:
    await _take(seconds)
    return 1


@workflow
async def chain(lengths: list[float]) -> int:
    """One step after another."""
    return sum([await act(length) for length in lengths])


@workflow
async def fan(lengths: list[float]) -> int:
    """Steps side by side, then one more."""
    return sum(await parallel(*[act(length) for length in lengths])) + await act(lengths[0])


@workflow
async def saga(lengths: list[float]) -> int:
    """Steps that are undone, because the flow fails."""
    for length in lengths:
        await book(length)
    raise DoomedError


@workflow
async def talk(lengths: list[float]) -> int:
    """A question between steps."""
    done = [await act(length) for length in lengths[:-1]]
    await ask("Continue?", returns=bool, name="continue")
    return sum(done) + await act(lengths[-1])


@workflow
async def family(lengths: list[float]) -> int:
    """A child run between steps."""
    return await act(lengths[0]) + await chain(lengths[1:]) + await act(lengths[-1])


@workflow
async def house(lengths: list[float]) -> int:
    """Child runs side by side: one asks, and one has a child of its own."""
    done = await parallel(talk(lengths), family(lengths))
    return sum(done)


@workflow
async def verdict(lengths: list[float]) -> int:
    """A question beside steps, and nothing after it."""
    _, *done = await parallel(
        ask("Well?", returns=bool, name="well"), *[act(length) for length in lengths]
    )
    return sum(done)


@workflow
async def rest(lengths: list[float]) -> int:
    """A sleep and a question beside steps: a worker leaves the run meanwhile."""
    _, _, *done = await parallel(
        sleep(20), ask("Rested?", returns=bool, name="rested"), *[act(each) for each in lengths]
    )
    return sum(each or 0 for each in done) + await act(lengths[-1])


@workflow
async def crew(lengths: list[float]) -> int:
    """A child run that rests, beside one that does not."""
    rested, chained = await parallel(rest(lengths), chain(lengths))
    return rested + chained


FLOWS = (chain, fan, saga, talk, family, house, verdict, rest, crew)
