"""Which fields of a dataclass are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from holdfast.codec.paths import Misplaced

NOT_SAVED: Final[Mapping[str, Any]] = MappingProxyType({"holdfast": "not saved"})
"""Marks a field of a dataclass that no checkpoint stores: `field(default=..., metadata=NOT_SAVED)`.

It has its default again whenever the state is loaded, and after every step of a flow.
"""


def _stored_fields(kind: Any) -> tuple[str, ...]:
    """The names of a dataclass's fields that are stored.

    Raises `Misplaced` if another one has no default: nothing could take its place.
    """
    found = []
    for field in dataclasses.fields(kind):
        if is_stored(field):
            found.append(field.name)
        elif field.init and not has_default(field):
            raise Misplaced(
                f"{kind.__name__}.{field.name} is marked as not saved, so it needs a default"
            )
    return tuple(found)


stored_fields: Callable[[Any], tuple[str, ...]] = lru_cache(maxsize=1024)(_stored_fields)


def is_stored(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is not marked by `NOT_SAVED`."""
    return bool(field.metadata.get("holdfast") != NOT_SAVED["holdfast"])


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a field may be left out when an object is made."""
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing
