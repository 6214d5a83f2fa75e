"""How the library logs: each message on one line, whatever it quotes, and in words."""

from __future__ import annotations

import logging

from holdfast.errors.base import HoldfastError, named_journals, one_line
from holdfast.revealed import scrubbed


def logger(name: str = "holdfast") -> logging.Logger:
    """A logger that writes each message on one line, with control characters escaped."""
    found = logging.getLogger(name)
    if not any(isinstance(one, _OneLine) for one in found.filters):
        found.addFilter(_OneLine())
    return found


def about(run_id: str, step: str | None = None) -> dict[str, str]:
    """For `extra`: which run, and which of its steps, a record is about."""
    named = one_line(named_journals(run_id))
    return {"run_id": named} if step is None else {"run_id": named, "step": one_line(step)}


class _OneLine(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the message before any handler sees it; nothing is left out.

        A record that quotes an error about a run is about that run.
        """
        for one in record.args if isinstance(record.args, tuple) else ():
            run_id = getattr(one, "run_id", None)
            if isinstance(one, HoldfastError) and run_id and isinstance(run_id, str):
                record.__dict__.setdefault("run_id", run_id)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # handlers report it
            return True
        shown = scrubbed(one_line(named_journals(text)))
        if shown != text:
            record.msg, record.args = shown, None
        return True
