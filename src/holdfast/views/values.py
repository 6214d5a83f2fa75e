"""Values in JSON's form."""

from typing import Any

from holdfast.codec import readable


def plain(value: Any) -> Any:
    """A value as JSON has it, in the form that stores for people have."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return readable.to_json(value)
