"""A store that loses what it acknowledged, under programs that run on: nothing goes on silently."""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from redis import Redis as Client

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.testing.contract import check_store
from holdfast.workflow import step, workflow
from tests.servers import mariadb, postgres, redis
from tests.servers.redis import VolatileRedis

LINES = [f"line {n} {random.Random(n).random()}" for n in range(1000)]

Lose = Callable[[str, int], None]
"""Loses all entries of a run from a seq on, as a failover to a lagging standby does."""


def in_sqlite(url: str, run: str, seq: int) -> None:
    with sqlite3.connect(urlsplit(url).path) as db:
        db.execute("DELETE FROM holdfast_entries WHERE run = ? AND seq >= ?", (run, seq))
    db.close()


def in_files(url: str, run: str, seq: int) -> None:
    for file in (Path(urlsplit(url).path) / run).glob("*.json"):
        if int(file.stem) >= seq:
            file.unlink()


def in_postgres(url: str, run: str, seq: int) -> None:
    (schema,) = parse_qs(urlsplit(url).query)["schema"]
    with psycopg.connect(postgres.server_url(), autocommit=True) as db:
        statement = f"DELETE FROM {schema}.entries WHERE run = %s AND seq >= %s"
        db.execute(statement.encode(), (run, seq))


def in_mysql(url: str, run: str, seq: int) -> None:
    with mariadb.connect(url) as db:
        statement = "DELETE FROM holdfast_entries WHERE run = %s AND seq >= %s"
        db.cursor().execute(statement, (run, seq))


def in_redis(url: str, run: str, seq: int) -> None:
    server, _, prefix = url.partition("?prefix=")
    with Client.from_url(server) as client:
        for key in map(bytes, client.keys(f"{prefix}:*:e:{run}")):
            client.execute_command("ZREMRANGEBYLEX", key, b"[%019d" % seq, b"+")


KINDS: dict[str, tuple[Callable[[Path], str], Callable[[str, str, int], None]]] = {
    "sqlite": (lambda place: f"sqlite:///{place}/runs.db", in_sqlite),
    "file": (lambda place: f"file://{place}/runs", in_files),
    "postgres": (lambda _: postgres.new_url(), in_postgres),
    "mysql": (lambda _: mariadb.new_url(), in_mysql),
    "redis": (lambda _: redis.new_url(), in_redis),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return KINDS[kind][0](tmp_path)


@pytest.fixture
def lose(kind: str, url: str) -> Lose:
    return lambda run, seq: KINDS[kind][1](url, run, seq)


def state(n: int) -> dict[str, Any]:
    """Large enough to be saved as a change to the one before."""
    return {"log": [*LINES, f"and {n}"], "n": n}


def numbers(url: str, run: str) -> list[int]:
    """What a fresh process finds of a run, oldest first; all of it is sound."""
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify(run).ok
        cp.store.rebuild()  # the index still has what was lost
        assert check_store(cp.store) == []
        found = []
        for info in cp.list_checkpoints(run, oldest_first=True):
            checkpoint = cp.load(run, seq=info.seq)
            assert checkpoint is not None
            found.append(checkpoint.state["n"])
        return found


@pytest.mark.parametrize("left", [0, 3])
def test_saves_go_on_behind_what_is_left_and_say_so(
    url: str, lose: Lose, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    with hf.SyncCheckpointer(url) as cp:
        for n in range(4):
            cp.save("run", state(n))  # at the seqs 1 to 4, behind the opening
        lose("run", left)
        with caplog.at_level(logging.WARNING, "holdfast"):
            for n in range(4, 7):
                cp.save("run", state(n))
        loaded = cp.load("run")
        assert loaded is not None
        assert loaded.state == state(6)
    assert numbers(url, "run") == [*range(max(0, left - 1)), 4, 5, 6]
    (warning,) = caplog.messages
    assert "lost entries of run 'run'" in warning
    assert "seq 4 was saved" in warning
    assert ("it ends at seq 2" if left else "nothing is left of it") in warning


def test_a_save_that_expects_what_was_lost_is_refused(url: str, lose: Lose) -> None:
    with hf.SyncCheckpointer(url) as cp:
        saved = [cp.save("run", state(n)) for n in range(3)]
        lose("run", 3)
        with pytest.raises(hf.EntriesLostError, match="restore the store") as lost:
            cp.save("run", state(3), expect=saved[-1])
        assert (lost.value.seq, lost.value.head) == (3, 2)
        cp.save("run", state(4), expect=saved[1])
    assert numbers(url, "run") == [0, 1, 4]


def test_many_saves_under_way_all_arrive_behind_what_is_left(url: str, lose: Lose) -> None:
    async def save() -> None:
        async with hf.Checkpointer(url) as cp:
            for n in range(3):
                await cp.save("run", state(n))
            lose("run", 2)
            many = ({"run_id": "run", "state": state(n)} for n in range(3, 9))
            await asyncio.gather(cp.save_many(many), cp.save("other", state(0)))

    asyncio.run(save())
    assert numbers(url, "run") == [0, *range(3, 9)]
    assert numbers(url, "other") == [0]


def test_what_was_let_go_arrives_behind_what_is_left(url: str, lose: Lose) -> None:
    with hf.SyncCheckpointer(url, durability="async") as cp:
        for n in range(3):
            cp.save("run", state(n))
        cp.flush()
        lose("run", 2)
        for n in range(3, 6):
            cp.save("run", state(n))
        cp.flush()
    assert numbers(url, "run") == [0, 3, 4, 5]


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("same_process", [True, False])
def test_a_workflow_stops_and_a_resume_repeats_what_was_lost(
    url: str, lose: Lose, left: int, same_process: bool
) -> None:
    done: list[int] = []

    def work(n: int) -> int:
        done.append(n)
        if done == [0, 1, 2]:
            lose("w", left)
        return n

    @workflow("counting")
    def counting(most: int) -> Any:
        found = []
        for n in range(most):
            found.append((yield step(f"s{n}").python(work, args=(n,))))
        return found

    def go_on(engine: hf.Engine) -> None:
        assert engine.run_sync(counting(most=5), run_id="w", resume=True) == [0, 1, 2, 3, 4]

    engine = hf.Engine(url)
    with pytest.raises(hf.EntriesLostError, match="resume the run"):
        engine.run_sync(counting(most=5), run_id="w")
    assert done == [0, 1, 2]
    if same_process:
        go_on(engine)
    engine.close_sync()
    if not same_process:
        fresh = hf.Engine(url)
        go_on(fresh)
        fresh.close_sync()
    kept = max(0, left - 1)  # results, behind the opening
    assert done[3:] == list(range(kept, 5))
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify("w").ok


def test_a_graph_stops_and_a_resume_goes_on_from_what_is_left(url: str, lose: Lose) -> None:
    done: list[int] = []

    def count(old: dict[str, Any]) -> dict[str, Any]:
        done.append(old["n"])
        if done == [0, 1, 2, 3]:
            lose("g", 3)
        return state(old["n"] + 1)

    graph = (
        Graph(dict).add_node("count", count).set_entry("count")
        .add_conditional_edge("count", lambda now: "count" if now["n"] < 6 else END).compile()
    )  # fmt: skip
    with pytest.raises(hf.EntriesLostError):
        asyncio.run(graph.run(state(0), store=url, run_id="g"))
    assert done == [0, 1, 2, 3]
    result = asyncio.run(graph.resume("g", store=url))
    assert result == state(6)
    assert done[4] < 3
    assert done[4:] == list(range(done[4], 6))
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify("g").ok


def test_a_redis_that_keeps_nothing_is_restarted_under_a_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = VolatileRedis.shared()
    url = redis.new_url(server.url)
    with hf.SyncCheckpointer(url) as cp:
        for n in range(3):
            cp.save("run", state(n), thread_id="talk")
        server.kill()
        server.start()
        with caplog.at_level(logging.WARNING, "holdfast"):
            for n in range(3, 6):
                cp.save("run", state(n), thread_id="talk")
    assert numbers(url, "run") == [3, 4, 5]
    assert any("nothing is left of it" in message for message in caplog.messages)
    with hf.SyncCheckpointer(url) as cp:
        assert [run.run_id for run in cp.thread("talk")] == ["run"]


def test_a_run_with_a_gap_is_not_copied(tmp_path: Path) -> None:
    """One that was saved to before stores refused gaps."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url) as cp:
        for n in range(4):
            cp.save("run", n)
        with sqlite3.connect(tmp_path / "runs.db") as db:
            db.execute("DELETE FROM holdfast_entries WHERE seq = 2")
        db.close()
        assert [str(problem) for problem in cp.verify("run").problems][:1] == [
            "run@2: the entry is missing"
        ]
        with pytest.raises(hf.CheckpointCorruptedError, match=r"run@2 .*the entry is missing"):
            cp.copy_to("memory://")
