"""Serves a site with uvicorn until Ctrl-C."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from holdfast.web.app import make_app
from holdfast.web.live import Live
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
    app = make_app(site)
    config = uvicorn.Config(
        app,
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
    _Server(config, app.state.live).run([listening])


class _Server(uvicorn.Server):
    """Ends streams of events when it stops: they would keep it from that."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        self._live.close()
        await super().shutdown(sockets)
