"""Calls that are given one store share a checkpointer, which goes when the store goes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any
from unittest.mock import patch

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.kernel.core import Core


def _app() -> Any:
    async def add(state: dict[str, int]) -> dict[str, int]:
        return {"n": state["n"] + 1}

    return Graph(dict).add_node("add", add).add_edge("add", END).set_entry("add").compile()


def _state(store: hf.Store, run: str) -> Any:
    with hf.SyncCheckpointer(store) as cp:
        found = cp.load(run)
    assert found is not None
    return found.state


def test_many_runs_on_one_store_open_it_once() -> None:
    store, app = hf.open_store("memory://"), _app()
    made: list[Core] = []
    plain = Core.__init__

    def noting(self: Core, *given: Any, **more: Any) -> None:
        made.append(self)
        plain(self, *given, **more)

    with patch.object(Core, "__init__", noting):
        for number in range(3):
            found = asyncio.run(app.run({"n": number}, store=store, run_id=f"r{number}"))
            assert found == {"n": number + 1}
        assert app.run_sync({"n": 5}, store=store, run_id="r5") == {"n": 6}
    assert len(made) == 1
    assert [_state(store, f"r{n}") for n in (0, 1, 2, 5)] == [{"n": n} for n in (1, 2, 3, 6)]
    store.close()


def test_two_stores_share_nothing() -> None:
    stores, app = [hf.open_store("memory://") for _ in range(2)], _app()
    for number, store in enumerate(stores):
        app.run_sync({"n": number}, store=store, run_id="r")
    for number, store in enumerate(stores):
        assert _state(store, "r") == {"n": number + 1}
        store.close()


def test_a_store_that_nobody_uses_any_more_is_collected() -> None:
    store = hf.open_store("memory://")
    _app().run_sync({"n": 0}, store=store, run_id="r")
    seen = weakref.ref(store)
    del store
    gc.collect()
    assert seen() is None
