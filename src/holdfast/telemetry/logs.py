"""What a log record says of the run and the step that it comes from."""

from __future__ import annotations

import logging
from typing import Any, Final

from holdfast.engine.context import CURRENT_STEP, DECIDING
from holdfast.errors.base import one_line

FIELDS: Final = ("run_id", "flow", "step", "attempt")


class StepFilter(logging.Filter):
    """Gives every record the attributes run_id, flow, step and attempt; lets all of them through.

    Add it to a handler: then the lines that your own code and other libraries log in a step say
    which step that is, in whichever thread it runs. Records of holdfast itself have these attributes
    where they apply; they are kept. What does not apply is an empty text, so that a format string
    may name all of them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the record."""
        known: dict[str, Any] = dict.fromkeys(FIELDS, "")
        if "run_id" not in record.__dict__:
            step = CURRENT_STEP.get()
            flow = DECIDING.get()
            if step is not None:
                known = {name: getattr(step, name) for name in FIELDS}
            elif flow is not None:
                known["run_id"] = flow.run_id
            known = {
                name: one_line(value) if isinstance(value, str) else value
                for name, value in known.items()
            }
        for name, value in known.items():
            record.__dict__.setdefault(name, value)
        return True
