"""The connection to a Redis server or cluster: commands, scripts and translated errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

import redis
from redis import exceptions as rx
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from holdfast.errors import HoldfastError, OutcomeUnknownError, StoreClosedError, StoreError
from holdfast.seams import on_fork
from holdfast.stores._shared.pool import Limits
from holdfast.stores.redis.errors import translate
from holdfast.stores.redis.script import Script
from holdfast.stores.redis.url import Client, drivers

CONNECTIONS: Final = 20
CONNECT_SECONDS: Final = 5.0
POOL_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0
REPLICA_SECONDS: Final = 5.0


def connect(url: str, limits: Limits, options: Mapping[str, Any], *, cluster: bool) -> Client:
    """A client that waits for a free connection and never sends a command twice.

    A command whose reply was lost may have been executed; the caller has to find out.
    """
    url = drivers(url)
    # Text goes into the URL, where the driver converts it.
    texts = {name: value for name, value in options.items() if isinstance(value, str)}
    if texts:
        url += ("&" if "?" in url else "?") + urlencode(texts)
    settings: dict[str, Any] = {
        "socket_timeout": limits.answer_seconds,
        "socket_connect_timeout": min(CONNECT_SECONDS, limits.answer_seconds),
        "max_connections": limits.connections,
        "retry": Retry(NoBackoff(), 0),
        **{name: value for name, value in options.items() if name not in texts},
    }
    if cluster:
        return RedisCluster.from_url(url, **settings)
    pool = redis.BlockingConnectionPool.from_url(url, timeout=limits.pool_seconds, **settings)
    return redis.Redis.from_pool(pool)


class Link:
    """A client that always knows whether a write may have happened.

    The client is made on first use, and `first_use` then checks the server. `then` may use this
    link to bring the store up to date.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[], Client],
        *,
        clustered: bool,
        replicas: int,
        first_use: Callable[[Any], None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self.url = url
        self.clustered = clustered
        self.closed = False
        self._connect = connect
        self._replicas = replicas
        self._first_use = first_use
        self._then = then
        self._made: Any = None  # redis-py's annotations mix sync and async
        self._fits = False
        self._renew_lock()
        on_fork(self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = Lock()

    @property
    def _client(self) -> Any:
        self.check_open()
        if not self._fits:
            with self._lock, self.translated():
                self._first_use(self._connected())
                self._fits = True
            try:
                self._then()
            except BaseException:
                self._fits = False
                raise
        return self._made

    def _connected(self) -> Any:
        self._made = self._made or self._connect()
        return self._made

    def glance(self, *command: object) -> Any:
        """Run one command that only reads, without checking the server first."""
        self.check_open()
        with self._lock, self.translated():
            return self._connected().execute_command(*command, NEVER_DECODE=True)

    def write(
        self, script: Script, keys: Sequence[bytes], arguments: Sequence[object], run: str
    ) -> Any:
        """Run a script that writes. Raises `OutcomeUnknownError` if it may have been executed."""
        with self.translated():
            pool = self._pool_for(keys[0])
            try:
                return script.called(partial(self._send, pool, run), keys, arguments)
            except rx.MovedError as moved:
                if not self.clustered:
                    raise
                pool = self._pool_for(keys[0], moved)
                return script.called(partial(self._send, pool, run), keys, arguments)

    def _pool_for(self, key: bytes, moved: rx.MovedError | None = None) -> Any:
        """The connections of the server that has the key, as far as is known here."""
        client = self._client
        if self.clustered:
            node = client.get_node(moved.host, moved.port) if moved else None
            client = client.get_redis_connection(node or client.get_node_from_key(key))
        return client.connection_pool

    def _send(self, pool: Any, run: str, *command: object) -> Any:
        """Send the command once, on a connection that works, and wait for the reply."""
        try:
            connection = pool.get_connection()  # if this fails, nothing was sent
        except (rx.ConnectionError, rx.TimeoutError, OSError):
            self._refresh_slots()
            raise
        try:
            connection.send_packed_command([_packed(command)])
            reply = connection.read_response(disable_decoding=True)
        except (rx.ResponseError, rx.BusyLoadingError) as error:
            if isinstance(error, rx.AskError | rx.ClusterError | rx.ReadOnlyError):
                self._refresh_slots()
            raise  # the server says that it did nothing
        except (rx.ConnectionError, rx.TimeoutError, OSError) as error:
            connection.disconnect()
            self._refresh_slots()
            raise OutcomeUnknownError(run, f"{self.url}: {error}") from error
        except BaseException:
            connection.disconnect()  # the next command must not read our reply
            raise
        else:
            if self._replicas:
                self._wait_for_replicas(connection, run)
            return reply
        finally:
            pool.release(connection)

    def _wait_for_replicas(self, connection: Any, run: str) -> None:
        try:
            connection.send_command("WAIT", self._replicas, int(REPLICA_SECONDS * 1000))
            have = connection.read_response(disable_decoding=True)
        except (rx.RedisError, OSError) as error:
            connection.disconnect()
            raise OutcomeUnknownError(run, f"{self.url}: {error}") from error
        if have < self._replicas:
            reason = f"{self.url}: only {have} of {self._replicas} replicas have it"
            raise OutcomeUnknownError(run, reason)

    def _refresh_slots(self) -> None:
        """Read anew which server has which slots, for the next try."""
        if self.clustered:
            with suppress(rx.RedisError, rx.RedisClusterException, OSError):
                self._made.nodes_manager.initialize()

    def ask(self, script: Script, keys: Sequence[bytes], arguments: Sequence[object]) -> Any:
        """Run a script that may be sent twice."""
        return script.called(self.command, keys, arguments)

    def command(self, *command: object) -> Any:
        """Run a command that may be sent twice."""
        client = self._client
        with self.translated():
            return client.execute_command(*command, NEVER_DECODE=True)

    def commands(self, commands: Sequence[Sequence[object]]) -> list[Any]:
        """Run several such commands, in one round trip to each server."""
        client = self._client
        with self.translated(), client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command, NEVER_DECODE=True)
            return list(pipeline.execute())

    def primaries(self) -> list[Any]:
        """A client for every server that takes writes."""
        client = self._client
        if not self.clustered:
            return [client]
        return [client.get_redis_connection(node) for node in client.get_primaries()]

    def subscription(self) -> Any:
        """What subscribes to channels, on one of the connections."""
        client = self._client
        with self.translated():
            return client.pubsub()

    def close(self, *, owned: bool) -> None:
        """Close every connection, if they are ours."""
        self.closed = True
        if owned and self._made is not None:
            with self.translated():
                self._made.close()

    def check_open(self) -> None:
        """Raise `StoreClosedError` once it is closed."""
        if self.closed:
            raise StoreClosedError(self.url)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Let no driver error escape, except the one for an unknown script."""
        try:
            yield
        except (HoldfastError, rx.NoScriptError):
            raise
        except (rx.RedisError, rx.RedisClusterException, OSError) as error:
            if "WRONGTYPE" in str(error) and self._fits:
                with suppress(rx.RedisError, rx.RedisClusterException, OSError):
                    self._first_use(self._made)  # a newer holdfast may have changed the keys
            raise translate(error, self.url, clustered=self.clustered) from error
        except (TypeError, ValueError) as error:  # an option or a value that the driver refuses
            raise StoreError(f"{self.url}: {error}") from error


def _packed(command: Sequence[object]) -> bytes:
    """A command as bytes, in one piece; redis-py takes four times as long."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    parts = [b"*%d" % len(words)]
    for word in words:
        parts += (b"\r\n$%d\r\n" % len(word), word)
    parts.append(b"\r\n")
    return b"".join(parts)
