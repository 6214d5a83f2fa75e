"""The IA Modules design: its examples run, and its named tests pass.

Where holdfast differs on purpose, a comment names the row of docs/documents/deviations.md.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

import holdfast as hf
from holdfast import urls
from holdfast.documents.iamodules import (
    BaseCheckpointer,
    MemoryCheckpointer,
    PipelineCheckpoint,
    PostgresCheckpointer,
    RedisCheckpointer,
    SQLCheckpointer,
)
from holdfast.pipeline import HumanInputStep, Pipeline, Step
from holdfast.stores.memory import MemoryStore
from holdfast.testing.contract import HOSTILE_IDS, INVALID_IDS
from tests.documents import iamodules
from tests.faults import FakeClock
from tests.servers import postgres, redis

T = TypeVar("T")
STATE = {"pipeline_input": {"q": 1}, "steps": {"fetch": {"rows": [1, 2]}}}

calls: Counter[str] = Counter()
broken: set[str] = set()


@pytest.fixture(autouse=True)
def afresh() -> None:
    calls.clear()
    broken.clear()


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request: pytest.FixtureRequest, tmp_path: Path) -> BaseCheckpointer:
    if request.param == "memory":
        return MemoryCheckpointer()
    return SQLCheckpointer(f"sqlite:///{tmp_path}/checkpoints.db")


@pytest.fixture
def localhost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The document's PostgreSQL is a database of ours; the URLs that were asked for."""
    asked: list[str] = []
    real = urls._openers["postgresql"]

    def opener(url: str, **options: Any) -> hf.Store:
        asked.append(url)
        return real(postgres.new_database(), **options)

    monkeypatch.setattr(urls, "_openers", dict(urls._openers))
    urls.register_store("postgresql", opener)
    return asked


def using(checkpointer: BaseCheckpointer, made: Coroutine[Any, Any, T]) -> T:
    async def closing() -> T:
        async with checkpointer:
            return await made

    return asyncio.run(closing())


def save(checkpointer: BaseCheckpointer, thread: str = "user-123", n: int = 0, **more: Any) -> Any:
    return checkpointer.save_checkpoint(
        thread_id=thread, pipeline_id="data-pipeline", step_id=f"step{n}", step_index=n,
        state={**STATE, "n": n}, **more,
    )  # fmt: skip


class Work(Step):
    async def run(self, data: Any) -> Any:
        calls[self.name] += 1
        if self.name in broken:
            raise RuntimeError(f"{self.name} failed")
        return {"by": self.name, "of": data}


def pipeline_of(*names: str, checkpointer: Any = None) -> Pipeline:
    paths = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    flow = {"start_at": names[0], "paths": paths}
    return Pipeline(steps=[Work(name) for name in names], flow=flow, checkpointer=checkpointer)


async def run_example(source: str, **names: Any) -> dict[str, Any]:
    """The names that an example leaves behind; `await` may stand anywhere in it."""
    code = compile(source, "iamodules", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    namespace = {"__name__": "iamodules", **names}
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        await result
    return namespace


# --- examples


def test_example_1_basic_checkpointing(localhost: list[str]) -> None:
    async def example() -> None:
        flow = {"start_at": "only", "paths": [{"from": "only", "to": "end"}]}
        left = await run_example(iamodules.BASIC, steps=[Work("only")], flow=flow)
        assert left["result"]["only"]["of"] == {"input": "Hello"}
        assert (await left["checkpointer"].load_checkpoint("user-123")).step_id == "only"
        await left["checkpointer"].close()

    asyncio.run(example())
    assert localhost == ["postgresql://localhost/ia_modules"]


def test_example_2_resume_after_failure(
    checkpointer: BaseCheckpointer, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = pipeline_of("a", "b", "c", checkpointer=checkpointer)
    broken.add("b")

    def mended(words: str) -> None:
        broken.clear()
        print(words)

    left = using(checkpointer, run_example(iamodules.RESUME, pipeline=pipeline, print=mended))
    assert "Pipeline failed: step 'b' failed" in capsys.readouterr().out
    assert list(left["result"]) == ["a", "b", "c"]
    assert calls == {"a": 1, "b": 2, "c": 1}


def test_example_3_human_in_the_loop(checkpointer: BaseCheckpointer) -> None:
    names = ["draft", "review", "publish_step"]
    steps = [Work("draft"), HumanInputStep("review", prompt="Publish?"), Work("publish_step")]
    paths = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    flow = {"start_at": "draft", "paths": paths}
    pipeline = Pipeline(steps=steps, flow=flow, checkpointer=checkpointer)
    left = using(checkpointer, run_example(iamodules.HUMAN, pipeline=pipeline))
    assert list(left["result"]) == ["draft", "publish_step"]
    assert calls == {"draft": 1, "publish_step": 1}


def test_example_4_checkpoint_history(checkpointer: BaseCheckpointer) -> None:
    names = [f"s{n}" for n in range(8)]
    pipeline = pipeline_of(*names, checkpointer=checkpointer)

    async def example() -> dict[str, Any]:
        await pipeline.run({"input": "Hello"}, thread_id="user-123")
        return await run_example(
            iamodules.HISTORY, pipeline=pipeline, checkpointer=checkpointer, print=str
        )

    left = using(checkpointer, example())
    assert left["old_checkpoint"].step_id == "s2"
    assert list(left["result"]) == names
    assert calls == dict.fromkeys(names[:3], 1) | dict.fromkeys(names[3:], 2)


def test_example_5_cleanup_old_checkpoints(checkpointer: BaseCheckpointer) -> None:
    async def example() -> None:
        for n in range(8):
            await save(checkpointer, n=n)
        names = {"checkpointer": checkpointer, "datetime": datetime, "print": str}
        left = await run_example(iamodules.CLEANUP, **names)
        assert left["deleted"] == 3
        kept = await checkpointer.list_checkpoints("user-123")
        assert [cp.step_id for cp in kept] == ["step7", "step6", "step5", "step4", "step3"]

    using(checkpointer, example())


# --- named unit tests


def test_save_checkpoint_postgres() -> None:
    url = postgres.new_database()
    first = PostgresCheckpointer(url)
    checkpoint_id = using(first, save(first))
    second = PostgresCheckpointer(url)
    found = using(second, second.load_checkpoint("user-123", checkpoint_id))
    assert found is not None
    assert found.state == {**STATE, "n": 0}
    with pytest.raises(hf.StoreURLError, match="must begin with postgresql://"):
        PostgresCheckpointer("mysql://localhost/mydb")


def test_save_checkpoint_memory() -> None:
    memory = MemoryCheckpointer()

    async def both() -> PipelineCheckpoint | None:
        checkpoint_id = await save(memory)
        assert checkpoint_id == "user-123/data-pipeline@1"  # deviation: I7
        return await memory.load_checkpoint("user-123", checkpoint_id)

    found = using(memory, both())
    assert found is not None
    assert found.state == {**STATE, "n": 0}


def test_load_latest_checkpoint(checkpointer: BaseCheckpointer) -> None:
    async def three() -> PipelineCheckpoint | None:
        for n in range(3):
            await save(checkpointer, n=n)
        return await checkpointer.load_checkpoint("user-123")

    latest = using(checkpointer, three())
    assert latest is not None
    assert (latest.step_id, latest.step_index, latest.state["n"]) == ("step2", 2, 2)
    assert latest.pipeline_id == "data-pipeline"
    assert latest.thread_id == "user-123"
    assert latest.status == "completed"


def test_the_latest_checkpoint_is_the_one_that_was_saved_last_whatever_the_clock_says() -> None:
    clock = FakeClock()
    memory = BaseCheckpointer(hf.Checkpointer("memory://", clock=clock))

    async def back_in_time() -> PipelineCheckpoint | None:
        await save(memory, n=1)
        clock.advance(-3600)
        await save(memory, n=2)
        return await memory.load_checkpoint("user-123")

    latest = using(memory, back_in_time())
    assert latest is not None
    assert latest.step_id == "step2"  # deviation: I2


def test_load_specific_checkpoint(checkpointer: BaseCheckpointer) -> None:
    async def second() -> PipelineCheckpoint | None:
        ids = [await save(checkpointer, n=n) for n in range(3)]
        assert await checkpointer.load_checkpoint("another", ids[1]) is None
        return await checkpointer.load_checkpoint("user-123", checkpoint_id=ids[1])

    found = using(checkpointer, second())
    assert found is not None
    assert found.step_id == "step1"
    assert found.parent_checkpoint_id == "user-123/data-pipeline@1"


def test_checkpoint_not_found(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        await checkpointer.initialize()
        assert await checkpointer.load_checkpoint("nobody") is None
        assert await checkpointer.load_checkpoint("nobody", "nothing@3") is None
        assert await checkpointer.load_checkpoint("nobody", "ckpt-abc123") is None
        assert await checkpointer.list_checkpoints("nobody") == []
        with pytest.raises(hf.CheckpointNotFoundError):
            await pipeline_of("a", checkpointer=checkpointer).resume("nobody")

    using(checkpointer, look())


def test_checkpoint_data_integrity(checkpointer: BaseCheckpointer) -> None:
    state: dict[str, Any] = {
        "pipeline_input": {"when": datetime(2025, 1, 1, tzinfo=UTC)},
        "steps": {},
    }

    async def look() -> None:
        await checkpointer.save_checkpoint("t", "p", "s", 0, state)
        state["steps"]["later"] = "a change of the caller's own"
        found = await checkpointer.load_checkpoint("t")
        assert found is not None
        assert found.state == {**state, "steps": {}}
        assert PipelineCheckpoint.from_dict(found.to_dict()) == found  # deviation: I14
        assert found.get_state_size() > 0
        with pytest.raises(hf.SerializeError):
            await checkpointer.save_checkpoint("t", "p", "s", 1, {"f": print})  # deviation: I11

    using(checkpointer, look())


def test_checkpoint_timestamp(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        before = datetime.now(UTC)
        await save(checkpointer)
        found = await checkpointer.load_checkpoint("user-123")
        assert found is not None
        assert before - timedelta(seconds=1) <= found.timestamp <= datetime.now(UTC)

    using(checkpointer, look())


def test_checkpoint_metadata(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        metadata = {"user": "john@example.com", "loop_iteration": 2}
        await save(checkpointer, metadata=metadata, step_name="Transform")
        found = await checkpointer.load_checkpoint("user-123")
        assert found is not None
        assert found.metadata == metadata
        assert (found.step_id, found.step_name) == ("step0", "Transform")
        assert found.pipeline_version is None

    using(checkpointer, look())


def test_list_checkpoints(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        for n in range(15):
            await save(checkpointer, n=n)
        every = await checkpointer.list_checkpoints("user-123")
        assert [cp.step_index for cp in every] == list(range(14, -1, -1))  # deviation: I17
        assert await checkpointer.list_checkpoints("user-123", limit=10) == every[:10]
        assert await checkpointer.list_checkpoints("user-123", offset=12) == every[12:]
        for wrong in ({"limit": -1}, {"offset": -1}, {"offset": None}):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be an int"):
                await checkpointer.list_checkpoints("user-123", **wrong)
        page = await checkpointer.list_checkpoints("user-123", limit=3, offset=10)
        assert [cp.step_index for cp in page] == [4, 3, 2]
        assert not hasattr(page[0], "state")  # deviation: I3

    using(checkpointer, look())


def test_delete_old_checkpoints() -> None:
    clock = FakeClock()
    clock.advance(datetime(2025, 1, 1, tzinfo=UTC).timestamp())
    memory = BaseCheckpointer(hf.Checkpointer("memory://", clock=clock))

    async def look() -> None:
        for n in range(4):
            await save(memory, n=n)
            clock.advance(86400)
        listed = await memory.list_checkpoints("user-123")
        between = listed[1].timestamp - timedelta(hours=1)
        assert await memory.delete_checkpoints("user-123", before=between) == 2
        assert [cp.step_index for cp in await memory.list_checkpoints("user-123")] == [3, 2]

    using(memory, look())


def test_delete_keep_latest(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        for n in range(6):
            await save(checkpointer, n=n)
        await pipeline_of("a", "b", checkpointer=checkpointer).run(1, thread_id="user-123")
        assert await checkpointer.delete_checkpoints("user-123", keep_latest=5) == 3
        kept = await checkpointer.list_checkpoints("user-123")
        assert [cp.step_id for cp in kept] == ["b", "a", "step5", "step4", "step3"]

    using(checkpointer, look())


def test_clear_all_checkpoints(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        for n in range(3):
            await save(checkpointer, n=n)
        await save(checkpointer, thread="other")
        assert await checkpointer.clear_all_checkpoints("user-123") == 3
        assert await checkpointer.load_checkpoint("user-123") is None
        assert await checkpointer.load_checkpoint("other") is not None
        assert await checkpointer.clear_all_checkpoints("user-123") == 0
        await save(checkpointer, n=7)
        latest = await checkpointer.load_checkpoint("user-123")
        assert latest is not None
        assert latest.step_index == 7

    using(checkpointer, look())


def test_what_a_run_still_needs_is_not_deleted_unless_forced(
    checkpointer: BaseCheckpointer,
) -> None:
    flow = {"start_at": "a", "paths": [{"from": "a", "to": "ask"}, {"from": "ask", "to": "end"}]}
    steps = [Work("a"), HumanInputStep("ask", prompt="Well?")]

    async def look() -> None:
        pipeline = Pipeline(steps, flow, checkpointer=checkpointer)
        await pipeline.run(1, thread_id="t")
        with pytest.raises(hf.RunActiveError):
            await checkpointer.clear_all_checkpoints("t")  # deviation: I9
        assert await checkpointer.clear_all_checkpoints("t", force=True) == 1

    using(checkpointer, look())


@pytest.mark.parametrize("thread", [*HOSTILE_IDS, "a" * 512])
def test_thread_isolation(thread: str) -> None:
    memory = MemoryCheckpointer()

    async def look() -> None:
        await save(memory, thread=thread, n=1)
        await save(memory, thread="plain", n=2)
        mine = await memory.load_checkpoint(thread)
        assert mine is not None
        assert mine.step_index == 1
        assert await memory.delete_checkpoints(thread) == 1
        assert await memory.load_checkpoint("plain") is not None
        for invalid in INVALID_IDS:
            with pytest.raises(ValueError, match="id"):
                await memory.load_checkpoint(invalid)

    using(memory, look())


def test_names_that_are_put_together_do_not_mix_threads_up() -> None:
    memory = MemoryCheckpointer()

    async def look() -> None:
        await memory.save_checkpoint("a/b", "c", "s", 0, {"n": 1})
        await memory.save_checkpoint("a", "b/c", "s", 0, {"n": 2})
        await memory.save_checkpoint("a", "b%2fc", "s", 0, {"n": 3})
        states = [await memory.load_checkpoint(thread) for thread in ("a/b", "a")]
        assert [found and found.state["n"] for found in states] == [1, 3]

    using(memory, look())


def test_concurrent_saves(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        ids = await asyncio.gather(*(save(checkpointer, n=n) for n in range(100)))
        assert len(set(ids)) == 100
        listed = await checkpointer.list_checkpoints("user-123", limit=200)
        assert sorted(cp.step_index or 0 for cp in listed) == list(range(100))

    using(checkpointer, look())


def test_concurrent_loads(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        for n in range(100):
            await save(checkpointer, thread=f"t{n}", n=n)
        found = await asyncio.gather(*(checkpointer.load_checkpoint(f"t{n}") for n in range(100)))
        assert [cp and cp.step_index for cp in found] == list(range(100))

    using(checkpointer, look())


def test_stats(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        for n in range(3):
            await save(checkpointer, n=n)
        await save(checkpointer, thread="other")
        mine = await checkpointer.get_checkpoint_stats("user-123")
        listed = await checkpointer.list_checkpoints("user-123")
        assert mine == {
            "total_checkpoints": 3,
            "total_size_bytes": sum(cp.get_state_size() for cp in listed),
            "oldest_timestamp": listed[-1].timestamp,
            "newest_timestamp": listed[0].timestamp,
        }
        everything = await checkpointer.get_checkpoint_stats()
        assert everything["total_checkpoints"] == 4
        assert everything["threads"] == ["other", "user-123"]
        nothing = await checkpointer.get_checkpoint_stats("nobody")
        assert (nothing["total_checkpoints"], nothing["oldest_timestamp"]) == (0, None)

    using(checkpointer, look())


def test_redis_forgets_what_is_over_and_not_what_waits() -> None:
    url = redis.new_url()
    assert RedisCheckpointer(url).ttl == 86400
    names = ["a", "ask"]
    paths = [{"from": x, "to": y} for x, y in zip(names, ["ask", "end"], strict=True)]
    flow = {"start_at": "a", "paths": paths}

    async def look() -> None:
        brief = RedisCheckpointer(url, ttl=0.2)
        async with brief:
            steps = [Work("a"), HumanInputStep("ask", prompt="Well?")]
            pipeline = Pipeline(steps, flow, checkpointer=brief)
            await pipeline.run(1, thread_id="waits")
            await save(brief, thread="over")
            async with asyncio.timeout(30):
                while await brief.load_checkpoint("over") is not None:
                    await asyncio.sleep(0.05)
            assert (
                await pipeline.resume("waits", answer=1)
            ).status == "completed"  # deviation: I10
        with pytest.raises(hf.StoreClosedError):
            await brief.load_checkpoint("over")

    asyncio.run(look())
    with pytest.raises(hf.StoreURLError):
        RedisCheckpointer("http://localhost")


def test_outages_are_said_as_such(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database " * 100)
    broken_one = SQLCheckpointer(tmp_path / "broken.db")  # deviation: I12
    with pytest.raises((hf.CheckpointLoadError, hf.SchemaError)):
        asyncio.run(broken_one.load_checkpoint("t"))
    with pytest.raises((hf.CheckpointSaveError, hf.SchemaError)):
        asyncio.run(save(broken_one))


# --- named integration tests


@asynccontextmanager
async def running(checkpointer: BaseCheckpointer, *names: str) -> AsyncIterator[Pipeline]:
    async with checkpointer:
        yield pipeline_of(*names, checkpointer=checkpointer)


def test_pipeline_with_checkpointing(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b") as pipeline:
            result = await pipeline.run({"x": 1}, thread_id="t")
            plain = await pipeline_of("a", "b").run({"x": 1})
            assert result == plain
            assert len(await checkpointer.list_checkpoints("t")) == 2
            alone = await pipeline.run({"x": 2})  # without a thread
            found = await checkpointer.load_checkpoint(alone.run_id)  # deviation: I13
            assert found is not None

    asyncio.run(look())


def test_pipeline_resume(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b", "c") as pipeline:
            broken.add("c")
            with pytest.raises(hf.StepFailedError):
                await pipeline.run(1, thread_id="t")
            broken.clear()
            assert list(await pipeline.resume("t")) == ["a", "b", "c"]
            with pytest.raises(hf.RunFinishedError):
                await pipeline.resume("t")  # deviation: I5
            assert calls == {"a": 1, "b": 1, "c": 2}

    asyncio.run(look())


def test_resume_from_specific_step(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b", "c") as pipeline:
            await pipeline.run("in", thread_id="t")
            again = await pipeline.resume("t", from_step="b")
            assert again["b"]["of"] == {"by": "a", "of": "in"}  # deviation: I8
            assert calls == {"a": 1, "b": 2, "c": 2}
            found = await checkpointer.load_checkpoint("t")
            assert found is not None
            assert found.step_index == 2

    asyncio.run(look())


def test_resume_after_failure(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b") as pipeline:
            broken.add("b")
            for _ in range(3):
                with pytest.raises(hf.StepFailedError):
                    await (pipeline.resume("t") if calls else pipeline.run(1, thread_id="t"))
            latest = await checkpointer.load_checkpoint("t")
            assert latest is not None
            assert (latest.step_id, latest.status) == ("b", "failed")
            assert list(latest.state["steps"]) == ["a"]

    asyncio.run(look())


def test_resume_with_loops(checkpointer: BaseCheckpointer) -> None:
    given: list[int] = []

    def count(data: Any) -> Any:
        given.append(data["n"])
        if given == [0, 1, 2]:
            raise RuntimeError("in the third round")
        return {"n": data["n"] + 1}

    again = {"type": "expression", "config": {"source": "b.n", "operator": "<", "value": 4}}
    paths = [
        {"from": "a", "to": "b"},
        {"from": "b", "to": "a", "condition": again},
        {"from": "b", "to": "end"},
    ]
    steps = [{"id": "a", "function": dict}, {"id": "b", "function": count}]

    async def look() -> None:
        async with checkpointer:
            flow = {"start_at": "a", "paths": paths}
            pipeline = Pipeline(steps, flow, checkpointer=checkpointer)
            with pytest.raises(hf.StepFailedError, match="third round"):
                await pipeline.run({"n": 0}, thread_id="t")
            assert (await pipeline.resume("t"))["b"] == {"n": 4}
            assert given == [0, 1, 2, 2, 3]
            listed = await checkpointer.list_checkpoints("t", limit=20)
            kept = [cp.step_id for cp in listed if cp.status == "completed"]
            assert kept == ["b", "a"] * 4

    asyncio.run(look())


def test_checkpoint_every_step(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, *"abcde") as pipeline:
            await pipeline.run(1, thread_id="t")
            listed = await checkpointer.list_checkpoints("t")
            assert [(cp.step_id, cp.step_index) for cp in listed] == [
                ("e", 4), ("d", 3), ("c", 2), ("b", 1), ("a", 0),
            ]  # fmt: skip
            assert listed[0].parent_checkpoint_id == listed[1].checkpoint_id

    asyncio.run(look())


def test_checkpoint_state_correctness(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b") as pipeline:
            result = await pipeline.run({"x": 1}, thread_id="t")
            for info in await checkpointer.list_checkpoints("t"):
                found = await checkpointer.load_checkpoint("t", info.checkpoint_id)
                assert found is not None
                seen = {name: result[name] for name in "ab"[: (info.step_index or 0) + 1]}
                assert found.state == {"pipeline_input": {"x": 1}, "steps": seen}

    asyncio.run(look())


def test_the_state_within_a_parallel_branch_is_whole(checkpointer: BaseCheckpointer) -> None:
    paths = [
        {"from": "a", "to": ["b", "c"]}, {"from": "b", "to": "d"}, {"from": "c", "to": "d"}, {"from": "d", "to": "end"},
    ]  # fmt: skip
    flow = {"start_at": "a", "paths": paths}

    async def look() -> None:
        async with checkpointer:
            pipeline = Pipeline([Work(n) for n in "abcd"], flow, checkpointer=checkpointer)
            result = await pipeline.run(1, thread_id="t")
            for info in await checkpointer.list_checkpoints("t"):
                found = await checkpointer.load_checkpoint("t", info.checkpoint_id)
                assert found is not None
                assert found.state["pipeline_input"] == 1
                assert found.state["steps"].items() <= result.items()
                assert info.step_id in found.state["steps"]
                assert found.step_name == info.step_id

    asyncio.run(look())


def test_checkpoint_performance(checkpointer: BaseCheckpointer) -> None:
    """What the time depends on: one append for each step, one to begin and one to end.

    bench/ measures the time itself.
    """

    async def look() -> None:
        async with running(checkpointer, *"abcdefghij") as pipeline:
            result = await pipeline.run(1, thread_id="t")
            entries = list(checkpointer.checkpointer.core.journals.entries(result.run_id))
            assert [entry.kind for entry in entries] == ["open", *["checkpoint"] * 10, "complete"]

    asyncio.run(look())


def test_multiple_threads(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b") as pipeline:
            results = await asyncio.gather(
                *(pipeline.run(n, thread_id=f"user-{n}") for n in range(100))
            )
            assert [result["a"]["of"] for result in results] == list(range(100))
            stats = await checkpointer.get_checkpoint_stats("user-7")
            assert stats["total_checkpoints"] == 2
            first = await pipeline.run("first", thread_id="user-7")
            second = await pipeline.run("second", thread_id="user-7")
            assert first.run_id != second.run_id  # deviation: I4
            latest = await checkpointer.load_checkpoint("user-7")
            assert latest is not None
            assert latest.run_id == second.run_id

    asyncio.run(look())


def test_checkpoint_cleanup(checkpointer: BaseCheckpointer) -> None:
    async def look() -> None:
        async with running(checkpointer, *"abcdef") as pipeline:
            result = await pipeline.run(1, thread_id="t")
            assert await checkpointer.delete_checkpoints("t", keep_latest=2) == 4
            latest = await checkpointer.load_checkpoint("t")
            assert latest is not None
            assert latest.state["steps"] == result
            assert await checkpointer.clear_all_checkpoints("t") == 2

    asyncio.run(look())


# --- what the document leaves open, or gets wrong


def test_a_save_that_fails_stops_the_run() -> None:
    store = MemoryStore()
    cp = hf.Checkpointer(store, deadline=0.1)

    async def look() -> None:
        def closes(data: Any) -> Any:
            store.close()
            return data

        flow = {"start_at": "a", "paths": [{"from": "a", "to": "end"}]}
        pipeline = Pipeline([{"id": "a", "function": closes}], flow, checkpointer=cp)
        with pytest.raises((hf.CheckpointSaveError, hf.StoreClosedError)):  # deviation: I1
            await pipeline.run(1, thread_id="t")

    asyncio.run(look())


def test_a_typo_in_a_condition_is_not_the_end() -> None:
    condition = {"type": "expression", "config": {"source": "a.by", "value": "somebody"}}
    flow = {"start_at": "a", "paths": [{"from": "a", "to": "end", "condition": condition}]}
    with pytest.raises(hf.NoPathError):  # deviation: I6
        asyncio.run(Pipeline([Work("a")], flow).run(1))


def test_what_is_resumed_from_a_checkpoint_is_a_run_of_its_own(
    checkpointer: BaseCheckpointer,
) -> None:
    async def look() -> None:
        async with running(checkpointer, "a", "b") as pipeline:
            first = await pipeline.run(1, thread_id="t")
            after_a = (await checkpointer.list_checkpoints("t"))[1]
            second = await pipeline.resume_from_checkpoint(after_a)
            assert second.run_id != first.run_id  # deviation: I15
            assert calls == {"a": 1, "b": 2}

    asyncio.run(look())


def test_a_class_with_the_right_methods_is_no_store() -> None:
    class Mine:
        async def save_checkpoint(self, **_: Any) -> str:
            return "id"

    with pytest.raises(TypeError, match="a store is given as"):  # deviation: I16
        asyncio.run(pipeline_of("a", checkpointer=Mine()).run(1, thread_id="t"))
