"""How the library logs: each message on one line, whatever it quotes, and in words."""

from __future__ import annotations

import logging

from holdfast.errors.base import named_journals, one_line


def logger(name: str = "holdfast") -> logging.Logger:
    """A logger that writes each message on one line, with control characters escaped."""
    found = logging.getLogger(name)
    if not any(isinstance(one, _OneLine) for one in found.filters):
        found.addFilter(_OneLine())
    return found


class _OneLine(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the message before any handler sees it; nothing is left out."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # handlers report it
            return True
        shown = one_line(named_journals(text))
        if shown != text:
            record.msg, record.args = shown, None
        return True
