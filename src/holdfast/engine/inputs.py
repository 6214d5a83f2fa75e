"""What a run was started with: its hash, and how other inputs differ from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any, Final

from holdfast.codec import readable, values
from holdfast.codec.apart import LARGE
from holdfast.codec.summaries import summary
from holdfast.engine.arguments import digest
from holdfast.errors import SerializeError
from holdfast.kernel.core import Core
from holdfast.revealed import hidden_leaves, scrubbed
from holdfast.urls import masked

_MOST: Final = 5  # differences that are named
_LONGEST: Final = 60  # characters of a value that are shown
_SECRET: Final = re.compile(r"password|passwd|secret|token|api_?key|credential|private", re.I)
_ABSENT: Final = object()


def inputs_hash(inputs: object, encoding: bytes | None = None) -> str:
    """SHA-256 over the inputs in one form: equal inputs have equal hashes, in every process.

    The order of a dict's keys and of a set's members does not matter. Of a secret, its name counts
    and not its value. `encoding` is that of the inputs, if it is known. Raises `SerializeError`
    with the path to what can't be stored.
    """
    if not hidden_leaves():
        encoding = encoding or values.encode(inputs, root="inputs")
        packed = values.ordered(inputs) if len(encoding) >= LARGE else None
        if packed is not None:
            return hashlib.sha256(packed).hexdigest()
    return readable_hash(inputs, encoding)


def readable_hash(inputs: object, encoding: bytes | None = None) -> str:
    """As `inputs_hash`, over the readable form, whatever their size; large ones take long."""
    hidden, text = hidden_leaves(), None
    if not hidden:
        text = readable.canonical(encoding or values.encode(inputs, root="inputs"))
    if text is None:
        tree = _ordered(readable.to_json(inputs, root="inputs"), hidden)
        text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(scrubbed(text).encode()).hexdigest()


def comparable_hash(core: Core, inputs: object, encoding: bytes | None = None) -> str:
    """`inputs_hash`; where any value may be saved, also of inputs that could not be stored.

    What is withheld or encrypted by its path counts by its path alone. `encoding` is what
    `compose.encode` made of the inputs, if it was asked.
    """
    try:
        known = encoding if core.withholding.is_idle else None
        # Inputs that are not stored can't be hashed again, once a secret changed how that is done.
        hash_of = readable_hash if core.journals.live else inputs_hash
        return hash_of(core.withholding.masked(inputs), known)
    except SerializeError:
        if not core.journals.live:
            raise
        return digest((inputs,), {})


def differences(recorded: object, given: object) -> list[str]:
    """Where the given inputs are not the recorded ones: the path, then both values, shortened.

    The first few; the last says how many more there are.
    """
    try:
        plain = values.decode_data(values.encode(given))
    except SerializeError:  # a run that is not stored
        return ["a value that can't be stored"]
    found = _differences("", recorded, plain)
    shown = [_described(path, old, new) for path, old, new in islice(found, _MOST)]
    more = sum(1 for _ in found)
    return [*shown, f"and {more:,} more"] if more else shown


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if type(old) is dict and type(new) is dict:
        before, after = _by_name(old), _by_name(new)
        for key in {**before, **after}:
            _, name = key
            inner = f"{path}.{name}" if path else name
            yield from _differences(inner, before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif type(old) is type(new) and isinstance(old, list | tuple):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=_ABSENT)):
            yield from _differences(f"{path}[{index}]", one, other)
    elif old is _ABSENT or new is _ABSENT or readable_hash(old) != readable_hash(new):
        yield path, old, new


def _by_name(items: dict[Any, Any]) -> dict[tuple[bool, str], Any]:
    """A dict by its keys as text; "1", 1, 1.0 and True are different keys here."""
    return {
        (True, key) if type(key) is str else (False, json.dumps(readable.to_json(key))): item
        for key, item in items.items()
    }


def _described(path: str, old: Any, new: Any) -> str:
    was, now = _shown(path, old), _shown(path, new)
    return f"{path or 'it'} was {was} and is {now}"


def _shown(path: str, value: Any) -> str:
    """A value for an error message: short, and without what looks like a secret."""
    if value is _ABSENT:
        return "not given"
    if isinstance(value, str | bytes) and _SECRET.search(path):
        return "***"
    if isinstance(value, str) and "://" in value and "@" in value:
        value = masked(value)
    try:
        text = summary(readable.to_json(value)) or repr(value)
    except ValueError:  # Python refuses to write very long integers
        return f"a long {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _ordered(tree: Any, hidden: frozenset[str]) -> Any:
    if isinstance(tree, list):
        return [_ordered(item, hidden) for item in tree]
    if isinstance(tree, dict):
        ordered = {key: _ordered(item, hidden) for key, item in tree.items()}
        if "$map" in ordered:
            ordered["$map"] = sorted(ordered["$map"], key=json.dumps)
        return ordered
    return "?" if hidden and repr(tree) in hidden else tree
