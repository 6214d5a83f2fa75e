"""Whatever a claim says, the verifier answers, and VERIFIED is only what was looked at and is so."""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import holdfast as hf
from holdfast.evidence import (
    CommandResult,
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    Policy,
    command_evidence,
    process_evidence,
)
from holdfast.evidence.checks import BUILT_IN
from holdfast.evidence.world.addresses import is_public
from tests.effort import examples
from tests.strategies import keys, values

from .support import VERIFIED, sha256

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "alice", "n": 7, "data": b"\x00"},
    {"id": 2, "name": "ALICE", "n": None, "data": None},
    {"id": 3, "name": "7", "n": 7.5, "data": b"7"},
]
NAMES = {"one.example": ["93.184.216.34"], "in.example": ["127.0.0.1"], "odd.example": ["x", ""]}
ODD = ["", "\0", ".", "..", "/", "//", "a/../../secret", "\n", "\ud800", "%00", "~", "*",
       "' OR 1=1 --", '"', "`", "$(id)", "\x1b[2J", "é", "A\u0301", "１"]  # fmt: skip
PATHS = ["a", "sub/b", "sub", "link", "out", "dangling", "circle", "sub/link/a", "./a", "a/", "gone",
         "/etc/passwd", "/proc/self/environ", "/dev/zero", "../secret"]  # fmt: skip
DIGESTS = [sha256(b"a"), sha256(b"b"), sha256(b"s"), sha256(b""), sha256(b"a").upper(), "0" * 64]

anything = values(max_leaves=4, arrays=False)
odd = st.sampled_from(ODD) | st.just(5000).map("x".__mul__)


def like(*good: Any) -> SearchStrategy[Any]:
    """Mostly what makes sense, and now and then anything at all."""
    return st.sampled_from(good) | st.sampled_from(good) | odd | anything


def claims(
    kind: str, metadata: dict[str, Any], **fields: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    optional = st.fixed_dictionaries({}, optional=fields)
    whole = st.fixed_dictionaries(fields)
    more = st.dictionaries(odd | st.text(max_size=4), anything, max_size=1)
    expected = st.tuples(whole | optional, st.just({}) | st.just({}) | more)
    return st.tuples(
        st.just(kind), odd | st.text(max_size=8), expected.map(lambda two: {**two[0], **two[1]}),
        st.fixed_dictionaries({}, optional=metadata),
    )  # fmt: skip


columns = st.dictionaries(
    st.sampled_from(["id", "name", "n", "data"]) | odd | keys(),
    like(
        1, 2, 3, "1", "alice", "Alice", 7, 7.0, 7.5, None, True, b"\x00", "7", 2**70, float("nan")
    ),
    max_size=2,
)
here = process_evidence(os.getpid()).expected
CLAIMS = {
    "artifact_exists": claims(
        "artifact_exists", {}, path=like(*PATHS), type=like("file", "directory", "any", "link", "absent"),
        target=like("a", "gone", "../secret"),
    ),
    "file_sha256": claims(
        "file_sha256", {}, path=like(*PATHS), sha256=like(*DIGESTS), size=like(0, 1, -1, 2**70)
    ),
    "command_exit": claims(
        "command_exit",
        {"command": like("make", ["make"]), "recorded": like({"exit_code": 0}),
         "observed": like({"exit_code": 0}), "base": like("/")},
        exit_code=like(0, 1, True, 0.0),
    ),
    "db_row": claims(
        "db_row",
        {"connection": like("default", "other"), "db_path": like("x.sqlite", "a", "/etc/passwd")},
        table=like("t", "v", "T", "sqlite_master", "(SELECT 1 AS id)"), schema=like("main", None),
        where=columns | anything, values=columns | anything,
    ),
    "network_reachable": claims(
        "network_reachable", {}, host=like(*NAMES, "127.0.0.1", "::1", "fe80::1%eth0", "8.8.8.8"),
        port=like(80, 0, 65536),
    ),
    "api_response": claims(
        "api_response", {}, url=like("http://one.example/", "https://in.example/", "http://8.8.8.8:1/",
                                     "http://me:pw@one.example/", "file:///etc/passwd", "http://[::1]/"),
        method=like("GET", "HEAD", "POST"), status=like(200), json=like({"a.b": 1, "/a~1b": 2}),
        headers=like({"A": "b"}), body_sha256=like(*DIGESTS), follow_redirects=like(True, False),
    ),
    "container_running": claims(
        "container_running", {}, container=like("web", "../x"), image=like("nginx"),
        id=like("4f1d00000000"), health=like("healthy"),
    ),
    "process_exists": claims(
        "process_exists", {}, pid=like(here["pid"], 1, 0, -1), start_time=like(here["start_time"]),
        command=like(here["command"], "0" * 64), image=like(here.get("image"), "0" * 64),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("world")
    root = place / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a").write_bytes(b"a")
    (root / "sub" / "b").write_bytes(b"b")
    (place / "secret").write_bytes(b"s")
    for name, target in {"link": "a", "out": "../secret", "dangling": "gone", "circle": "circle",
                         "sub/link": ".."}.items():  # fmt: skip
        (root / name).symlink_to(target)
    with closing(sqlite3.connect(root / "x.sqlite")) as db:
        db.execute("CREATE TABLE t (id INTEGER, name TEXT COLLATE NOCASE, n, data BLOB)")
        db.executemany("INSERT INTO t VALUES (:id, :name, :n, :data)", ROWS)
        db.execute("CREATE VIEW v AS SELECT * FROM t WHERE id < 2")
        db.commit()
    return root


@pytest.fixture(scope="module")
def called(world: Path) -> Iterator[list[str]]:
    """The addresses that were called; nobody answers."""
    found: list[str] = []

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        found.append(address[0])
        raise ConnectionRefusedError(111, "refused")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", dial)
        yield found


@pytest.fixture(scope="module")
def checker(world: Path) -> EvidenceVerifier:
    def resolve(host: str, port: int) -> list[str]:
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "no")
        return NAMES[host]

    policy = Policy(
        base_path=world,
        connections={"default": world / "x.sqlite"},
        resolver=resolve,
        docker_socket=world / "no.sock",
        check_seconds=60,
    )
    return EvidenceVerifier(policy=policy, attempts=1)


def test_every_type_is_tried() -> None:
    assert CLAIMS.keys() == BUILT_IN.keys()


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_hostile_claim_gets_a_verdict_and_never_a_better_one_than_is_true(
    kind: str, world: Path, checker: EvidenceVerifier, called: list[str]
) -> None:
    @given(CLAIMS[kind])
    @settings(max_examples=examples(80), deadline=None, database=None)
    def attempt(made: tuple[str, str, Any, Any]) -> None:
        called.clear()
        try:
            evidence = Evidence(*made)
        except hf.InvalidEvidenceError:
            return
        (verdict,) = checker.check([evidence])
        assert evidence.verdict == verdict
        assert (verdict.reason or "").isprintable()
        assert len(verdict.reason or "") <= 500
        if verdict.status is VERIFIED:
            assert holds(evidence, world), made
        assert all(is_public(ip_address(address)) for address in called)
        try:
            checker.refuse_unverifiable(EvidencePack([evidence]))
        except hf.EvidenceError as error:
            assert verdict.status is not VERIFIED
            assert str(error).isprintable()
        assert str(evidence).isprintable()
        assert repr(evidence).isprintable()
        assert evidence.subject

    attempt()


def holds(evidence: Evidence, root: Path) -> bool:
    """Whether the claim is true, looked at in another way."""
    expected = evidence.expected
    if evidence.evidence_type in ("file_sha256", "artifact_exists"):
        return _file_holds(expected, root)
    if evidence.evidence_type == "db_row":
        return _row_holds(expected)
    if evidence.evidence_type == "process_exists":
        named = {"command": here["command"]} if expected.get("image") else {}
        return here | expected | named == here  # a process may give itself another name
    return False  # nobody answers, and no exit code was recorded


def _file_holds(expected: dict[str, Any], root: Path) -> bool:
    path = root / expected["path"]
    if expected.get("type") == "absent":
        return not os.path.lexists(path)
    if expected.get("type") == "link":
        return path.is_symlink() and str(path.readlink()) == str(expected["target"])
    if not path.exists() or not path.resolve().is_relative_to(root.resolve()):
        return False
    if "sha256" in expected:
        data = path.read_bytes()
        if expected.get("size", len(data)) != len(data):
            return False
        return hashlib.sha256(data).hexdigest() == str(expected["sha256"]).lower()
    kinds: dict[Any, bool] = {"file": path.is_file(), "directory": path.is_dir(), "any": True}
    return kinds[expected.get("type", "any")]


def _row_holds(expected: dict[str, Any]) -> bool:
    def has(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
        found = [(row[name.lower()], value) for name, value in wanted.items()]
        return all(
            one is None
            if value is None
            else one == value and isinstance(one, str) == isinstance(value, str)
            for one, value in found
        )

    rows = ROWS[:1] if expected["table"].lower() == "v" else ROWS
    exact = [row for row in rows if has(row, expected["where"])]
    return len(exact) == 1 and has(exact[0], expected.get("values", {}))


@given(st.integers(-300, 300), anything, st.integers(-1, 2), like("make", ["make"], ["make", "it"]))
@settings(max_examples=examples(60), deadline=None, database=None)
def test_an_exit_code_is_verified_only_by_a_record_of_the_same_command(
    code: int, record: Any, claimed: int, command: Any
) -> None:
    seen = command_evidence(CommandResult(("make",), code, 1.0), exit_code=claimed)
    assert EvidenceVerifier().verify_evidence(seen) is (code == claimed)
    try:
        other = Evidence("command_exit", "it", {"exit_code": claimed}, {"command": command})
    except hf.InvalidEvidenceError:
        return
    told = other.noted(observed=seen.observed)
    assert EvidenceVerifier().verify_evidence(told) is (code == claimed and command == ["make"])
    odd_record = other.noted(observed={"command": command, "exit_code": record})
    is_it = type(record) is int and record == claimed
    assert EvidenceVerifier().verify_evidence(odd_record) is is_it
    state = {"exit_code": record, "command": command}
    assert EvidenceVerifier().verify_evidence(other, snapshot=state) is is_it
