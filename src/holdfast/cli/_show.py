"""How things are shown: text that can't harm a terminal, tables, and JSON.

Stored text may come from anyone. All of it goes through `clean` or JSON on its way to a
terminal: escape sequences and characters that reorder text are shown, never sent.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any, Final

import click

from holdfast.cli._drawing import Text, columns, highlighted, paragraph, wants_color
from holdfast.codec.ascii_json import plain, to_ascii
from holdfast.codec.summaries import for_people, is_summarised
from holdfast.errors import CheckpointCorruptedError
from holdfast.errors.base import named_journals, one_line

clean: Final = one_line
to_json: Final = to_ascii
_WIDTH: Final = 78
_COUNTED: Final = 1000  # lines that are not shown
_DEEPEST: Final = 40  # columns of indentation; what is deeper is on one line
_NAMED: Final = 5  # entries that an export or copy lacks; with --json all of them
_STYLES: Final = {
    "completed": "green",
    "alive": "green",
    "unknown": "yellow",
    "dead": "red",
    "submitted": "blue",
    "verified": "green",
    "ok": "green",
    "running": "cyan",
    "open": "blue",
    "paused": "yellow",
    "unverified": "yellow",
    "inconclusive": "yellow",
    "warning": "yellow",
    "answered": "yellow",
    "orphaned": "red",
    "failed": "red",
    "error": "red",
    "damaged": "red",
    "cancelled": "magenta",
}


def pretty(value: Any) -> list[str]:
    """The lines of a document as people read it."""
    lines = json.dumps(value, indent=2, ensure_ascii=False, default=plain).split("\n")
    return [clean(line) for line in lines]


def print_pretty(value: Any, out: IO[str] | None = None) -> None:
    """Draw a document in color, as JSON is usually indented."""
    for line in pretty(for_people(value)):
        show(highlighted(line), out=out)


def print_laid_out(value: Any, *, most: int | None = None) -> None:
    """Draw a document in color, or its first lines; what is short is on one line."""
    lines = _laid_out(value)
    for line in islice(lines, most):
        show(highlighted(clean(line)))
    more = sum(1 for _ in islice(lines, _COUNTED + 1))  # more of a large one is not looked at
    if more:
        count = f"over {_COUNTED:,}" if more > _COUNTED else f"{more:,}"
        say(f"… {count} more lines; see them with --full", "dim")


def _laid_out(value: Any, indent: str = "", name: str = "", comma: str = "") -> Iterator[str]:
    is_deep = len(indent) > _DEEPEST
    is_flat = is_deep or not isinstance(value, dict | list) or not value or is_summarised(value)
    room = _WIDTH - len(indent) - len(name) - 1
    text = on_one_line(value, None if is_flat else room)
    if text is not None:
        yield f"{indent}{name}{text}{comma}"
        return
    begin, end = "{}" if isinstance(value, dict) else "[]"
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    yield f"{indent}{name}{begin}"
    for number, (key, item) in enumerate(items, 1):
        label = "" if key is None else _label(key)
        yield from _laid_out(item, f"{indent}  ", label, "," if number < len(value) else "")
    yield f"{indent}{end}{comma}"


def on_one_line(value: Any, most: int | None = None) -> str | None:
    """A document as people read it; None if it has more characters, which are not looked at."""
    if most is None or not isinstance(value, dict | list) or is_summarised(value):
        text = json.dumps(for_people(value), ensure_ascii=False, default=plain)
        return text if most is None or len(text) <= most else None
    begin, end = "{}" if isinstance(value, dict) else "[]"
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    text, before = begin, ""
    for key, item in items:
        text += before + ("" if key is None else _label(key))
        part = on_one_line(item, most - len(text) - len(end))
        if part is None:
            return None
        text, before = text + part, ", "
    return text + end if len(text) + len(end) <= most else None


def _label(key: str) -> str:
    return f"{json.dumps(key, ensure_ascii=False)}: "


def print_json(value: Any) -> None:
    """Print a document: indented for people, on one line for programs."""
    click.echo(to_json(value, indent=2 if sys.stdout.isatty() else None))


def show(text: Text, *, err: bool = False, out: IO[str] | None = None) -> None:
    """Print a line to `out`, or else to a standard stream, in color where that is wanted."""
    out = out or (sys.stderr if err else sys.stdout)
    click.echo(text.painted(wants_color(out)), file=out, color=True)


def say(text: str = "", style: str = "", *, err: bool = False) -> None:
    """Print a line of text, cleaned."""
    show(cell(text, style), err=err)


def explain(text: Text, indent: int = 0) -> None:
    """Print a sentence, on a terminal broken between words. Nothing that is to be copied."""
    for line in paragraph(text, sys.stdout, indent):
        show(line)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}", "yellow", err=True)


def cell(text: object, style: str = "") -> Text:
    """Text of anyone's, fit to be drawn."""
    return Text("" if text is None else clean(str(text)), style)


def word(text: str) -> Text:
    """A status or verdict, in its color."""
    return cell(text, style_of(text))


def style_of(text: str) -> str:
    """The color of a status or verdict."""
    return _STYLES.get(text, "")


def table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    headless: bool = False,
) -> None:
    """Draw a table, with its names above it or not. What is not a `Text` yet is cleaned.

    On a terminal, ids of runs stay whole, and what does not fit in the columns to `cut` is cut.
    """
    cells = [[one if isinstance(one, Text) else cell(one) for one in row] for row in rows]
    aligned, whole, short = (
        [at for at, name in enumerate(names) if name in some] for some in (right, ("RUN",), cut)
    )
    head = [] if headless else [[Text(name, "bold") for name in names]]
    for line in columns([*head, *cells], aligned, sys.stdout, whole=whole, cut=short):
        show(line)


def say_if_cut(shown: int, count: int, order: str, *, option: str = "--limit 0") -> None:
    """Say below a list that it does not have everything, and which part of it this is."""
    if shown < count:
        say(f"{shown:,} of {count:,}, {order}; see all with {option}", "dim")


def lost_in(damage: Sequence[CheckpointCorruptedError]) -> list[str]:
    """The entries that an export or copy was completed without."""
    return [place for error in damage for place in error.lost]


def without(lost: Sequence[str]) -> str:
    """The end of a sentence about what was written: what it lacks."""
    if not lost:
        return ""
    more = [f"{len(lost) - _NAMED:,} more"] if len(lost) > _NAMED else []
    named = [named_journals(clean(place)) for place in lost[:_NAMED]]
    return f", without {', '.join(named + more)}"
