"""LangGraph's own conformance tests, all of them, on each kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import count
from pathlib import Path

import pytest
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from holdfast.integrations.langgraph import HoldfastSaver
from tests.servers import postgres

ALL = 81
"""How many tests there are in langgraph-checkpoint-conformance 0.0.2; later ones have more."""


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file", "postgres"])
def test_the_saver_passes_every_test_of_langgraphs_conformance_suite(
    kind: str, tmp_path: Path
) -> None:
    urls = _urls(kind, tmp_path)

    async def new_saver() -> AsyncGenerator[HoldfastSaver]:
        async with HoldfastSaver(next(urls)) as saver:
            yield saver

    report = asyncio.run(validate(RegisteredCheckpointer(kind, new_saver)))
    failures = {name: found.failures for name, found in report.results.items() if found.failures}
    assert failures == {}
    assert all(found.detected for found in report.results.values())
    assert sum(found.tests_passed for found in report.results.values()) >= ALL


def _urls(kind: str, directory: Path) -> Iterator[str]:
    for number in count():
        match kind:
            case "memory":
                yield "memory://"
            case "sqlite":
                yield f"sqlite:///{directory}/{number}.db"
            case "file":
                yield f"file://{directory}/{number}"
            case _:
                yield postgres.new_url()
