from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph


@dataclass
class Job:
    done: int = 0
    notify: Callable[..., object] = field(default=print, metadata=hf.NOT_SAVED)
    cache: dict[str, object] = field(default_factory=dict, init=False, metadata=hf.NOT_SAVED)
    title: str = field(default="", metadata={"holdfast": "anything else", "other": 1})


def test_a_field_that_is_marked_is_not_stored_and_has_its_default_again(
    cp: hf.SyncCheckpointer,
) -> None:
    job = Job(7, notify=lambda: None, title="a")
    job.cache["open"] = open
    cp.save("run", {"jobs": [job]})
    loaded = cp.load("run")
    assert loaded is not None
    assert loaded.state == {"jobs": [{"done": 7, "title": "a"}]}
    typed = cp.load("run", as_type=dict[str, list[Job]])
    assert typed is not None
    assert typed.state == {"jobs": [Job(7, title="a")]}
    assert job.cache == {"open": open}  # the caller's own is left alone


def test_what_was_stored_before_the_field_was_marked_is_dropped(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", {"done": 1, "notify": "was a name once", "title": ""})
    loaded = cp.load("run", as_type=Job)
    assert loaded is not None
    assert loaded.state == Job(1)


def test_a_union_knows_a_class_by_the_fields_that_are_stored(cp: hf.SyncCheckpointer) -> None:
    @dataclass
    class Other:
        done: int = 0
        title: str = ""
        more: int = 0

    cp.save("run", Job(2))
    loaded = cp.load("run", as_type=Other | Job)
    assert loaded is not None
    assert loaded.state == Job(2)


def test_a_marked_field_without_a_default_is_refused(cp: hf.SyncCheckpointer) -> None:
    @dataclass
    class Client:
        socket: object = field(metadata=hf.NOT_SAVED)

    with pytest.raises(hf.SerializeError, match=r"Client\.socket is marked .* needs a default"):
        cp.save("run", [Client(1)])
    assert cp.load("run") is None


@pytest.mark.parametrize("store", ["memory://", None])
def test_each_node_of_a_graph_gets_the_default_before_and_after_a_resume(store: Any) -> None:
    seen: list[bool] = []

    def work(job: Job) -> Job:
        seen.append(job.notify is print)
        job.notify = len
        job.done += 1
        return job

    graph = Graph(Job).add_node("a", work).add_node("b", work).add_node("c", work)
    app = graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).set_entry("a").compile()
    options = {} if store is None else {"store": store, "run_id": "run"}
    assert app.run_sync(Job(), **options) == Job(3)
    assert seen == [True] * 3
