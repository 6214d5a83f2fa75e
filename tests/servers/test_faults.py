"""Servers that are busy, cut off, killed or silent: nothing acknowledged is lost or there twice."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import pytest

import holdfast as hf
from holdfast.store import Store, Transactional
from holdfast.testing.contract import check_store, entry
from holdfast.testing.invariants import tombstone
from tests.conftest import Survived
from tests.effort import EFFORT
from tests.servers import children, mariadb, postgres, redis
from tests.servers.proxy import Proxy
from tests.servers.server import Server


class Kind(NamedTuple):
    """A server, and how tests take hold of it."""

    name: str
    server: type[Server]
    server_url: Callable[[], str]
    new_url: Callable[[str], str]
    cut_connections: Callable[[str], int]


KINDS = [
    Kind("postgres", postgres.Postgres, postgres.server_url, postgres.new_url, postgres.cut_connections),
    Kind("mysql", mariadb.PRIVATE, mariadb.server_url, mariadb.new_url, mariadb.cut_connections),
    Kind("redis", redis.Redis, redis.server_url, redis.new_url, redis.cut_connections),
]  # fmt: skip
SAVES = 5 if EFFORT > 1 else 2  # of each of a hundred at once
WITHOUT_WORK = ("redis",)  # they run no SQL of a user's in their transactions


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def url(kind: Kind) -> str:
    return kind.new_url(kind.server_url())


@pytest.fixture(params=[k for k in KINDS if k.name not in WITHOUT_WORK], ids=lambda kind: kind.name)
def sql_url(request: pytest.FixtureRequest) -> str:
    kind: Kind = request.param
    return kind.new_url(kind.server_url())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(hf.open_store(url)) as store:
        yield store
        assert check_store(store) == []


def times(kind: Kind, what: str, default: int) -> int:
    return int(os.environ.get(f"HOLDFAST_{kind.name}_{what}".upper(), default))


def states(cp: hf.SyncCheckpointer, run: str) -> list[Any]:
    """All that was saved to a run, oldest first."""
    assert cp.verify(run).ok
    found = []
    for info in cp.list_checkpoints(run, oldest_first=True, limit=100_000):
        checkpoint = cp.load(run, seq=info.seq)
        assert checkpoint is not None
        found.append(checkpoint.state)
    return found


def test_a_hundred_threads_save_at_once(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp:

        def work(name: int) -> None:
            for n in range(SAVES):
                cp.save(f"run-{name}", {"n": n}, step=f"s{n}")

        with ThreadPoolExecutor(100) as pool:
            list(pool.map(work, range(100)))
        assert cp.stats().checkpoints == 100 * SAVES
        assert all(
            states(cp, f"run-{name}") == [{"n": n} for n in range(SAVES)] for name in (0, 50, 99)
        )


def test_a_hundred_tasks_save_at_once(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:

            async def work(name: int) -> None:
                for n in range(SAVES):
                    await cp.save(f"run-{name}", {"n": n}, step=f"s{n}")

            await asyncio.gather(*map(work, range(100)))
            assert (await cp.stats()).checkpoints == 100 * SAVES

    asyncio.run(main())


def test_a_hundred_processes_save_at_once_also_to_the_same_runs(url: str) -> None:
    """They meet in an empty database, too."""
    ready = children.processes.Barrier(100)
    work = [(children.save_many_times, url, number, 1, ready) for number in range(100)]
    assert children.run(*work) == [0] * 100
    with hf.SyncCheckpointer(url) as cp:
        assert all(states(cp, f"run-{number}") == [0] for number in range(100))
        shared = [state for ten in range(10) for state in sorted(states(cp, f"shared-{ten}"))]
        assert shared == [[number, 0] for number in range(100)]


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    kind: Kind, survived: Survived
) -> None:
    server = kind.server.shared()
    url = kind.new_url(server.url)  # type: ignore[attr-defined]
    done = threading.Event()
    acknowledged: dict[str, int] = {}
    kills = times(kind, "kills", 6 if EFFORT > 1 else 3)

    def work(name: int) -> None:
        n = 0
        while not done.is_set():
            cp.save(f"run-{name}", n)  # tried again, until its deadline
            n += 1
            acknowledged[f"run-{name}"] = n

    with hf.SyncCheckpointer(url, deadline=120) as cp:
        with ThreadPoolExecutor(4) as pool:
            workers = [pool.submit(work, name) for name in range(4)]
            try:
                for _ in range(kills):
                    before = sum(acknowledged.values())
                    while sum(acknowledged.values()) < before + 8:
                        done.wait(0.005)
                        assert not any(worker.done() for worker in workers)
                    server.kill()
                    server.start()
            finally:
                done.set()
            for worker in workers:
                worker.result()
        for run, count in acknowledged.items():
            assert states(cp, run) == list(range(count))
        assert check_store(cp.store) == []
    assert sum(acknowledged.values()) >= 8 * kills
    survived(f"{kind.name} kills", kills)


def test_a_swallowed_answer_leaves_no_duplicate_and_no_gap(
    kind: Kind, url: str, survived: Survived
) -> None:
    """Whether the save happened is then for the writer to find out."""
    count = times(kind, "swallows", 60 if EFFORT > 1 else 30)
    with Proxy(url) as proxy, hf.SyncCheckpointer(proxy.url) as cp:
        for n in range(count):
            if n % 2:
                proxy.swallow()
            cp.save("run", n)
        assert proxy.swallowed >= count // 2
        assert states(cp, "run") == list(range(count))
        survived(f"{kind.name} answers swallowed", proxy.swallowed)


def test_a_swallowed_answer_to_a_step_with_its_own_sql_does_not_do_it_twice(sql_url: str) -> None:
    with Proxy(sql_url) as proxy, closing(hf.open_store(proxy.url)) as store:
        assert isinstance(store, Transactional)
        store.append([entry("run", 0)])
        for seq in range(1, 5):
            calls = 0

            def work(cursor: Any) -> None:
                nonlocal calls
                calls += 1
                cursor.execute("SELECT 1")
                proxy.swallow()  # what the commit is answered

            with pytest.raises(hf.OutcomeUnknownError):
                store.append_with([entry("run", seq)], work)
            assert calls == 1
            assert len(store.read("run")) == seq + 1, "it was done nevertheless"


def test_connections_that_were_cut_while_they_rested_are_replaced(
    kind: Kind, url: str, store: Store
) -> None:
    seq = 0
    calls: list[Callable[[], object]] = [
        lambda: store.append([entry("run", seq)]),
        lambda: store.read("run"),
        lambda: store.last("run"),
        lambda: store.runs(),
        lambda: store.stats(),
        lambda: store.survives(),
        lambda: store.trim(entry("run", seq), {}),
        lambda: store.erase(tombstone("run", seq)),
    ]
    for call in calls:
        store.append([entry("run", seq)])
        seq += 1
        assert kind.cut_connections(url) >= 1
        assert call()
        seq = (store.last("run") or entry("run", 0)).seq + 1


def test_when_all_connections_are_in_use_the_error_says_so(sql_url: str) -> None:
    with closing(hf.open_store(sql_url, connections=2, pool_seconds=0.1)) as store:
        assert isinstance(store, Transactional)
        store.append([entry("run", 0)])
        inside, leave = threading.Barrier(3), threading.Event()

        def hold(cursor: Any) -> None:
            inside.wait(60)
            leave.wait(60)

        with ThreadPoolExecutor(2) as pool:
            holding = [pool.submit(store.append_with, [entry(f"h{n}", 0)], hold) for n in range(2)]
            inside.wait(60)
            try:
                with pytest.raises(
                    hf.StoreUnavailableError, match=r"all 2 connections.*connections="
                ):
                    store.read("run")
            finally:
                leave.set()
            assert [held.result() for held in holding] == [[True], [True]]
        assert len(store.read("run")) == 1


def test_a_server_that_does_not_answer_is_not_waited_for_forever(kind: Kind, url: str) -> None:
    """Its connection seems to be alive all the while."""
    stopped = (hf.OutcomeUnknownError, hf.StoreUnavailableError)  # it depends on what was asked
    server = kind.server.shared()
    with closing(hf.open_store(url, answer_seconds=2)) as store:  # which a busy one needs not
        store.append([entry("run", 0)])
        with server.frozen(), pytest.raises(stopped):
            store.append([entry("run", 1)])
        assert [item.seq for item in store.read("run")][:1] == [0]
        store.append([entry("run", 1)])
        assert [item.seq for item in store.read("run")] == [0, 1]


def test_an_outage_is_an_error_and_never_an_absence(kind: Kind) -> None:
    server = kind.server.shared()
    url = kind.new_url(server.url)  # type: ignore[attr-defined]
    with hf.SyncCheckpointer(url) as patient:
        patient.save("saved", 1)
    with closing(hf.open_store(url)) as store, hf.SyncCheckpointer(url, deadline=0.5) as cp:
        store.append([entry("run", 0)])
        server.kill()
        try:
            calls: list[Callable[[], object]] = [
                lambda: store.append([entry("run", 1)]),
                lambda: store.read("run"),
                lambda: store.last("run"),
                lambda: store.runs(),
                lambda: store.trim(entry("run", 1), {}),
                lambda: store.erase(tombstone("run", 1)),
                lambda: store.stats(),
                lambda: store.survives(),
                lambda: hf.open_store(url).last("run"),
            ]
            for call in calls:
                with pytest.raises(hf.StoreUnavailableError):
                    call()
            with pytest.raises(hf.CheckpointSaveError):
                cp.save("saved", 2)
            for look in (lambda: cp.load("saved"), lambda: cp.list_checkpoints("saved"), cp.runs):
                with pytest.raises((hf.StoreUnavailableError, hf.CheckpointLoadError)):
                    look()
        finally:
            server.start()
        assert store.append([entry("run", 1)]) == [True]
        assert states(cp, "saved") == [1]
