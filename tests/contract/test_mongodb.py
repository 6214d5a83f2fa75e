"""MongoDB has no server that tests could install here: mongomock stands in for it, in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import mongomock
import pytest
from hypothesis import HealthCheck, settings

from holdfast.store import Store
from holdfast.stores.mongodb import MongoDBStore
from holdfast.testing.contract import StoreContract
from holdfast.testing.machine import make_store_machine


def new_opener() -> Callable[[], Store]:
    return partial(MongoDBStore, mongomock.MongoClient())


class TestMongoDBStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        return new_opener()


TestMongoDBAgainstADict = make_store_machine(new_opener).TestCase
TestMongoDBAgainstADict.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
