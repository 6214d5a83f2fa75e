"""What notebooks show of holdfast's objects: small pieces of HTML and SVG.

Everything that is shown may come from anyone, so all of it is escaped here. No scripts, no style
sheets, nothing from the network. Colors are those of the notebook, be it light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from holdfast.errors.base import one_line

LONGEST: Final = 2000  # characters of a text that are shown
ROWS: Final = 100  # of a table that are shown
_FAINT: Final = "opacity:.65"
_TABLE: Final = "border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit"
_CELL: Final = (
    "text-align:left;vertical-align:top;padding:2px 12px 2px 0;border:0;background:transparent"
)
_BOX: Final = (
    "display:inline-block;max-width:100%;overflow:auto;padding:8px 12px;"
    "border:1px solid rgba(128,128,128,.4);border-radius:6px"
)


def card(title: str, *names: str, body: Callable[[Any], str] | None = None) -> Callable[[Any], str]:
    """A `_repr_html_` for a class: the attribute `title`, others that have a value, and a body."""

    def _repr_html_(self: Any) -> str:
        facts = {name.replace("_", " "): getattr(self, name) for name in names}
        return box(getattr(self, title), facts, body(self) if body is not None else "")

    return _repr_html_


def box(title: object, facts: Mapping[str, object], body: str = "") -> str:
    """A framed piece: a title, facts that are not empty, and more HTML below."""
    known = [(name, value) for name, value in facts.items() if value not in (None, "", (), {}, [])]
    rows = "".join(
        f'<tr><td style="{_CELL};{_FAINT}">{text(name)}</td><td style="{_CELL}">{text(value)}</td></tr>'
        for name, value in known
    )
    listed = f'<table style="{_TABLE}">{rows}</table>' if rows else ""
    return f'<div style="{_BOX}"><b>{text(title)}</b>{listed}{body}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts, or its first rows."""
    rows = list(rows)
    names = "".join(f'<th style="{_CELL};{_FAINT}">{text(name)}</th>' for name in head)
    lines = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{text(cell)}</td>' for cell in row) + "</tr>"
        for row in rows[:ROWS]
    )
    more = f'<div style="{_FAINT}">… {len(rows) - ROWS:,} more</div>' if len(rows) > ROWS else ""
    return f'<table style="{_TABLE}"><tr>{names}</tr>{lines}</table>{more}'


def block(content: str) -> str:
    """A text of several lines, as it is; its first part if it is long."""
    shown = content if len(content) <= LONGEST else f"{content[:LONGEST]}\n…"
    lines = "\n".join(map(_escaped, shown.split("\n")))
    return f'<pre style="margin:4px 0;background:transparent">{lines}</pre>'


def text(value: object) -> str:
    """Anything as text on one line, escaped."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, dict):
        value = ", ".join(f"{key}={item}" for key, item in value.items())
    elif isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    shown = f"{value:,.3g}" if isinstance(value, float) else str(value)
    return _escaped(shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…")


def _escaped(line: str) -> str:
    return html.escape(one_line(line))
