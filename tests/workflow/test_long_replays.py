"""A long run is resumed with one pass over its journal: each entry is read and proved once."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.codec import meta as metadata
from holdfast.engine.resume.history import History
from holdfast.store import Store
from holdfast.workflow import step, workflow

STEPS = 2500  # more than two pages


class BlockedError(Exception):
    """Ends a run that is to be resumed."""


@step(inline=True)
def work(number: int) -> dict[str, int]:
    return {"n": number}


class Gate:
    """A flow of many steps that fails behind them until it is opened."""

    def __init__(self, steps: int) -> None:
        self.open = False

        @workflow("long")
        async def flow() -> int:
            total = 0
            for number in range(steps):
                total += (await work(number))["n"]
            if not self.open:
                raise BlockedError
            return total

        self.flow = flow


def _stopped(store: Store, steps: int = STEPS) -> Gate:
    gate = Gate(steps)
    with pytest.raises(BlockedError):
        hf.Engine(store).run_sync(gate.flow(), run_id="r", durability="async")
    gate.open = True
    return gate


def test_a_resume_reads_proves_and_parses_each_entry_once() -> None:
    with closing(hf.open_store("memory://")) as store:
        gate = _stopped(store)
        read: Counter[int] = Counter()
        proved: Counter[int] = Counter()
        parsed: list[str] = []

        def reading(run: str, **how: Any) -> Any:
            found = plain_read(run, **how)
            if run == "r" and how.get("bodies", True):
                read.update(entry.seq for entry in found)
            return found

        def vouching(entry: Any, *more: Any) -> bool:
            proved[entry.seq] += entry.run == "r"
            return plain_vouches(entry, *more)

        def parsing(text: str) -> Any:
            parsed.append(text)
            return plain_parse(text)

        plain_read, plain_vouches, plain_parse = store.read, envelope.vouches, metadata._parse
        with (
            patch.object(store, "read", reading),
            patch.object(envelope, "vouches", vouching),
            patch.object(metadata, "_parse", parsing),
        ):
            found = hf.Engine(store).resume_sync("r", flow=gate.flow)
    assert found == sum(range(STEPS))
    results = range(5, STEPS - 200)  # of the first and the last ones, more is asked
    assert {read[seq] for seq in results} <= {1, 2}  # 2 where a page begins: it proves the next
    assert sum(read[seq] == 2 for seq in results) <= STEPS // 1000 + 1
    assert {proved[seq] for seq in results} == {1}
    assert len(parsed) < 30  # what results of a step say alike is parsed once


def test_nothing_of_the_history_is_kept_while_a_resumed_run_is_executed() -> None:
    seen: list[weakref.ref[History]] = []
    alive: list[bool] = []
    plain = History.__init__

    def noting(self: History, *given: Any, **more: Any) -> None:
        plain(self, *given, **more)
        seen.append(weakref.ref(self))

    with closing(hf.open_store("memory://")) as store:
        _stopped(store, 3)

        @step
        def look() -> None:
            gc.collect()
            alive.extend(one() is not None for one in seen)

        @workflow("long")
        async def flow() -> None:
            for number in range(3):
                await work(number)
            await look()

        with patch.object(History, "__init__", noting):
            hf.Engine(store).resume_sync("r", flow=flow)
    assert alive
    assert not any(alive)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',
        '{"a":{"b":1},"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',
        '{"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',
        '{"a":1,"args":"AAAA"}',
        '{"a":1}',
        "",
    ],
)
def test_metadata_without_its_arguments_says_the_same(text: str) -> None:
    alike, arguments = metadata.without_arguments(text)
    if arguments is None:
        assert alike == text
    else:
        whole = metadata._parse(text)
        assert {**metadata._parse(alike), "args": arguments} == whole
    assert metadata.with_arguments(alike, arguments) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"b":1,"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',  # not closed
        '{"a":"b,"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',
        '["a",1,"args":"AAAAAAAAAAAAAAAAAAAAAAAA"}',
    ],
)
def test_damaged_metadata_stays_damaged_without_its_arguments(text: str) -> None:
    alike, arguments = metadata.without_arguments(text)
    assert arguments is not None
    with pytest.raises(ValueError, match=r"."):
        metadata._parse(alike)
