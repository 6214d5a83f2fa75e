"""A view of a store is a store: whatever it does not override, the store beneath it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from holdfast.kernel.store_view import StoreView, real_store
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.contract import StoreContract


class TestViewOfStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        store = MemoryStore()
        return lambda: StoreView(StoreView(store))


def test_every_method_of_a_store_is_given_on() -> None:
    derived = {"last"}  # which is made of `read`
    methods = dict(inspect.getmembers(Store, inspect.isfunction))
    assert derived == {
        name for name in methods if not name.startswith("_") and name not in vars(StoreView)
    }


def test_views_lead_to_the_store_itself() -> None:
    store = MemoryStore()
    assert real_store(StoreView(StoreView(store))) is store
