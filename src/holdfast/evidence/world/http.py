"""One HTTP request to a deadline, on a connected socket."""

from __future__ import annotations

import http.client
import socket
from typing import Any, Final

from holdfast.evidence.context import Context

_CHUNK: Final = 1 << 16


class TooLargeError(Exception):
    """The answer is larger than the policy allows."""


class Exchange:
    """A request and its answer. The socket is closed with it.

    Everything raises `OSError` or `http.client.HTTPException` when the other side fails, and
    `TimeoutError` at the deadline; a server that sends a byte now and then does not stretch it.
    """

    def __init__(self, sock: socket.socket, context: Context) -> None:
        self._sock = sock
        self._context = context
        self._answer: http.client.HTTPResponse | None = None
        context.at_deadline(lambda: self._sock.shutdown(socket.SHUT_RDWR))

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._answer is not None:
            self._answer.close()  # it keeps the socket open, too
        self._sock.close()

    def secure(self, tls: Any, host: str) -> None:
        """Switch to TLS, and verify that the certificate is this host's."""
        self._sock.settimeout(self._context.remaining())
        self._sock = tls.wrap_socket(self._sock, server_hostname=host)

    def send(self, method: str, host: str, port: int, target: str) -> None:
        """Send the request and read the answer's head."""
        connection = http.client.HTTPConnection(host, port)
        connection.sock = self._sock
        self._sock.settimeout(self._context.remaining())
        headers = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "holdfast"}
        connection.request(method, target, headers=headers)
        # Not `getresponse`: it closes the socket, whose timeout then can't be set in every Python.
        self._answer = http.client.HTTPResponse(self._sock, method=method)
        self._answer.begin()

    @property
    def _response(self) -> http.client.HTTPResponse:
        assert self._answer is not None, "the request was sent"
        return self._answer

    @property
    def status(self) -> int:
        """The status code."""
        return self._response.status

    def header(self, name: str) -> list[str]:
        """The values of a header, whatever the case of its name."""
        return self._response.headers.get_all(name) or []

    def body(self) -> bytes:
        """The whole body. Raises `TooLargeError` if it is longer than the policy allows."""
        parts, size = [], 0
        while True:
            self._sock.settimeout(self._context.remaining())
            part = self._response.read1(_CHUNK)
            if not part:
                break
            size += len(part)
            if size > self._context.policy.max_response_bytes:
                raise TooLargeError
            parts.append(part)
        if self._response.length:
            raise http.client.IncompleteRead(b"", self._response.length)
        return b"".join(parts)
