"""Where in a nested value something is wrong, written the way a reader would reach it."""

from __future__ import annotations

from typing import Final

_MAX_PATH: Final = 300
_MAX_KEY: Final = 40
_PLAIN_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None)})


class Misplaced(Exception):  # noqa: N818 - never leaves the codec, which makes an error of it
    """Raised where a value is refused; on its way up it learns the steps that lead there."""

    def __init__(self, reason: str, *, fits: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fits = fits  # whether it is of the type that was asked for, and wrong otherwise
        self._steps: list[str] = []

    def under(self, step: str) -> Misplaced:
        """Note the step that leads here from one level further up."""
        self._steps.append(step)
        return self

    @property
    def depth(self) -> int:
        """How many steps are known by now."""
        return len(self._steps)

    def path(self, root: str) -> str:
        """The way from `root` to the value, without its middle when it is very long."""
        path = root + "".join(reversed(self._steps))
        if len(path) <= _MAX_PATH:
            return path
        half = _MAX_PATH // 2
        return f"{path[:half]}…{path[-half:]}"


def key_step(key: object) -> str:
    """The step into a mapping: `.name`, `['a b']`, `[3]`, or `[<Point>]` for other types."""
    if type(key) is str and key.isidentifier():
        return f".{key}"
    if type(key) not in _PLAIN_KEYS:
        return f"[<{type(key).__name__}>]"  # a foreign __repr__ may be endless, or raise
    if type(key) is int and key.bit_length() > 128:
        return "[<int>]"  # Python refuses to print the largest
    shown = ascii(key) if type(key) is str and not key.isprintable() else repr(key)
    return f"[{shown if len(shown) <= _MAX_KEY else shown[: _MAX_KEY - 1] + '…'}]"
