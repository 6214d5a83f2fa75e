from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, Policy, refuse_unverifiable
from holdfast.evidence.checks.api_response import steps_of
from tests.waiting import in_time, run_process, wait_until

from .support import (
    ERROR,
    FAILED,
    INCONCLUSIVE,
    VERIFIED,
    claim,
    free_port,
    http_server,
    reply,
    sha256,
    status,
    verifier,
)

DOCUMENT = {
    "job": {"state": "done", "n": 1, "ok": True, "none": None, "files": ["a", {"b": 2.5}]},
    "a/b": 1,
    "": "empty",
}
BODY = json.dumps(DOCUMENT).encode()


def chunked(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    for part in (BODY[:10], BODY[10:], b""):
        request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


def cut_off(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(BODY) + 10))
    request.end_headers()
    request.wfile.write(BODY)


def drip(request: BaseHTTPRequestHandler) -> None:
    try:
        for _ in range(1200):
            request.wfile.write(b"H")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def drip_body(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    drip(request)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        for _ in range(10_000):
            request.wfile.write(b"x" * 65536)
    except OSError:
        pass


def to(location: str, code: int = 302) -> Any:
    return lambda request: reply(request, code, Location=location)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    answers = {
        "/": lambda request: reply(request, 200, BODY, ETag="abc", X_Two="1"),
        "/?q=1": lambda request: reply(request, 200, b"query"),
        "/gone": lambda request: reply(request, 410),
        "/text": lambda request: reply(request, 200, b"text"),
        "/chunked": chunked,
        "/cut": cut_off,
        "/drip": drip,
        "/drip-body": drip_body,
        "/endless": endless,
        "/hop": to("/hop2"),
        "/hop2": to("/", 307),
        "/loop": to("/loop"),
        "/to-metadata": to("http://169.254.169.254/latest/meta-data"),
        "/to-file": to("file:///etc/passwd"),
        "/to-user": to("http://user:pass@127.0.0.1/"),
        "/to-other": to("http://other.example/"),
        "/deep": lambda request: reply(request, 200, b"[" * 100_000),
    }
    with http_server(answers) as (port, asked):
        yield f"http://127.0.0.1:{port}", asked


CHECKER = verifier(private_addresses=True, check_seconds=5)


def api(url: str, **expected: Any) -> Any:
    return claim("api_response", url=url, **expected)


@pytest.mark.parametrize(
    ("path", "expected", "found"),
    [
        ("/", {}, VERIFIED),
        ("", {}, VERIFIED),
        ("/?q=1", {"body_sha256": sha256(b"query")}, VERIFIED),
        ("/#fragment", {}, VERIFIED),
        ("/", {"method": "HEAD"}, VERIFIED),
        ("/", {"status": 200}, VERIFIED),
        ("/", {"status": 201}, FAILED),
        ("/gone", {}, FAILED),
        ("/gone", {"status": 410}, VERIFIED),
        ("/nowhere", {}, FAILED),
        ("/", {"headers": {"etag": "abc"}}, VERIFIED),
        ("/", {"headers": {"ETag": "xyz"}}, FAILED),
        ("/", {"headers": {"Missing": ""}}, VERIFIED),
        ("/", {"headers": {"Missing": "x"}}, FAILED),
        ("/", {"body_sha256": sha256(BODY)}, VERIFIED),
        ("/", {"body_sha256": sha256(BODY).upper()}, VERIFIED),
        ("/", {"body_sha256": sha256(b"other")}, FAILED),
        ("/chunked", {"body_sha256": sha256(BODY)}, VERIFIED),
        ("/", {"json": {"job.state": "done"}}, VERIFIED),
        ("/", {"json": {"$.job.files[1].b": 2.5, "job.files[0]": "a"}}, VERIFIED),
        ("/", {"json": {"/a~1b": 1, "/job/files/1/b": 2.5, "/": "empty"}}, VERIFIED),
        ("/", {"json": {"job.n": 1.0}}, VERIFIED),
        ("/", {"json": {"job.n": True}}, FAILED),
        ("/", {"json": {"job.ok": 1}}, FAILED),
        ("/", {"json": {"job.n": "1"}}, FAILED),
        ("/", {"json": {"job.none": None}}, VERIFIED),
        ("/", {"json": {"job.missing": None}}, FAILED),
        ("/", {"json": {"job.files[2]": None}}, FAILED),
        ("/", {"json": {"job.state.x": "done"}}, FAILED),
        ("/", {"json": {"$": DOCUMENT}}, VERIFIED),
        ("/text", {"json": {"a": 1}}, FAILED),
        ("/deep", {"json": {"a": 1}}, FAILED),
        ("/cut", {"body_sha256": sha256(BODY)}, INCONCLUSIVE),
        ("/endless", {"body_sha256": sha256(BODY)}, INCONCLUSIVE),
        ("/endless", {}, VERIFIED),
        ("/hop", {"status": 302}, VERIFIED),
        ("/hop", {}, FAILED),
        ("/hop", {"follow_redirects": True, "body_sha256": sha256(BODY)}, VERIFIED),
        ("/loop", {"follow_redirects": True}, FAILED),
        ("/to-file", {"follow_redirects": True}, ERROR),
        ("/to-user", {"follow_redirects": True}, ERROR),
        ("/", {"method": "DELETE"}, ERROR),
        ("/", {"method": "HEAD", "body_sha256": sha256(b"")}, ERROR),
        ("/", {"status": True}, ERROR),
        ("/", {"json": {"a[": 1}}, ERROR),
        ("/", {"headers": {"a": 1}}, ERROR),
        ("/", {"body": "x"}, ERROR),
    ],
)  # fmt: skip
def test_the_answer_is_the_one_claimed_or_not(
    server: tuple[str, list[str]], path: str, expected: dict[str, Any], found: str
) -> None:
    assert status(CHECKER, api(server[0] + path, **expected)) == found


def test_a_redirect_to_an_internal_address_is_refused(server: tuple[str, list[str]]) -> None:
    base, asked = server
    port = int(base.rpartition(":")[2])
    names = {"public.example": "93.184.216.34", "other.example": "10.0.0.7"}
    real = socket.create_connection

    def create(address: tuple[str, int], timeout: float) -> socket.socket:
        assert address[0] == "93.184.216.34", "only the public address is called"
        return real(("127.0.0.1", port), timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", create)
        checker = verifier(resolver=lambda host, at: [names.get(host, host)])
        for path in ("/to-metadata", "/to-other"):
            evidence = api(f"http://public.example{path}", follow_redirects=True)
            assert status(checker, evidence) == ERROR
        listed = verifier(hosts=frozenset(["public.example"]), resolver=checker.policy.resolver)
        assert status(listed, api("http://public.example/to-other", follow_redirects=True)) == ERROR
        assert status(listed, api("http://public.example/")) == VERIFIED
    assert asked == ["/to-metadata", "/to-other", "/to-other", "/"]


def test_internal_urls_are_refused_before_anything_is_sent(server: tuple[str, list[str]]) -> None:
    for url in (f"{server[0]}/", "http://[::1]/", "http://169.254.169.254/"):
        assert status(verifier(), api(url)) == ERROR
        with pytest.raises(hf.EvidencePolicyError):
            refuse_unverifiable(EvidencePack([api(url)]), Policy())
    assert server[1] == []


@pytest.mark.parametrize(
    "url",
    ["", "ftp://example.org/", "file:///etc/passwd", "http://", "http:///x", "//example.org/", "example.org",
     "http://a b/", "http://a/\r\nHost: b", "http://example.org:99999/", "http://example.org:x/",
     "http://user@example.org/", "http://user:p@example.org/", "http://exämple.org/", "http://example.org/ä",
     "http://[::1", "javascript:alert(1)", "http://a\\@b/", 7, "http://example.org:0/"],
)  # fmt: skip
def test_what_is_no_url_is_an_error(url: Any) -> None:
    assert status(CHECKER, api(url)) == ERROR


def test_no_answer_is_inconclusive_and_tried_again() -> None:
    evidence = api(f"http://127.0.0.1:{free_port()}/")
    assert status(CHECKER, evidence) == INCONCLUSIVE
    assert evidence.verdict.attempts == 3


@pytest.mark.parametrize("path", ["/drip", "/drip-body"])
def test_a_server_that_sends_a_byte_now_and_then_does_not_stretch_the_deadline(
    server: tuple[str, list[str]], path: str
) -> None:
    checker = verifier(private_addresses=True, check_seconds=0.4)
    with in_time():
        assert status(checker, api(server[0] + path, body_sha256=sha256(b""))) == INCONCLUSIVE
        # The thread ends with its socket.
        wait_until(lambda: "holdfast-evidence" not in {t.name for t in threading.enumerate()})


def test_a_server_that_says_nothing_is_inconclusive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        checker = verifier(private_addresses=True, check_seconds=0.3)
        assert status(checker, api(url)) == INCONCLUSIVE


def test_a_server_that_speaks_something_else_is_inconclusive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def serve() -> None:
            for _ in range(3):
                connection, _ = odd.accept()
                connection.sendall(b"SSH-2.0-odd\r\n")
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{odd.getsockname()[1]}/"
        assert status(CHECKER, api(url)) == INCONCLUSIVE
        thread.join(5)


def test_https_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    run_process(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as plain:
        port = plain.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    connection, _ = plain.accept()
                    with serving.wrap_socket(connection, server_side=True) as secured:
                        secured.recv(4096)
                        secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        trusting = ssl.create_default_context(cafile=str(cert))
        trusted = verifier(private_addresses=True, tls=trusting)
        url = f"https://localhost:{port}/"
        assert status(trusted, api(url, body_sha256=sha256(b"ok"))) == VERIFIED
        assert status(trusted, api(f"https://127.0.0.1:{port}/")) == INCONCLUSIVE
        assert status(CHECKER, api(url)) == INCONCLUSIVE
        plain.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("path", "steps"),
    [("a", ["a"]), ("a.b", ["a", "b"]), ("a[0][1].b", ["a", 0, 1, "b"]), ("[0]", [0]), ("$", []), ("$.a", ["a"]),
     ("$[0]", [0]), ("/a~1b/~0", ["a/b", "~"]), ("", None), ("a..b", None), ("a[x]", None), (".", None), ("a.", None),
     ("a]", None)],
)  # fmt: skip
def test_json_paths(path: str, steps: list[str | int] | None) -> None:
    assert steps_of(path) == steps


def test_the_proxy_of_the_environment_is_not_asked(
    server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert status(EvidenceVerifier(policy=CHECKER.policy), api(server[0])) == VERIFIED
