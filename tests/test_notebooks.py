"""What notebooks show: nothing of it is markup of anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.people.questions import Question
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline

HOSTILE = "</text></title><script>alert('1')</script><img src=x onerror=\"alert(1)\">&amp;\x1b[2J"
ALLOWED = frozenset(["div", "b", "table", "tr", "td", "th", "pre", "svg", "g", "title", "rect"])
ALLOWED_IN_SVG = frozenset(["text", "path"])


class Page(HTMLParser):
    """Parses what is shown, and refuses what nobody should find there."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(shown)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED | ALLOWED_IN_SVG
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("href", "src")
            assert "url(" not in (value or "")
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> str:
    page = value._repr_html_()
    assert page.replace("\n", "").isprintable()
    return Page(page).text


@pytest.fixture
def cp() -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run<b>", {"n": 1, HOSTILE: HOSTILE}, step=HOSTILE.replace("\x1b", ""), owner="a&b")
        cp.save("run<b>", {"n": 2, "rows": [1]}, step="s2", metadata={"a": HOSTILE})
        yield cp


def test_a_checkpoint_shows_its_facts_and_its_state(cp: hf.SyncCheckpointer) -> None:
    first = cp.load("run<b>", seq=1)
    text = shown(first)
    assert "run<b>@1" in text
    assert "a&b" in text
    assert "<script>alert(" in text, "as text"
    assert '"n": 2' in shown(cp.load("run<b>"))
    assert '"n": 2' not in shown(cp.list_checkpoints("run<b>")[0])


def test_a_large_state_is_not_shown(cp: hf.SyncCheckpointer) -> None:
    text = shown(cp.save("large", ["x" * 2_000_000]))
    assert "its state takes 2,000,0" in text
    assert len(shown(cp.save("long", list(range(10_000))))) < 3000


def test_a_run_an_integrity_report_and_a_diff_are_shown(cp: hf.SyncCheckpointer) -> None:
    run = cp.run("run<b>")
    assert "run<b>" in shown(run)
    assert "proved" in shown(cp.verify("run<b>"))
    text = shown(cp.diff("run<b>", 1, 2))
    assert "run<b>@1 → run<b>@2" in text
    assert "rows" in text
    assert "no difference" in shown(cp.diff("run<b>", 2, 2))


def test_a_question_is_shown_with_what_its_reader_may_see() -> None:
    asked = Question(
        "run", HOSTILE, HOSTILE, {}, datetime(2026, 1, 1, tzinfo=UTC), ("yes", "<no>"), ("ann",),
        shown={"text": HOSTILE},
    )  # fmt: skip
    text = shown(asked)
    assert "yes, <no>" in text
    assert "<script>alert(" in text


def graph(*names: str) -> Any:
    built = Graph(dict, name="g<b>")
    for name in names:
        built = built.add_node(name, lambda state: state)
    for one, other in zip(names, [*names[1:], END], strict=True):
        built = built.add_conditional_edge(one, lambda s: "on", {"on": other, "back <i>": names[0]})
    return built.set_entry(names[0]).compile()


def pipeline(*names: str) -> Any:
    steps = [{"id": name, "function": print} for name in names]
    ways = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    return Pipeline(steps, {"start_at": names[0], "paths": ways}, name="p<b>")


@pytest.mark.parametrize(("make", "last"), [(graph, "x<script>"), (pipeline, "publish")])
def test_a_flow_is_drawn_without_anything_from_elsewhere(
    make: Callable[..., Any], last: str
) -> None:
    names = ["model", "tools", "a-name-that-is-longer-than-its-box", last]
    flow = make(*names)
    text = shown(flow)
    assert all(name in text for name in names), "the whole name is a tooltip"
    assert "start" in text
    assert flow._repr_mimebundle_()["text/html"] == flow._repr_html_()


def test_a_large_graph_is_drawn_in_part() -> None:
    assert shown(graph(*(f"n{i}" for i in range(1500)))).count("n1499") == 0


def test_a_value_that_is_only_in_memory_is_shown_by_its_type() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("never")

    asked = Question("r", "k", "p", {}, datetime(2026, 1, 1, tzinfo=UTC), shown=[Odd()])
    assert "list" in shown(asked)
