"""Regular expressions whose time grows only with the text: whoever writes one, it can't hang.

Python's own matcher tries one way after another, and `(a+)+$` has very many of them. Here all are
followed at once. What that can't do is refused: back references, looking ahead or behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]  # the tree that `re` itself uses
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

_MAX_PATTERN: Final = 1000
_MAX_COST: Final = 10_000
_MAX_WORK: Final = 6_000_000
_MAX_TEXT: Final = 100_000

_Test = Callable[[str], bool]


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """A pattern, ready to be looked for. Raises `ValueError`."""
    return Pattern(text)


class Pattern:
    """A regular expression in Python's syntax, where `$` stands for the very end alone."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cost = 0  # what one character may take: states, ways between them, tests
        # What each state does: a test to pass, an assertion, or states to be in besides.
        self._tests: dict[int, _Test] = {}
        self._asserts: dict[int, Any] = {}
        self._ways: list[tuple[int, ...]] = []
        if len(text) > _MAX_PATTERN:
            raise ValueError(f"a pattern may have {_MAX_PATTERN} characters, not {len(text)}")
        try:
            tree = _parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"the pattern {text!r} is none: {error}") from None
        self._fold = bool(tree.state.flags & re.IGNORECASE)
        self._dotall = bool(tree.state.flags & re.DOTALL)
        if tree.state.flags & (re.MULTILINE | re.ASCII):
            raise ValueError(f"the pattern {text!r} has flags other than i, s and x")
        self._last = self._state()
        self._first = self._sequence(tree, self._last)

    @property
    def longest(self) -> int:
        """How long a text it can be looked for in, so that it takes no longer than a moment."""
        return min(_MAX_TEXT, _MAX_WORK // self.cost)

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in the text."""
        if len(text) > self.longest:
            raise ValueError(f"the text is longer than {self.longest} characters")
        current: set[int] = set()
        for at in range(len(text) + 1):
            current = self._closure({*current, self._first}, text, at)
            if self._last in current:
                return True
            if at < len(text):
                char = text[at]
                current = {
                    way
                    for state in current
                    if state in self._tests and self._tests[state](char)
                    for way in self._ways[state]
                }
        return False

    def _closure(self, states: set[int], text: str, at: int) -> set[int]:
        todo, found = list(states), set(states)
        while todo:
            state = todo.pop()
            if state in self._tests:
                continue
            if state in self._asserts and not _holds(self._asserts[state], text, at):
                continue
            for way in self._ways[state]:
                if way not in found:
                    found.add(way)
                    todo.append(way)
        return found

    # --- from the tree to states, last to first

    def _state(self, *ways: int) -> int:
        self._charge(1 + len(ways))
        self._ways.append(ways)
        return len(self._ways) - 1

    def _charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > _MAX_COST:
            raise ValueError(f"the pattern {self.text!r} is too large, or repeats too much")

    def _sequence(self, tree: Any, then: int) -> int:
        for op, argument in reversed(list(tree)):
            then = self._part(op, argument, then)
        return then

    def _part(self, op: Any, argument: Any, then: int) -> int:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            state = self._state(then)
            self._tests[state] = self._test(op, argument)
            return state
        if op is sre.AT:
            state = self._state(then)
            self._charge(8)  # `\b` looks at two characters
            self._asserts[state] = argument
            return state
        if op is sre.BRANCH:
            return self._state(*(self._sequence(way, then) for way in argument[1]))
        if op is sre.SUBPATTERN and not argument[1] and not argument[2]:
            return self._sequence(argument[3], then)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, tree = argument
            return self._repeat(least, most, tree, then)
        raise ValueError(f"the pattern {self.text!r} uses {str(op).lower()}, which is not known")

    def _repeat(self, least: int, most: int, tree: Any, then: int) -> int:
        if most is sre.MAXREPEAT:
            again = self._state(then)
            self._ways[again] = (self._sequence(tree, again), then)
            self._charge(1)
            then = again
        else:
            after = then
            for _ in range(most - least):
                then = self._state(self._sequence(tree, then), after)
        for _ in range(least):
            before = self._sequence(tree, then)
            if before == then:  # nothing, again and again
                break
            then = before
        return then

    def _test(self, op: Any, argument: Any) -> _Test:
        if op is sre.ANY:
            return (lambda char: True) if self._dotall else (lambda char: char != "\n")
        members = argument if op is sre.IN else [(sre.LITERAL, argument)]
        self._charge(len(members) * (3 if self._fold else 1))
        negated = op is sre.NOT_LITERAL or members[0][0] is sre.NEGATE
        tests = [_member(*member) for member in members if member[0] is not sre.NEGATE]

        def test(char: str) -> bool:
            forms = {char, char.lower(), char.upper()} if self._fold else (char,)
            return any(one(form) for form in forms for one in tests) is not negated

        return test


def _member(op: Any, argument: Any) -> _Test:
    if op is sre.LITERAL:
        return lambda char: char == chr(argument)
    if op is sre.RANGE:
        low, high = argument
        return lambda char: len(char) == 1 and low <= ord(char) <= high
    if op is sre.CATEGORY:
        known = _CATEGORIES[argument]
        return lambda char: known.fullmatch(char) is not None
    raise ValueError(f"a pattern uses {str(op).lower()}, which is not known")


def _holds(what: Any, text: str, at: int) -> bool:
    if what in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return at == 0
    if what in (sre.AT_END, sre.AT_END_STRING):
        return at == len(text)
    is_word = _CATEGORIES[sre.CATEGORY_WORD].fullmatch
    edge = bool(at and is_word(text[at - 1])) != bool(at < len(text) and is_word(text[at]))
    return edge is (what is sre.AT_BOUNDARY)


_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: re.compile(r"\d"),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    sre.CATEGORY_SPACE: re.compile(r"\s"),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    sre.CATEGORY_WORD: re.compile(r"\w"),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
