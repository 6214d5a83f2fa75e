"""What is Redis's own: what it says of its durability, runs that expire, and how it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast as hf
from holdfast.changes import ANY_RUN, Change, Notifying, Watch
from holdfast.model import HIDDEN, process_journal, thread_journal, verdict_journal
from holdfast.store import Store
from holdfast.stores.redis.store import RedisStore
from holdfast.testing.contract import check_store, entry
from holdfast.testing.invariants import tombstone
from tests.effort import EFFORT
from tests.servers.redis import (
    Redis,
    RedisCluster,
    VolatileRedis,
    grant_what_the_guide_names,
    new_url,
    server_url,
)
from tests.waiting import in_time

Admin = Any  # redis-py's annotations cover sync and async at once


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(hf.open_store(new_url())) as store:
        yield store
        assert check_store(store) == []


@pytest.fixture
def admin() -> Iterator[Admin]:
    with redis.Redis.from_url(server_url()) as client:
        yield client


@pytest.fixture
def configured(admin: Admin) -> Iterator[Callable[..., None]]:
    """Set what a server is told to do, until the end of the test."""
    before: dict[str, str] = {}

    def configure(**settings: str) -> None:
        for name, value in settings.items():
            name = name.replace("_", "-")
            before.setdefault(name, admin.config_get(name)[name])
            admin.config_set(name, value)

    yield configure
    for name, value in before.items():
        admin.config_set(name, value)


# what it survives


@pytest.mark.parametrize(
    ("settings", "survives"),
    [
        ({"appendfsync": "always"}, "power-loss"),
        ({"appendfsync": "everysec"}, "process-crash"),
        ({"appendfsync": "no"}, "process-crash"),
        ({"no_appendfsync_on_rewrite": "yes"}, "process-crash"),
        ({"appendonly": "no"}, "nothing"),
        ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, "nothing"),
        ({"maxmemory": "100mb", "maxmemory_policy": "volatile-lru"}, "power-loss"),
        ({"maxmemory_policy": "allkeys-lru"}, "power-loss"),
    ],
)
def test_what_it_survives_is_asked_of_the_server(
    store: Store, configured: Callable[..., None], settings: dict[str, str], survives: str
) -> None:
    configured(**settings)
    assert store.survives() == survives


def test_runs_that_expire_may_be_evicted(configured: Callable[..., None]) -> None:
    configured(maxmemory="100mb", maxmemory_policy="volatile-lru")
    with closing(hf.open_store(new_url(), ttl=60)) as store:
        assert store.survives() == "nothing"


def test_a_cluster_survives_what_its_servers_do() -> None:
    with closing(hf.open_store(new_url(RedisCluster.shared().url), cluster=True)) as store:
        assert store.survives() == "power-loss"


def test_a_server_that_keeps_nothing_is_said_to_and_does() -> None:
    server = VolatileRedis.shared()
    url = new_url(server.url)
    with closing(hf.open_store(url)) as store:
        assert store.survives() == "nothing"
        assert store.append([entry("run", 0)]) == [True]
        server.kill()
        server.start()
        assert store.read("run") == []
    with pytest.raises(hf.DurabilityError):
        hf.SyncCheckpointer(url, survives="power-loss")


@pytest.mark.parametrize(
    ("denied", "survives"), [(["-config"], "process-crash"), (["-config", "-info"], "nothing")]
)
def test_a_server_that_does_not_tell_is_taken_at_its_least(
    admin: Admin, denied: list[str], survives: str
) -> None:
    admin.acl_setuser("guest", enabled=True, reset=True, passwords=["+pw"], keys=["*"],
                      channels=["*"], commands=["+@all", *denied])  # fmt: skip
    with closing(hf.open_store(new_url(server_url().replace("//", "//guest:pw@")))) as store:
        assert store.append([entry("run", 0)]) == [True]
        assert store.survives() == survives


# runs that expire


def pass_time(admin: Admin, url: str) -> list[bytes]:
    """Do to every key that would expire what its time would do; return the others."""
    prefix = url.partition("prefix=")[2]
    keys = admin.keys(f"{prefix}:*")
    for key in keys:
        if admin.pttl(key) != -1:
            admin.delete(key)
    return [key for key in admin.keys(f"{prefix}:*") if b":e:" in key or b":b:" in key]


def test_a_run_expires_with_all_that_belongs_to_it_and_leaves_the_list(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        store.append([entry("gone", 0, b"x"), entry(verdict_journal("gone"), 0, b"x")])
        store.append([entry("gone", 1, b"x"), entry("stays", 0, b"x", status="paused")])
        store.append([entry(verdict_journal("stays"), 0, b"x"), entry(thread_journal("t"), 0)])
        kept = pass_time(admin, url)
        assert not any(key.endswith(b"gone") for key in kept)
        assert [head.run for head in store.runs()] == ["stays"]
        assert store.stats().checkpoints == 1
        assert store.read("gone") == store.read(verdict_journal("gone")) == []
        assert len(store.read(verdict_journal("stays"))) == 1
        assert len(store.read(thread_journal("t"))) == 1
        assert check_store(store) == []
        prefix = url.partition("prefix=")[2]
        listed = [m for key in admin.keys(f"{prefix}:*:r") for m in admin.zrange(key, 0, -1)]
        assert b"gone" not in listed


def test_a_run_that_expired_is_not_taken_for_one_that_was_removed(
    admin: Admin, tmp_path: Path
) -> None:
    url, anchors = new_url(), tmp_path / "anchors.jsonl"
    remember = tmp_path / "heads.db"
    with (
        closing(hf.open_store(url, ttl=60)) as store,
        hf.SyncCheckpointer(store, remember=remember) as cp,
    ):
        cp.save("gone", {"n": 1}, thread_id="t")
        cp.save("again", {"n": 1})
        store.append([entry(verdict_journal("gone"), 0, b"x")])
        cp.anchor(anchors)
        pass_time(admin, url)
        found = cp.verify_anchor(anchors)
        assert (found.problems, found.expired) == ((), 2)
        assert cp.load("gone") is None
    with (
        closing(hf.open_store(url, ttl=60)) as store,
        hf.SyncCheckpointer(store, remember=remember) as cp,
    ):
        cp.save("again", {"n": 2})
        assert cp.verify_anchor(anchors).ok
        assert cp.check_remembered() == []


@pytest.mark.parametrize("status", ["paused", "running"])
def test_a_run_that_waits_or_runs_never_expires(admin: Admin, status: str) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        store.append([entry("run", 0, b"x")])
        store.append([entry("run", 1, b"x", status=status)])
        pass_time(admin, url)
        assert len(store.read("run")) == 2
        store.append([entry("run", 2, b"x", status="completed")])
        pass_time(admin, url)
        assert store.read("run") == []


def test_a_pause_keeps_a_run_also_when_another_program_gave_it_a_time(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as expiring, closing(hf.open_store(url)) as keeping:
        expiring.append([entry("run", 0, b"x")])
        keeping.append([entry("run", 1, b"x", status="paused")])
        pass_time(admin, url)
        assert len(expiring.read("run")) == 2


def test_every_save_gives_a_run_its_whole_time_again(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        for seq in range(3):
            store.append([entry("run", seq, b"x")])
            for key in admin.keys("*:?:run"):
                if key.startswith(url.partition("prefix=")[2].encode()):
                    assert 50_000 < admin.pttl(key) <= 60_000
                    admin.pexpire(key, 1_000_000)


def test_what_has_expired_is_neither_trimmed_nor_erased_back_to_life(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        store.append([entry("run", seq, b"x") for seq in range(3)])
        pass_time(admin, url)
        assert not store.trim(entry("run", 3, kind="trim"), {1: None})
        assert not store.erase(tombstone("run", 3))
        assert store.read("run") == []
        assert store.append([entry("run", 0)]) == [True]


def test_processes_are_alive_in_a_store_whose_runs_expire(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        slot = process_journal(0)
        assert store.erase(tombstone(slot, 0))
        assert not store.erase(tombstone(slot, 0))
        assert store.erase(tombstone(slot, 1))
        pass_time(admin, url)
        assert [beat.seq for beat in store.read(slot)] == [1]


def test_verdicts_on_a_run_that_has_expired_expire_too(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url, ttl=60)) as store:
        store.append([entry(verdict_journal("gone"), 0, b"x")])
        assert pass_time(admin, url) == []


def test_who_goes_on_with_a_run_that_has_expired_is_told(admin: Admin) -> None:
    """Its place is free again, but the states that a delta would build on are gone."""
    url = new_url()
    with hf.SyncCheckpointer(hf.open_store(url, ttl=60)) as cp:
        cp.save("run", {"n": 1})
        pass_time(admin, url)
        with pytest.raises(hf.CheckpointSaveError, match="expired"):
            cp.save("run", {"n": 2})
        cp.save("run", {"n": 3})
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == {"n": 3}
        cp.store.erase(tombstone("erased", 7))  # as a copy of an erased run begins
        cp.store.close()


# watching


@pytest.mark.parametrize("clustered", [False, True])
def test_a_watcher_hears_of_appends_by_others(clustered: bool) -> None:
    url = new_url(RedisCluster.shared().url if clustered else None)
    with (
        closing(hf.open_store(url, cluster=clustered)) as store,
        closing(hf.open_store(url, cluster=clustered)) as other,
        _watch(store) as watch,
    ):
        assert other.erase(tombstone(process_journal(0), 0))
        other.append([entry(HIDDEN + "h", 0), entry("a", 0), entry("b", 0)])
        heard: set[str | None] = set()
        while heard != {"a", "b"}:
            more = _runs(watch.wait(60))
            assert more
            heard |= more


def test_watching_goes_on_when_the_server_is_back() -> None:
    server = VolatileRedis.shared()
    url = new_url(server.url)
    with (
        hf.SyncCheckpointer(url) as cp,
        cp.watch() as every,
        cp.watch("run") as one,
        closing(hf.open_store(url)) as other,
        in_time(),
    ):
        assert every.wait() == [ANY_RUN]
        server.kill()
        server.start()
        assert every.wait() == [ANY_RUN]
        other.append([entry("run", 0)])
        assert one.wait() == [Change("run", 0, "open")]
        assert every.wait() == [Change("run", 0, "open")]
        other.erase(tombstone("run", 1))
        assert every.wait() == [Change("run", 1, "deleted")]


def test_a_watcher_is_told_when_the_server_is_gone() -> None:
    server = VolatileRedis.shared()
    with closing(hf.open_store(new_url(server.url))) as store, _watch(store) as watch:
        server.kill()
        try:
            with pytest.raises(hf.StoreUnavailableError):
                watch.wait(60)
        finally:
            server.start()


def test_saving_does_not_depend_on_the_right_to_publish(admin: Admin) -> None:
    admin.acl_setuser("mute", enabled=True, reset=True, passwords=["+pw"], keys=["*"],
                      commands=["+@all", "-publish"])  # fmt: skip
    with closing(hf.open_store(new_url(server_url().replace("//", "//mute:pw@")))) as store:
        assert store.append([entry("run", 0)]) == [True]
        assert check_store(store) == []


# how it refuses


def test_a_full_server_is_unavailable_and_nothing_of_a_batch_is_written(
    store: Store, configured: Callable[..., None], admin: Admin
) -> None:
    store.append([entry("run", 0)])
    configured(maxmemory=str(int(admin.info("memory")["used_memory"]) + 100_000))
    batch = [entry(f"run-{n}", 0, b"x" * 10_000) for n in range(200)]
    with pytest.raises(hf.StoreUnavailableError, match="full"):
        for _ in range(100):  # until it notices
            store.append(batch)
            batch = [entry(run.run, run.seq + 1, run.body) for run in batch]
    assert len(store.runs(limit=500)) in (1, 201)
    configured(maxmemory="0")
    assert store.append([entry("run", 1)]) == [True]


def test_a_replica_sends_to_its_primary(store: Store) -> None:
    server = VolatileRedis.shared()
    with (
        redis.Redis.from_url(server.url) as client,
        closing(hf.open_store(new_url(server.url))) as store,
    ):
        store.append([entry("run", 0)])
        client.replicaof("127.0.0.1", 1)
        try:
            with pytest.raises(hf.StoreUnavailableError, match="primary"):
                store.append([entry("run", 1)])
        finally:
            client.replicaof("NO", "ONE")
        assert store.append([entry("run", 1)]) == [True]


def test_too_few_replicas_leave_the_outcome_unknown_and_the_writer_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.stores.redis.link.REPLICA_SECONDS", 0.05)
    with closing(hf.open_store(new_url(), replicas=1)) as store:
        with pytest.raises(hf.OutcomeUnknownError, match="0 of 1 replicas"):
            store.append([entry("run", 0)])
        assert len(store.read("run")) == 1


def test_a_member_of_a_cluster_says_how_to_talk_to_it() -> None:
    url = new_url(RedisCluster.shared().url)
    with closing(hf.open_store(url)) as store, pytest.raises(hf.StoreError, match="cluster=true"):
        store.append([entry(f"run-{n}", 0) for n in range(10)])


def test_a_password_is_in_no_message() -> None:
    url = new_url(server_url().replace("//", "//nobody:secret-word@"))
    with closing(hf.open_store(url)) as store, pytest.raises(hf.StoreError) as caught:
        store.read("run")
    assert "secret-word" not in store.url + repr(store) + str(caught.value)
    for wrong in (url.replace("redis:", "redsi:"), url + "&prefix_=1"):
        with pytest.raises(hf.StoreError) as caught:
            hf.open_store(wrong).read("run")
        assert "secret-word" not in str(caught.value)


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(hf.StoreURLError, match="no option of this store: speed"):
        hf.open_store(new_url() + "&speed=high")
    with pytest.raises(hf.StoreURLError, match="cluster must be true or false, not 'perhaps'"):
        hf.open_store(new_url() + "&cluster=perhaps")
    options: list[dict[str, Any]] = [{"ttl": 0}, {"prefix": "{a}"}, {"prefix": ""}]
    for wrong in options:
        with pytest.raises(ValueError, match="must"):
            RedisStore(server_url(), **wrong)


def test_keys_of_another_program_are_refused_and_left_alone(admin: Admin) -> None:
    url = new_url()
    prefix = url.partition("prefix=")[2]
    with closing(hf.open_store(url)) as store:
        store.append([entry("run", 0, b"x")])
        (entries,) = admin.keys(f"{prefix}:*:e:run")
        theirs = entries.replace(b":e:", b":b:")
        admin.delete(theirs)
        admin.set(theirs, "theirs")
        with pytest.raises(hf.SchemaError, match="prefix"):
            store.append([entry("other", 0), entry("run", 1)])
        assert admin.get(theirs) == b"theirs"
        assert store.read("other") == []


def test_keys_of_another_program_are_refused_also_if_the_format_is_one_of_them(
    admin: Admin,
) -> None:
    url = new_url()
    prefix = url.partition("prefix=")[2]
    with closing(hf.open_store(url)) as store:
        store.append([entry("run", 0)])
        for key in admin.keys(f"{prefix}:*"):
            admin.delete(key)
            admin.lpush(key, "theirs")
        with pytest.raises(hf.SchemaError, match="use another prefix"):
            store.append([entry("run", 1)])
        with pytest.raises(hf.SchemaError, match="use another prefix"):
            store.read("run")


def test_a_format_from_the_future_is_refused(admin: Admin) -> None:
    url = new_url()
    admin.set(url.partition("prefix=")[2] + ":format", "3")
    with closing(hf.open_store(url)) as store, pytest.raises(hf.SchemaError, match="upgrade"):
        store.append([entry("run", 0)])


def test_a_program_that_runs_while_a_newer_one_changes_the_format_stops(admin: Admin) -> None:
    url = new_url()
    prefix = url.partition("prefix=")[2]
    with closing(hf.open_store(url)) as store:
        store.append([entry("run", 0)])
        (index,) = admin.keys(f"{prefix}:*:r")
        admin.set(f"{prefix}:format", "3")
        admin.delete(index)
        admin.set(index, "see format")
        calls = (lambda: store.append([entry("run", 1)]), lambda: store.erase(tombstone("run", 1)))
        for call in (*calls, store.runs):
            with pytest.raises(hf.SchemaError, match=r"format b'3'; upgrade"):
                call()
        (entries,) = admin.keys(f"{prefix}:*:e:run")
        assert admin.zcard(entries) == 1


def test_altered_entries_are_said_to_be_corrupted(admin: Admin) -> None:
    url = new_url()
    with closing(hf.open_store(url)) as store:
        store.append([entry("run", 0)])
        (key,) = admin.keys(url.partition("prefix=")[2] + ":*:e:run")
        (member,) = admin.zrange(key, 0, -1)
        for wrong in (b"", b"x", member[:19], member[:-1], b"no" + member):
            admin.delete(key)
            admin.zadd(key, {wrong: 0})
            with pytest.raises(hf.CheckpointCorruptedError):
                store.read("run")


# clients


def test_a_client_of_ones_own_stays_open_and_may_decode() -> None:
    with redis.Redis.from_url(server_url(), decode_responses=True) as client:
        store = RedisStore(client, prefix=new_url().partition("prefix=")[2])
        store.append([entry("run", seq, b"\xff") for seq in range(3)])
        assert [head.run for head in store.runs()] == ["run"]
        assert store.survives() == "power-loss"
        with _watch(store) as watch:
            store.append([entry("run", 3)])
            assert _runs(watch.wait(60)) == {"run"}
        assert check_store(store) == []
        store.close()
        assert client.ping()


def test_a_server_that_forgot_the_scripts_learns_them_again(store: Store, admin: Admin) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.append([entry("run", 0)]),
        lambda: store.read("run"),
        store.runs,
        lambda: store.trim(entry("run", 1), {}),
        lambda: store.erase(tombstone("run", 2)),
    ]
    for call in calls:
        admin.script_flush()
        assert call()


def test_when_all_connections_are_in_use_the_error_says_so() -> None:
    with closing(hf.open_store(new_url(), connections=1, pool_seconds=0.1)) as store:
        with _watch(store), pytest.raises(hf.StoreUnavailableError, match="connections="):
            store.read("run")
        assert store.read("run") == []


def test_runs_are_listed_in_order_however_they_fall_into_shards(store: Store) -> None:
    names = [f"run-{n:04}" for n in range(900 if EFFORT > 1 else 300)]
    store.append([entry(name, 0) for name in names])
    found: list[str] = []
    while page := store.runs(after=found[-1] if found else "", limit=len(names) // 4 + 25):
        found += [head.run for head in page]
    assert found == names
    assert store.stats().checkpoints == 0  # they carry no state


def test_a_unix_socket_is_as_good() -> None:
    class OnSocket(Redis):
        @property
        def socket(self) -> str:
            return f"{self.directory}/socket"

        def command(self) -> list[str]:
            return [*super().command(), "--unixsocket", self.socket, "--unixsocketperm", "777"]

    server = OnSocket()
    try:
        with closing(hf.open_store(f"redis+unix://{server.socket}?prefix=p&db=1")) as store:
            assert store.append([entry("run", 0)]) == [True]
            assert store.url == f"redis+unix://{server.socket}?prefix=p"
    finally:
        server.stop()


def test_threads_that_watch_and_save_do_not_disturb_each_other(store: Store) -> None:
    heard: set[str | None] = set()
    with _watch(store) as watch, ThreadPoolExecutor(8) as pool:
        saves = [pool.submit(store.append, [entry(f"run-{n}", 0)]) for n in range(50)]
        while len(heard) < 50:
            more = _runs(watch.wait(60))
            assert more
            heard |= more
        assert all(save.result() == [True] for save in saves)


def test_a_user_with_the_rights_that_the_guide_names_can_do_everything(admin: Admin) -> None:
    grant_what_the_guide_names(admin)
    url = server_url().replace("//", "//holdfast:password@")
    with closing(hf.open_store(url)) as store:
        assert store.survives() == "power-loss"
        with _watch(store) as watch:
            assert store.append([entry("run", seq, b"x") for seq in range(3)]) == [True] * 3
            assert _runs(watch.wait(60)) == {"run"}
        assert store.trim(entry("run", 3), {1: b"y", 0: None})
        assert check_store(store) == []
        assert store.erase(tombstone("run", 4))
    with closing(hf.open_store(url, ttl=60)) as store:
        assert store.append([entry("run", 5)]) == [True]
    with closing(hf.open_store(f"{url}?prefix=elsewhere")) as store, pytest.raises(hf.StoreError):
        store.append([entry("run", 0)])


def test_an_outage_of_a_cluster_is_an_outage_and_it_goes_on_afterwards() -> None:
    server = RedisCluster.shared()
    with closing(hf.open_store(new_url(server.url), cluster=True)) as store:
        assert store.append([entry(f"run-{n}", 0) for n in range(9)]) == [True] * 9
        server.kill()
        try:
            calls: list[Callable[[], object]] = [
                lambda: store.append([entry("run-1", 1)]),
                lambda: store.read("run-1"),
                store.runs,
                store.stats,
                store.survives,
                lambda: hf.open_store(new_url(server.url), cluster=True).runs(),
            ]
            for call in calls:
                with pytest.raises(hf.StoreUnavailableError):
                    call()
        finally:
            server.start()
        assert store.append([entry("run-1", 1)]) == [True]
        assert len(store.runs()) == 9
        assert check_store(store) == []


def _watch(store: Store) -> Watch:
    assert isinstance(store, Notifying)
    watch = store.watch()
    assert watch is not None
    return watch


def _runs(changes: Sequence[Change]) -> set[str | None]:
    return {change.run_id for change in changes}
