"""URLs of Redis servers: for the driver, checked, and for logs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

import redis
from redis.cluster import RedisCluster
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url

from holdfast.stores._shared.address import check_user_part, masked

Client = redis.Redis | RedisCluster

_SCHEMES: Final = {
    "valkey://": "redis://",
    "valkeys://": "rediss://",
    "redis+unix://": "unix://",
}
_SINGLE: Final = (Connection, SSLConnection, UnixDomainSocketConnection)


def drivers(url: str) -> str:
    """The URL with a scheme that redis-py knows."""
    for ours, theirs in _SCHEMES.items():
        if url.startswith(ours):
            return theirs + url.removeprefix(ours)
    return url


def check(url: str, options: Mapping[str, Any], *, clustered: bool) -> None:
    """Raise `ValueError` for what the driver would ignore, or refuse only at the first call."""
    check_user_part(url)
    parts = urlsplit(url)
    database = parts.path.strip("/")
    if not url.startswith("redis+unix://") and database and not database.isdecimal():
        raise ValueError(f"the path must be the number of a database, as in /0, not /{database}")
    known = _options_of(*_SINGLE, *([RedisCluster] if clustered else []))
    unknown = sorted({*dict(parse_qsl(parts.query)), *options} - known)
    if unknown:
        raise ValueError(f"no option of this store: {', '.join(unknown)}")
    parse_url(drivers(url))  # type: ignore[no-untyped-call]


def shown(where: str | Client, prefix: str, ttl: float | None) -> str:
    """The store's URL for logs, with the options that all its users should agree on."""
    place = masked(where).partition("?")[0] if isinstance(where, str) else _of(where)
    expiring = "" if ttl is None else f"&ttl={float(ttl):g}"
    return f"{place}?prefix={quote(prefix)}{expiring}"


def _of(client: Client) -> str:
    if isinstance(client, RedisCluster):
        nodes: Any = client.nodes_manager.startup_nodes
        return f"redis://{next(iter(nodes), '')}"
    settings = client.connection_pool.connection_kwargs
    if "path" in settings:
        return f"redis+unix://{settings['path']}"
    return f"redis://{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db', 0)}"


def _options_of(*classes: type) -> set[str]:
    makers = [vars(kind).get("__init__") for made in classes for kind in made.__mro__]
    return {name for make in makers if make for name in _parameters(make)}


def _parameters(make: Any) -> list[str]:
    try:
        return list(inspect.signature(make).parameters)
    except ValueError:  # of a class that is not written in Python
        return []
