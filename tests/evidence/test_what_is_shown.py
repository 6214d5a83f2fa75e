"""Neither secrets nor values that were found are shown, and no text forges lines of a log."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy, file_evidence
from holdfast.manager import CheckpointManager
from tests.servers import mariadb, postgres

from .support import (
    ERROR,
    FAILED,
    INCONCLUSIVE,
    claim,
    http_server,
    reply,
    sha256,
    status,
    verifier,
)

SECRET = "hunter2"


def everything_said(checker: EvidenceVerifier, *claims: Evidence) -> str:
    """All that a program could print after a check."""
    checker.verify_multiple(claims)
    pack = EvidencePack(claims)
    said = [repr(checker.policy), repr(checker), repr(pack)]
    said += [f"{one} {one!r} {one.verification_error} {one.verdict}" for one in claims]
    with pytest.raises(hf.HoldfastError) as raised:
        raise hf.VerificationError("r@1", claims)
    return "\n".join([*said, str(raised.value), repr(raised.value)])


def row(**more: Any) -> Evidence:
    expected = {"table": "users", "where": {"id": 1}, "values": {"token": "other"}}
    return Evidence("db_row", "the token", expected | more)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "postgresql://me:hunter2%zz@127.0.0.1:1/db",
        "postgresql://me:hunter2/x@127.0.0.1:1/db",
        "postgresql://127.0.0.1:hunter2/db",
        "mysql://me:hunter2@127.0.0.1:1/db",
        "mysql://me:@127.0.0.1:hunter2/db",
        "ftp://me:hunter2@127.0.0.1/db",
        "me:hunter2@127.0.0.1/db",
    ],
)
def test_a_password_in_a_connection_is_never_shown(url: str) -> None:
    said = everything_said(verifier(connections={"default": url}), row())
    assert SECRET not in said


def test_what_a_programs_own_function_fails_with_is_not_shown() -> None:
    def connect() -> Any:
        raise ValueError(f"can't connect as me:{SECRET}")

    checker = verifier(connections={"default": connect})
    assert SECRET not in everything_said(checker, row())
    assert status(checker, row()) == ERROR


def test_a_value_that_was_found_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"CREATE TABLE users (id INTEGER, token TEXT); INSERT INTO users VALUES (1, '{SECRET}');"
            "CREATE VIEW broken AS SELECT id, json_extract('{}', token) AS token FROM users;"
        )
    checker = verifier(connections={"default": path})
    assert SECRET not in everything_said(checker, row(), row(table="broken"))
    assert SECRET not in everything_said(checker, row(values={"token": SECRET}))


@pytest.mark.parametrize("server", [postgres, mariadb], ids=["postgres", "mariadb"])
def test_a_value_in_a_servers_error_is_never_shown(server: Any) -> None:
    url = server.new_url()
    view = (
        "CAST(token AS INTEGER)"
        if server is postgres
        else "CAST(token AS DATE) + JSON_VALUE(token, '$')"
    )
    statements = [
        "CREATE TABLE users (id INTEGER, token VARCHAR(20))",
        f"INSERT INTO users VALUES (1, '{SECRET}')",
        f"CREATE VIEW broken AS SELECT id, {view} AS token FROM users",
    ]
    if server is postgres:
        import psycopg

        url = url.replace(url.partition("schema=")[2].partition("&")[0] + "&", "", 1)
        url = url.replace("schema=", "")
        with psycopg.connect(url, autocommit=True) as db:
            for statement in statements:
                db.execute(statement.encode())
    else:
        with mariadb.connect(url) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    checker = verifier(connections={"default": url})
    said = everything_said(checker, row(table="broken"), row())
    assert SECRET not in said


def test_a_value_that_an_answer_holds_is_never_shown() -> None:
    answers = {
        "/json": lambda request: reply(request, 200, b'{"token": "hunter2"}', X_Token=SECRET),
        "/same": lambda request: reply(request, 200, b'{"token": "hunter2"}'),
        "/line": lambda request: request.wfile.write(b"hunter2 hunter2\r\n\r\n") and None,
        "/to": lambda request: reply(request, 302, Location=f"http://me:{SECRET}@x/"),
        "/port": lambda request: reply(request, 302, Location=f"http://x:{SECRET}/"),
    }
    with http_server(answers) as (port, _):
        url = f"http://127.0.0.1:{port}"
        claims = [
            claim("api_response", url=f"{url}/json", json={"token": "other"}),
            claim("api_response", url=f"{url}/same", json={"token": SECRET[:-1]}),
            claim("api_response", url=f"{url}/json", headers={"X-Token": "other"}),
            claim("api_response", url=f"{url}/line"),
            claim("api_response", url=f"{url}/to", follow_redirects=True),
            claim("api_response", url=f"{url}/port", follow_redirects=True),
        ]
        said = everything_said(verifier(private_addresses=True), *claims)
    assert SECRET not in said


# --- texts that would look like something else


FORGED = "x\n2026-01-01 ERROR all is lost\r\x1b[2J\x9b31m\u202e\u2028y"
UNSEEN = "\n\r\x1b\x9b\u202e\u2028"


def hostile(tmp_path: Path) -> list[Evidence]:
    text = FORGED.replace("/", "")
    return [
        Evidence("artifact_exists", text, {"path": text}),
        Evidence("file_sha256", text, {"path": text, "sha256": "0" * 64}),
        Evidence("artifact_exists", text, {"path": f"../{text}"}),
        Evidence("artifact_exists", text, {"path": text, text: 1}),
        Evidence("db_row", text, {"table": text, "where": {text: text}}),
        Evidence("db_row", text, {"table": "t", "where": {"id": 1}, "values": {text: text}}),
        Evidence("db_row", text, {"table": "t", "where": {"id": 1}}, {"connection": text}),
        Evidence("network_reachable", text, {"host": text, "port": 1}),
        Evidence("network_reachable", text, {"host": f"::1%{text}", "port": 1}),
        Evidence("api_response", text, {"url": f"http://x/{text}"}),
        Evidence("container_running", text, {"container": text}),
        Evidence(text[:50], text, {"n": 1}),
        Evidence("mine", text, {"n": 1}),
    ]


def test_no_text_forges_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (id INTEGER); INSERT INTO t VALUES (1)")
    checker = verifier(base_path=tmp_path, connections={"default": path})

    def fails(evidence: Evidence, context: Any) -> bool:
        raise RuntimeError(FORGED)

    checker.register_check("mine", fails)
    for evidence in hostile(tmp_path):
        said = everything_said(checker, evidence).splitlines()
        assert len(said) == 6, said
        assert not set(UNSEEN) & set("".join(said)), said
        try:
            checker.refuse_unverifiable(EvidencePack([evidence]))
        except hf.EvidenceError as error:
            assert not set(UNSEEN) & set(str(error))


def test_the_log_of_a_task_has_one_line_for_each_thing_it_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FORGED).write_text("x")
    with CheckpointManager("memory://") as manager, caplog.at_level(logging.DEBUG):
        pack = EvidencePack([file_evidence(FORGED)])
        Path(FORGED).write_text("y")
        manager.commit_step(manager.begin_step("t", "iteration_end", {}), pack)
        assert manager.get_last_verified_checkpoint("t") is None
    messages = [record.getMessage() for record in caplog.records]
    assert messages
    for message in messages:
        assert not set(UNSEEN) & set(message), message


def test_the_error_of_a_step_whose_output_is_missing_is_one_line() -> None:
    from holdfast.workflow import step, workflow

    @workflow("forgets")
    async def flow() -> None:
        await step("a").python(lambda: None, outputs=FORGED)

    with hf.Engine("memory://") as engine, pytest.raises(hf.StepFailedError) as raised:
        engine.run_sync(flow(), run_id="r")
    assert not set(UNSEEN) & set(str(raised.value))


@pytest.mark.parametrize("make", [file_evidence], ids=["file"])
def test_claiming_what_is_not_allowed_says_so_in_one_line(
    make: Callable[..., Evidence], tmp_path: Path
) -> None:
    with pytest.raises(hf.EvidencePolicyError) as raised:
        make(f"../{FORGED}", policy=Policy(base_path=tmp_path))
    assert not set(UNSEEN) & set(str(raised.value))


def test_a_digest_and_a_size_are_said(tmp_path: Path) -> None:
    """They help, and tell nothing that could be used."""
    (tmp_path / "a").write_text("a")
    evidence = claim("file_sha256", path="a", sha256=sha256(b"b"))
    assert status(EvidenceVerifier(tmp_path), evidence) == FAILED
    assert sha256(b"a")[:12] in (evidence.verification_error or "")


def test_why_a_database_can_not_be_asked_is_said_by_its_code() -> None:
    for url, word in (
        ("postgresql://127.0.0.1:1/db", "OperationalError"),
        ("mysql://127.0.0.1:1/db", "2003"),
        ("sqlite:////nowhere/x.db", "SQLITE_CANTOPEN"),
    ):
        evidence = row()
        assert status(verifier(connections={"default": url}), evidence) == INCONCLUSIVE
        assert word in (evidence.verification_error or "")
