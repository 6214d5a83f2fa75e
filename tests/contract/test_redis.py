from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from holdfast.store import Store
from holdfast.testing.contract import PersistentStoreContract
from holdfast.testing.machine import make_store_machine
from tests.servers.redis import RedisCluster, new_opener


class TestRedisStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return new_opener()


class TestRedisStoreOnACluster(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(new_opener(RedisCluster.shared().url), cluster=True)


TestRedisAgainstADict = make_store_machine(new_opener).TestCase
TestRedisAgainstADict.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
