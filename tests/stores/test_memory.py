from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.contract import StoreContract, entry
from holdfast.testing.machine import make_store_machine
from tests.effort import examples


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        store = MemoryStore()
        return lambda: store


def _new_memory() -> Callable[[], Store]:
    store = MemoryStore()
    return lambda: store


TestMemoryAgainstADict = make_store_machine(_new_memory, reopens=False).TestCase
TestMemoryAgainstADict.settings = settings(
    max_examples=examples(30), stateful_step_count=30, deadline=None
)


def test_it_survives_nothing_and_answers_inline() -> None:
    store = MemoryStore()
    assert store.survives() == "nothing"
    assert store.inline
    assert store.url == "memory://"


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    one.append([entry("run", 0)])
    assert other.read("run") == []
