"""The way to a Redis server or cluster: commands, scripts, and every error in our own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import redis
from redis import exceptions as rx
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from holdfast.errors import (
    HoldfastError,
    OutcomeUnknownError,
    SchemaError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.stores._redis_scripts import Script

Client = redis.Redis | RedisCluster

MAX_CONNECTIONS: Final = 20
CONNECTION_SECONDS: Final = 5.0  # for a connection of the pool, and to make one
REPLY_SECONDS: Final = 10.0

_TEMPORARY: Final = (
    "LOADING", "BUSY", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "UNKILLABLE",
)  # fmt: skip


_SCHEMES: Final = {
    "valkey://": "redis://",
    "valkeys://": "rediss://",
    "redis+unix://": "unix://",
}


def connect(url: str, *, cluster: bool, options: Mapping[str, Any]) -> Client:
    """A client for a URL that waits for a free connection and never sends a command twice.

    A command whose reply was lost may have been carried out: to find out is the caller's part.
    """
    for ours, theirs in _SCHEMES.items():
        if url.startswith(ours):
            url = theirs + url.removeprefix(ours)
    # In the URL, the driver makes numbers of them.
    texts = {name: value for name, value in options.items() if isinstance(value, str)}
    if texts:
        url += ("&" if "?" in url else "?") + urlencode(texts)
    settings: dict[str, Any] = {
        "socket_timeout": REPLY_SECONDS,
        "socket_connect_timeout": CONNECTION_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        **{name: value for name, value in options.items() if name not in texts},
    }
    if cluster:
        return RedisCluster.from_url(url, **settings)
    settings = {"max_connections": MAX_CONNECTIONS, "timeout": CONNECTION_SECONDS, **settings}
    return redis.Redis.from_pool(redis.BlockingConnectionPool.from_url(url, **settings))


def url_of(client: Client) -> str:
    """Where a client of the user's own leads, without its secrets."""
    if isinstance(client, RedisCluster):
        return f"redis://{client.get_primaries()[0].name}"
    settings = client.connection_pool.connection_kwargs
    if "path" in settings:
        return f"redis+unix://{settings['path']}"
    return f"redis://{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db', 0)}"


class Link:
    """A client, driven so that it is always known whether a write may have happened."""

    def __init__(self, client: Client, url: str, *, replicas: int, timeout: float) -> None:
        self.url = url
        self.clustered = isinstance(client, RedisCluster)
        self.closed = False
        self._client: Any = client  # redis-py's own annotations promise both colours at once
        self._replicas = replicas
        self._timeout = timeout

    def write(
        self, script: Script, keys: Sequence[bytes], arguments: Sequence[object], run: str
    ) -> Any:
        """Run a script that writes. Raises `OutcomeUnknownError` when it may have been run."""
        self.refuse_if_closed()
        with self.translated():
            try:
                return self._send(_evalsha(script, keys, arguments), run)
            except rx.NoScriptError:
                return self._send(_eval(script, keys, arguments), run)

    def _send(self, command: Sequence[object], run: str) -> Any:
        if self.clustered:
            try:
                return self._client.execute_command(*command, NEVER_DECODE=True)
            except (rx.ConnectionError, rx.TimeoutError, OSError) as error:
                raise OutcomeUnknownError(run, f"{self.url}: {error}") from error
        pool = self._client.connection_pool
        connection = pool.get_connection()  # trouble up to here is before anything was sent
        try:
            connection.send_command(*command)
            reply = connection.read_response(disable_decoding=True)
            if self._replicas:
                self._wait_for_replicas(connection, run)
            return reply
        except (rx.ResponseError, rx.BusyLoadingError):
            raise  # the server's word that it did nothing
        except (rx.ConnectionError, rx.TimeoutError, OSError) as error:
            connection.disconnect()
            raise OutcomeUnknownError(run, f"{self.url}: {error}") from error
        except BaseException:
            connection.disconnect()  # a reply may be on its way that is not the next one's
            raise
        finally:
            pool.release(connection)

    def _wait_for_replicas(self, connection: Any, run: str) -> None:
        connection.send_command("WAIT", self._replicas, int(self._timeout * 1000))
        have = connection.read_response(disable_decoding=True)
        if have < self._replicas:
            reason = f"{self.url}: only {have} of {self._replicas} replicas have it"
            raise OutcomeUnknownError(run, reason)

    def ask(self, script: Script, keys: Sequence[bytes], arguments: Sequence[object]) -> Any:
        """Run a script that may be run twice."""
        try:
            return self.command(*_evalsha(script, keys, arguments))
        except rx.NoScriptError:
            return self.command(*_eval(script, keys, arguments))

    def command(self, *command: object) -> Any:
        """One command that may be sent twice."""
        self.refuse_if_closed()
        with self.translated():
            return self._client.execute_command(*command, NEVER_DECODE=True)

    def commands(self, commands: Sequence[Sequence[object]]) -> list[Any]:
        """Several of them, in one round trip to each server."""
        self.refuse_if_closed()
        with self.translated(), self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command, NEVER_DECODE=True)
            return list(pipeline.execute())

    def primaries(self) -> list[Any]:
        """A client for every server that takes writes."""
        self.refuse_if_closed()
        if not self.clustered:
            return [self._client]
        with self.translated():
            return [node.redis_connection for node in self._client.get_primaries()]

    def listener(self) -> Any:
        """A subscription, on a connection of its own."""
        self.refuse_if_closed()
        with self.translated():
            return self._client.pubsub(ignore_subscribe_messages=True)

    def disconnect(self) -> None:
        """Close every connection."""
        with self.translated():
            self._client.close()

    def refuse_if_closed(self) -> None:
        """After `close` nothing works."""
        if self.closed:
            raise StoreClosedError(self.url)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """No driver's exception escapes, but for the one that says that a script is unknown."""
        try:
            yield
        except (HoldfastError, rx.NoScriptError):
            raise
        except (rx.RedisError, OSError) as error:
            raise _translate(error, self.url) from error
        except (TypeError, ValueError) as error:  # an option or a value that the driver refuses
            raise StoreError(f"{self.url}: {error}") from error


def _evalsha(
    script: Script, keys: Sequence[bytes], arguments: Sequence[object]
) -> tuple[object, ...]:
    return ("EVALSHA", script.sha, len(keys), *keys, *arguments)


def _eval(script: Script, keys: Sequence[bytes], arguments: Sequence[object]) -> tuple[object, ...]:
    return ("EVAL", script.text, len(keys), *keys, *arguments)


def _translate(error: Exception, url: str) -> HoldfastError:
    said = f"{url}: {error}"
    if isinstance(error, rx.OutOfMemoryError) or "OOM command not allowed" in said:
        return StoreUnavailableError(f"{said} The server is full: delete runs or raise maxmemory")
    if isinstance(error, rx.ReadOnlyError) or "READONLY" in said:
        return StoreUnavailableError(f"{said} This is a replica: connect to its primary")
    if isinstance(error, rx.MovedError | rx.AskError) and not isinstance(error, rx.ClusterError):
        return StoreError(f"{url}: this server is part of a cluster; add ?cluster=true to the URL")
    if isinstance(
        error,
        rx.AuthenticationError
        | rx.AuthorizationError
        | rx.AuthenticationWrongNumberOfArgsError
        | rx.NoPermissionError,
    ):
        return StoreError(f"{said}; check the user, the password and what they may do")
    if isinstance(error, rx.MaxConnectionsError):
        return StoreUnavailableError(f"{said}; raise max_connections")
    if isinstance(error, rx.ResponseError) and not isinstance(error, rx.ClusterError):
        if "WRONGTYPE" in said:
            return SchemaError(
                url, "another program keeps data under these keys; use another prefix"
            )
        if not any(str(error).startswith(code) for code in _TEMPORARY):
            return StoreError(said)
    return StoreUnavailableError(said)
