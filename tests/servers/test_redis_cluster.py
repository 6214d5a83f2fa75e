"""A Redis cluster of several members: slots that move, and a replica that takes over."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import parse_qsl, urlsplit

import pytest
import redis

import holdfast as hf
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, Behind, Store
from holdfast.stores.redis.store import RedisStore
from holdfast.testing.contract import check_store, entry
from tests.servers.redis import (
    Member,
    RedisCluster,
    grant_what_the_guide_names,
    new_url,
)
from tests.waiting import wait_until

RUNS = [f"run-{n}" for n in range(30)]


@pytest.fixture
def cluster() -> RedisCluster:
    return RedisCluster.shared()


@pytest.fixture
def url(cluster: RedisCluster) -> str:
    return f"{new_url(cluster.url)}&cluster=true"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(hf.open_store(url)) as store:
        yield store
        assert check_store(store) == []


def keys(member: Member, url: str) -> list[bytes]:
    with redis.Redis.from_url(member.url) as client:
        found: list[bytes] = client.keys(f"{prefix_of(url)}:*")
        return found


def prefix_of(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query))["prefix"]


def slot_of(cluster: RedisCluster, url: str, run: str) -> tuple[int, Member, Member]:
    """The slot of a run, who has it, and another who could."""
    for member in cluster.members:
        for key in keys(member, url):
            if key.endswith(b":e:" + run.encode()):
                other = next(each for each in cluster.members if each is not member)
                return int(member.say("KEYSLOT", key)), member, other
    raise LookupError(run)


def test_runs_are_spread_over_the_members_and_listed_together(
    cluster: RedisCluster, url: str, store: Store
) -> None:
    assert store.append([entry(run, 0, b"x") for run in RUNS]) == [True] * len(RUNS)
    assert all(keys(member, url) for member in cluster.members)
    assert [head.run for head in store.runs()] == sorted(RUNS)
    assert store.stats().checkpoints == len(RUNS)


def test_who_knows_where_slots_were_finds_where_they_are(
    cluster: RedisCluster, url: str, store: Store
) -> None:
    store.append([entry(run, 0, b"x") for run in RUNS])
    slot, giver, taker = slot_of(cluster, url, "run-1")
    with closing(hf.open_store(url)) as other:
        assert len(other.runs()) == len(RUNS)
        cluster.move_slot(slot, giver, taker)
        assert other.append([entry("run-1", 1)]) == [True]
    assert [item.seq for item in store.read("run-1")] == [0, 1]
    assert len(store.runs()) == len(RUNS)


class Told(RedisStore):
    """Tells when an append was refused."""

    def __init__(self, url: str) -> None:
        super().__init__(url.partition("?")[0], prefix=prefix_of(url), cluster=True)
        self.refused = threading.Event()

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        try:
            return super().append(entries, behind)
        except hf.StoreUnavailableError:
            self.refused.set()
            raise


def test_a_save_waits_for_a_slot_that_is_being_moved(
    cluster: RedisCluster, url: str, store: Store
) -> None:
    with (
        closing(Told(url)) as saver,
        hf.SyncCheckpointer(saver) as cp,
        ThreadPoolExecutor(1) as pool,
    ):
        cp.save("run", {"n": 1})
        slot, giver, taker = slot_of(cluster, url, "run")
        cluster.begin_moving(slot, giver, taker)
        try:
            with pytest.raises(hf.StoreUnavailableError, match="moving a slot"):
                store.append([entry("run", 2)])
            later = pool.submit(cp.save, "run", {"n": 2})
            assert saver.refused.wait(60), "nothing was moved while it saved"
        finally:
            cluster.move_slot(slot, giver, taker)
        later.result()
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == {"n": 2}


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    cluster = RedisCluster()
    yield cluster
    for member in cluster.members:
        member.stop()


def test_saving_goes_on_when_a_replica_takes_over(own_cluster: RedisCluster) -> None:
    primary = own_cluster.members[0]
    replica = own_cluster.add_replica(of=primary)
    url = f"{new_url(own_cluster.url)}&cluster=true"
    with hf.SyncCheckpointer(url) as cp:
        for run in RUNS:
            cp.save(run, {"n": 1})
        wait_until(lambda: len(keys(replica, url)) == len(keys(primary, url)))
        primary.kill()
        replica.say("FAILOVER", "TAKEOVER")
        for run in RUNS:
            cp.save(run, {"n": 2})
            loaded = cp.load(run)
            assert loaded is not None
            assert loaded.state == {"n": 2}
        assert len(cp.runs(limit=500)) == len(RUNS)


def test_a_cluster_client_of_ones_own_is_as_good(cluster: RedisCluster, url: str) -> None:
    with redis.RedisCluster.from_url(cluster.url) as client:
        store = RedisStore(client, prefix=prefix_of(url))
        assert store.append([entry(run, 0) for run in RUNS]) == [True] * len(RUNS)
        assert len(store.runs()) == len(RUNS)
        assert store.survives() == "power-loss"
        assert check_store(store) == []
        store.close()
        assert client.ping()


def test_the_rights_that_the_guide_names_are_enough_on_a_cluster(cluster: RedisCluster) -> None:
    for member in cluster.members:
        with redis.Redis.from_url(member.url) as admin:
            grant_what_the_guide_names(admin)
    url = cluster.url.replace("//", "//holdfast:password@")
    with closing(hf.open_store(f"{url}?cluster=true")) as store:
        assert store.append([entry(run, 0, b"x") for run in RUNS]) == [True] * len(RUNS)
        assert store.survives() == "power-loss"
        assert check_store(store) == []
