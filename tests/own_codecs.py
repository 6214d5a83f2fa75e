"""Codecs of a test's own, which are forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.codec import registry


@contextmanager
def own_codecs() -> Iterator[None]:
    """What is registered inside is forgotten afterwards."""
    tables: list[dict[Any, Any]] = [registry.BY_TYPE, registry.FAMILIES, registry._by_name]
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)


@contextmanager
def no_codecs() -> Iterator[None]:
    """As in a process that has registered nothing."""
    with own_codecs():
        registry.BY_TYPE.clear()
        registry.FAMILIES.clear()
        registry._by_name.clear()
        yield
