"""Values in JSON's form, and in a few words."""

import json
from typing import Any, Final

from holdfast.codec import readable
from holdfast.codec.redaction import redacted
from holdfast.codec.summaries import shortened

_SHORT: Final = 80  # characters


def plain(value: Any) -> Any:
    """A value as JSON has it, in the form that stores for people have."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return readable.to_json(value)


def short(value: object) -> str:
    """A value in a few words, without what looks like a secret."""
    return shortened(_words(redacted(plain(value))), _SHORT)


def _words(tree: Any) -> str:
    match tree:
        case bool():
            return "yes" if tree else "no"
        case str():
            return tree
        case dict() if all(not isinstance(part, dict | list) for part in tree.values()):
            return ", ".join(f"{key}: {_words(part)}" for key, part in tree.items())
    return json.dumps(tree, ensure_ascii=False)
