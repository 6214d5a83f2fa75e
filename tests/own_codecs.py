"""Codecs of a test's own, which are forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.codec import registry


@contextmanager
def own_codecs() -> Iterator[None]:
    """What is registered inside is forgotten afterwards, but for holdfast's own."""
    tables: list[dict[Any, Any]] = [registry.BY_TYPE, registry.FAMILIES, registry._by_name]
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, known in zip(tables, before, strict=True):
            ready = {key: codec for key, codec in table.items() if _is_ready(codec)}
            table.clear()
            table.update(ready | known)


@contextmanager
def no_codecs() -> Iterator[None]:
    """As in a process that has registered nothing."""
    with own_codecs():
        tables: list[dict[Any, Any]] = [registry.BY_TYPE, registry.FAMILIES, registry._by_name]
        for table in tables:
            for key in [key for key, codec in table.items() if not _is_ready(codec)]:
                del table[key]
        yield


def _is_ready(codec: registry.Codec) -> bool:
    """Whether it is holdfast's own, which is registered once, with its module."""
    return codec.name.partition(".")[0] in registry.READY
