"""The heads index on Redis: runs that expire leave it, and a store without one gets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

import holdfast as hf
from holdfast.store import RunFilter, Store
from holdfast.stores.redis.keys import shard_of
from holdfast.testing.contract import check_store, entry
from tests.servers.redis import RedisCluster, new_url, server_url
from tests.waiting import wait_until


@pytest.fixture
def admin() -> Iterator[Any]:
    with redis.Redis.from_url(server_url()) as client:
        yield client


def keys(admin: Any, url: str, kind: str = "*") -> list[bytes]:
    found: list[bytes] = admin.keys(f"{url.partition('prefix=')[2]}:{kind}")
    return found


def fill(store: Store) -> None:
    facts = json.dumps({"labels": {"team": "blue"}, "questions": 1, "due": 5})
    opening: dict[str, Any] = {"kind": "open", "flow": "f", "owner": "o", "meta": facts}
    store.append([
        entry("gone", 0, **opening, thread="t"),
        entry("gone", 1, flow="f", status="failed", meta=json.dumps({"due": 5})),
        entry("stays", 0, **opening, status="paused"),
    ])  # fmt: skip


def expire(store: Store) -> None:
    wait_until(lambda: not store.read("gone"))


@pytest.mark.parametrize("question", ["counts", "listed", "due", "runs"])
def test_a_run_that_has_expired_leaves_the_index(admin: Any, question: str) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=0.001)) as store:
        fill(store)
        expire(store)
        if question == "counts":
            assert store.counts() == {"paused": 1}
            assert store.counts(RunFilter(flow="f")) == {"paused": 1}
        elif question == "listed":
            assert [row.run for row, _ in store.listed()] == ["stays"]
        elif question == "due":
            assert [row.run for row in store.due(9)] == ["stays"]
        else:
            assert [head.run for head in store.runs()] == ["stays"]
        left = [place for key in keys(admin, url, "{*}:i") for place in admin.zrange(key, 0, -1)]
        assert not [place for place in left if place.endswith(b"gone")]
        assert check_store(store) == []


def test_a_run_that_is_saved_to_stays_in_the_index_after_its_first_time_is_over(
    admin: Any,
) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        store.append([entry("run", 0), entry("run", 1, term=0)])
        (key,) = keys(admin, url, "{*}:h")
        for name in keys(admin, url, "{*}:i"):
            for place in admin.zrange(name, 0, -1):
                if place.startswith(b"x"):
                    early = place[1:21]
                    row = admin.hget(key, "run").replace(early, b"0" * 20)
                    admin.hset(key, "run", row)
                    admin.zrem(name, place)
                    admin.zadd(name, {b"x" + b"0" * 20 + place[21:]: 0})
        for _ in range(2):
            assert store.counts() == {"open": 1}
        assert check_store(store) == []


def test_a_run_that_begins_where_another_has_expired_is_a_new_one() -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=0.001)) as store:
        fill(store)
        expire(store)
        store.append([entry("gone", 0, at=7, status="running", flow="g")])
        row = next(row for row, _ in store.listed() if row.run == "gone")
        assert (row.opened, row.labels, row.questions) == (7, (), 0)
        assert store.listed(RunFilter(labels=("team=blue",)))[0][0].run == "stays"
        assert store.counts() == {"paused": 1, "running": 1}
        assert check_store(store) == []


@pytest.mark.parametrize("clustered", [False, True])
def test_a_store_without_an_index_gets_one_when_it_is_opened(clustered: bool) -> None:
    url = new_url(RedisCluster.shared().url if clustered else None)
    with closing(hf.open_store(url, cluster=clustered)) as store:
        for number in range(20):
            store.append([entry(f"run-{number}", 0), entry(f"run-{number}", 1, status="failed")])
    members = RedisCluster.shared().members if clustered else [None]
    for member in members:
        with redis.Redis.from_url(member.url if member else server_url()) as admin:
            for kind in ("{*}:h", "{*}:i", "{*}:c"):
                for key in keys(admin, url, kind):
                    admin.delete(key)
            for key in keys(admin, url, "format"):
                admin.set(key, "1")
    with closing(hf.open_store(url, cluster=clustered)) as store:
        assert store.counts() == {"failed": 20}
        assert len(store.listed(limit=99)) == 20
        assert check_store(store) == []


def test_whatever_is_wrong_with_the_index_is_found_and_repaired(admin: Any) -> None:
    url = new_url()
    with closing(hf.open_store(url)) as store:
        fill(store)
        assert store.rebuild(write=False) == 0
        (row_key, *_) = [key for key in keys(admin, url, "{*}:h") if admin.hexists(key, "gone")]
        nobody = next(name for n in range(999) if shard_of(name := f"x{n}") == shard_of("gone"))
        place_key, count_key = row_key[:-1] + b"i", row_key[:-1] + b"c"
        damages: list[tuple[Any, ...]] = [
            ("HSET", row_key, "gone", b"junk"),
            ("HDEL", row_key, "gone"),
            ("HSET", row_key, nobody, admin.hget(row_key, "gone")),
            ("ZREM", place_key, next(p for p in admin.zrange(place_key, 0, -1) if p[:1] == b"l")),
            ("ZADD", place_key, 0, b"o" + b"0" * 20 + nobody.encode()),
            ("HSET", count_key, b"=f\0failed", 7),
            ("DEL", place_key),
        ]
        for damage in damages:
            admin.execute_command(*damage)
            assert store.rebuild(write=False) > 0, damage
            assert store.rebuild() > 0
            assert store.rebuild() == 0, damage
            assert check_store(store) == []
            assert store.append([entry("gone", store.read("gone")[-1].seq + 1)]) == [True]


def test_a_damaged_row_does_not_stop_a_save(admin: Any) -> None:
    url = new_url()
    with closing(hf.open_store(url)) as store:
        store.append([entry("run", 0)])
        (key,) = keys(admin, url, "{*}:h")
        for junk in (b"", b"junk", b"\x93\x01\x02\x03", b"\xc1"):
            admin.hset(key, "run", junk)
            assert store.append([entry("run", store.read("run")[-1].seq + 1)]) == [True]
            store.rebuild()
        assert check_store(store) == []
