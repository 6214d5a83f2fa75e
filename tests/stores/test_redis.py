from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from holdfast import open_store
from holdfast.store import Store
from holdfast.testing.contract import PersistentStoreContract
from holdfast.testing.machine import make_store_machine
from tests.effort import examples
from tests.servers.redis import RedisCluster, new_url


class TestRedisStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(open_store, new_url())


class TestRedisStoreOnACluster(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(open_store, new_url(RedisCluster.shared().url), cluster=True)


TestRedisAgainstADict = make_store_machine(lambda: partial(open_store, new_url())).TestCase
TestRedisAgainstADict.settings = settings(
    max_examples=examples(8),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
