"""One small test for each mistake that evidence invites; a mutant makes one of them."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence import (
    Context,
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    HashCache,
    Policy,
    process_evidence,
    verified,
)

from .support import (
    ERROR,
    FAILED,
    INCONCLUSIVE,
    VERIFIED,
    claim,
    http_server,
    reply,
    sha256,
    status,
    verifier,
)

Probe = Callable[[Path], None]


def an_exit_code_is_compared(tmp_path: Path) -> None:
    assert status(EvidenceVerifier(), claim("command_exit", exit_code=0)) == INCONCLUSIVE
    wrong = claim("command_exit", exit_code=0)
    assert status(EvidenceVerifier(), wrong, snapshot={"exit_code": 1}) == FAILED


def an_empty_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidEvidenceError):
        EvidencePack([])


def one_of_two_is_one(tmp_path: Path) -> None:
    claims = [claim("artifact_exists", path="."), claim("artifact_exists", path="gone")]
    some = EvidencePack(claims, require_all=False, allow_partial=True, min_verified=1)
    assert EvidenceVerifier(tmp_path).verify_evidence_pack(some)
    assert not EvidenceVerifier(tmp_path).verify_evidence_pack(EvidencePack(claims))
    with pytest.raises(InvalidEvidenceError):
        EvidencePack(claims, min_verified=1)


def too_many_can_not_be_required(tmp_path: Path) -> None:
    with pytest.raises(InvalidEvidenceError):
        EvidencePack([claim("mine")], require_all=False, allow_partial=True, min_verified=2)


def a_stored_verdict_is_not_believed(tmp_path: Path) -> None:
    assert not Evidence.from_dict(claim("mine").to_dict() | {"verified": True}).verified


def a_verdict_is_not_written_into_its_claim(tmp_path: Path) -> None:
    evidence = claim("mine")
    before = evidence.claim_dict()
    evidence.judge(verified()._replace(evidence=evidence.digest))
    assert evidence.claim_dict() == before


def _database(tmp_path: Path) -> Path:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE t (id INTEGER, v TEXT);"
            "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'n');"
        )
    return path


def _row(tmp_path: Path, table: str, where: dict[str, Any], **values: Any) -> str:
    checker = verifier(connections={"default": _database(tmp_path)})
    return status(checker, claim("db_row", table=table, where=where, values=values))


def a_subquery_is_no_table(tmp_path: Path) -> None:
    assert _row(tmp_path, "(SELECT 7 AS id)", {"id": 7}) == FAILED


def text_is_no_column(tmp_path: Path) -> None:
    assert _row(tmp_path, "t", {"id": 1}, done="done") == FAILED


def null_is_found(tmp_path: Path) -> None:
    assert _row(tmp_path, "t", {"id": None}, v="n") == VERIFIED


def one_row_is_one_row(tmp_path: Path) -> None:
    assert _row(tmp_path, "t", {"id": 2}, v="b") == FAILED


def evidence_chooses_no_database(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    path = str(_database(tmp_path))
    evidence = claim("db_row", {"db_path": path}, table="t", where={"id": 1})
    assert status(verifier(base_path=root), evidence) == ERROR
    assert status(EvidenceVerifier(), evidence) == ERROR


def a_root_is_not_left(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_bytes(b"s")
    for path in ("../secret", str(tmp_path / "secret")):
        evidence = claim("file_sha256", path=path, sha256=sha256(b"s"))
        assert status(EvidenceVerifier(root), evidence) == ERROR


def a_link_leads_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_bytes(b"s")
    (root / "link").symlink_to(tmp_path / "secret")
    evidence = claim("file_sha256", path="link", sha256=sha256(b"s"))
    assert status(EvidenceVerifier(root), evidence) == ERROR


def a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    evidence = claim("file_sha256", path=str(tmp_path / "fifo"), sha256=sha256(b""))
    try:
        assert status(verifier(check_seconds=1), evidence) == FAILED
    finally:
        os.close(os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK))  # wakes who waits for it


def a_file_that_changes_has_no_digest(tmp_path: Path) -> None:
    path = tmp_path / "busy"
    path.write_bytes(b"x" * 100)

    class Meanwhile(Context):
        def remaining(self) -> float:
            before = path.stat().st_ctime_ns
            while path.stat().st_ctime_ns == before:  # until the file system's clock ticks
                path.write_bytes(b"y" * 100)
            return 1.0

    from holdfast.evidence.checks import file_sha256

    evidence = claim("file_sha256", path=str(path), sha256=sha256(b"x" * 100))
    found = file_sha256.check(evidence, Meanwhile(Policy(), time.monotonic() + 5))
    assert found.status == INCONCLUSIVE


def upper_case_is_the_same_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    evidence = claim("file_sha256", path="a", sha256=sha256(b"a").upper())
    assert status(EvidenceVerifier(tmp_path), evidence) == VERIFIED


class _Later:
    def now(self) -> int:
        return time.time_ns() // 1000 + 10_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def a_file_that_was_touched_back_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    checker = EvidenceVerifier(tmp_path, hashes=HashCache(clock=_Later()))
    evidence = claim("file_sha256", path="a", sha256=sha256(b"a"))
    assert status(checker, evidence) == VERIFIED
    times = path.stat()
    while path.stat().st_ctime_ns == times.st_ctime_ns:  # until the file system's clock ticks
        path.write_bytes(b"b")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert status(checker, evidence) == FAILED


def a_file_that_was_just_written_is_read_again(tmp_path: Path) -> None:
    hashes = HashCache()
    (tmp_path / "a").write_bytes(b"a")
    checker = EvidenceVerifier(tmp_path, hashes=hashes)
    for _ in range(2):
        assert status(checker, claim("file_sha256", path="a", sha256=sha256(b"a"))) == VERIFIED
    assert hashes.hits == 0


def a_redirect_leads_to_no_internal_service(tmp_path: Path) -> None:
    answers = {
        "/": lambda request: reply(request, 302, Location="http://inner.example/secret"),
        "/secret": lambda request: reply(request, 200),
    }
    names = {"public.example": ["93.184.216.34"], "inner.example": ["127.0.0.1"]}
    dial = socket.create_connection
    with http_server(answers) as (port, asked), pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", lambda at, timeout: dial(("127.0.0.1", port)))
        checker = verifier(resolver=lambda host, at: names[host])
        evidence = claim("api_response", url="http://public.example/", follow_redirects=True)
        assert status(checker, evidence) == ERROR
        assert asked == ["/"]


def a_name_is_resolved_once(tmp_path: Path) -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]]
    called = []

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        called.append(address[0])
        raise ConnectionRefusedError(111, "refused")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", dial)
        checker = verifier(resolver=lambda host, port: answers.pop(0))
        checker.verify_evidence(claim("network_reachable", host="rebind.example", port=80))
    assert called == ["93.184.216.34"]


def every_address_is_checked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        checker = verifier(resolver=lambda host, port: ["127.0.0.1", "93.184.216.34"])
        evidence = claim("network_reachable", host="two.example", port=port)
        assert status(checker, evidence) == ERROR


def a_reused_pid_is_another_process(tmp_path: Path) -> None:
    expected = process_evidence(os.getpid()).expected
    boot, ticks = expected["start_time"].split()
    evidence = claim("process_exists", **expected | {"start_time": f"{boot} {int(ticks) - 1}"})
    assert status(EvidenceVerifier(), evidence) == FAILED


def a_timeout_upgrades_nothing(tmp_path: Path) -> None:
    def slow(evidence: Evidence, context: Context) -> bool:
        time.sleep(0.2)
        return True

    checker = verifier(check_seconds=0.05)
    checker.register_check("mine", slow)
    assert status(checker, claim("mine")) == INCONCLUSIVE


def a_crash_upgrades_nothing(tmp_path: Path) -> None:
    def broken(evidence: Evidence, context: Context) -> bool:
        raise RuntimeError

    checker = verifier()
    checker.register_check("mine", broken)
    assert status(checker, claim("mine")) == ERROR


def only_verified_counts(tmp_path: Path) -> None:
    pack = EvidencePack([claim("command_exit", exit_code=0)])
    assert not EvidenceVerifier().verify_evidence_pack(pack)


PROBES: list[Probe] = [
    found
    for name, found in list(globals().items())
    if getattr(found, "__module__", "") == __name__
    and callable(found)
    and not isinstance(found, type)
    and not name.startswith("_")
]
