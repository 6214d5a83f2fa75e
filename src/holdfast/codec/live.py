"""Values of runs that nothing outlives: what can't be stored is kept as it is, in memory."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Final

from holdfast.codec import values
from holdfast.errors import SerializeError

_TOKEN: Final = b"\xc1live"  # no packed value begins with this byte


class LiveValues:
    """Encodes and decodes like `values`; an object that has no packed form comes back itself."""

    def __init__(self, decode: Callable[[bytes], Any] = values.decode) -> None:
        self._decode = decode
        self._objects: list[object] = []

    def encode(self, value: object, *, root: str = "state") -> bytes:
        """The packed form of a value, or a token for it."""
        try:
            return values.encode(value, root=root)
        except SerializeError:
            self._objects.append(_copied(value))
            return _TOKEN + str(len(self._objects) - 1).encode()

    def decode(self, data: bytes | bytearray | memoryview) -> Any:
        """The value that these bytes stand for."""
        return self._decoded(data, self._decode)

    def decode_data(self, data: bytes | bytearray | memoryview) -> Any:
        """The value that these bytes stand for, with what codecs stored as data."""
        return self._decoded(data, values.decode_data)

    def _decoded(self, data: bytes | bytearray | memoryview, decode: Callable[..., Any]) -> Any:
        if bytes(data[: len(_TOKEN)]) != _TOKEN:
            return decode(data)
        return _copied(self._objects[int(bytes(data[len(_TOKEN) :]))])


def _copied(value: Any) -> Any:
    """Its containers and dataclasses anew, as a store would make them; all else as it is."""
    kind = type(value)
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    if kind in (list, tuple, set):
        return kind(map(_copied, value))
    if dataclasses.is_dataclass(kind):
        fresh = copy.copy(value)
        for field in dataclasses.fields(kind):
            object.__setattr__(fresh, field.name, _copied(getattr(value, field.name)))
        return fresh
    return value
