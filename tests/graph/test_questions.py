"""Graphs that ask people: the run waits at the node, and the answer changes the state."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.graph import END, FAIL, Approval, CompiledGraph, Graph, merge_changes
from tests import forks
from tests.faults import FakeClock

HOUR = 3600.0


@dataclass
class Article:
    title: str = ""
    words: int = 0
    salary: int = 5000  # nobody else's business
    review: Approval | None = None
    log: list[str] = field(default_factory=list)


def draft(state: Article) -> dict[str, Any]:
    return {"title": f"Draft {len(state.log) + 1}", "words": 10}


def note(state: Article) -> dict[str, Any]:
    return {"log": [*state.log, f"{state.title}: {state.review}"]}


def _route(state: Article) -> str:
    return "publish" if state.review and state.review.approved else "draft"


def _articles(**options: Any) -> CompiledGraph[Article]:
    """Written until someone approves."""
    return (
        Graph(Article, name="articles")
        .add_node("draft", draft)
        .add_question(
            "review", lambda state: f"Publish {state.title!r}?", into="review", returns=Approval,
            show=["title", "words"], **options,
        )
        .add_node("publish", note)
        .add_edge("draft", "review")
        .add_conditional_edge("review", _again, ["draft", "publish"])
        .add_edge("publish", END)
        .set_entry("draft")
        .compile()
    )  # fmt: skip


def _again(state: Article) -> str:
    state.log.append("seen")  # a copy of its own
    return _route(state)


async def _paused(app: CompiledGraph[Any], state: Any, cp: hf.Checkpointer) -> None:
    with pytest.raises(hf.RunPausedError):
        await app.run(state, store=cp, run_id="r")


def _with(url: str, main: Callable[[hf.Checkpointer], Any], **options: Any) -> None:
    async def run() -> None:
        async with hf.Checkpointer(url, **options) as cp:
            await main(cp)

    asyncio.run(run())


def test_a_node_asks_and_the_answer_goes_into_the_state(url: str) -> None:
    app = _articles(assignees=["ann"])

    async def main(cp: hf.Checkpointer) -> None:
        await _paused(app, Article(), cp)
        (asked,) = await app.questions("r", store=cp)
        assert asked.prompt == "Publish 'Draft 1'?"
        assert asked.shown == {"title": "Draft 1", "words": 10}, "and nothing else of the state"
        with pytest.raises(hf.RunPausedError):
            await app.resume("r", store=cp)
        with pytest.raises(hf.QuestionError, match="not for 'bob'"):
            await app.answer("r", Approval(True), store=cp, by="bob")
        await app.answer("r", {"approved": False, "comment": "longer"}, store=cp, by="ann")
        with pytest.raises(hf.QuestionError, match="by 'ann'"):
            await app.answer("r", {"approved": True}, store=cp, by="ann")
        with pytest.raises(hf.RunPausedError, match="review#2"):
            await app.resume("r", store=cp)
        await app.answer("r", {"approved": True}, store=cp, question="review#2", by="ann")
        final = await app.resume("r", store=cp)
        assert final.review == Approval(True)
        assert final.log == ["Draft 1: Approval(approved=True, comment='')"]
        steps = [c.step for c in await app.checkpoints("r", store=cp)]
        assert steps[::-1] == ["draft", "review", "draft", "review", "publish"]

    _with(url, main)


def test_people_edit_the_declared_fields_and_no_others(url: str) -> None:
    app = (
        Graph(Article)
        .add_node("draft", draft)
        .add_question("polish", "Better words?", edit=["title", "words"])
        .add_edge("draft", "polish")
        .add_edge("polish", END)
        .set_entry("draft")
        .compile()
    )

    async def main(cp: hf.Checkpointer) -> None:
        await _paused(app, Article(), cp)
        (asked,) = await app.questions("r", store=cp)
        assert asked.shown == {"title": "Draft 1", "words": 10}
        for wrong in ({"salary": 9}, {"title": 3}, {"words": "many"}, ["title"]):
            with pytest.raises(hf.InvalidAnswerError):
                await app.answer("r", wrong, store=cp)
        await app.answer("r", {"title": "Kelp"}, store=cp)
        assert await app.resume("r", store=cp) == Article("Kelp", 10)

    _with(url, main)


def test_each_branch_waits_for_its_own_answer(url: str) -> None:
    app = (
        Graph(dict, merge=merge_changes)
        .add_node("start", lambda state: None)
        .add_question("legal", "Legal?", into="legal", returns=bool)
        .add_question("price", "How much?", into=lambda state, n: {"price": n * 2}, returns=int)
        .add_node("slow", lambda state: {"slow": True})
        .add_node("end", lambda state: None)
        .add_edge("start", "legal").add_edge("start", "price").add_edge("start", "slow")
        .add_edge("legal", "end").add_edge("price", "end").add_edge("slow", "end")
        .add_edge("end", END).set_entry("start").compile()
    )  # fmt: skip

    async def main(cp: hf.Checkpointer) -> None:
        await _paused(app, {}, cp)
        legal, price = await app.questions("r", store=cp)
        assert (legal.prompt, price.prompt) == ("Legal?", "How much?")
        await app.answer("r", 21, store=cp, question=price.key)
        with pytest.raises(hf.RunPausedError):
            await app.resume("r", store=cp)
        assert await app.questions("r", store=cp) == [legal]
        await app.answer("r", True, store=cp)
        assert await app.resume("r", store=cp) == {"legal": True, "price": 42, "slow": True}

    _with(url, main)


def test_an_answer_does_not_revive_a_run_that_failed_and_counts_when_it_is_resumed(
    url: str,
) -> None:
    broken = True

    def work(state: dict[str, Any]) -> dict[str, Any]:
        if broken:
            raise OSError("no network")
        return {"work": True}

    app = (
        Graph(dict, merge=merge_changes)
        .add_node("start", lambda state: None)
        .add_question("legal", "Legal?", into="legal", returns=bool)
        .add_node("work", work)
        .add_edge("start", "legal").add_edge("start", "work")
        .add_edge("legal", END).add_edge("work", END).set_entry("start").compile()
    )  # fmt: skip

    async def main(cp: hf.Checkpointer) -> None:
        nonlocal broken
        with pytest.raises(hf.StepFailedError):
            await app.run({}, store=cp, run_id="r")
        await app.answer("r", True, store=cp)
        info = await cp.run("r")
        assert info is not None
        assert info.status == "failed"
        broken = False
        assert await app.resume("r", store=cp) == {"legal": True, "work": True}

    _with(url, main)


@pytest.mark.parametrize("default", [{"approved": True, "comment": ""}, FAIL])
def test_a_deadline_is_applied_by_whoever_resumes(url: str, default: Any) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 5, tzinfo=UTC)))
    app = _articles(deadline=HOUR, default=default)

    async def main(cp: hf.Checkpointer) -> None:
        await _paused(app, Article(), cp)
        clock.advance(HOUR)
        if default is FAIL:
            with pytest.raises(hf.UnansweredError):
                await app.resume("r", store=cp)
            with pytest.raises(hf.RunPausedError):
                await app.resume("r", store=cp)
            (asked,) = await app.questions("r", store=cp)
            assert not asked.is_overdue(datetime(2026, 1, 5, 1, tzinfo=UTC))
            await app.answer("r", Approval(True), store=cp)
        final = await app.resume("r", store=cp)
        assert final.review == Approval(True)

    _with(url, main, clock=clock)


def test_going_back_and_editing_the_state_ask_anew(url: str) -> None:
    app = _articles()

    async def main(cp: hf.Checkpointer) -> None:
        await _paused(app, Article(), cp)
        with pytest.raises(hf.RunPausedError):
            await app.resume("r", store=cp, override={"title": "Mine"})
        (asked,) = await app.questions("r", store=cp)
        assert asked.prompt == "Publish 'Mine'?"
        await app.answer("r", Approval(True), store=cp)
        assert (await app.resume("r", store=cp)).title == "Mine"
        with pytest.raises(hf.RunPausedError):
            await app.resume("r", store=cp, from_node="review")
        assert len(await app.questions("r", store=cp)) == 1
        with pytest.raises(ValueError, match="asks people"):
            await app.replay("r", "review", store=cp)

    _with(url, main)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"into": "title", "edit": ["title"]},
        {"edit": "title"},
        {"into": "title", "show": "title"},
        {"into": "title", "default": 1},
        {"into": "title", "assignees": "ann"},
        {"into": "title", "assignees": []},
    ],
)
def test_a_question_that_makes_no_sense_is_refused_when_it_is_added(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Graph(Article).add_question("review", "Well?", **wrong)


def _asking(state: Any, **options: Any) -> CompiledGraph[Any]:
    graph: Graph[Any] = Graph(state)
    return graph.add_question("q", "Well?", **options).add_edge("q", END).set_entry("q").compile()


class Typed(TypedDict):
    title: str


class Model(BaseModel):
    title: str = ""


@pytest.mark.parametrize("state", [Article, Typed, Model])
@pytest.mark.parametrize(
    "options",
    [
        {"into": "titel"},
        {"edit": ["titel"]},
        {"into": "title", "show": ["titel"]},
        {"into": lambda state, answer: None, "show": ["titel"]},
    ],
)
def test_fields_that_the_state_does_not_have_are_found_when_it_is_compiled(
    state: Any, options: Any
) -> None:
    words = r"'q' names 'titel', which is not a field of \w+; did you mean 'title'\?"
    with pytest.raises(hf.InvalidFlowError, match=words):
        _asking(state, **options)


def test_a_state_without_declared_fields_may_have_any(cp: hf.SyncCheckpointer) -> None:
    app = _asking(dict, into="title", show=["titel"])
    with pytest.raises(TypeError, match="'titel'"):
        app.run_sync({}, store=cp, run_id="r")


def test_the_answer_is_of_the_type_of_its_field(cp: hf.SyncCheckpointer) -> None:
    for name, right, wrong in (("words", 7, "many"), ("review", {"approved": True}, "yes")):
        app = _asking(Article, into=name)
        with pytest.raises(hf.RunPausedError):
            app.run_sync(Article(), store=cp, run_id=name)
        with pytest.raises(hf.InvalidAnswerError):
            app.answer_sync(name, wrong, store=cp)
        app.answer_sync(name, right, store=cp)
    assert app.resume_sync("review", store=cp).review == Approval(True)


def test_what_else_says_it_comes_before_the_type_of_the_field(cp: hf.SyncCheckpointer) -> None:
    ways: list[dict[str, Any]] = [
        {"choices": ["a", "b"]},
        {"schema": {"type": "string"}},
        {"returns": str},
    ]
    for n, options in enumerate(ways):
        app = _asking(Article, into="title", **options)
        with pytest.raises(hf.RunPausedError):
            app.run_sync(Article(), store=cp, run_id=f"r{n}")
        app.answer_sync(f"r{n}", "a", store=cp)
        assert app.resume_sync(f"r{n}", store=cp).title == "a"


def test_an_answer_that_its_field_cannot_hold_is_found_when_it_is_compiled() -> None:
    with pytest.raises(hf.InvalidFlowError, match="'q' asks for str, and 'words' is of type int"):
        _asking(Article, into="words", returns=str)
    _asking(Article, into="words", returns=bool)


def test_a_node_reads_the_state_of_another_run(url: str) -> None:
    async def node(state: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(hf.state_of, "other")

    app = Graph(dict).add_node("a", node).add_edge("a", END).set_entry("a").compile()

    async def main(cp: hf.Checkpointer) -> None:
        await cp.save("other", {"n": 1})
        assert await app.run({}, store=cp, run_id="r") == {"n": 1}

    _with(url, main)


_PROGRAM = """
import asyncio, sys
from datetime import timedelta
import holdfast as hf
from tests import faults
from tests.graph.test_questions import _articles, Article, Approval

async def main(url, task, nth):
    app = _articles(assignees=["ann"])
    async with hf.Checkpointer(url) as cp:
        with faults.at(faults.ANY, faults.kill, nth=nth):
            try:
                if task == "answer":
                    await app.answer("r", Approval(True), store=cp, by="ann")
                elif await cp.run("r") is None:
                    await app.run(Article(), store=cp, run_id="r")
                else:
                    await app.resume("r", store=cp)
            except (hf.RunPausedError, hf.QuestionError, hf.RunFinishedError):
                pass

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_killed_anywhere_around_a_question_it_is_asked_once_and_answered_once(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    kills = 0
    for task in ("run", "answer", "run"):
        for nth in (2, 5, 10_000):
            done = forks.run("-c", _PROGRAM, url, task, str(nth), check=False)
            assert done.returncode in (0, -signal.SIGKILL)
            kills += done.returncode != 0
    assert kills > 2
    with hf.SyncCheckpointer(url) as cp:
        kinds = [entry.kind for entry in cp.core.journals.trail("r")]
        assert (kinds.count("question"), kinds.count("answer")) == (1, 1)
        found = cp.load("r", as_type=Article)
        assert found is not None
        assert found.state.log == ["Draft 1: Approval(approved=True, comment='')"]


def test_a_plain_script_asks_answers_and_resumes(cp: hf.SyncCheckpointer) -> None:
    app = _articles()
    with pytest.raises(hf.RunPausedError):
        app.run_sync(Article(), store=cp, run_id="r")
    (asked,) = app.questions_sync("r", store=cp)
    assert asked.prompt == "Publish 'Draft 1'?"
    app.answer_sync("r", Approval(True), store=cp, by="ann")
    assert app.recover_sync(store=cp)["r"].review == Approval(True)
    with pytest.raises(TypeError, match=r"answer\(\) got an unexpected keyword argument 'who'"):
        app.answer_sync("r", True, who="ann")  # type: ignore[call-arg]


def test_a_run_that_is_kept_nowhere_cannot_wait_for_people() -> None:
    app = _articles()
    with pytest.raises(hf.StoreRequiredError, match=r"'review' asks people.*pass store="):
        app.run_sync(Article())

    async def watch() -> None:
        async with app.stream(Article()) as events:
            async for _ in events:
                pass

    with pytest.raises(hf.StoreRequiredError):
        asyncio.run(watch())
