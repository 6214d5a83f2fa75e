"""Each message says what to do next; here somebody does it, and it helps."""

from __future__ import annotations

import inspect
import math
import re
import shlex
import sqlite3
from collections import UserDict
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.evidence import EvidencePack
from holdfast.graph import END, CompiledGraph, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import ask, step, workflow
from tests.cli.conftest import Cli
from tests.engine.test_recovering import in_loop

ATTEMPTS: dict[str, int] = {}


def advice(error: BaseException, *parts: str) -> str:
    """The message, which has these words of advice."""
    for part in parts:
        assert part in str(error)
    return str(error)


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ATTEMPTS.clear()


def once_broken() -> int:
    """Fails the first time."""
    ATTEMPTS["once"] = ATTEMPTS.get("once", 0) + 1
    if ATTEMPTS["once"] == 1:
        raise OSError("not yet")
    return 1


@workflow("report")
def report(topic: str) -> Generator[Any, Any, str]:
    yield step("write").python(once_broken)
    return topic


class Counted(TypedDict):
    n: int


def counting(**options: Any) -> CompiledGraph[Any]:
    def add(state: Counted) -> dict[str, int]:
        return {"n": state["n"] + 1}

    graph = Graph(Counted, name="counting")
    graph.add_node("add", add)
    graph.set_entry("add")
    graph.add_conditional_edge("add", lambda state: END if state["n"] >= 5 else "add")
    return graph.compile(**options)


# --- runs that are active


def test_an_active_run_is_deleted_with_force() -> None:
    with hf.SyncCheckpointer("runs.db") as cp, hf.Engine("runs.db") as engine:

        @workflow("asking")
        def asking() -> Generator[Any, Any, Any]:
            yield step("one").python(lambda: 1)
            return (yield ask("well?"))

        methods = [name for name in dir(cp) if name[0] != "_" and callable(getattr(cp, name))]
        methods = [name for name in methods if takes(getattr(cp, name), "force")]
        assert set(methods) >= {"delete", "prune", "clear", "forget"}
        for name in methods:
            cp.save(f"in-{name}", {"n": 1}, thread_id=name, status="paused")
            with pytest.raises(hf.RunPausedError):
                engine.run_sync(asking(), run_id=name)
            method = getattr(cp, name)
            options: dict[str, dict[str, Any]] = {
                "delete": {"seq": 1},
                "prune": {"keep_latest": 1},
                "forget": {"run_id": name},
            }
            arguments = options.get(name, {})
            given = () if name == "forget" else (name,)
            with pytest.raises(hf.RunActiveError) as refused:
                method(*given, **arguments)
            advice(refused.value, "pass force=True")
            method(*given, **arguments, force=True)


def takes(method: Callable[..., Any], parameter: str) -> bool:
    return parameter in inspect.signature(method).parameters


def test_a_run_that_another_process_executes_can_be_taken_over_by_every_kind_of_flow() -> None:
    advice(hf.RunActiveError("r", "running", "host:1"), "resume it with take_over=True")
    with pytest.raises(hf.LoopLimitError):
        counting(max_steps=2).run_sync({"n": 0}, store="runs.db", run_id="g")
    assert counting().resume_sync("g", store="runs.db", take_over=True) == {"n": 5}
    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(report(topic="kelp"), run_id="r")
        assert engine.resume_sync("r", take_over=True) == "kelp"
    ATTEMPTS.clear()
    pipeline = doubling()
    with pytest.raises(hf.StepFailedError):
        pipeline.run_sync({"n": 1}, "t")
    assert pipeline.resume_sync("t", take_over=True)["twice"] == 1


@pytest.mark.parametrize("close", [True, False])
@in_loop
async def test_a_run_of_this_process_ends_when_its_stream_is_closed_or_it_is_cancelled(
    close: bool,
) -> None:
    ATTEMPTS["once"] = 1
    async with hf.Engine("runs.db") as engine:
        stream = engine.stream(report(topic="kelp"), run_id="r")
        await anext(stream)
        with pytest.raises(hf.RunActiveError) as refused:
            await engine.run(report(topic="kelp"), run_id="r", resume=True, wait=False)
        advice(refused.value, "cancel it or close the stream of its events")
        if close:
            await stream.aclose()
            assert await engine.run(report(topic="kelp"), run_id="r", resume=True) == "kelp"
        else:
            await engine.cancel("r")
            async for _ in stream:
                pass
            assert result_of(engine.checkpointer.core, "r").status == "cancelled"


# --- inputs, ids and owners


def test_other_inputs_are_answered_by_resume_of_every_kind_of_flow() -> None:
    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(report(topic="kelp"), run_id="r")
        with pytest.raises(hf.InputMismatchError) as refused:
            engine.run_sync(report(topic="rock"), run_id="r", resume=True)
        advice(refused.value, "which uses the recorded inputs")
        assert engine.resume_sync("r") == "kelp"
    app = counting(max_steps=2)
    with pytest.raises(hf.LoopLimitError):
        app.run_sync({"n": 0}, store="runs.db", run_id="g")
    with pytest.raises(hf.InputMismatchError):
        counting().run_sync({"n": 3}, store="runs.db", run_id="g", resume=True)
    assert counting().resume_sync("g", store="runs.db") == {"n": 5}
    ATTEMPTS.clear()
    pipeline = doubling()
    with pytest.raises(hf.StepFailedError):
        pipeline.run_sync({"n": 1}, "t")
    with pytest.raises(hf.InputMismatchError):
        pipeline.run_sync({"n": 2}, "t", resume=True)
    assert pipeline.resume_sync("t")["twice"] == 1


def doubling(**changed: Any) -> Pipeline:
    definition: dict[str, Any] = {
        "name": "doubling",
        "steps": [{"id": "twice", "function": "twice"}],
        "flow": {"start_at": "twice", "paths": [{"from": "twice", "to": "end"}]},
    }
    functions = {"twice": lambda _: once_broken()}
    return Pipeline.from_dict(definition | changed, registry=functions, checkpointer="runs.db")


def test_a_run_keeps_its_owner_or_another_id_is_used() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("r", {"n": 1}, owner="ann")
        with pytest.raises(hf.RunMismatchError) as refused:
            cp.save("r", {"n": 2}, owner="bob")
        advice(refused.value, "leave its owner unchanged, or use another run id")
        cp.save("r", {"n": 2})
        cp.save("r2", {"n": 2}, owner="bob")


def test_an_id_that_is_taken_is_resumed_or_replaced() -> None:
    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(report(topic="kelp"), run_id="r")
        with pytest.raises(hf.RunExistsError) as refused:
            engine.run_sync(report(topic="kelp"), run_id="r")
        advice(refused.value, "resume it with resume=True, or choose another id")
        assert engine.run_sync(report(topic="kelp"), run_id="r2") == "kelp"
        assert engine.run_sync(report(topic="kelp"), run_id="r", resume=True) == "kelp"


def test_a_graph_is_given_the_id_or_the_store_that_it_misses() -> None:
    with pytest.raises(hf.RunIdRequiredError) as refused:
        counting().run_sync({"n": 0}, store="runs.db")
    assert re.findall(r"(\w+)=", advice(refused.value)) == ["run_id"]
    assert counting().run_sync({"n": 0}, store="runs.db", run_id="r") == {"n": 5}
    assert re.findall(r"(\w+)=", str(hf.StoreRequiredError("ask"))) == ["store", "run_id"]


def test_a_run_id_given_as_a_thread_is_resumed_as_a_run() -> None:
    pipeline = doubling()
    with pytest.raises(hf.StepFailedError):
        pipeline.run_sync({"n": 1}, "t")
    with hf.SyncCheckpointer("runs.db") as cp:
        (run,) = cp.thread("t")
    with pytest.raises(hf.ThreadNotFoundError) as refused:
        pipeline.resume_sync(run.run_id)
    advice(refused.value, "in thread 't'", "resume it with run_id=")
    assert pipeline.resume_sync(run_id=run.run_id)["twice"] == 1


# --- runs that stopped or ended


def test_a_finished_run_is_forked_or_rolled_back() -> None:
    @workflow("two")
    def two() -> Generator[Any, Any, Any]:
        yield step("one").python(lambda: 1)
        return (yield step("two").python(lambda: 2))

    with hf.Engine("runs.db") as engine, hf.SyncCheckpointer("runs.db") as cp:
        engine.run_sync(two(), run_id="r")
        with pytest.raises(hf.RunFinishedError) as refused:
            engine.cancel_sync("r")
        advice(refused.value, "fork it or roll it back", "or start a new run")
        forked = cp.fork("r", seq=1)
        assert engine.run_sync(two(), run_id=forked.run_id, resume=True) == 2
        cp.rollback("r", seq=1)
        assert engine.run_sync(two(), run_id="r", resume=True) == 2


def test_a_limit_is_raised_and_the_run_resumed() -> None:
    with pytest.raises(hf.LoopLimitError) as stopped:
        counting(max_steps=2).run_sync({"n": 0}, store="runs.db", run_id="r")
    (setting,) = re.findall(r"raise (\w+) and resume", advice(stopped.value))
    assert counting(**{setting: 100}).resume_sync("r", store="runs.db") == {"n": 5}


def looping(most: int, paths: list[dict[str, Any]]) -> Pipeline:
    definition = {
        "name": "looping",
        "steps": [{"id": "count", "function": "count"}],
        "flow": {"start_at": "count", "paths": paths},
        "loop_config": {"max_iterations": most},
    }

    def count(_: Any) -> int:
        ATTEMPTS["count"] = ATTEMPTS.get("count", 0) + 1
        return ATTEMPTS["count"]

    return Pipeline.from_dict(definition, registry={"count": count}, checkpointer="runs.db")


def compared(operator: str, value: int) -> dict[str, Any]:
    config = {"source": "count", "operator": operator, "value": value}
    return {"type": "expression", "config": config}


def test_a_path_without_a_condition_is_added_and_the_run_resumed() -> None:
    only = {"from": "count", "to": "end", "condition": compared("equals", 7)}
    with pytest.raises(hf.NoPathError) as stopped:
        looping(3, [only]).run_sync({}, "t")
    advice(stopped.value, "Add a last path without a condition, and resume it")
    mended = looping(3, [only, {"from": "count", "to": "end"}])
    assert mended.resume_sync("t").status == "completed"


def test_a_run_that_took_too_long_or_was_not_answered_is_resumed() -> None:
    @workflow("asking")
    def asking() -> Generator[Any, Any, Any]:
        return (yield ask("well?", deadline=datetime(2001, 1, 1, tzinfo=UTC)))

    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.RunPausedError) as paused:
            engine.run_sync(asking(), run_id="r")
        advice(paused.value, "answer it, then resume")
        with pytest.raises(hf.UnansweredError) as late:
            engine.run_sync(asking(), run_id="r", resume=True)
        advice(late.value, "resume the run to ask again")
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(), run_id="r", resume=True)


def test_a_question_is_answered_by_whom_and_as_the_error_says() -> None:
    @workflow("asking")
    def asking() -> Generator[Any, Any, Any]:
        return (yield ask("well?", assignees=["ann"]))

    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(), run_id="r")
        with pytest.raises(hf.QuestionError) as refused:
            engine.answer_sync("r", 1)
        (option,) = re.findall(r"say who answers with (\w+)=", advice(refused.value))
        options: dict[str, Any] = {option: "ann"}
        engine.answer_sync("r", 1, **options)
        assert engine.run_sync(asking(), run_id="r", resume=True) == 1
        assert takes(engine.answer_sync, "question")


# --- checkpoints and stores


def test_a_conflict_is_loaded_again_and_retried() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        first = cp.save("r", {"n": 1})
        cp.save("r", {"n": 2})
        with pytest.raises(hf.ConflictError) as refused:
            cp.save("r", {"n": 3}, expect=first)
        advice(refused.value, "load it again and retry")
        cp.save("r", {"n": 3}, expect=cp.load("r"))


def test_a_large_state_is_saved_with_a_higher_limit() -> None:
    with (
        hf.SyncCheckpointer("runs.db", max_state_bytes=100) as cp,
        pytest.raises(hf.StateTooLargeError) as refused,
    ):
        cp.save("r", {"text": "x" * 1000})
    (setting,) = re.findall(r"raise (\w+)", advice(refused.value))
    raised: dict[str, Any] = {setting: 10_000}
    with hf.SyncCheckpointer("runs.db", **raised) as cp:
        cp.save("r", {"text": "x" * 1000})


def test_a_closed_store_is_opened_again() -> None:
    cp = hf.SyncCheckpointer("runs.db")
    cp.save("r", {"n": 1})
    cp.close()
    with pytest.raises(hf.StoreClosedError) as refused:
        cp.save("r", {"n": 2})
    advice(refused.value, "open it again")
    with hf.SyncCheckpointer("runs.db") as cp:
        cp.save("r", {"n": 2})


def test_a_new_directory_is_named_as_the_error_says(tmp_path: Path) -> None:
    for given in ("new", Path("new")):
        with pytest.raises(hf.StoreURLError) as refused:
            hf.open_store(given)
        advice(refused.value, "a .db file", "an existing directory", "file:///absolute/path")
    Path("exists").mkdir()
    for better in (Path("x.db"), Path("exists"), f"file://{tmp_path}/one", "two/"):
        with hf.SyncCheckpointer(better) as cp:
            cp.save("r", {"n": 1})


def test_runs_that_were_not_copied_are_copied_elsewhere_or_deleted_there_first() -> None:
    with hf.SyncCheckpointer("here.db") as here, hf.SyncCheckpointer("there.db") as there:
        here.save("r", {"n": 1})
        there.save("r", {"n": 2})
        with pytest.raises(hf.CopyRefusedError) as refused:
            here.copy_to(there.store)
        advice(refused.value, "Copy them to another store", "delete them there and copy again")
        here.copy_to("third.db")
        there.clear("r")
        there.forget(run_id="r")


class Table:
    """As pandas and polars have them: iterating gives the names of the columns alone."""

    def __init__(self) -> None:
        self.columns = ["a", "b"]
        self.data = {"a": [1, 2], "b": [3, 4]}

    def __iter__(self) -> Any:
        return iter(self.columns)

    def __len__(self) -> int:
        return 2


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "said", "better"),
    [
        (math.sqrt, "keep its name in the state", "sqrt"),
        (Opaque, "keep its name", "Opaque"),
        (OSError("no"), "store its text, str(error)", str(OSError("no"))),
        (Path("a"), "store str(path)", str(Path("a"))),
        (UserDict(a=1), "store dict(...) of it", dict(UserDict(a=1))),
        ({1: 2}.values(), "store list(...) of it", list({1: 2}.values())),
        (Table(), "store its columns as a dict of lists", Table().data),
        (Opaque(), "store plain data, a dataclass or a pydantic model", vars(Opaque())),
    ],
)
def test_what_can_be_stored_instead_is_stored(value: object, said: str, better: object) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        with pytest.raises(hf.SerializeError) as refused:
            cp.save("r", {"value": value})
        advice(refused.value, said)
        saved = cp.save("r", {"value": better})
        assert saved.state == {"value": better}


def test_claims_that_fail_are_skipped_or_put_right() -> None:
    def write() -> Path:
        Path("out.txt").write_text("text")
        return Path("out.txt")

    @workflow("claiming")
    def claiming() -> Generator[Any, Any, int]:
        yield step("write").python(lambda: str(write())).outputs("out.txt")
        yield step("then").python(once_broken)
        return 1

    with hf.Engine("runs.db") as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(claiming(), run_id="r")
        unchecked = str(hf.VerificationError("r@1", (Unchecked(),)))
        for how in re.findall(r'trust="(\w+)"', unchecked):
            ATTEMPTS["once"] = 0
            with pytest.raises(hf.StepFailedError):
                engine.run_sync(claiming(), run_id=how)
            assert engine.run_sync(claiming(), run_id=how, resume=True, trust=how) == 1
        assert len(re.findall(r'trust="(\w+)"', unchecked)) == 2


class Unchecked:
    verification_status = "inconclusive"


def test_a_step_that_was_not_begun_is_found_among_those_in_flight() -> None:
    with hf.CheckpointManager("runs.db") as manager:
        with pytest.raises(hf.StepNotFoundError) as refused:
            manager.commit_step(
                "nothing@3",
                EvidencePack([hf.Evidence("artifact_exists", "it is there", {"path": "x.txt"})]),
            )
        advice(refused.value, "begin_step", "steps_in_flight()")
        begun = manager.begin_step("task", "manual_checkpoint", {"n": 1})
        assert [one.step_id for one in manager.steps_in_flight()] == [begun]


# --- damage


def damage(path: str, run: str, seq: int) -> None:
    db = sqlite3.connect(path)
    (body,) = db.execute(
        "SELECT body FROM holdfast_entries WHERE run = ? AND seq = ?", (run, seq)
    ).fetchone()
    broken = body[:-1] + bytes([body[-1] ^ 0xFF])
    db.execute("UPDATE holdfast_entries SET body = ? WHERE run = ? AND seq = ?", (broken, run, seq))
    db.commit()
    db.close()


@pytest.mark.parametrize("seq", [0, 1, 2, 4])
@pytest.mark.parametrize("flow", [True, False])
def test_doctor_offers_what_works_for_a_damaged_run(cli: Cli, seq: int, flow: bool) -> None:
    @workflow("count")
    def count() -> Generator[Any, Any, int]:
        for n in range(4):
            yield step("add").python(lambda n: n, args=(n,))
        return 4

    if flow:
        with hf.Engine("runs.db") as engine:
            engine.run_sync(count(), run_id="r")
    else:
        with hf.SyncCheckpointer("runs.db") as cp:
            for n in range(4):
                cp.save("r", {"n": n, "text": "x" * 500}, step=f"s{n}")
    damage("runs.db", "r", seq)
    (found,) = [
        finding
        for finding in cli("doctor", "--store", "runs.db", "--json").json["findings"]
        if finding["what"] == "damage"
    ]
    command = shlex.split(found["advice"].partition(": ")[2])
    assert command[0] == "holdfast"
    done = cli(*command[1:], *(["--yes"] if command[1] in ("delete", "forget") else []))
    assert done.code == 0, (found, done)


def test_the_error_of_a_damaged_checkpoint_says_how_to_go_back(cli: Cli) -> None:
    with hf.SyncCheckpointer("runs.db") as cp:
        cp.save("r", {"n": 1})
        cp.save("r", {"n": 2})
    damage("runs.db", "r", 2)
    with (
        hf.SyncCheckpointer("runs.db") as cp,
        pytest.raises(hf.CheckpointCorruptedError) as refused,
    ):
        cp.load("r")
    advice(refused.value, "`holdfast show r`", "`holdfast rollback r SEQ`")
    assert "damaged: its checksum" in cli("show", "r", "--store", "runs.db").out
    assert cli("rollback", "r", "1", "--store", "runs.db").code == 0
    with hf.SyncCheckpointer("runs.db") as cp:
        assert cp.load("r").state == {"n": 1}  # type: ignore[union-attr]
