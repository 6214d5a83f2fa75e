"""A durable coroutine whose process dies between any two entries, with results in any order."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.model import Entry, Kind
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import Step, ask, step, workflow
from tests.effort import examples

Plan = tuple[str, Any]
"""What a task does: the name of something, and what it is done with."""

_LEAVES: Final = st.one_of(
    st.tuples(st.just("step"), st.none()),
    st.tuples(st.just("failing"), st.none()),
    st.tuples(st.just("decide"), st.none()),
    st.tuples(st.just("ask"), st.none()),
    st.tuples(st.just("yield"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.sampled_from([0.0005, 0.001])),
)
PLANS: Final[st.SearchStrategy[Plan]] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from(["one by one", "gather", "group", "race", "leave"]),
            st.lists(inner, min_size=2, max_size=4),
        ),
        st.tuples(st.sampled_from(["timeout", "shield"]), inner),
    ),
    max_leaves=12,
)


class Watched(MemoryStore):
    """Notes how much the tasks had seen when each entry was written."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.seen: list[int] = []
        self._life = life

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        outcomes = super().append(entries, behind)
        for entry, good in zip(entries, outcomes, strict=True):
            if good and entry.run == "r":
                self.entries.append(entry)
                self.seen.append(len(self._life.seen))
        return outcomes


class Life:
    """One process: it executes the run from what an earlier one has left, as far as it gets."""

    def __init__(self, plan: Plan, left: Sequence[Entry], seed: int) -> None:
        self._plan = plan
        self._chance = random.Random(seed)
        self.seen: list[Any] = []  # what the tasks are given, in order
        self.executed: list[str] = []
        self.store = Watched(self)
        self._engine = hf.Engine(self.store)
        if left:
            assert all(self.store.append(left))

    def live(self) -> Any:
        return asyncio.run(self._live())

    async def _live(self) -> Any:
        @workflow("lives")
        async def flow() -> int:
            self.seen.clear()
            await hf.durable(self._do(self._plan), name="body")
            return len(self.seen)

        while True:
            try:
                return await self._engine.run(flow(), run_id="r", resume=True, take_over=True)
            except hf.RunPausedError:
                await self._answer()

    async def _answer(self) -> None:
        """Answer one of the open questions."""
        found = [question.key async for question in self._engine.questions("r")]
        if found:
            key = self._chance.choice(found)
            await self._engine.answer("r", self._chance.randrange(1 << 40), question=key)

    async def _work(self, fails: bool) -> int:
        self.executed.append(hf.current_step().step)
        if self._chance.random() < 0.2:
            await self._answer()
        for _ in range(self._chance.randrange(8)):
            await asyncio.sleep(0)
        if self._chance.random() < 0.2:
            await asyncio.sleep(0.001)
        if fails:
            raise ValueError(str(self._chance.random()))
        return self._chance.randrange(1 << 40)

    async def _do(self, plan: Plan) -> None:
        what, of = plan
        await getattr(self, "_" + what.replace(" ", "_"))(of)

    async def _step(self, _: None, fails: bool = False) -> None:
        # What the next one is called depends on all that came before, in any task.
        name = f"s{zlib.crc32(repr(self.seen).encode()) % 3}"
        try:
            self.seen.append(await step(name).python(self._work, (fails,)))
        except hf.StepFailedError as error:
            self.seen.append(error.message)
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise

    async def _failing(self, _: None) -> None:
        await self._step(None, fails=True)

    async def _ask(self, _: None) -> None:
        self.seen.append(await ask("How many?", returns=int))

    async def _decide(self, _: None) -> None:
        self.seen.append(hf.random())

    async def _yield(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.seen.append("woke up")

    async def _one_by_one(self, plans: list[Plan]) -> None:
        for plan in plans:
            await self._do(plan)

    async def _gather(self, plans: list[Plan]) -> None:
        await asyncio.gather(*map(self._do, plans))

    async def _group(self, plans: list[Plan]) -> None:
        async with asyncio.TaskGroup() as group:
            for plan in plans:
                group.create_task(self._do(plan))

    async def _race(self, plans: list[Plan]) -> None:
        tasks = [asyncio.create_task(self._do(plan)) for plan in plans]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.seen.append(len(done))
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _leave(self, plans: list[Plan]) -> None:
        self._left = [asyncio.create_task(self._do(plan)) for plan in plans[1:]]
        await self._do(plans[0])

    async def _timeout(self, plan: Plan) -> None:
        try:
            async with asyncio.timeout(0.0015):
                await self._do(plan)
        except TimeoutError:
            self.seen.append("too late")

    async def _shield(self, plan: Plan) -> None:
        await asyncio.shield(self._do(plan))


@settings(max_examples=examples(25), deadline=None)
@given(plan=PLANS, seed=st.integers(0, 1 << 30))
def test_a_process_that_dies_between_any_two_entries_is_continued_by_the_next(
    plan: Plan, seed: int
) -> None:
    first = Life(plan, (), seed)
    first.live()
    for kept in range(1, len(first.store.entries)):
        second = _continue(plan, first, kept, seed + kept)
        again = random.Random(seed + kept).randrange(kept, len(second.store.entries))
        _continue(plan, second, max(1, again), seed - kept)


def _continue(plan: Plan, before: Life, kept: int, seed: int) -> Life:
    """Continue from so many entries, and check that it is as before as far as that goes."""
    left = before.store.entries[:kept]
    after = Life(plan, left, seed)
    after.live()
    done = {entry.step for entry in left if entry.kind == Kind.RESULT}
    assert not done.intersection(after.executed)
    # Results are written before what follows from them; decisions and questions behind it.
    sure = max(
        n
        for n, entry in enumerate(before.store.entries[: kept + 1])
        if entry.kind in (Kind.OPEN, Kind.RESULT)
    )
    seen = before.store.seen[sure]
    assert after.seen[:seen] == before.seen[:seen]
    return after


def test_a_rollback_that_is_cut_short_anywhere_is_finished_by_the_next() -> None:
    undone: list[str] = []

    def book(what: str) -> Step[str]:
        return step("book").python(str, (what,)).with_rollback(undone.append)

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for what in ("train", "ferry"):
                group.create_task(_of(book(what)))
            await asyncio.sleep(0.001)
        await step("hotel").python(int, ("no rooms",))

    @workflow("trip")
    async def trip() -> None:
        await hf.durable(body())

    def live(store: hf.Store) -> None:
        with pytest.raises(hf.StepFailedError, match="no rooms"):
            asyncio.run(hf.Engine(store).run(trip(), run_id="r", resume=True, take_over=True))

    first = MemoryStore()
    live(first)
    entries = first.read("r")
    assert sorted(undone) == ["ferry", "train"]
    for kept in range(1, len(entries)):
        undone.clear()
        second = MemoryStore()
        assert all(second.append(entries[:kept]))
        live(second)
        before = [e for e in entries[:kept] if (e.step or "").startswith("undo/")]
        assert len(before) + len(undone) == len(set(undone)) + len(before) == 2


async def _of(effect: Awaitable[Any]) -> Any:
    return await effect
