"""How one state differs from another: for people, in color, and as a JSON Patch (RFC 6902)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from holdfast import markup
from holdfast.codec import readable
from holdfast.codec.redaction import MAP, hidden, is_secret, redacted, value_of_a_secret
from holdfast.codec.summaries import changed, for_people, is_summarised, summary

Path = tuple[str | int, ...]

_SHOWN: Final = 100  # characters of a value that are shown to people
_SIGNS: Final = {"add": "+", "remove": "-", "replace": "~"}
_COLORS: Final = {"add": "\x1b[32m", "remove": "\x1b[31m", "replace": "\x1b[33m"}


class Change(NamedTuple):
    """One difference, at a path into the states' JSON form."""

    op: Literal["add", "remove", "replace"]
    path: Path
    old: Any
    new: Any
    is_secret: bool = False  # by the name that stands beside a "value", as in lists of headers

    def redacted(self) -> Change:
        """The change without what looks like a secret."""
        # Of a pair in a map whose keys are no texts, the key is not known here.
        names = [part for part in self.path if isinstance(part, str)]
        hide = self.is_secret or MAP in names or any(map(is_secret, names))
        show = hidden if hide else redacted
        return self._replace(old=show(self.old), new=show(self.new))

    @property
    def where(self) -> str:
        """What happened, and at which path, without the values."""
        return f"{_SIGNS[self.op]} {_readable_path(self.path)}"

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer."""
        return _pointer(self.path)

    def __str__(self) -> str:
        where = self.where
        old, new = self.shown()
        if self.op != "replace":
            return f"{where}: {new if self.op == 'add' else old}"
        link = " " if old == _shown(self.new) else " → "
        return f"{where}: {old}{link}{new}"

    def shown(self) -> tuple[str, str]:
        """The old and the new value for people, each empty where there is none."""
        old = "" if self.op == "add" else _shown(self.old)
        new = "" if self.op == "remove" else _shown(self.new)
        if old == new and is_summarised(self.old):
            new = changed(self.old, self.new)
        return old, new


class Diff(NamedTuple):
    """All that changed from one checkpoint to another. `str()` is for people."""

    old_id: str
    new_id: str
    changes: tuple[Change, ...]

    def redacted(self) -> Diff:
        """The difference without what looks like a secret."""
        return self._replace(changes=tuple(change.redacted() for change in self.changes))

    @property
    def patch(self) -> list[dict[str, Any]]:
        """The JSON Patch that turns the old state's JSON form into the new one's."""
        return [
            {"op": change.op, "path": _pointer(change.path)}
            | ({} if change.op == "remove" else {"value": change.new})
            for change in self.changes
        ]

    def text(self, *, color: bool = False) -> str:
        """A line per change: + added, - removed, ~ replaced."""
        lines = [
            f"{_COLORS[change.op]}{change}\x1b[0m" if color else str(change)
            for change in self.changes
        ]
        return "\n".join([f"{self.old_id} → {self.new_id}", *(lines or ["no difference"])])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = [(_SIGNS[c.op], _readable_path(c.path), *c.shown()) for c in self.changes]
        listed = markup.table(("", "where", "old", "new"), rows) if rows else "no difference"
        return markup.box(f"{self.old_id} → {self.new_id}", {}, listed)

    def __bool__(self) -> bool:
        return bool(self.changes)


def diff_values(old: object, new: object, old_id: str = "old", new_id: str = "new") -> Diff:
    """Compare two states."""
    return Diff(old_id, new_id, tuple(_changes((), readable.to_json(old), readable.to_json(new))))


def _changes(path: Path, old: Any, new: Any) -> Iterator[Change]:
    if is_summarised(old) or is_summarised(new):  # a whole, whatever it is stored as
        if not _same(old, new):
            yield Change("replace", path, old, new)
    elif isinstance(old, dict) and isinstance(new, dict):
        secret = value_of_a_secret(old) or value_of_a_secret(new)
        if secret is not None:
            yield from _changes(path, _without(old, secret), _without(new, secret))
            for change in _changes(path, _only(old, secret), _only(new, secret)):
                yield change._replace(is_secret=True)
            return
        for key, value in old.items():
            if key not in new:
                yield Change("remove", (*path, key), value, None)
            else:
                yield from _changes((*path, key), value, new[key])
        for key, value in new.items():
            if key not in old:
                yield Change("add", (*path, key), None, value)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(path, old, new)
    elif not _same(old, new):
        yield Change("replace", path, old, new)


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: item for key, item in fields.items() if key != name}


def _only(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: fields[name]} if name in fields else {}


def _list_changes(path: Path, old: list[Any], new: list[Any]) -> Iterator[Change]:
    """Changes in the order to apply them, so that each index is right when it is used."""
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and _same(old[start], new[start]):
        start += 1
    tail = 0
    while tail < shorter - start and _same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    both = min(old_end, new_end)
    for index in range(start, both):
        yield from _changes((*path, index), old[index], new[index])
    for index in range(old_end - 1, both - 1, -1):
        yield Change("remove", (*path, index), old[index], None)
    for index in range(both, new_end):
        yield Change("add", (*path, index), None, new[index])


def _same(a: Any, b: Any) -> bool:
    """Equality that distinguishes True, 1 and 1.0, at every depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _pointer(path: Path) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _readable_path(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text or "(the whole state)"


def _shown(value: Any) -> str:
    # JSON escapes control characters, so a hostile state can't write to the reader's terminal.
    text = summary(value) or json.dumps(for_people(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
