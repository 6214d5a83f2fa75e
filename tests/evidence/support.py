from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from holdfast.evidence import Evidence, EvidenceVerifier, Policy, VerificationStatus
from tests.waiting import join

VERIFIED, FAILED = VerificationStatus.VERIFIED, VerificationStatus.FAILED
INCONCLUSIVE, ERROR = VerificationStatus.INCONCLUSIVE, VerificationStatus.ERROR


def claim(kind: str, metadata: dict[str, Any] | None = None, /, **expected: Any) -> Evidence:
    return Evidence(kind, f"a {kind}", expected, metadata)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verifier(**options: Any) -> EvidenceVerifier:
    """With a policy of these options, and no patience."""
    return EvidenceVerifier(policy=Policy(**options), backoff=0.001)


def status(checker: EvidenceVerifier, evidence: Evidence, **options: Any) -> VerificationStatus:
    found = checker.verify_evidence(evidence, **options)
    assert found is evidence.verified is (evidence.verification_status is VERIFIED)
    assert (evidence.verification_error is None) is found, "what is not verified says why"
    return evidence.verification_status


Answer = Callable[[BaseHTTPRequestHandler], None]


def reply(request: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(code)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def http_server(
    answers: dict[str, Answer], unix: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """A local server: its port, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.get(self.path)
            reply(self, 404) if answer is None else answer(self)

        do_HEAD = do_GET  # noqa: N815 - the server calls it by this name

        def log_message(self, *args: object) -> None:
            pass

        def address_string(self) -> str:
            return "local"

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET if unix is None else socket.AF_UNIX

        def server_bind(self) -> None:
            if unix is None:
                super().server_bind()
            else:
                self.socket.bind(unix)
                self.server_name, self.server_port = "docker", 80

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that hang up are what is tested."""

    server = Server(("127.0.0.1", 0) if unix is None else unix, Handler)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        join(thread)
        server.server_close()


def open_files() -> int:
    """How many descriptors this process holds."""
    return len(list(Path("/proc/self/fd").iterdir()))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
