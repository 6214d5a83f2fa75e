"""A store with all kinds of runs, for browsers, pictures and people.

    python -m tests.web.store shop && cd shop && holdfast ui --store orders.db --open

Its processes really die. Its clock runs a hundred times faster than the time, and began yesterday:
what took a second seems to have taken minutes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypedDict

from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.engine.run import ending, execute, loop
from tests.waiting import exit_code
from tests.web import flows
from tests.web.flows import PACE, Order

NAME: Final = "orders.db"
_HOUR: Final = 3600.0


class Past:
    """A clock that was set back, and hurries."""

    def __init__(self) -> None:
        self.go(24 * _HOUR)

    def go(self, ago: float) -> None:
        """It was so many seconds ago now."""
        self._began, self._said = time.time(), time.time() - ago

    def now(self) -> int:
        passed = (time.time() - self._began) * PACE
        return int(min(self._said + passed, time.time()) * 1e6)

    def monotonic(self) -> float:
        return time.monotonic()


def build(directory: Path) -> None:
    """Make the store, and the files that its runs wrote beside it; blocks, and starts processes."""
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    for module in (execute, ending, loop):  # how long steps took
        vars(module)["perf_counter"] = lambda: time.perf_counter() * PACE
    asyncio.run(_night())
    _dying(_crashes)
    asyncio.run(_day())
    if find_spec("langgraph"):
        _talk()


@asynccontextmanager
async def _engine(clock: Past) -> AsyncIterator[tuple[hf.Engine, hf.Checkpointer]]:
    async with hf.Checkpointer(NAME, clock=clock) as cp:
        yield hf.Engine(cp, flows=flows.FLOWS), cp


def _dying(work: Callable[[], Any]) -> None:
    """Do it in a process that is killed meanwhile."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    assert exit_code(child) == -signal.SIGKILL


async def _night() -> None:
    """Parcels all day long, and what happened before the crash."""
    clock = Past()
    async with _engine(clock) as (engine, _):
        for number in range(96):
            clock.go((24 - number / 4.2) * _HOUR)
            with suppress(hf.StepFailedError):
                await engine.run(flows.parcel(number), run_id=f"parcel-{7000 + number}")
        clock.go(23 * _HOUR)
        await engine.run(flows.nightly_etl({"day": "2026-11-15"}), run_id="etl-2026-11-15")
        clock.go(1.5 * _HOUR)
        cancelled = threading.Event()
        flows.dooming["epoch 5"] = cancelled.wait
        stuck = await engine.start(flows.train(0.3, 12), run_id="train-lr-0.3", owner="ann")
        async for event in stuck.events():
            if event.to_dict().get("step") == "epoch#5":
                break
        await engine.cancel("train-lr-0.3", "loss diverged", by="ann")
        cancelled.set()
        with suppress(hf.RunCancelledError):
            await stuck
        flows.dooming.clear()


def _crashes() -> None:
    """Four runs whose process dies."""
    ready = threading.Semaphore(0)

    def stop() -> None:
        ready.release()
        threading.Event().wait()

    def end() -> None:
        for _ in range(3):
            ready.acquire()
        flows.die()

    flows.dooming.update({
        "crawl": stop,
        "write_invoice 8839": stop,
        "aggregate 2026-11-16": stop,
        "write_invoice 8841": end,
    })  # fmt: skip
    asyncio.run(_doomed())


async def _doomed() -> None:
    clock = Past()
    clock.go(2.65 * _HOUR)
    async with _engine(clock) as (engine, _):
        await asyncio.gather(
            engine.run(flows.crawl("kelp", 120), run_id="crawl-kelp"),
            engine.run(flows.nightly_etl({"day": "2026-11-16"}), run_id="etl-2026-11-16"),
            engine.run(flows.order_saga(_ORDER_8839), run_id="order-8839", owner="bob"),
            engine.run(flows.order_saga(_ORDER_8841), run_id="order-8841", **_CART),
        )


class _Cart(TypedDict):
    owner: str
    thread_id: str


_CART: Final[_Cart] = {"owner": "ann", "thread_id": "cart-5510"}
_ORDER_8839: Final = Order(8839, ["lamp"], 12.0, "4000123412341234")
_ORDER_8841: Final = Order(8841, ["lamp", "chair", "desk"], 219.0, "4000123412344471", "refund")


async def _day() -> None:
    """Who came after the crash, and what they did."""
    clock = Past()
    async with _engine(clock) as (engine, cp):
        clock.go(2.6 * _HOUR)
        with suppress(hf.RunPausedError):
            await engine.resume("order-8841")
        await engine.resume("order-8839")
        await _fork(engine, cp, clock)
        clock.go(1 * _HOUR)
        with suppress(hf.StepFailedError):
            order = Order(8836, ["desk"], 340.0, "4000123412349995", "declined")
            await engine.run(flows.order_saga(order), run_id="order-8836", owner="ann")
        for number in (8842, 8843):
            clock.go((8860 - number) / 20 * _HOUR)
            order = Order(number, ["lamp", "rug"], 80.5, "4000123412341111")
            await engine.run(flows.order_saga(order), run_id=f"order-{number}", owner="bob")
        clock.go(40 * 60)
        with suppress(hf.RunPausedError):
            await engine.run(flows.review("contract-219"), run_id="contract-219", owner="lea")
        clock.go(30 * 60)
        chat = flows.Chat([{"role": "user", "content": "Compare the three offers"}])
        await engine.run(flows.agent(chat), run_id="chat-7f3a", thread_id="offers", owner="ann")
        clock.go(20 * 60)
        await engine.submit(flows.parcel(7777), run_id="parcel-7777", delay=timedelta(hours=3))
        asleep = await engine.start(flows.remind("ann", 86_400), run_id="reminder-12")
        await asleep.pause()
        with suppress(hf.RunPausedError):
            await asleep
        clock.go(60)
        await cp.save("notes", {"read": 3, "password": "hunter2"}, step="draft")
    Path("parcels/8841.txt").unlink()
    Path("models/0.3-7.txt").write_text("somebody else's")
    for run in ("order-8841", "order-8839", "train-lr-0.1"):
        CliRunner().invoke(holdfast, ["verify", run, "--store", NAME])


async def _fork(engine: hf.Engine, cp: hf.Checkpointer, clock: Past) -> None:
    """What would have been otherwise."""
    at = await cp.list_checkpoints("order-8841", step="reserve_stock", limit=1)
    await cp.fork("order-8841", seq=at[0].seq, run_id="order-8841-b")
    with suppress(hf.RunPausedError):
        await engine.resume("order-8841-b")
    await engine.answer(
        "order-8841-b", {"approved": True, "comment": "it was late"}, by="finance@shop.example"
    )
    await engine.resume("order-8841-b")
    clock.go(1.2 * _HOUR)
    newest = await cp.list_checkpoints("train-lr-0.3", step="epoch#3", limit=1)
    await cp.fork("train-lr-0.3", seq=newest[0].seq, run_id="train-lr-0.1")
    await engine.resume("train-lr-0.1")


def _talk() -> None:
    """A thread of LangGraph's, with messages."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import START, MessagesState, StateGraph

    from holdfast.integrations.langgraph import HoldfastSaver

    def reply(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You said: {state['messages'][-1].content}")]}

    clock = Past()
    clock.go(10 * 60)
    built = StateGraph(MessagesState)
    built.add_node("reply", reply)
    built.add_edge(START, "reply")
    with hf.SyncCheckpointer(NAME, clock=clock) as cp, HoldfastSaver(cp) as saver:
        graph = built.compile(checkpointer=saver)
        for text in ("Where is my order?", "It is 8841.", "Thank you!"):
            thread: RunnableConfig = {"configurable": {"thread_id": "support-41"}}
            graph.invoke({"messages": [HumanMessage(text)]}, thread, durability="sync")


def live(directory: Path) -> None:
    """Execute runs in that store which never end; says when they have begun, and blocks."""
    os.chdir(directory)
    begun = threading.Semaphore(0)

    def stop() -> None:
        begun.release()
        threading.Event().wait()

    names = ("write_invoice 8850", "load 2026-11-17")
    flows.dooming.update(dict.fromkeys(names, stop))
    threading.Thread(target=lambda: asyncio.run(_live()), daemon=True).start()
    for _ in names:
        begun.acquire()
    print("begun", flush=True)
    threading.Event().wait()


async def _live() -> None:
    order = Order(8850, ["lamp", "desk"], 431.0, "4000123412340006", "slow bank")
    async with hf.Checkpointer(NAME) as cp:
        engine = hf.Engine(cp, flows=flows.FLOWS)
        await asyncio.gather(
            engine.run(flows.order_saga(order), run_id="order-8850", owner="bob"),
            engine.run(flows.nightly_etl({"day": "2026-11-17"}), run_id="etl-2026-11-17"),
        )


if __name__ == "__main__":
    (live if "--live" in sys.argv else build)(Path(sys.argv[1]))
