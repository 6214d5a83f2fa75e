"""Regular expressions that match in linear time: even a hostile one can't hang.

Python's own `re` backtracks: it may take years for `(a+)+$`. RE2 does not. Back references and
looking ahead or behind, which would need backtracking, are refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from holdfast.extras import install_command

_MAX_PATTERN: Final = 1000  # characters
_MAX_MEMORY: Final = 1 << 20  # bytes of the compiled pattern
_MAX_TEXT: Final = 100_000  # characters
_MAX_WORK: Final = 50_000_000  # characters times instructions: about half a second at worst


class Pattern:
    """A regular expression in RE2's syntax, where `$` matches at the very end only."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_PATTERN:
            raise ValueError(f"a pattern may have {_MAX_PATTERN} characters, not {len(text)}")
        try:
            import re2
        except ImportError:
            raise ValueError(f"a pattern needs google-re2: {install_command('schema')}") from None
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY
        options.never_capture = True  # which is much faster
        try:
            self._compiled: Any = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0]
            reason = reason.decode(errors="replace") if isinstance(reason, bytes) else error
            raise ValueError(f"the pattern {text!r} can't be used: {reason}") from None
        self.cost: Final[int] = self._compiled.programsize  # that one character may take, at most
        self.longest: Final = min(_MAX_TEXT, _MAX_WORK // self.cost)  # text, in characters

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in the text. Raises `ValueError` for one that is too long."""
        if len(text) > self.longest:
            raise ValueError(f"the text is longer than {self.longest} characters")
        # What no file or socket could hold, half a surrogate pair, matches as "?".
        return self._compiled.search(text.encode(errors="replace")) is not None


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """The pattern, compiled. Raises `ValueError` if it is invalid, or RE2 is not installed."""
    return Pattern(text)
