"""A state as text that people edit, and back. What looks like a secret stays hidden, and stays."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import Checkpoint
from holdfast.codec import readable
from holdfast.codec.redaction import HIDDEN, redacted
from holdfast.codec.values import MAX_DEPTH, same
from holdfast.operations.forking import SAME
from holdfast.web.statuses import InvalidFieldError

LARGEST: Final = 256 << 10
"""Characters of a state that is edited in a browser; larger ones are edited with the command line."""

_DEEPEST: Final = 2 * MAX_DEPTH + 2  # levels of JSON: a tag such as $tuple is one of its own


class Editable(NamedTuple):
    """The state of a checkpoint as text."""

    text: str
    size: int  # characters; more than `LARGEST`: there is no text

    @property
    def fits(self) -> bool:
        """Whether it can be edited in a browser."""
        return self.size <= LARGEST


def editable(source: Checkpoint) -> Editable:
    """The state of a checkpoint for people to edit, in the readable form."""
    text = _text(readable.to_json(source.state))
    return Editable(text if len(text) <= LARGEST else "", len(text))


def edited(source: Checkpoint, text: str) -> object:
    """The state that the text says; `SAME` if nothing was changed. Raises `InvalidFieldError`."""
    before = readable.to_json(source.state)
    text = text.replace("\r\n", "\n")
    if text.strip() == _text(before).strip():
        return SAME
    if len(text) > LARGEST:
        raise InvalidFieldError("state", "is too large to be edited here: use holdfast fork --edit")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFieldError("state", f"is not JSON: {error}") from None
    return unhidden(source, tree)


def unhidden(source: Checkpoint, tree: Any) -> object:
    """The state that an edited readable form says, with the secrets that were hidden in it.

    Raises `InvalidFieldError`.
    """
    _refuse_too_deep(tree)
    before = readable.to_json(source.state)
    try:
        json.dumps(tree, ensure_ascii=False).encode()
        whole = _with_secrets(tree, before, redacted(before), "")
        return readable.data_from_json(whole)
    except InvalidFieldError:
        raise
    except ValueError as error:
        raise InvalidFieldError("state", str(error)) from None


def _text(tree: Any) -> str:
    return json.dumps(redacted(tree), indent=2, ensure_ascii=False)


def _refuse_too_deep(tree: Any) -> None:
    """Refuse what is nested so deep that functions which call themselves would fail."""
    level = [tree]
    for _ in range(_DEEPEST):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise InvalidFieldError("state", f"is nested deeper than {MAX_DEPTH} levels")


def _with_secrets(new: Any, old: Any, shown: Any, path: str) -> Any:
    """The edited value, with what was hidden where it is still hidden."""
    if same(new, shown):
        return old
    if new == HIDDEN:
        raise InvalidFieldError("state", f"the hidden value at {path or 'the top'} was moved")
    if isinstance(new, str) and HIDDEN in new:
        raise InvalidFieldError("state", f"the hidden part of {path or 'the top'} was changed")
    if isinstance(new, dict):
        olds = old if isinstance(old, dict) else {}
        seen = shown if isinstance(shown, dict) else {}
        return {
            key: _with_secrets(part, olds.get(key), seen.get(key), f"{path}.{key}".lstrip("."))
            for key, part in new.items()
        }
    if isinstance(new, list):
        items = list(zip(shown, old, strict=True)) if isinstance(shown, list) else []
        return [_item(part, items, f"{path}[{at}]") for at, part in enumerate(new)]
    return new


def _item(new: Any, items: list[tuple[Any, Any]], path: str) -> Any:
    """An item of an edited list. One with hidden values is found by what else it has."""
    if HIDDEN not in json.dumps(new, ensure_ascii=False):
        return new
    found = [old for shown, old in items if same(shown, new)]
    if found and all(same(old, found[0]) for old in found):
        return found[0]
    raise InvalidFieldError(
        "state",
        f"it is not known which hidden values {path} has, because the list was changed: write "
        "the values, or leave the list as it is",
    )
