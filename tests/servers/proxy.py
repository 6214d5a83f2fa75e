"""A proxy that swallows what a server answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit

from tests.servers.server import HOST


class Proxy:
    """Passes everything on, until told to `swallow` the next answer and hang up instead."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None, url
        self._target = (parts.hostname or HOST, parts.port)
        self._listener = socket.create_server((HOST, 0))
        port = self._listener.getsockname()[1]
        self.url = url.replace(f"{parts.hostname}:{parts.port}", f"{HOST}:{port}")
        self._armed = threading.Event()
        self.swallowed = 0
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        """The next request reaches the server; its answer reaches nobody."""
        self._armed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            _hang_up(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [client, server]
                for source, sink in ((client, server), (server, client)):
                    args = (source, sink, source is server)
                    threading.Thread(target=self._pump, args=args, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self._armed.is_set():
                    self._armed.clear()
                    self.swallowed += 1
                    break
                sink.sendall(data)
        _hang_up(source)
        _hang_up(sink)


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
