"""A step that rewrites something has to claim all that was claimed of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, artifact_evidence
from holdfast.workflow import Workflow, step, workflow
from tests.engine.desk import Desk
from tests.workflow.support import Flow


def rewriting(desk: Desk, outputs: Any = ()) -> Workflow[..., Any]:
    """One step writes a file, and another rewrites it and claims that it exists."""

    @workflow("rewriting")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("file",), outputs=desk / "file")
        made = step("b").python((desk / "file").write_text, args=("more",), outputs=outputs)
        yield made.evidence(lambda _: artifact_evidence(desk / "file"))
        return "done"

    return flow


def run(engine: hf.Engine, flow: Workflow[..., Any], **options: Any) -> Any:
    return asyncio.run(engine.run(flow(), run_id="r", **options))


def test_a_step_that_rewrites_a_file_and_claims_only_that_it_exists_fails_with_advice(
    memory: hf.Engine, desk: Desk
) -> None:
    flow = rewriting(desk)
    with pytest.raises(
        hf.StepFailedError, match=r"Let the step claim that, too: for a file, with out"
    ):
        run(memory, flow)
    (desk / "file").write_text("this is file")
    fixed = rewriting(desk, outputs=desk / "file")
    assert run(memory, fixed, resume=True) == "done"


def test_a_resume_knows_what_was_claimed_before(memory: hf.Engine, desk: Desk) -> None:
    failing = True

    @workflow("resumed")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("file",), outputs=desk / "file")
        if failing:
            raise RuntimeError("not yet")
        made = step("b").python((desk / "file").write_text, args=("more",))
        yield made.evidence(lambda _: artifact_evidence(desk / "file"))
        return "done"

    with pytest.raises(RuntimeError):
        run(memory, flow)
    failing = False
    with pytest.raises(hf.StepFailedError, match="Let the step claim that"):
        run(memory, flow, resume=True)


def test_what_was_claimed_as_gone_may_be_made_again(memory: hf.Engine, desk: Desk) -> None:
    @workflow("again")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("file",), outputs=desk / "file")
        yield step("b").python((desk / "file").unlink).removes(desk / "file")
        made = step("c").python((desk / "file").write_text, args=("other",))
        yield made.evidence(lambda _: artifact_evidence(desk / "file"))
        return "done"

    assert run(memory, flow) == "done"


def test_a_claim_on_anything_else_is_not_looked_at(memory: hf.Engine, desk: Desk) -> None:
    """That is for the next resume: a step answers for what it claims something of."""
    other = Evidence("artifact_exists", "desk", {"path": str(desk / "other")})

    def work() -> None:
        (desk / "file").write_text("more")
        (desk / "other").write_text("other")

    @workflow("other")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("file",), outputs=desk / "file")
        yield step("b").python(work).evidence(other)
        return "done"

    assert run(memory, flow) == "done"
