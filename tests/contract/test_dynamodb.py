from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.store import Store
from holdfast.testing.contract import PersistentStoreContract
from holdfast.testing.machine import make_store_machine
from tests.servers.dynamodb import new_url


class TestDynamoDBStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(hf.open_store, new_url())


TestDynamoDBAgainstADict = make_store_machine(lambda: partial(hf.open_store, new_url())).TestCase
TestDynamoDBAgainstADict.settings = settings(
    max_examples=5, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
