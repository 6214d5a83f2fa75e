from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, Policy, refuse_unverifiable
from holdfast.evidence.world.addresses import is_public
from tests.waiting import in_time, join

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, free_port, status, verifier


@pytest.fixture
def listening() -> Iterator[tuple[int, list[Any]]]:
    """A port that takes connections, and the peers it took."""
    peers: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, peer = server.accept()
                except TimeoutError:
                    continue
                peers.append(peer)
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], peers
        stop.set()
        join(thread)


def reachable(host: object, port: object) -> Any:
    return claim("network_reachable", host=host, port=port)


def test_a_port_answers_or_refuses(listening: tuple[int, list[Any]]) -> None:
    checker = verifier(private_addresses=True)
    assert status(checker, reachable("127.0.0.1", listening[0])) == VERIFIED
    assert status(checker, reachable("localhost", listening[0])) == VERIFIED
    assert status(checker, reachable("127.0.0.1", free_port())) == FAILED


@pytest.mark.parametrize(
    ("host", "port"),
    [("", 80), ("a b", 80), ("a/b", 80), ("a@b", 80), ("-a", 80), ("a\r\nb", 80), ("é.org", 80), (7, 80),
     ("a" * 300, 80), ("example.org", 0), ("example.org", 65536), ("example.org", True), ("example.org", "80"),
     ("[::1]", 80)],
)  # fmt: skip
def test_what_is_no_host_is_an_error(host: object, port: object) -> None:
    assert status(verifier(private_addresses=True), reachable(host, port)) == ERROR


INTERNAL = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "::7f00:1", "ff02::1",
    "2001:0:53aa:64c:0:ffff:80ff:fffe",
    # What the registries of IANA reserve, each at its edges; Pythons differ in which they know.
    "192.0.0.1", "192.0.0.9", "192.0.0.192", "192.0.0.255", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "100.127.255.255", "192.31.196.1", "192.52.193.1",
    "192.175.48.1", "fec0::1", "feff:ffff::1", "64:ff9b:1::808:808", "100::1", "100:0:0:1::1", "2001:1::1",
    "2001:db8::1", "2001:1ff::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "4000::1", "::808:808",
    "::ffff:0:808:808", "2002:808:808::1",
    # Where clouds answer with credentials.
    "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2606:4700::5efe:a9fe:a9fe", "2606:4700::200:5efe:a00:1",
]  # fmt: skip


@pytest.mark.parametrize("address", INTERNAL)
def test_an_internal_address_is_refused_and_never_called(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *args, **more: pytest.fail("called"))
    evidence = reachable(address, 80)
    assert not is_public(ip_address(address.partition("%")[0]))
    assert status(verifier(), evidence) == ERROR
    with pytest.raises(hf.EvidenceError, match=r"private_addresses=True|is not a host"):
        refuse_unverifiable(EvidencePack([evidence]), Policy())
    # The same behind a name, and among public ones.
    for addresses in ([address], ["93.184.216.34", address], [address, "93.184.216.34"]):
        checker = verifier(resolver=lambda host, port, found=addresses: found)
        assert status(checker, reachable("innocent.example", 80)) == ERROR


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808",
                "191.255.255.255", "192.0.1.1", "192.0.3.1", "100.128.0.1", "2001:200::1", "2003::1"],
)  # fmt: skip
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost"])
def test_other_ways_to_write_an_internal_address_are_no_way_around(host: str) -> None:
    assert status(verifier(), reachable(host, 80)) in (ERROR, FAILED, INCONCLUSIVE)
    evidence = reachable(host, 80)
    EvidenceVerifier(policy=Policy(), attempts=1).verify_evidence(evidence)
    assert "public" in (evidence.verification_error or "") or "no host" in (
        evidence.verification_error or ""
    )


def test_a_name_that_resolves_anew_changes_nothing(
    listening: tuple[int, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver says something harmless first and something internal when asked again."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]])
    called: list[str] = []

    def create(address: tuple[str, int], timeout: float) -> socket.socket:
        called.append(address[0])
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(socket, "create_connection", create)
    checker = verifier(resolver=lambda host, port: next(answers))
    assert status(checker, reachable("rebind.example", listening[0])) == FAILED
    assert called == ["93.184.216.34"]
    assert listening[1] == []


def test_only_the_hosts_that_are_allowed_are_called(listening: tuple[int, list[Any]]) -> None:
    port = listening[0]
    checker = verifier(
        private_addresses=True,
        hosts=frozenset(["Localhost", "*.example.org", f"127.0.0.1:{port}"]),
        resolver=lambda host, port: ["127.0.0.1"],
    )
    for host in ("localhost", "LOCALHOST.", "a.example.org", "a.b.example.org", "127.0.0.1"):
        assert status(checker, reachable(host, port)) == VERIFIED
    for host in (
        "example.org",
        "example.org.evil",
        "notexample.org",
        "localhost.evil",
        "127.0.0.2",
    ):
        assert status(checker, reachable(host, port)) == ERROR
    assert status(checker, reachable("127.0.0.1", 1)) == ERROR
    with pytest.raises(TypeError):
        Policy(hosts="example.org")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (socket.EAI_NONAME, FAILED),
        (socket.EAI_AGAIN, INCONCLUSIVE),
        (socket.EAI_FAIL, INCONCLUSIVE),
    ],
)
def test_a_name_that_does_not_resolve(code: int, found: str) -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(code, "no")

    assert status(verifier(resolver=resolve), reachable("gone.example", 80)) == found
    assert status(verifier(resolver=lambda host, port: []), reachable("gone.example", 80)) == FAILED
    assert (
        status(verifier(resolver=lambda host, port: ["/tmp/x"]), reachable("gone.example", 80))
        == ERROR
    )


def test_who_does_not_answer_is_not_reachable_if_there_was_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def create(address: tuple[str, int], timeout: float) -> socket.socket:
        time.sleep(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", create)
    patient = verifier(private_addresses=True, connect_seconds=0.1, check_seconds=5)
    assert status(patient, reachable("127.0.0.1", 9)) == FAILED
    hurried = verifier(private_addresses=True, connect_seconds=5, check_seconds=0.1)
    assert status(hurried, reachable("127.0.0.1", 9)) == INCONCLUSIVE


def test_a_resolver_that_hangs_holds_nobody_up() -> None:
    gone = threading.Event()
    checker = verifier(resolver=lambda host, port: [str(gone.wait(60))], check_seconds=0.2)
    with in_time():
        assert status(checker, reachable("slow.example", 80)) == INCONCLUSIVE
    gone.set()
