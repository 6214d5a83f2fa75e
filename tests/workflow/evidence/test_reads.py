"""What a step reads is compared with what was claimed of it, before the step is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.run import reading
from holdfast.evidence import Evidence
from holdfast.workflow import step, workflow
from tests.engine.desk import Desk
from tests.workflow.evidence.support import by_run, every_store
from tests.workflow.support import Flow


def tampering(desk: Desk, text: str | None) -> Flow:
    """Between the step that writes and the one that reads, somebody changes the file, once."""

    def meddle() -> None:
        desk.call("meddle")
        mark = desk / "meddled"
        if not mark.exists():
            mark.touch()
            (desk / "a").unlink() if text is None else (desk / "a").write_text(text)

    yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
    yield step("meddle").python(meddle)
    return (yield step("b").python(desk.call, args=("b",)).reads(desk / "a"))


@every_store
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_step_is_not_called_with_bytes_that_nobody_claimed(
    engine: hf.Engine, desk: Desk, durability: Any
) -> None:
    @workflow("reads")
    def flow() -> Flow:
        return (yield from tampering(desk, "tampered"))

    with pytest.raises(hf.StepFailedError, match=r"'b' was not called.*has the digest") as raised:
        engine.run_sync(flow(), run_id="r", durability=durability)
    assert raised.value.error_type == "holdfast.errors.ClaimFailedError"
    assert desk.take() == ["a", "meddle"]
    assert engine.run_sync(flow(), run_id="r", resume=True) == "b"
    assert desk.take() == ["a", "meddle", "b"]


def test_what_was_claimed_before_a_crash_counts_after_it(engine: hf.Engine, desk: Desk) -> None:
    """The resumed run verifies, and the file changes after that."""

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        if not (desk / "started").exists():
            (desk / "started").touch()
            raise RuntimeError("crash")
        yield step("c").python((desk / "a").write_text, args=("tampered",))
        yield step("b").python(desk.call, args=("b",)).reads(desk / "a")

    with pytest.raises(RuntimeError):
        engine.run_sync(flow(), run_id="r")
    with pytest.raises(hf.StepFailedError, match="'b' was not called"):
        engine.run_sync(flow(), run_id="r", resume=True)


def test_a_file_that_was_claimed_anew_may_be_read(engine: hf.Engine, desk: Desk) -> None:
    @workflow("reads")
    def flow() -> Flow:
        for text in ("one", "two"):
            yield step("a").python((desk / "a").write_text, args=(text,), outputs=desk / "a")
            yield step("b").python(desk.call, args=("b",)).reads(desk / "a")

    engine.run_sync(flow(), run_id="r")
    assert desk.take() == ["b", "b"]


def test_a_file_that_was_read_before_must_be_the_same(engine: hf.Engine, desk: Desk) -> None:
    (desk / "input").write_text("one")

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).reads(desk / "input")
        yield step("change").python((desk / "input").write_text, args=("two",))
        yield step("b").python(desk.call, args=("b",)).reads(desk / "input")

    with pytest.raises(hf.StepFailedError, match="'b' was not called"):
        engine.run_sync(flow(), run_id="r")
    assert desk.take() == ["a"]


def test_a_file_that_is_missing_in_a_directory_is_noticed(engine: hf.Engine, desk: Desk) -> None:
    def write() -> None:
        (desk / "dir").mkdir()
        for name in "xyz":
            (desk / "dir" / name).write_text(name)

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(write, outputs=desk / "dir")
        yield step("lose").python((desk / "dir" / "y").unlink)
        yield step("b").python(desk.call, args=("b",)).reads(desk / "dir")

    with pytest.raises(hf.StepFailedError, match="y does not exist"):
        engine.run_sync(flow(), run_id="r")
    assert desk.take() == []


def test_what_was_removed_and_declared_so_is_not_missed(engine: hf.Engine, desk: Desk) -> None:
    def write() -> None:
        (desk / "dir").mkdir()
        for name in "xyz":
            (desk / "dir" / name).write_text(name)

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(write, outputs=desk / "dir")
        yield step("drop").python((desk / "dir" / "y").unlink).removes(desk / "dir" / "y")
        yield step("b").python(desk.call, args=("b",)).reads(desk / "dir")

    engine.run_sync(flow(), run_id="r")
    assert desk.take() == ["b"]


@pytest.mark.parametrize("reader", ["parent", "child"])
def test_claims_reach_from_a_run_to_its_child_runs_and_back(
    engine: hf.Engine, desk: Desk, reader: str
) -> None:
    def change() -> None:
        (desk / "a").write_text("tampered")

    write = step("a").python(desk.write, args=("a",), outputs=desk / "a")
    read = step("b").python(desk.call, args=("b",)).reads(desk / "a")

    @workflow("inner")
    def inner() -> Flow:
        yield write if reader == "parent" else read

    @workflow("outer")
    def outer() -> Flow:
        first, last = step("sub").subworkflow(inner), read
        if reader == "child":
            first, last = write, first
        yield first
        yield step("change").python(change)
        yield last

    with pytest.raises(hf.RunError, match="'b' was not called"):
        engine.run_sync(outer(), run_id="r")
    assert "b" not in desk.take()


def test_nothing_is_compared_if_nothing_is_to_be_trusted(engine: hf.Engine, desk: Desk) -> None:
    @workflow("reads")
    def flow() -> Flow:
        return (yield from tampering(desk, "tampered"))

    with pytest.raises(hf.StepFailedError):
        by_run(engine, flow)
    desk.take()
    assert engine.run_sync(flow(), run_id="r", resume=True, trust="skip") == "b"


def test_the_same_file_by_another_name_is_the_same_file(
    engine: hf.Engine, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk / ".")

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs="a")
        yield step("change").python(Path("a").write_text, args=("tampered",))
        yield step("b").python(desk.call, args=("b",)).reads(desk / "a")

    with pytest.raises(hf.StepFailedError, match="'b' was not called"):
        engine.run_sync(flow(), run_id="r")


@pytest.mark.parametrize("claims", ["outputs", "reads"])
def test_an_outage_before_a_step_that_claims_is_no_failure_of_the_step(
    engine: hf.Engine, desk: Desk, monkeypatch: pytest.MonkeyPatch, claims: str
) -> None:
    def down(*_: object) -> None:
        raise hf.StoreUnavailableError("the server is restarted")

    @workflow("claims")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs=desk / "a")
        if not (desk / "started").exists():
            (desk / "started").touch()
            raise RuntimeError("crash")
        made = step("b").python(desk.write, args=("b",))
        yield made.outputs(desk / "b") if claims == "outputs" else made.reads(desk / "a")

    with pytest.raises(RuntimeError):
        engine.run_sync(flow(), run_id="r")
    desk.take()
    with monkeypatch.context() as patch:
        patch.setattr(reading, "_on_branch", down)
        with pytest.raises(hf.StoreUnavailableError):
            engine.run_sync(flow(), run_id="r", resume=True)
        assert desk.take() == []
    engine.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["b"]


def test_a_link_that_a_later_step_replaces_by_a_file_is_not_missed(
    engine: hf.Engine, desk: Desk
) -> None:
    def link() -> None:
        (desk / "out").mkdir()
        (desk / "out" / "latest").symlink_to("nowhere")

    def replace() -> None:
        desk.call("replace")
        (desk / "out" / "latest").unlink()
        (desk / "out" / "latest").write_text("a file")

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(link, outputs=desk / "out")
        yield step("b").python(replace, outputs=desk / "out")
        yield step("c").python(desk.call, args=("c",)).reads(desk / "out")

    engine.run_sync(flow(), run_id="r")
    engine.run_sync(flow(), run_id="r", resume=True)
    assert desk.take() == ["replace", "c"]


def test_a_link_that_was_turned_elsewhere_is_noticed_by_who_reads_it(
    engine: hf.Engine, desk: Desk
) -> None:
    def link() -> None:
        for name in ("one", "two"):
            (desk / name).write_text(name)
        (desk / "latest").symlink_to("one")

    def turn() -> None:
        (desk / "latest").unlink()
        (desk / "latest").symlink_to("two")

    claim = Evidence(
        "artifact_exists",
        "it leads to one",
        {"path": str(desk / "latest"), "type": "link", "target": "one"},
    )

    @workflow("reads")
    def flow() -> Flow:
        yield step("a").python(link).evidence(claim)
        yield step("turn").python(turn)
        yield step("c").python(desk.call, args=("c",)).reads(desk / "latest")

    with pytest.raises(hf.StepFailedError, match="is not the link claimed"):
        engine.run_sync(flow(), run_id="r")
    assert desk.take() == []
