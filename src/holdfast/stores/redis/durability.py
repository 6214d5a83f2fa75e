"""What a Redis server's acknowledgement survives, by its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.errors import HoldfastError, StoreClosedError, StoreUnavailableError
from holdfast.store import Survives
from holdfast.stores.redis.link import Link

_ORDER: Final[tuple[Survives, ...]] = ("nothing", "process-crash", "power-loss")


def probe(link: Link, *, expiring: bool) -> Survives:
    """What the weakest of the servers survives; "nothing" if they do not say."""
    return min((_of_one(link, server, expiring) for server in link.primaries()), key=_ORDER.index)


def _of_one(link: Link, server: Any, expiring: bool) -> Survives:
    try:
        return _by_settings(_settings(link, server), expiring)
    except (StoreClosedError, StoreUnavailableError):
        raise
    except HoldfastError:  # not allowed, as on most managed servers
        return _by_info(link, server)


def _settings(link: Link, server: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for pattern in ("append*", "no-appendfsync-on-rewrite", "maxmemory*"):
        with link.translated():
            reply = server.execute_command("CONFIG", "GET", pattern, NEVER_DECODE=True)
        found |= _texts(reply.items() if isinstance(reply, Mapping) else _pairs(reply))
    return found


def _by_settings(settings: Mapping[str, str], expiring: bool) -> Survives:
    policy = settings.get("maxmemory-policy", "")
    evicts = policy.startswith("allkeys") or (expiring and policy.startswith("volatile"))
    if settings.get("appendonly") != "yes" or (evicts and settings.get("maxmemory") != "0"):
        return "nothing"
    synced = settings.get("appendfsync") == "always"
    return (
        "power-loss"
        if synced and settings.get("no-appendfsync-on-rewrite") != "yes"
        else "process-crash"
    )


def _by_info(link: Link, server: Any) -> Survives:
    """INFO says at least whether there is an append-only file."""
    try:
        with link.translated():
            found: dict[str, Any] = server.info("persistence")
    except (StoreClosedError, StoreUnavailableError):
        raise
    except HoldfastError:
        return "nothing"
    return "process-crash" if found.get("aof_enabled") == 1 else "nothing"


def _texts(pairs: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _pairs(reply: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(reply[::2], reply[1::2], strict=True)
