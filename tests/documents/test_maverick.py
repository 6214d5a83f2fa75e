"""The Maverick contract: its examples run, and what its docstrings promise is kept.

Where holdfast differs on purpose, a comment names the row of docs/documents/deviations.md.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import json
import os
import pickle
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.maverick import (
    CheckpointData,
    CheckpointNotFoundError,
    CheckpointStore,
    FileCheckpointStore,
    MemoryCheckpointStore,
    StepResult,
    StoreView,
    WorkflowEngine,
    compute_inputs_hash,
)
from holdfast.testing.corpus import HOSTILE_RUN_IDS, INVALID_IDS
from holdfast.workflow import for_each, parallel, step, workflow
from tests.documents import maverick

GOLDEN = json.loads(
    Path(__file__).with_name("golden").joinpath("maverick_checkpoint.json").read_text()
)
Flow = Generator[Any, Any, Any]
Check = Callable[[Any], Awaitable[None]]


def run_example(source: str, **names: Any) -> dict[str, Any]:
    """The names that an example leaves behind; `await` may stand anywhere in it."""
    code = compile(source, "maverick", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    namespace = {"__name__": "maverick", **names}
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    return namespace


def data(name: str = "fetch", output: Any = 1, at: datetime | None = None) -> CheckpointData:
    done = StepResult(name, "python", True, output, 5)
    return CheckpointData(name, "etl", "a1b2", (done,), at or datetime(2025, 12, 20, tzinfo=UTC))


def opened(kind: str, path: Path) -> CheckpointStore:
    match kind:
        case "memory":
            return MemoryCheckpointStore()
        case "file":
            return FileCheckpointStore(path / "checkpoints")
        case "sqlite":
            return StoreView(path / "runs.db")
        case "sync":
            return StoreView(hf.SyncCheckpointer("memory://"))
        case "async durability":
            return StoreView(hf.Checkpointer("memory://", durability="async"))
        case "document's memory":
            return _made(maverick.MEMORY_STORE, "MemoryCheckpointStore")
    return _made(maverick.FILE_STORE, "FileCheckpointStore", path)


def _made(source: str, name: str, *args: object) -> CheckpointStore:
    made: CheckpointStore = run_example(source)[name](*args)
    return made


OURS = ["memory", "file", "sqlite", "sync", "async durability"]
ALL = [*OURS, "document's memory", "document's file"]


def keep(kind: str, path: Path, check: Check) -> None:
    async def scenario() -> None:
        store = opened(kind, path)
        assert isinstance(store, CheckpointStore)
        try:
            await check(store)
        finally:
            if isinstance(store, StoreView):
                await store.close()

    asyncio.run(scenario())


# --- the data


def test_the_documents_json_is_read_and_written_to_the_letter() -> None:
    read = CheckpointData.from_dict(GOLDEN)
    assert read.checkpoint_id == "expensive_compute"
    assert read.saved_at == datetime(2025, 12, 20, 15, 30, tzinfo=UTC)
    assert read.step_results[0] == StepResult("fetch_data", "python", True, {"rows": 1000}, 5234)
    assert read.to_dict() == GOLDEN
    assert CheckpointData.from_dict(read.to_dict()) == read


@pytest.mark.parametrize("kind", ALL)
def test_the_documents_json_comes_through_every_store(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        await store.save("run-123", CheckpointData.from_dict(GOLDEN))
        loaded = await store.load("run-123", "expensive_compute")
        assert loaded is not None
        assert loaded.to_dict() == GOLDEN

    keep(kind, tmp_path, check)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"checkpoint_id": 5}, "checkpoint.checkpoint_id: expected str, found int"),
        ({"saved_at": "yesterday"}, "checkpoint.saved_at: Invalid isoformat string: 'yesterday'"),
        ({"saved_at": None}, "checkpoint.saved_at: expected datetime, found NoneType"),
        ({"step_results": {}}, "checkpoint.step_results: expected tuple, found dict"),
        ({"step_results": [{}]}, "checkpoint.step_results[0].name: StepResult needs this field"),
        ({"more": 1}, "checkpoint.more: CheckpointData has no such field"),
    ],
)
def test_malformed_data_is_a_value_error_that_says_where(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="no checkpoint of a workflow: ") as caught:
        CheckpointData.from_dict({**GOLDEN, **change})
    assert words in str(caught.value)


@pytest.mark.parametrize("wrong", [None, [], "text", 1, {}])
def test_what_is_no_object_at_all_is_a_value_error(wrong: Any) -> None:
    with pytest.raises(ValueError, match="no checkpoint of a workflow"):
        CheckpointData.from_dict(wrong)


def test_times_are_aware_and_written_in_utc() -> None:
    berlin = datetime(2025, 12, 20, 16, 30, 0, 250, timezone(timedelta(hours=1)))
    assert data(at=berlin).to_dict()["saved_at"] == "2025-12-20T15:30:00.000250Z"
    naive = datetime(2025, 12, 20, 15, 30)  # local time
    assert data(at=naive).saved_at == naive.astimezone()
    assert data(at=naive).saved_at.tzinfo is not None


# --- the protocol


def test_our_protocol_has_the_documents_methods_and_parameters() -> None:
    theirs = run_example(maverick.PROTOCOL)["CheckpointStore"]
    for name in ("save", "load", "load_latest", "clear", "list_checkpoints"):
        wanted = inspect.signature(getattr(theirs, name))
        assert inspect.signature(getattr(CheckpointStore, name)) == wanted
        ours = inspect.signature(getattr(StoreView, name))
        plain = [p for p in ours.parameters.values() if p.kind is not p.KEYWORD_ONLY]  # no force=
        assert ours.replace(parameters=plain) == wanted
        assert inspect.iscoroutinefunction(getattr(StoreView, name))


@pytest.mark.parametrize("kind", ALL)
def test_what_was_saved_is_loaded_by_its_name(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        await store.save("run", data("fetch", {"rows": [1, 2]}))
        await store.save("run", data("clean", {"rows": []}))
        assert await store.load("run", "fetch") == data("fetch", {"rows": [1, 2]})
        assert await store.load("run", "clean") == data("clean", {"rows": []})
        assert await store.load("other", "fetch") is None

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", ALL)
def test_what_is_not_there_is_none_and_never_an_error(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        assert await store.load("run", "fetch") is None
        assert await store.load_latest("run") is None
        assert await store.list_checkpoints("run") == []
        await store.clear("run")
        await store.save("run", data("fetch"))
        assert await store.load("run", "nonexistent") is None

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", ALL)
def test_of_a_name_the_newest_wins_and_is_listed_once(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for name, output in [("fetch", 1), ("clean", 2), ("fetch", 3)]:
            await store.save("run", data(name, output))
        assert await store.load("run", "fetch") == data("fetch", 3)
        assert sorted(await store.list_checkpoints("run")) == ["clean", "fetch"]

    keep(kind, tmp_path, check)


def test_names_are_listed_in_the_order_they_first_appeared_and_older_ones_are_kept() -> None:
    async def check(store: CheckpointStore) -> None:
        for name, output in [("z", 1), ("a", 2), ("z", 3)]:
            await store.save("run", data(name, output))
        assert await store.list_checkpoints("run") == ["z", "a"]
        assert isinstance(store, StoreView)
        assert isinstance(store.checkpointer, hf.Checkpointer)
        history = await store.checkpointer.list_checkpoints("run", step="z")
        assert len(history) == 2  # deviation: M3

    keep("memory", Path(), check)


@pytest.mark.parametrize("kind", ALL)
def test_the_latest_is_the_one_saved_last(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for day, name in enumerate(["fetch", "clean", "load"], 1):
            await store.save("run", data(name, at=datetime(2025, 12, day, tzinfo=UTC)))
        latest = await store.load_latest("run")
        assert latest is not None
        assert latest.checkpoint_id == "load"

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", OURS)
def test_the_latest_is_the_one_saved_last_also_when_the_clock_went_back(
    kind: str, tmp_path: Path
) -> None:
    async def check(store: CheckpointStore) -> None:
        await store.save("run", data("fetch", at=datetime(2025, 12, 20, 12, tzinfo=UTC)))
        await store.save("run", data("clean", at=datetime(2025, 12, 20, 11, tzinfo=UTC)))
        latest = await store.load_latest("run")
        assert latest is not None
        assert latest.checkpoint_id == "clean"  # deviation: M1

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", ALL)
def test_cleared_checkpoints_are_gone_and_others_stay(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for run in ("run", "other"):
            await store.save(run, data("fetch"))
            await store.save(run, data("clean"))
        await store.clear("run")
        assert await store.load("run", "fetch") is None
        assert await store.load_latest("run") is None
        assert await store.list_checkpoints("run") == []
        assert sorted(await store.list_checkpoints("other")) == ["clean", "fetch"]
        await store.save("run", data("again"))
        assert await store.list_checkpoints("run") == ["again"]

    keep(kind, tmp_path, check)


def test_what_was_cleared_can_not_come_back_at_its_old_place() -> None:
    async def check(store: CheckpointStore) -> None:
        assert isinstance(store, StoreView)
        assert isinstance(store.checkpointer, hf.Checkpointer)
        await store.save("run", data())
        old = await store.checkpointer.load("run")
        await store.clear("run")
        await store.save("run", data())
        new = await store.checkpointer.load("run")
        assert old is not None
        assert new is not None
        assert new.seq > old.seq + 1  # deviation: M6
        with pytest.raises(hf.ConflictError):
            await store.checkpointer.save("run", {}, expect=old)

    keep("memory", Path(), check)


@pytest.mark.parametrize("kind", ALL)
def test_many_saves_at_once_are_all_kept(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        names = [f"step {n}" for n in range(40)]
        await asyncio.gather(*(store.save("run", data(name)) for name in names))
        assert sorted(await store.list_checkpoints("run")) == sorted(names)

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", ["file", "sqlite", "document's file"])
def test_another_process_finds_what_was_saved(kind: str, tmp_path: Path) -> None:
    async def write(store: CheckpointStore) -> None:
        await store.save("run", data())

    async def read(store: CheckpointStore) -> None:
        assert await store.load_latest("run") == data()

    keep(kind, tmp_path, write)
    keep(kind, tmp_path, read)


@pytest.mark.parametrize("kind", OURS)
def test_nothing_is_shared_and_nothing_is_kept_that_a_disk_could_not(
    kind: str, tmp_path: Path
) -> None:
    async def check(store: CheckpointStore) -> None:
        rows = {"rows": [1], "pair": (1, 2), "at": datetime(2025, 1, 1, tzinfo=UTC)}
        await store.save("run", data(output=rows))
        rows["rows"].append(2)  # type: ignore[attr-defined]
        loaded = await store.load("run", "fetch")
        assert loaded is not None
        expected = {"rows": [1], "pair": (1, 2), "at": datetime(2025, 1, 1, tzinfo=UTC)}
        assert loaded.step_results[0].output == expected
        with pytest.raises(hf.SerializeError):
            await store.save("run", data(output=object()))  # deviation: M13

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", OURS)
def test_ids_are_only_ids(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for run in HOSTILE_RUN_IDS:
            await store.save(run, data("../../fetch", run))
            await store.save(run, data(run, "named"))
        for run in HOSTILE_RUN_IDS:
            assert await store.load(run, "../../fetch") == data("../../fetch", run)
            assert await store.load(run, run) == data(run, "named")
            assert await store.list_checkpoints(run) == ["../../fetch", run]  # deviation: M5
        for wrong in INVALID_IDS:
            with pytest.raises((ValueError, TypeError)):
                await store.save(wrong, data())
            with pytest.raises((ValueError, TypeError)):
                await store.load_latest(wrong)

    (tmp_path / "inside").mkdir()
    keep(kind, tmp_path / "inside", check)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


# --- files


def test_a_save_returns_after_the_file_and_its_directory_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fsync)

    async def check(store: CheckpointStore) -> None:
        await store.save("run", data())
        synced.clear()
        await store.save("run", data())
        assert synced == ["file", "directory"]  # deviation: M4

    keep("file", tmp_path, check)


def test_an_altered_file_is_a_value_error_even_if_it_is_good_json(tmp_path: Path) -> None:
    async def write(store: CheckpointStore) -> None:
        await store.save("run", data(output="kelp"))

    async def read(store: CheckpointStore) -> None:
        for load in (store.load_latest("run"), store.load("run", "fetch")):
            with pytest.raises(ValueError, match="damaged") as caught:
                await load
            assert isinstance(caught.value, hf.CheckpointCorruptedError)  # deviation: M9

    keep("file", tmp_path, write)
    newest = sorted(tmp_path.glob("checkpoints/run/*.json"))[-1]
    newest.write_text(newest.read_text().replace("kelp", "weed"))
    keep("file", tmp_path, read)
    newest.write_text("{")
    keep("file", tmp_path, read)


@pytest.mark.parametrize("kind", OURS)
def test_a_state_that_is_no_workflows_checkpoint_is_a_value_error(
    kind: str, tmp_path: Path
) -> None:
    async def check(store: CheckpointStore) -> None:
        assert isinstance(store, StoreView)
        saved = store.checkpointer.save("run", {"n": 1}, step="by hand")
        if inspect.isawaitable(saved):
            await saved
        with pytest.raises(ValueError, match=r"checkpoint.n: CheckpointData has no such field"):
            await store.load("run", "by hand")

    keep(kind, tmp_path, check)


def test_an_outage_is_an_os_error_and_never_an_absence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file stands where the directory should be")

    async def check(store: CheckpointStore) -> None:
        with pytest.raises(OSError, match="was not saved"):
            await store.save("run", data())
        for look in (
            store.load("run", "a"),
            store.load_latest("run"),
            store.list_checkpoints("run"),
        ):
            with pytest.raises(OSError, match="could not be read"):
                await look
        with pytest.raises(OSError, match="name a directory"):
            await store.clear("run")

    keep("file", tmp_path, check)


def test_a_directory_that_vanished_is_an_os_error(tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        await store.save("run", data())
        (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
        with pytest.raises(OSError, match="could not be read"):
            await store.load("run", "fetch")
        (tmp_path / "elsewhere").rename(tmp_path / "checkpoints")
        assert await store.load("run", "fetch") == data()

    keep("file", tmp_path, check)


def test_the_default_directory_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        async with FileCheckpointStore() as store:
            assert list(tmp_path.iterdir()) == []  # it is opened when it is first used
            await store.save("run", data())
        async with FileCheckpointStore():
            pass

    asyncio.run(scenario())
    assert list(tmp_path.glob(".holdfast/checkpoints/run/*.json"))  # deviation: M7


# --- what an engine records


calls: list[str] = []
broken: set[str] = set()


def expensive_compute(text: str) -> dict[str, Any]:
    calls.append("expensive")
    return {"computed": text}


def transform(result: dict[str, Any]) -> list[Any]:
    calls.append("transform")
    if "transform" in broken:
        raise RuntimeError("the lights went out")
    return sorted(result.items())


@workflow("long_running")
def long_running(data: str) -> Flow:
    result = yield step("expensive").python(expensive_compute, args=(data,)).checkpoint()
    return (yield step("transform").python(transform, args=(result,)))


@pytest.fixture(autouse=True)
def afresh() -> None:
    calls.clear()
    broken.clear()


async def follow(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


@pytest.mark.parametrize("kind", OURS)
def test_a_run_that_failed_is_seen_through_the_store_and_resumed(kind: str, tmp_path: Path) -> None:
    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        broken.add("transform")
        with pytest.raises(hf.StepFailedError, match="the lights went out"):
            await follow(engine.execute(long_running, workflow_id="run-123", data="input"))

        assert await store.list_checkpoints("run-123") == ["expensive"]
        saved = await store.load("run-123", "expensive")
        assert saved is not None
        assert saved == await store.load_latest("run-123")
        assert (saved.checkpoint_id, saved.workflow_name) == ("expensive", "long_running")
        assert saved.inputs_hash == compute_inputs_hash({"data": "input"})
        (done,) = saved.step_results
        assert (done.name, done.step_type, done.success) == ("expensive", "python", True)
        assert done.output == {"computed": "input"}
        assert CheckpointData.from_dict(json.loads(json.dumps(saved.to_dict()))) == saved
        assert abs(datetime.now(UTC) - saved.saved_at) < timedelta(minutes=1)

        broken.clear()
        await follow(engine.resume(long_running, workflow_id="run-123", data="input"))
        assert calls == ["expensive", "transform", "transform"]
        assert await store.list_checkpoints("run-123") == ["expensive", "transform"]
        latest = await store.load_latest("run-123")
        assert latest is not None
        told = [(done.name, done.success, done.error) for done in latest.step_results]
        assert told == [("expensive", True, None), ("transform", True, None)]
        assert await store.load("run-123", "expensive") == saved
        await store.clear("run-123")
        assert await store.load_latest("run-123") is None

    keep(kind, tmp_path, check)


def test_every_step_is_a_checkpoint_unless_only_marked_ones_are_wanted() -> None:
    @workflow("three")
    def three() -> Flow:
        for name in ("a", "b", "c"):
            made = step(name).python(str, args=(name,))
            yield made.checkpoint() if name == "b" else made

    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        await follow(engine.execute(three, workflow_id="all"))
        assert await store.list_checkpoints("all") == ["a", "b", "c"]  # deviation: M8
        engine = WorkflowEngine(checkpoint_store=store, checkpoint_after="marked")
        await follow(engine.execute(three, workflow_id="marked"))
        assert await store.list_checkpoints("marked") == ["a", "b"]
        seen = await store.load_latest("marked")
        assert seen is not None
        assert seen.checkpoint_id == "b"

    keep("memory", Path(), check)


def test_steps_are_listed_by_the_names_that_the_workflow_gives_them() -> None:
    @workflow("several")
    def several() -> Flow:
        yield parallel(left=step("x").python(str), right=step("x").python(str))
        for n in range(3):
            yield step("again").python(str, args=(n,))
        yield for_each(["a", "b"], lambda item: step("50% / #1").python(str, args=(item,)))

    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        await follow(engine.execute(several, workflow_id="run"))
        names = await store.list_checkpoints("run")
        assert sorted(names) == ["50% / #1", "again", "x"]
        again = await store.load("run", "again")
        assert again is not None
        assert again.checkpoint_id == "again"
        assert again.step_results[-1].output == "2"  # deviation: M3
        assert [done.name for done in again.step_results][2:] == ["again"] * 3
        assert await store.load("run", "again#2") is None
        latest = await store.load_latest("run")
        assert latest is not None
        assert [done.output for done in latest.step_results if done.name == "50% / #1"] == [
            "a",
            "b",
        ]
        assert engine.get_result("run").steps == latest.step_results

    keep("memory", Path(), check)


def test_after_going_back_what_was_left_behind_is_not_listed() -> None:
    async def check(store: StoreView) -> None:
        assert isinstance(store.checkpointer, hf.Checkpointer)
        engine = WorkflowEngine(checkpoint_store=store)
        await follow(engine.execute(long_running, workflow_id="run", data="x"))
        (first,) = await store.checkpointer.list_checkpoints("run", step="expensive")
        await store.checkpointer.rollback("run", seq=first.seq)
        assert await store.list_checkpoints("run") == ["expensive"]
        assert await store.load("run", "transform") is None
        fork = await store.checkpointer.fork("run", run_id="fork")
        assert fork.run_id == "fork"
        copy, original = await store.load_latest("fork"), await store.load_latest("run")
        assert copy is not None
        assert original is not None
        assert replace(copy, saved_at=original.saved_at) == original

    keep("memory", Path(), check)


def test_a_run_that_is_not_at_its_end_is_not_cleared() -> None:
    refused: list[str] = []

    async def check(store: StoreView) -> None:
        async def clear() -> None:
            try:
                await store.clear("run")
            except hf.RunActiveError as error:
                refused.append(error.status)

        @workflow("clears itself")
        def clears_itself() -> Flow:
            yield step("clear").python(clear)

        engine = WorkflowEngine(checkpoint_store=store)
        await follow(engine.execute(clears_itself, workflow_id="run"))
        assert refused == ["running"]  # deviation: M6
        await store.clear("run")
        assert await store.list_checkpoints("run") == []

    keep("memory", Path(), check)


def test_the_inputs_hash_is_whole_and_the_same_for_equal_inputs() -> None:
    one = compute_inputs_hash({"data": "input", "n": 1})
    assert one == compute_inputs_hash({"n": 1, "data": "input"})
    assert len(one) == 64  # deviation: M2
    different: list[Any] = [{"n": "1"}, {"n": 1.0}, {"n": True}, {"n": [1]}, {"n": (1,)}]
    assert len({compute_inputs_hash({"data": "input", **other}) for other in different}) == 5
    with pytest.raises(hf.SerializeError, match=r"inputs\.client"):
        compute_inputs_hash({"client": object()})


def test_resuming_with_other_inputs_is_refused_and_without_any_takes_the_recorded_ones() -> None:
    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        broken.add("transform")
        with pytest.raises(hf.StepFailedError):
            await follow(engine.execute(long_running, workflow_id="run-123", data="input"))
        broken.clear()
        with pytest.raises(hf.InputMismatchError) as caught:
            await follow(engine.resume(long_running, workflow_id="run-123", data="other"))
        assert caught.value.expected_hash == compute_inputs_hash({"data": "input"})
        assert caught.value.actual_hash == compute_inputs_hash({"data": "other"})
        assert calls == ["expensive", "transform"]
        await follow(engine.resume(long_running, workflow_id="run-123"))  # deviation: M14
        assert calls == ["expensive", "transform", "transform"]

    keep("memory", Path(), check)


def test_a_checkpoint_saved_by_hand_is_no_run_to_resume() -> None:
    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        await store.save("run-123", CheckpointData.from_dict(GOLDEN))
        with pytest.raises(hf.FlowChangedError, match="not started by a flow"):  # deviation: M12
            await follow(engine.resume(long_running, workflow_id="run-123", data="input"))
        with pytest.raises(hf.RunExistsError):
            await follow(engine.execute(long_running, workflow_id="run-123", data="input"))
        assert calls == []

    keep("memory", Path(), check)


def test_the_engine_takes_stores_of_ours_only() -> None:
    async def check(store: Any) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        with pytest.raises(TypeError, match="a store is given as"):  # deviation: M11
            await follow(engine.execute(long_running, data="input"))

    keep("document's memory", Path(), check)


# --- the examples


def test_the_basic_example_runs_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    functions = {"expensive_compute": expensive_compute, "transform": transform}
    with pytest.raises(hf.CheckpointNotFoundError, match="run-123"):  # nobody started it yet
        run_example(maverick.BASIC, **functions)
    assert calls == ["expensive", "transform"]
    calls.clear()

    # The run it is about: started with its workflow, and failed partway.
    first_part = maverick.BASIC.partition("# Resume")[0]
    named = first_part.replace("long_running, data", 'long_running, workflow_id="run-123", data')
    broken.add("transform")
    with pytest.raises(hf.StepFailedError):
        run_example(named, **functions)
    broken.clear()
    calls.clear()
    capsys.readouterr()
    run_example(maverick.BASIC, **functions)
    assert calls == ["expensive", "transform", "transform"]
    first, second = capsys.readouterr().out.split("RunStarted(")[1:]
    assert "resumed=False" in first
    assert "resumed=True" in second
    assert "run_id='run-123'" in second
    assert "StepCompleted(run_id='run-123', step='transform'" in second
    assert "step='expensive'" not in second
    gc.collect()  # what the example leaves open closes itself


def test_the_custom_store_example_runs_and_touches_nothing() -> None:
    before = Path("/var/maverick").exists()
    names = run_example(maverick.CUSTOM)
    assert isinstance(names["store"], CheckpointStore)
    assert Path("/var/maverick").exists() == before


def test_our_errors_carry_what_the_documents_carry() -> None:
    theirs = run_example(maverick.ERRORS)
    mismatch = theirs["InputMismatchError"]("aa", "bb")
    ours = hf.InputMismatchError("aa", "bb")
    assert (ours.expected_hash, ours.actual_hash) == (mismatch.expected_hash, mismatch.actual_hash)
    missing = theirs["CheckpointNotFoundError"]("run-123", "fetch")
    not_found = CheckpointNotFoundError("run-123", "fetch")
    assert not_found.workflow_id == missing.workflow_id
    assert not_found.checkpoint_id == missing.checkpoint_id
    assert str(not_found) != str(missing)  # deviation: M10


def test_a_workflow_that_is_not_there_is_named_by_the_error() -> None:
    async def check(store: StoreView) -> None:
        engine = WorkflowEngine(checkpoint_store=store)
        with pytest.raises(CheckpointNotFoundError) as caught:
            await follow(engine.resume(long_running, workflow_id="nobody", data="input"))
        assert caught.value.workflow_id == "nobody"
        assert isinstance(caught.value, hf.CheckpointNotFoundError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), again.workflow_id) == (CheckpointNotFoundError, "nobody")
        with pytest.raises(CheckpointNotFoundError, match="nobody"):
            engine.get_result("nobody")

    keep("memory", Path(), check)
