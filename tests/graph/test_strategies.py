"""After which nodes a checkpoint is saved, and what happens when saving fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.events import CheckpointFailed, CheckpointSaved, StepStarted
from holdfast.graph import END, CheckpointStrategy, CompiledGraph, Graph
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from tests.graph.flows import Calls, State, run
from tests.graph.test_forks import forked

EVERY_NODE, ON_SUCCESS, ON_ERROR, MARKED = CheckpointStrategy


def marked(calls: Calls) -> CompiledGraph[State]:
    """Four nodes, of which the second is marked."""
    graph = Graph(State)
    for name in "abcd":
        graph.add_node(name, calls.node(name), checkpoint=name == "b", inline=True)
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", "d").add_edge("d", END)
    return graph.set_entry("a").compile()


def listed(cp: hf.SyncCheckpointer) -> list[tuple[str | None, str]]:
    found = cp.list_checkpoints("run", oldest_first=True)
    return [(info.step, info.status) for info in found]


DONE = [(name, "completed") for name in "abcd"]


@pytest.mark.parametrize(
    ("strategy", "saved"),
    [(EVERY_NODE, DONE), (ON_SUCCESS, DONE), (ON_ERROR, []), (MARKED, [DONE[1]])],
)
def test_what_is_listed_of_a_run_that_went_well(
    strategy: CheckpointStrategy, saved: list[Any], cp: hf.SyncCheckpointer
) -> None:
    app = marked(Calls())
    final = run(app.run(State(), store=cp, run_id="run", checkpoint_after=strategy))
    assert final.log == list("abcd")
    assert listed(cp) == saved
    info = cp.run("run")
    assert info is not None
    assert info.status == "completed"


@pytest.mark.parametrize(
    ("strategy", "saved", "again"),
    [
        (EVERY_NODE, [*DONE[:2], ("c", "failed")], ""),
        (ON_SUCCESS, DONE[:2], ""),
        (ON_ERROR, [("c", "failed")], ""),
        (MARKED, [DONE[1]], ""),
    ],
)
def test_what_is_listed_of_a_run_that_failed_and_where_it_continues(
    strategy: CheckpointStrategy, saved: list[Any], again: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    calls.failing.add("c")
    app = marked(calls)
    with pytest.raises(hf.StepFailedError, match="c is broken") as caught:
        run(app.run(State(), store=cp, run_id="run", checkpoint_after=strategy))
    assert caught.value.state == State(2, ["a", "b"])
    assert listed(cp) == saved
    calls.failing.clear()
    calls.clear()
    assert run(app.resume("run", store=cp, checkpoint_after=strategy)).log == list("abcd")
    assert "".join(calls) == again + "cd"


@pytest.mark.parametrize(
    ("strategy", "again"),
    [(EVERY_NODE, "d"), (ON_SUCCESS, "d"), (ON_ERROR, "abcd"), (MARKED, "cd")],
)
def test_what_a_crash_repeats(
    strategy: CheckpointStrategy, again: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    app = marked(calls)

    async def crash() -> None:
        where: dict[str, Any] = {"store": cp, "run_id": "run", "checkpoint_after": strategy}
        async with app.stream(State(), **where) as events:
            async for event in events:
                if isinstance(event, StepStarted) and event.name == "d":
                    break

    run(crash())
    info = cp.run("run")
    assert info is not None
    assert info.status == "running", "an unfinished run is always known"
    calls.clear()
    assert run(app.resume("run", store=cp)).log == list("abcd")
    assert "".join(calls) == again


@pytest.mark.parametrize("strategy", [ON_ERROR, MARKED])
def test_branches_held_back_are_saved_with_what_needs_them(
    strategy: CheckpointStrategy, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    calls.failing.add("c")
    app = forked(calls, "ab bd ac cd d.").compile()
    with pytest.raises(hf.StepFailedError):
        run(app.run(State(), store=cp, run_id="run", checkpoint_after=strategy))
    calls.failing.clear()
    calls.clear()
    assert run(app.resume("run", store=cp, checkpoint_after=strategy)).log == list("abcd")
    assert calls == {"c": 1, "d": 1}, "a run that fails saves what it has"


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_a_run_may_be_ahead_of_its_store(durability: Any, url: str) -> None:
    calls = Calls()
    with hf.SyncCheckpointer(url, durability=durability) as cp:
        app = calls.line("abcd").compile()
        assert run(app.run(State(), store=cp, run_id="run")).n == 4
        current = cp.load("run", as_type=State)
        assert current is not None
        assert current.state.log == list("abcd")
        calls.failing.add("c")
        with pytest.raises(hf.StepFailedError):
            run(app.run(State(), store=cp, run_id="failing"))
        calls.failing.clear()
        assert run(app.resume("failing", store=cp)).log == list("abcd")
        assert calls == {"a": 2, "b": 2, "c": 3, "d": 2}


# --- a store that fails for a while


class Flaky(SQLiteStore):
    """Takes nothing while it is down."""

    down = False

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.down:
            raise hf.StoreUnavailableError(self.url, "down")
        return super().append(entries, behind)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Flaky]:
    with closing(Flaky(tmp_path / "runs.db")) as made:
        yield made


def flaky(store: Flaky, calls: Calls, down: str) -> CompiledGraph[State]:
    """A line of nodes; the store is down while those named run."""

    def node(name: str) -> Any:
        async def fn(state: State) -> State:
            store.down = name in down
            return calls.node(name)(state)

        return fn

    graph = Graph(State)
    for source, target in zip("abcd", [*"bcd", END], strict=True):
        graph.add_node(source, node(source)).add_edge(source, target)
    return graph.set_entry("a").compile()


def test_a_run_stops_when_it_cannot_be_saved_and_resumes_later(store: Flaky) -> None:
    calls = Calls()
    with hf.SyncCheckpointer(store, deadline=0.5) as cp:
        app = flaky(store, calls, "b")
        with pytest.raises(hf.CheckpointSaveError, match="down"):
            run(app.run(State(), store=cp, run_id="run"))
        store.down = False
        assert run(flaky(store, calls, "").resume("run", store=cp)).log == list("abcd")
        assert calls == {"a": 1, "b": 2, "c": 1, "d": 1}


def test_a_run_may_continue_while_it_cannot_be_saved_and_says_so(
    store: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    with hf.SyncCheckpointer(store, deadline=0.5) as cp:
        app = flaky(store, calls, "bc")
        failed, saved = [], []

        async def main() -> None:
            stream = app.stream(State(), store=cp, run_id="run", checkpoint_failure_fatal=False)
            async for event in stream:
                if isinstance(event, CheckpointFailed):
                    failed.append(event.step)
                    assert cp.degraded is not None
                elif isinstance(event, CheckpointSaved):
                    saved.append(event.step)

        with caplog.at_level(logging.WARNING, "holdfast"):
            run(main())
        assert (failed, saved) == (["b", "c"], ["a", "b", "c", "d"])
        assert "continues without its checkpoint" in caplog.text
        assert cp.degraded is None, "it could be saved in the end"
        assert listed(cp) == DONE
        assert cp.verify("run").ok


def test_a_run_that_could_not_be_saved_to_the_end_still_has_its_result(store: Flaky) -> None:
    calls = Calls()
    with hf.SyncCheckpointer(store, deadline=0.5, on_save_failure="warn") as cp:
        with pytest.warns(hf.UnsavedWarning, match="'run' completed, but"):
            final = run(flaky(store, calls, "cd").run(State(), store=cp, run_id="run"))
        assert final.log == list("abcd")
        assert cp.degraded is not None
        store.down = False
        assert listed(cp) == DONE[:2]
        assert run(flaky(store, calls, "").resume("run", store=cp)).log == list("abcd")


def test_a_run_that_cannot_be_opened_is_not_run(store: Flaky) -> None:
    calls = Calls()
    store.down = True
    with hf.SyncCheckpointer(store, deadline=0.5) as cp:
        app = calls.line("ab").compile()
        with pytest.raises(hf.CheckpointSaveError):
            run(app.run(State(), store=cp, run_id="run", checkpoint_failure_fatal=False))
        assert not calls
        store.down = False


def test_many_runs_at_once_on_one_store(cp: hf.SyncCheckpointer) -> None:
    app = Calls().line("abcd").compile()

    async def main() -> list[State]:
        return await asyncio.gather(
            *(app.run(State(n), store=cp, run_id=f"run-{n}") for n in range(100))
        )

    assert [state.n for state in run(main())] == list(range(4, 104))
    assert len(cp.runs(status="completed")) == 100
