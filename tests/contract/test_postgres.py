from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from holdfast.store import Store
from holdfast.testing.contract import PersistentStoreContract, TransactionalContract
from holdfast.testing.machine import make_store_machine
from holdfast.urls import open_store
from tests.servers import postgres


class TestPostgresStore(PersistentStoreContract, TransactionalContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(open_store, postgres.new_url())


def _new_schema() -> Callable[[], Store]:
    return partial(open_store, postgres.new_url())


TestPostgresAgainstADict = make_store_machine(_new_schema).TestCase
TestPostgresAgainstADict.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
