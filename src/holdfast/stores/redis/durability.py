"""What a Redis server's acknowledgement survives, by its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from holdfast.errors import HoldfastError, StoreClosedError, StoreUnavailableError
from holdfast.store import Survives
from holdfast.stores.redis.link import Link

_ORDER: Final[tuple[Survives, ...]] = ("nothing", "process-crash", "power-loss")


def probe(link: Link, *, expiring: bool) -> Survives:
    """What the weakest of the servers survives; "nothing" if they do not say."""
    return min((_of_one(link, server, expiring) for server in link.primaries()), key=_ORDER.index)


def _of_one(link: Link, server: Any, expiring: bool) -> Survives:
    settings: dict[str, str] = {}
    for pattern in ("append*", "no-appendfsync-on-rewrite", "maxmemory*"):
        settings |= _answer(link, partial(server.config_get, pattern))
    if not settings:  # not allowed, as on most managed servers; INFO knows of the append-only file
        info = _answer(link, lambda: server.info("persistence"))
        return "process-crash" if info.get("aof_enabled") == 1 else "nothing"
    policy = settings.get("maxmemory-policy", "")
    evicts = policy.startswith("allkeys") or (expiring and policy.startswith("volatile"))
    if settings.get("appendonly") != "yes" or (evicts and settings.get("maxmemory") != "0"):
        return "nothing"
    synced = settings.get("appendfsync") == "always"
    paused = settings.get("no-appendfsync-on-rewrite") == "yes"
    return "power-loss" if synced and not paused else "process-crash"


def _answer(link: Link, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the server answers; nothing if it is not allowed to ask."""
    try:
        with link.translated():
            return ask()
    except (StoreClosedError, StoreUnavailableError):
        raise
    except HoldfastError:
        return {}
