"""Regular expressions that can't hang: a small syntax, matched in one pass over the text.

All ways through the pattern are followed at once (Thompson's construction), so the time is at
most `len(text)` times the size of the pattern, whatever both look like. Known are literals, `.`,
classes `[a-z]`, `\\d \\w \\s` and their opposites, groups `( )` and `(?: )`, `|`, the repetitions
`* + ? {m} {m,} {m,n}`, and `^ $` at the ends of the text. There are no back-references and no
looking around, and a group remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

MAX_PATTERN: Final = 500  # characters
MAX_STATES: Final = 500  # after repetitions are written out
MAX_TEXT: Final = 4_000  # characters
MAX_DEPTH: Final = 20  # of groups within groups

Takes = Callable[[str], bool]

_CLASSES: Final[dict[str, Takes]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class PatternError(ValueError):
    """A pattern that this can't match, and why."""


class State(NamedTuple):
    """A place in the pattern: what it takes to go on from here, and where to."""

    takes: Takes | None  # None: nothing, go on to all of `then` at once
    then: list[int]
    only: str = ""  # "^" or "$": only at that end of the text


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        """Raises `PatternError` for what is not in the syntax, or too large."""
        if len(text) > MAX_PATTERN:
            raise PatternError(f"it has {len(text)} characters; at most {MAX_PATTERN} are allowed")
        self.text = text
        self._states: list[State] = []
        self._accept = self._add(None, [])
        self._first = _Parser(text).parse()(self._add, self._accept)

    def matches(self, text: str) -> bool:
        """Whether the text begins with something the pattern describes.

        Raises `PatternError` for a text that is too long.
        """
        if len(text) > MAX_TEXT:
            raise PatternError(
                f"the text has {len(text)} characters; at most {MAX_TEXT} are looked at"
            )
        here = self._closed([self._first], at_start=True, at_end=not text)
        for index, char in enumerate(text):
            if self._accept in here:
                return True
            if not here:
                return False
            ahead = [
                target
                for state in here
                if (takes := self._states[state].takes) is not None and takes(char)
                for target in self._states[state].then
            ]
            here = self._closed(ahead, at_start=False, at_end=index == len(text) - 1)
        return self._accept in here

    def _add(self, takes: Takes | None, then: list[int], only: str = "") -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError(f"with its repetitions it is larger than {MAX_STATES} characters")
        self._states.append(State(takes, then, only))
        return len(self._states) - 1

    def _closed(self, states: list[int], *, at_start: bool, at_end: bool) -> set[int]:
        """These states, and all that can be come to without taking a character."""
        found: set[int] = set()
        todo = states
        while todo:
            number = todo.pop()
            if number in found:
                continue
            found.add(number)
            takes, then, only = self._states[number]
            if takes is None and (only != "^" or at_start) and (only != "$" or at_end):
                todo += then
        return found


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """The pattern, made once."""
    return Pattern(text)


Add = Callable[..., int]
Piece = Callable[[Add, int], int]
"""Puts a part of a pattern before the state it is to lead to; returns where it begins."""


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> Piece:
        piece = self._choice()
        if self._at < len(self._text):
            raise PatternError(f"there is a ')' too many at {self._at}")
        return piece

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("it ends too soon")
        self._at += 1
        return char

    def _choice(self) -> Piece:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._take()
            ways.append(self._sequence())
        if len(ways) == 1:
            return ways[0]
        return lambda add, then: add(None, [way(add, then) for way in ways])

    def _sequence(self) -> Piece:
        pieces = []
        while self._peek() not in ("", "|", ")"):
            pieces.append(self._repeated(self._one()))

        def build(add: Add, then: int) -> int:
            for piece in reversed(pieces):
                then = piece(add, then)
            return then

        return build

    def _one(self) -> Piece:
        char = self._take()
        if char == "(":
            return self._group()
        if char in "^$":
            return lambda add, then: add(None, [then], char)
        if char in "*+?{":
            raise PatternError(f"there is nothing to repeat before {char!r} at {self._at - 1}")
        takes = self._class() if char == "[" else self._single(char)
        return lambda add, then: add(takes, [then])

    def _group(self) -> Piece:
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise PatternError(f"of groups with '(?' only '(?:' is known, at {self._at - 1}")
            self._at += 2
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError(f"its groups are nested more than {MAX_DEPTH} deep")
        inner = self._choice()
        if self._take() != ")":
            raise PatternError("a '(' is not closed")
        self._depth -= 1
        return inner

    def _single(self, char: str) -> Takes:
        if char == ".":
            return lambda given: given != "\n"
        return self._escaped() if char == "\\" else char.__eq__

    def _escaped(self) -> Takes:
        char = self._take()
        if char.lower() in _CLASSES:
            takes = _CLASSES[char.lower()]
            return takes if char.islower() else lambda given: not takes(given)
        return self._literal(char).__eq__

    def _literal(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROL:
            return _CONTROL[char]
        if char.isalnum():
            raise PatternError(f"'\\{char}' at {self._at - 2} is not known here")
        return char

    def _class(self) -> Takes:
        opposite = self._peek() == "^"
        if opposite:
            self._take()
        any_of: list[Takes] = []
        first = True
        while first or self._peek() != "]":
            first = False
            char = self._take()
            if char == "\\" and self._peek().lower() in _CLASSES:
                any_of.append(self._escaped())
                continue
            low = self._literal(self._take()) if char == "\\" else char
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._take()
                char = self._take()
                high = self._literal(self._take()) if char == "\\" else char
            if high < low:
                raise PatternError(f"the range {low}-{high} is empty")
            any_of.append(_between(low, high))
        self._take()
        return lambda given: any(takes(given) for takes in any_of) is not opposite

    def _repeated(self, piece: Piece) -> Piece:
        while self._peek() and self._peek() in "*+?{":
            char = self._take()
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) or self._count()
            piece = _times(piece, least, most)
            if self._peek() == "?":  # "as few as possible" makes no difference to whether
                self._take()
        return piece

    def _count(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        said = self._text[self._at : end] if end >= 0 else ""
        low, comma, high = said.partition(",")
        if not (low.isascii() and low.isdigit() and len(low) < 5) or (
            high and not (high.isascii() and high.isdigit() and len(high) < 5)
        ):
            raise PatternError(f"'{{' at {self._at - 1} must be a count, such as {{2}} or {{1,3}}")
        self._at = end + 1
        least = int(low)
        most = int(high) if high else None if comma else least
        if most is not None and most < least:
            raise PatternError(f"{{{said}}} allows nothing")
        return least, most


def _times(piece: Piece, least: int, most: int | None) -> Piece:
    def build(add: Add, then: int) -> int:
        if most is None:
            ways = [then]
            back = add(None, ways)
            ways.append(piece(add, back))
            then = back
        else:
            end = then
            for _ in range(most - least):
                then = add(None, [piece(add, then), end])
        for _ in range(least):
            then = piece(add, then)
        return then

    return build


def _between(low: str, high: str) -> Takes:
    return lambda given: low <= given <= high
