"""The result of a run of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from holdfast.engine.people.questions import Question


class PipelineResult(dict[str, Any]):
    """The outputs of the steps that have run, by their ids, and how the run stands."""

    def __init__(
        self,
        outputs: Mapping[str, Any],
        *,
        run_id: str,
        status: Literal["completed", "failed", "paused"],
        output: Any = None,
        questions: Sequence[Question] = (),
        saved: bool = True,
    ) -> None:
        super().__init__(outputs)
        self.run_id = run_id
        self.status = status
        """"failed" is what a flow calls itself with `end_with_failure`."""
        self.output = output
        """The output of the last step; where several joined at the end, theirs by id."""
        self.questions = tuple(questions)
        """What the run waits for."""
        self.saved = saved
        """False if the store did not take the last of it (`on_save_failure="warn"`)."""

    @property
    def question(self) -> Question | None:
        """What the run waits for, or the first of it."""
        return self.questions[0] if self.questions else None

    def __repr__(self) -> str:
        return f"<PipelineResult {self.status} {dict.__repr__(self)}>"
