"""What the engine lists, it lists completely."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.engine.people import inbox, requests
from holdfast.engine.people.questions import Question
from holdfast.store import PAGE
from holdfast.workflow import ask, for_each, parallel, step, workflow
from tests.workflow.support import Flow


@workflow
def survey(count: int) -> Flow:
    return (yield parallel(*(ask(f"Question {n}?") for n in range(count))))


@pytest.fixture
def cp() -> hf.SyncCheckpointer:
    return hf.SyncCheckpointer("memory://")


def _ask(cp: hf.SyncCheckpointer, run_id: str, count: int) -> None:
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(survey(count), run_id=run_id)


def test_the_open_questions_of_a_store_are_all_listed(cp: hf.SyncCheckpointer) -> None:
    _ask(cp, "a", 70)
    _ask(cp, "b", 50)
    found = inbox.open_questions(cp.core)
    assert len({(one.run_id, one.key) for one in found}) == len(found) == 120
    assert found[0] == inbox.questions(cp.core, "a")[0]
    assert inbox.open_questions(cp.core, "a") == inbox.questions(cp.core, "a")


def test_runs_that_still_work_hide_no_question_that_is_due_sooner(cp: hf.SyncCheckpointer) -> None:
    @workflow
    async def soon() -> None:
        await ask("Now?", deadline=60)

    seen: list[tuple[list[Question], int]] = []

    @workflow
    def busy() -> Flow:
        look = step("look").python(lambda: seen.append(inbox.most_urgent(cp.core, 1)))
        yield parallel(ask("Later?"), look)

    for flow, run_id in ((soon, "soon"), (busy, "busy")):
        with pytest.raises(hf.RunPausedError):
            hf.Engine(cp).run_sync(flow(), run_id=run_id)
    ((found, total),) = seen
    assert [one.run_id for one in found] == ["soon"]
    assert total == 2


def test_a_run_with_an_unfinished_child_among_many_is_not_cancelled_over_its_head(
    cp: hf.SyncCheckpointer,
) -> None:
    """It is asked to cancel, and cancels its child when it is resumed."""

    @workflow
    async def part(n: int) -> None:
        if n == PAGE:
            await ask("Question?")

    @workflow
    async def whole() -> None:
        await for_each(range(PAGE + 1), part)

    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(whole(), run_id="run")
    cp.core.drive(requests.request(cp.core, "run", "cancel"))
    info = cp.run("run")
    assert info is not None
    assert info.status == "paused"
    assert cp.timeline("run")[-1].kind == "request"
