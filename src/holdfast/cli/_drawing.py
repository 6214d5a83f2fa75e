"""Styled text, tables and a status line: as little as commands need.

Written here because the usual library for it, with what it needs, is larger than holdfast itself.
"""

import io
import os
import re
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from typing import IO, Final, Self

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "strike": "9",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_UP_AND_CLEAR: Final = "\r\x1b[{}A\x1b[J"  # whatever was typed there meanwhile, such as ^C
_CLEAR: Final = "\r\x1b[2K"
_NARROWEST: Final = 8
_BETWEEN: Final = "  "
_REDRAW_SECONDS: Final = 0.1
_BAR: Final = 30
_JSON: Final = re.compile(r'("(?:[^"\\]|\\.)*")(:?)|(-?\b\d[\d.eE+-]*|\b(?:true|false|null)\b)')


class Text:
    """A line in pieces, each with a style: words such as "bold red", or none."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.pieces: list[tuple[str, str]] = [(text, style)] if text else []

    def add(self, more: "str | Text", style: str = "") -> Self:
        """Put something behind it."""
        if isinstance(more, Text):
            self.pieces += more.pieces
        elif self.pieces and self.pieces[-1][1] == style:
            self.pieces[-1] = (self.pieces[-1][0] + more, style)
        else:
            self.pieces.append((more, style))
        return self

    @property
    def plain(self) -> str:
        """Without the styles."""
        return "".join(text for text, _ in self.pieces)

    def painted(self, color: bool) -> str:
        """With the styles, if there is to be color."""
        return "".join(_painted(text, style) if color else text for text, style in self.pieces)

    def wrapped(self, width: int) -> Iterator["Text"]:
        """Lines of it that are at most so wide: broken at spaces, and in a word if that is wider."""
        plain, start = self.plain, 0
        while (end := self._end(start, width)) < len(plain):
            space = end if plain[end] == " " else plain.rfind(" ", start, end)
            if plain[start:space].strip() and space > start:
                end = space
            yield self[start:end]
            start = end + len(plain[end:]) - len(plain[end:].lstrip(" "))  # behind the spaces
        yield self[start:]

    def cut(self, width: int) -> "Text":
        """As much of it as fits, with `…` at the end if that is not all."""
        if _width(self.plain) <= width:
            return self
        return self[: self._end(0, max(width - 1, 1))].add("…", "dim")

    def __getitem__(self, part: slice) -> "Text":
        """Some of its characters, as they are styled."""
        start, stop, _ = part.indices(len(self.plain))
        found, at = Text(), 0
        for text, style in self.pieces:
            if some := text[max(start - at, 0) : max(stop - at, 0)]:
                found.add(some, style)
            at += len(text)
        return found

    def _end(self, start: int, width: int) -> int:
        """Where the characters from `start` on that are so wide together end, at least one."""
        plain = self.plain
        for end in range(start, len(plain)):
            width -= _width(plain[end])
            if width < 0 and end > start:
                return end
        return len(plain)


def wants_color(out: IO[str]) -> bool:
    """Whether this is a terminal, and $NO_COLOR is not set."""
    return is_live(out) and not os.environ.get("NO_COLOR")


def is_live(out: IO[str]) -> bool:
    """Whether this is a terminal that can draw."""
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def columns(
    rows: Sequence[Sequence[Text]],
    right: Sequence[int],
    out: IO[str],
    *,
    whole: Sequence[int] = (),
    cut: Sequence[int] = (),
) -> Iterator[Text]:
    """The lines of a table. On a terminal it is made to fit; elsewhere no line is broken.

    Columns that are to stay `whole` give way last; of those to `cut`, what does not fit is cut.
    """
    most = shutil.get_terminal_size().columns if out.isatty() else None
    widths = _widths(rows, most, _longest_words(rows), whole)
    for row in rows:
        cells = [
            [cell.cut(width)] if at in cut else list(cell.wrapped(max(width, 1)))
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for number in range(max(map(len, cells))):
            line, gap = Text(), 0
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
                part = cell[number] if number < len(cell) else Text()
                missing = width - _width(part.plain)
                before = missing if at in right else 0
                if part.pieces:
                    line.add(" " * (gap + before)).add(part)
                    gap = missing - before
                else:
                    gap += width
                gap += len(_BETWEEN)
            yield line


def paragraph(text: Text, out: IO[str], indent: int = 0) -> Iterator[Text]:
    """The lines of a text, all but the first indented. On a terminal words are not broken."""
    width = shutil.get_terminal_size().columns if out.isatty() else None
    if width is None or _width(text.plain) <= width or width < indent + _NARROWEST:
        yield text
        return
    first, *_ = text.wrapped(width)
    yield first
    rest = text[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
    yield from (Text(" " * indent).add(line) for line in rest.wrapped(width - indent))


def one_line_each(rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
    """The rows of a table that is so wide at most, each on one line: what does not fit is cut."""
    widths = _widths(rows, width, [0] * len(rows[0]))
    for row in rows:
        line, gap = Text(), 0
        for cell, room in zip(row, widths, strict=True):
            part = cell.cut(room)
            line.add(" " * gap).add(part)
            gap = room - _width(part.plain) + len(_BETWEEN)
        yield line


def _widths(
    rows: Sequence[Sequence[Text]],
    most: int | None,
    least: Sequence[int],
    whole: Sequence[int] = (),
) -> list[int]:
    """How wide each column is, if the table is to be so wide at most.

    The widest give way: first those that are wider than their `least`, then all but those that are
    to stay `whole` and take no more than half of it, at last any.
    """
    widths = [max(_width(row[at].plain) for row in rows) for at in range(len(rows[0]))]
    if most is None:
        return widths
    room = most - len(_BETWEEN) * (len(widths) - 1)
    kept = [width if at in whole and width <= most // 2 else 0 for at, width in enumerate(widths)]
    for floors in (least, kept, [0] * len(widths)):
        while sum(widths) > room:
            wide = [
                (width, at)
                for at, width in enumerate(widths)
                if width > max(floors[at], _NARROWEST)
            ]
            if not wide:
                break
            widths[max(wide, key=lambda one: one[0])[1]] -= 1
    return widths


def _longest_words(rows: Sequence[Sequence[Text]]) -> list[int]:
    """Of each column, the width of its longest word: a narrower one has to break it."""
    return [
        max(_width(word) for row in rows for word in row[at].plain.split(" "))
        for at in range(len(rows[0]))
    ]


def highlighted(line: str) -> Text:
    """A line of JSON in color."""
    text, end = Text(), 0
    for found in _JSON.finditer(line):
        text.add(line[end : found.start()])
        string, colon, other = found.groups()
        text.add(string or other, "bold blue" if colon else "green" if string else "cyan").add(
            colon or ""
        )
        end = found.end()
    return text.add(line[end:])


class LiveLine:
    """A line on standard error that is drawn again and again, and is gone at the end."""

    def __init__(self) -> None:
        self._live = is_live(sys.stderr)
        self._drawn = 0.0

    def draw(self, text: str, *, now: bool = False) -> None:
        """Show this instead; not more often than eyes can follow, unless it must be `now`."""
        if self._live and (now or time.monotonic() - self._drawn > _REDRAW_SECONDS):
            self._drawn = time.monotonic()
            room = shutil.get_terminal_size().columns - 1
            shown = Text(text, "dim").cut(room)
            self._write(_CLEAR + shown.painted(wants_color(sys.stderr)))

    def clear(self) -> None:
        """Remove it from the screen."""
        if self._live:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class LiveBlock:
    """Lines at the end of a terminal that are drawn again and again, and are gone at the end.

    What is printed meanwhile, in any thread, belongs above them: see `above`.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._lines: list[str] = []

    @property
    def room(self) -> int:
        """How many lines fit on the terminal."""
        return max(shutil.get_terminal_size().lines - 1, 1)

    @property
    def width(self) -> int:
        """How wide a line may be: a terminal may begin a new one after its last column."""
        return max(shutil.get_terminal_size().columns - 1, 1)

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines instead; what does not fit on the terminal is cut."""
        width, color = self.width, wants_color(self._out)
        shown = [line.cut(width).painted(color) for line in lines[-self.room :]]
        with self._lock:
            self._replace("", shown)

    def clear(self) -> None:
        """Remove the lines from the screen."""
        with self._lock:
            self._replace("", [])

    def print(self, text: str) -> None:
        """Print whole lines above the block."""
        with self._lock:
            self._replace(text, self._lines)

    def above(self) -> io.TextIOBase:
        """A stream for others: what is written to it appears above the block, line by line."""
        return _Above(self)

    def _replace(self, text: str, lines: list[str]) -> None:
        if text or lines != self._lines:
            up = _UP_AND_CLEAR.format(len(self._lines)) if self._lines else ""
            self._lines = lines
            self._out.write("".join([up, text, *(f"{line}\n" for line in lines)]))
            self._out.flush()


class _Above(io.TextIOBase):
    """Writes above a block."""

    def __init__(self, block: LiveBlock) -> None:
        self._block = block
        self._lock = threading.Lock()
        self._begun = ""  # a line that has not ended

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._block.print(f"{lines}\n")
        return len(text)


def bar(what: str, done: int, total: int) -> str:
    """How far it is."""
    full = _BAR * done // max(total, 1)
    return f"{what} {'━' * full}{'─' * (_BAR - full)} {done}/{total}"


def _painted(text: str, style: str) -> str:
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def _width(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
