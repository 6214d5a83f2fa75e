"""Answers that are signed by the person who gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.kernel.appending import append_if
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind
from holdfast.pipeline import HumanInputStep, Pipeline
from holdfast.workflow import ask, parallel, step, workflow
from tests.waiting import wait_until

CI = hf.SigningKey.hmac("ci", bytes(range(32)))
ANN = hf.SigningKey.ed25519("ann", bytes(range(1, 33)))
BOB = hf.SigningKey.ed25519("bob", bytes(range(2, 34)))
MALLORY = hf.SigningKey.ed25519("ann", bytes(32))
TRUSTED = hf.TrustedKeys({"ann": ANN.public or b"", "bob": BOB.public or b""})

done: list[str] = []


@step
def publish(what: str) -> str:
    done.append(what)
    return what


@workflow
async def release(version: str) -> str:
    if await ask(f"publish {version}?", returns=bool, assignees=["ann"], name="may"):
        return await publish(version)
    return "kept"


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(tmp_path / "runs.db", sign=CI, trusted=TRUSTED) as checkpointer:
        yield checkpointer


@pytest.fixture
def engine(cp: hf.SyncCheckpointer) -> Iterator[hf.Engine]:
    done.clear()
    with hf.Engine(cp, flows=[release]) as made:
        with pytest.raises(hf.RunPausedError):
            made.run_sync(release("1.0"), run_id="run")
        yield made


def notes(cp: hf.SyncCheckpointer) -> list[str]:
    return [moment.note for moment in cp.timeline("run") if moment.kind == "answer"]


def waits(engine: hf.Engine) -> bool:
    with pytest.raises(hf.RunPausedError):
        engine.resume_sync("run")
    assert done == []
    return [question.key for question in engine.questions_sync("run")] == ["may"]


def write(cp: hf.SyncCheckpointer, value: object, **meta: Any) -> None:
    """Append an answer as someone would who can write to the store, but has no key of a person."""
    encoding = cp.core.journals.encode(value)

    def decide(head: Entry | None) -> Draft:
        assert head is not None
        return Draft(Kind.ANSWER.value, "running", encoding, step="may", meta=json.dumps(meta))

    cp.core.drive(append_if(cp.core, "run", decide))


def signature(cp: hf.SyncCheckpointer, run: str) -> list[str]:
    (answer,) = [e for e in cp.core.journals.trail(run) if e.kind == Kind.ANSWER]
    found: list[str] = json.loads(answer.meta)["signed"]
    return found


def test_an_answer_counts_if_the_person_who_was_asked_signed_it(
    cp: hf.SyncCheckpointer, engine: hf.Engine
) -> None:
    engine.answer_sync("run", True, sign=ANN)
    assert engine.resume_sync("run") == "1.0"
    assert done == ["1.0"]
    assert notes(cp) == ["true, signed by ann"]
    attested = hf.check_attestation(cp.attest("run", sign=BOB), TRUSTED)
    (answer,) = attested.statement["predicate"]["answers"]
    assert (answer["step"], answer["by"], answer["signed"]) == ("may", "ann", True)


def test_an_answer_without_a_signature_of_that_person_is_refused(engine: hf.Engine) -> None:
    for arguments, reason in (
        ({}, "is for 'ann'; not for 'ci'"),
        ({"by": "ann"}, "is answered by 'ann' with the key of 'ci'"),
        ({"sign": BOB}, "is for 'ann'; not for 'bob'"),
        ({"sign": BOB, "by": "ann"}, "is answered by 'ann' with the key of 'bob'"),
    ):
        with pytest.raises(hf.QuestionError, match=reason):
            engine.answer_sync("run", True, **arguments)
    with pytest.raises(hf.InvalidSignatureError, match="was not signed by the key 'ann'"):
        engine.answer_sync("run", True, sign=MALLORY)
    assert waits(engine)


def test_a_forged_answer_in_the_store_is_ignored_and_the_run_keeps_waiting(
    cp: hf.SyncCheckpointer,
    engine: hf.Engine,
) -> None:
    for meta in (
        {"by": "ann"},
        {"by": "ann", "signed": ["ann", "AAAA"]},
        {"by": "ann", "signed": ["ann", "%"]},
        {"by": "ann", "signed": ["bob", "AAAA"]},
        {"by": "ann", "signed": "ann"},
        {"by": "deadline"},
        {"by": "ann", "skipped_to": "x"},
    ):
        write(cp, True, **meta)
        assert waits(engine), meta
    assert notes(cp)[0] == "by ann, ignored: it is not signed"
    engine.answer_sync("run", True, sign=ANN)
    assert engine.resume_sync("run") == "1.0"


def test_an_answer_is_not_accepted_in_another_run_or_for_another_value(
    cp: hf.SyncCheckpointer,
    engine: hf.Engine,
) -> None:
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(release("1.0"), run_id="other")
    engine.answer_sync("other", True, sign=ANN)
    write(cp, True, by="ann", signed=signature(cp, "other"))
    assert waits(engine)
    write(cp, False, by="ann", signed=signature(cp, "other"))
    assert waits(engine)


def test_an_answer_is_not_accepted_when_the_same_question_is_asked_again(
    cp: hf.SyncCheckpointer,
    engine: hf.Engine,
) -> None:
    engine.answer_sync("run", True, sign=ANN)
    old = signature(cp, "run")
    cp.clear("run", force=True)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(release("1.0"), run_id="run")
    write(cp, True, by="ann", signed=old)
    assert waits(engine)


def test_a_fork_keeps_the_answers_of_its_origin(cp: hf.SyncCheckpointer, engine: hf.Engine) -> None:
    engine.answer_sync("run", True, sign=ANN)
    assert engine.resume_sync("run") == "1.0"
    newest = cp.list_checkpoints("run")[0]
    made = cp.fork("run", checkpoint_id=newest.checkpoint_id, run_id="copy")
    assert made.run_id == "copy"
    assert engine.resume_sync("copy") == "1.0"
    assert done == ["1.0"]


def test_without_trusted_keys_a_signature_is_recorded_and_nothing_is_demanded(
    tmp_path: Path,
) -> None:
    done.clear()
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp, hf.Engine(cp, flows=[release]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(release("1.0"), run_id="run")
        engine.answer_sync("run", True, sign=ANN)
        assert notes(cp) == ["true by ann, signed (not checked)"]
        assert engine.resume_sync("run") == "1.0"


def test_a_deadline_that_passed_needs_no_signature(tmp_path: Path) -> None:
    @workflow
    async def hurry() -> bool:
        return await ask("may I?", returns=bool, deadline=1e-6, default=False)

    with hf.Engine(tmp_path / "runs.db", flows=[hurry], sign=CI, trusted=TRUSTED) as engine:
        with suppress(hf.RunPausedError):
            engine.run_sync(hurry(), run_id="run")
        assert engine.run_sync(hurry(), run_id="run", resume=True) is False


def test_the_key_of_a_process_signs_the_answers_that_it_gives(tmp_path: Path) -> None:
    @workflow
    async def simple() -> bool:
        return await ask("may I?", returns=bool)

    with hf.Engine(tmp_path / "runs.db", flows=[simple], sign=CI) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(simple(), run_id="run")
        engine.answer_sync("run", True)
        assert engine.resume_sync("run") is True
    reader = hf.Engine(tmp_path / "runs.db", flows=[simple], trusted=CI.trusted())
    with reader, pytest.raises(hf.QuestionError, match="with a signature only"):
        reader.answer_sync("run", True)


def test_a_run_that_is_executed_ignores_a_forged_answer(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    forged = tmp_path / "forged"

    @step
    def other() -> str:
        wait_until(forged.exists)
        return "other"

    @workflow
    async def both() -> tuple[bool, str]:
        return await parallel(ask("may I?", returns=bool, name="may"), other())

    with hf.Engine(cp, flows=[both]) as engine:
        handle = engine.start_sync(both(), run_id="run")
        wait_until(lambda: bool(list(engine.questions_sync("run"))))
        write(cp, True, by="ann")
        forged.touch()
        with pytest.raises(hf.RunPausedError):
            handle.result()
        engine.answer_sync("run", False, sign=ANN)
        assert engine.resume_sync("run") == (False, "other")


def test_what_a_repair_keeps_of_a_signed_answer_still_counts(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"

    @step(outputs=str(page))
    def render() -> int:
        return page.write_text("<h1>1.0</h1>")

    @workflow
    async def site() -> bool:
        said = await ask("may I?", returns=bool, assignees=["ann"])
        await render()
        return said

    with hf.Engine(cp, flows=[site]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(site(), run_id="run")
        engine.answer_sync("run", True, sign=ANN)
        assert engine.resume_sync("run") is True
        page.unlink()
        assert engine.run_sync(site(), run_id="run", resume=True) is True
        assert page.exists()
        assert "rollback" in [moment.kind for moment in cp.timeline("run")]
        assert set(notes(cp)) == {"true, signed by ann"}


@pytest.mark.parametrize("given", [Decimal("1.50"), {3, 1, 2}, {"a": [1, None, "é"]}, b"\x00"])
def test_any_value_can_be_signed(cp: hf.SyncCheckpointer, given: Any) -> None:
    @workflow
    async def anything() -> Any:
        return await ask("what?")

    with hf.Engine(cp, flows=[anything]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(anything(), run_id="run")
        engine.answer_sync("run", given, sign=ANN)
        assert engine.resume_sync("run") == given


def test_a_pipeline_keeps_waiting_for_a_signed_answer(cp: hf.SyncCheckpointer) -> None:
    pipeline = Pipeline(
        [HumanInputStep("may", prompt="publish?")],
        {"start_at": "may", "paths": [{"from": "may", "to": "end"}]},
        name="release",
    )
    with hf.Engine(cp, flows=[pipeline]) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(pipeline({}), run_id="run")
        write(cp, "yes", by="ann")
        with pytest.raises(hf.RunPausedError):
            engine.resume_sync("run")
        engine.answer_sync("run", "yes", sign=ANN)
        engine.resume_sync("run")
        assert [note for note in notes(cp) if "signed by" in note] == ['"yes", signed by ann']
