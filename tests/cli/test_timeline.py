"""What `holdfast show` says of the time between entries, and of what a rollback left behind."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

import holdfast as hf
from holdfast.workflow import Retry, ask, parallel, step, workflow
from tests.cli.conftest import Cli

tries = 0


@step(retry=Retry(3, backoff=0.3, jitter=0.0))
def flaky() -> str:
    global tries
    tries += 1
    time.sleep(0.2)
    if tries < 3:
        raise ConnectionError(f"no answer {tries}")
    return "at last"


@step
def hopeless() -> None:
    time.sleep(0.4)
    raise ValueError("no such harbour")


@step(retry=Retry(2, backoff=0.1, jitter=0.0))
async def hopeless_beside_others() -> None:
    await asyncio.sleep(0.4)
    raise ValueError("no such harbour")


@step
async def lasting() -> None:
    await asyncio.sleep(0.7)


@workflow
async def job() -> None:
    await flaky()
    await ask("Go on?", returns=bool, name="go")
    await hopeless()


@workflow
async def side_by_side() -> None:
    await parallel(hopeless_beside_others(), lasting())


@pytest.fixture
def paused(cp: hf.SyncCheckpointer) -> hf.SyncCheckpointer:
    """A run whose first step failed twice, and that asks a person now."""
    global tries
    tries = 0
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(job(), run_id="job")
    return cp


def rows(cli: Cli, run: str) -> list[list[str]]:
    """The words of each row of the timeline."""
    shown = cli("show", run).out.partition("\nSEQ ")[2].partition("\n\n")[0]
    return [line.split() for line in shown.splitlines()[1:]]


def row(found: list[list[str]], *words: str) -> list[str]:
    return next(one for one in found if one[2 : 2 + len(words)] == list(words))


def seconds(words: list[str]) -> float:
    """How long something took, as its row says."""
    number = float(words[words.index("s") - 1] if "s" in words else words[words.index("ms") - 1])
    return number if "s" in words else number / 1000


def test_show_says_how_long_each_failed_attempt_took_and_the_pause_after_it(
    cli: Cli, paused: hf.SyncCheckpointer
) -> None:
    found = rows(cli, "job")
    failed = [one for one in found if one[2:4] == ["failed", "flaky"]]
    assert len(failed) == 2
    assert all(seconds(one) >= 0.2 for one in failed)
    assert [one[:2] for one in found if one[0] == "·"] == [["·", "waited"]] * 2
    assert "to try again" in cli("show", "job").out


def test_time_in_which_a_step_was_executed_is_no_gap(cli: Cli, paused: hf.SyncCheckpointer) -> None:
    time.sleep(0.15)
    assert cli("answer", "job", "--with", "true").code == 0
    with pytest.raises(hf.StepFailedError):
        hf.Engine(paused).run_sync(job(), run_id="job", resume=True)
    found = rows(cli, "job")
    gaps = [one for one in found if one[0] == "·"]
    assert ["·", "nobody", "executed", "it"] in [gap[:4] for gap in gaps], "until it was answered"
    assert all(seconds(gap) < 0.4 for gap in gaps if "nothing" in gap)
    assert seconds(row(found, "failed", "hopeless")) >= 0.4


def test_every_attempt_beside_other_steps_is_as_long_as_it_was(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp).run_sync(side_by_side(), run_id="both")
    shown = cli("show", "both", "--step", "hopeless_beside_others", "--json").json["attempts"]
    assert len(shown) == 2
    assert all(attempt["seconds"] >= 0.4 for attempt in shown)


@step(retry=Retry(2, backoff=60.0))
def patient() -> None:
    time.sleep(0.2)
    raise ConnectionError("no answer")


@workflow
async def waiting() -> None:
    await patient()


def test_show_says_how_long_an_attempt_took_before_the_next_one_begins(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    engine = hf.Engine(cp)
    engine.submit_sync(waiting(), run_id="late")
    engine.work_sync(waiting, until_idle=True)
    assert seconds(row(rows(cli, "late"), "failed", "patient")) >= 0.2


@workflow
async def asking() -> str:
    await step("first").python(int)
    ship = await ask("Ship it?", returns=bool, name="ship")
    return "shipped" if ship else "kept"


@pytest.mark.parametrize("answer", [True, False])
def test_a_question_that_a_rollback_voided_is_marked_everywhere(
    cli: Cli, cp: hf.SyncCheckpointer, answer: bool
) -> None:
    void = "void: the run was rolled back behind it"
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(asking(), run_id="order")
    if answer:
        cli("answer", "order", "--with", "true", "--by", "ann")
    assert void not in cli("show", "order").out
    assert cli("rollback", "order", "first").code == 0
    assert f"Ship it? ({void})" in cli("show", "order").out
    assert (f"true by ann ({void})" in cli("show", "order").out) is answer
    step_shown = cli("show", "order", "--step", "ship").out
    assert (void if answer else "void: the run went back to @1") in step_shown
    assert ("void" in step_shown.splitlines()[0]) is not answer
    assert cli("questions", "order").out == (
        "no open questions\nvoid: ship; the run was rolled back behind it\n"
    )
    refused = cli("answer", "order", "--with", "false")
    assert refused.code != 0
    assert f"ship: {void}" in refused.err
    asked = [
        one for one in cli("show", "order", "--json").json["timeline"] if one["step"] == "ship"
    ]
    assert not any(one["current"] for one in asked)


def test_a_question_that_is_asked_again_after_a_rollback_counts(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    for _ in range(2):
        with pytest.raises(hf.RunPausedError):
            hf.Engine(cp).run_sync(asking(), run_id="order", resume=True)
        cli("rollback", "order", "first")
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(asking(), run_id="order", resume=True)
    shown = cli("show", "order").out
    assert shown.count("asks ship") == 3
    assert shown.count("void: the run was rolled back behind it") == 2
    found = cli("questions", "order").out.splitlines()
    assert found[1].split()[:2] == ["order", "ship"]
    assert found[2] == "void: ship; the run was rolled back behind it"
    assert cli("answer", "order", "--with", "true").code == 0


def test_a_process_takes_a_run_over_and_only_steps_claim_something(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(asking(), run_id="order")
    cli("answer", "order", "--with", "true")
    hf.Engine(cp).run_sync(asking(), run_id="order", resume=True)
    shown = cli("show", "order").out
    assert "taken over" in shown
    assert "claim" not in shown


@workflow
async def family() -> str:
    return await asking()


def test_whoever_looks_at_a_run_that_waits_for_a_childs_answer_is_led_to_that_question(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    with pytest.raises(
        hf.RunPausedError, match="answer in its child run 'order//asking'"
    ) as paused:
        hf.Engine(cp).run_sync(family(), run_id="order")
    assert paused.value.child == "order//asking"
    shown = cli("show", "order").out
    assert "it waits for its child run 'order//asking', which asks:" in shown
    assert "\n  holdfast answer order//asking --with=true\n" in shown
    refused = cli("answer", "order", "--with", "true")
    assert refused.code != 0
    assert "answer that: holdfast answer order//asking --with=true" in refused.err
    answered = cli("answer", "order//asking", "--with", "true").out
    assert "holdfast resume order --flow=MODULE:NAME" in answered, "not the child run itself"
    assert hf.Engine(cp).run_sync(family(), run_id="order", resume=True) == "shipped"


def test_run_and_resume_lead_to_the_question_of_a_child_run(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    flow = "tests.cli.test_timeline:family"
    begun = cli("run", flow, "--run-id", "order")
    assert "continue with: holdfast answer order//asking --with=true" in begun.err
    again = cli("resume", "order", "--flow", flow)
    assert "? ship: Ship it?" in again.err
    assert "continue with: holdfast answer order//asking --with=true" in again.err


def test_an_answered_child_run_is_continued_by_its_parent_in_every_hint(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(family(), run_id="order")
    cli("answer", "order//asking", "--with", "true")
    shown = cli("show", "order").out
    assert "└── asking  answered" in shown
    assert "its child run was answered; start your program again" in shown
    for run in ("order", "order//asking"):
        assert "\n  holdfast resume order --flow=MODULE:NAME\n" in cli("show", run).out


def test_what_a_step_took_is_counted_once_though_it_was_retried(
    cli: Cli, paused: hf.SyncCheckpointer
) -> None:
    summary = cli("show", "job").out.splitlines()[1]
    until_last, in_steps = (float(text) for text in re.findall(r"([0-9.]+) s ", summary))
    assert in_steps <= until_last
