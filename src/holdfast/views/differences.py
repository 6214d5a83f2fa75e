"""How one state differs from another, key by key, for a page: short, and without secrets."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from holdfast.codec.redaction import HIDDEN
from holdfast.codec.summaries import is_summarised
from holdfast.errors.base import one_line
from holdfast.operations.diff import Change, Diff
from holdfast.views.legible import Text, escaped, preview

MOST: Final = 300
"""Changes that are shown at once."""

_SIGNS: Final = {"add": "+", "remove": "-", "replace": "~"}
_LONGEST_PATH: Final = 300
_LONG: Final = 48  # characters of a text that is compared by word
_LONGEST: Final = 8_000
_TOKENS: Final = 1_200  # words and spaces: comparing takes their square
_BY_WORD: Final = 20  # texts of one page that are compared by word
_CONTEXT: Final = 48  # equal characters beside a change that are shown
_TOKEN: Final = re.compile(r"\s+|\w+|[^\w\s]")

Word = tuple[str, str]
""""=", "-" or "+", and the text that both have, that went, or that came."""


class Difference(NamedTuple):
    """One change."""

    sign: str  # "~", "+" or "-"
    path: str  # for people
    old: Text | None
    new: Text | None
    words: tuple[Word, ...] = ()  # of long texts: what of them changed


class Differences(NamedTuple):
    """All that changed, as far as a page shows it."""

    changes: list[Difference]
    total: int  # of all changes
    unchanged: list[str]  # keys of the state

    @property
    def more(self) -> int:
        """How many changes are not shown."""
        return self.total - len(self.changes)


def differences(diff: Diff, old: Any, *, messages: bool = False, most: int = MOST) -> Differences:
    """What a page shows of a difference; `old` is the state before."""
    shown = diff._replace(changes=diff.changes[:most]).redacted()
    by_word = _BY_WORD
    found: list[Difference] = []
    for change in shown.changes:
        words = _words(change) if by_word else ()
        by_word -= bool(words)
        found.append(_difference(change, words, messages=messages))
    touched = {str(change.path[0]) if change.path else None for change in diff.changes}
    keys = [] if None in touched or not isinstance(old, dict) else [str(key) for key in old]
    return Differences(found, len(diff.changes), [key for key in keys if key not in touched])


def _difference(change: Change, words: tuple[Word, ...], *, messages: bool) -> Difference:
    pointer = "".join(f"/{escaped(part)}" for part in change.path)
    path = _path(change)
    old = None if change.op == "add" else preview(change.old, "", pointer, messages=messages)
    new = None if change.op == "remove" else preview(change.new, "", pointer, messages=messages)
    if change.op == "replace" and is_summarised(change.old) and is_summarised(change.new):
        told = change.shown()
        old, new = (each._replace(text=text) for each, text in zip((old, new), told, strict=True)
                    if each is not None)  # fmt: skip
    return Difference(_SIGNS[change.op], path, old, new, words)


def _path(change: Change) -> str:
    """Where it is, for people; the first key as it is: steps have brackets in their names."""
    if not change.path:
        return "the whole state"
    first, *rest = change.path
    text = one_line(str(first)) if isinstance(first, str) else f"[{first}]"
    for part in rest:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isidentifier() else f"[{part!r}]"
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}…"


def _words(change: Change) -> tuple[Word, ...]:
    """What changed in a long text; nothing if it is short, too long, or another text altogether."""
    old, new = change.old, change.new
    if not (isinstance(old, str) and isinstance(new, str)) or HIDDEN in (old, new):
        return ()
    if not _LONG < max(len(old), len(new)) <= _LONGEST or not min(len(old), len(new)):
        return ()
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    if max(len(before), len(after)) > _TOKENS:
        return ()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < 0.3:
        return ()
    return tuple(_short(list(_pieces(matcher, before, after))))


def _pieces(matcher: "SequenceMatcher[str]", before: list[str], after: list[str]) -> Iterator[Word]:
    for op, a, b, c, d in matcher.get_opcodes():
        if op == "equal":
            yield "=", "".join(before[a:b])
            continue
        if a < b:
            yield "-", "".join(before[a:b])
        if c < d:
            yield "+", "".join(after[c:d])


def _short(pieces: list[Word]) -> Iterator[Word]:
    """The pieces, with what is equal left out but for a few words beside each change."""
    last = len(pieces) - 1
    for at, (sign, text) in enumerate(pieces):
        if sign == "=" and len(text) > 2 * _CONTEXT:
            head = text[:_CONTEXT] if at else ""
            tail = text[-_CONTEXT:] if at < last else ""
            yield sign, f"{head} … {tail}"
        else:
            yield sign, text
