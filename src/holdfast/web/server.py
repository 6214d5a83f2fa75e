"""Serves a site with uvicorn until Ctrl-C."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from holdfast.web.app import make_app
from holdfast.web.site import Site

_LONGEST_HEADER: Final = 32 << 10
_CONNECTIONS: Final = 512
_GRACE: Final = 3  # seconds for open requests when the server stops


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `OSError` if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def serve(site: Site, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; calls `ready` first, when connections are accepted."""
    config = uvicorn.Config(
        make_app(site),
        access_log=False,  # no request, and so no token, is ever logged
        server_header=False,
        http="h11",
        ws="none",
        limit_concurrency=_CONNECTIONS,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEADER,
        timeout_graceful_shutdown=_GRACE,
        log_level="warning",
        lifespan="on",
    )
    ready()
    uvicorn.Server(config).run([listening])
