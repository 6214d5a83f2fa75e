from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from securesystemslib import dsse as other

import holdfast as hf
from holdfast.evidence import EvidenceVerifier
from holdfast.evidence.trust.checking import Checker
from holdfast.keys import dsse
from holdfast.operations import attesting
from holdfast.workflow import step, workflow
from tests.keys.test_dsse import other_key

KEY = hf.SigningKey.ed25519("ci", bytes(range(32)))


@step(outputs="report.txt")
def write(text: str) -> int:
    return Path("report.txt").write_text(text)


@workflow
async def report(text: str) -> int:
    return await write(text)


@pytest.fixture
def cp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hf.SyncCheckpointer]:
    monkeypatch.chdir(tmp_path)
    with hf.SyncCheckpointer("runs.db") as checkpointer:
        yield checkpointer


def verify(cp: hf.SyncCheckpointer, run: str) -> None:
    newest = next(iter(cp.core.journals.branch(run)))
    Checker(cp.core, EvidenceVerifier(), by="ann").check(newest)


def statement_of(envelope: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(envelope["payload"]))


def test_a_run_is_attested_with_its_files_its_claims_and_its_head(
    cp: hf.SyncCheckpointer,
) -> None:
    hf.Engine(cp).run_sync(report("low water"), run_id="tide")
    pending = statement_of(cp.attest("tide", sign=KEY))["predicate"]["claims"]
    assert [claim["verdict"] for claim in pending] == [{"status": "pending"}]
    verify(cp, "tide")
    envelope = cp.attest("tide", sign=KEY)
    found = hf.check_attestation(json.dumps(envelope), KEY.trusted())
    head = cp.core.journals.checked_head("tide")
    assert head is not None
    assert (found.run_id, found.signed_by) == ("tide", ("ci",))
    assert found.subjects == {
        "report.txt": hashlib.sha256(b"low water").hexdigest(),
        f"holdfast:tide@{head.seq}": head.digest.hex(),
    }
    predicate = found.statement["predicate"]
    assert predicate["run"]["flow"] == "report"
    assert predicate["run"]["status"] == "completed"
    assert len(predicate["run"]["inputsSha256"]) == 64
    (claim,) = predicate["claims"]
    assert claim["type"] == "file_sha256"
    assert claim["step"] == "write"
    assert claim["inForce"] is True
    assert claim["verdict"]["status"] == "verified"
    assert claim["verdict"]["worker"]
    (checkpoint,) = predicate["checkpoints"]
    assert checkpoint["step"] == "write"


def test_another_implementation_of_dsse_accepts_it(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", {"n": 1})
    theirs = other.Envelope.from_dict(cp.attest("run", sign=KEY))
    assert "ci" in theirs.verify([other_key(KEY)], 1)
    assert theirs.payload_type == "application/vnd.in-toto+json"
    assert json.loads(theirs.payload)["_type"] == "https://in-toto.io/Statement/v1"


def test_a_file_that_was_found_changed_is_no_subject(cp: hf.SyncCheckpointer) -> None:
    hf.Engine(cp).run_sync(report("low water"), run_id="tide")
    Path("report.txt").write_text("edited")
    verify(cp, "tide")
    found = hf.check_attestation(cp.attest("tide", sign=KEY), KEY.trusted())
    assert "report.txt" not in found.subjects
    (claim,) = found.statement["predicate"]["claims"]
    assert (claim["verdict"]["status"], claim["verdict"]["by"]) == ("failed", "ann")


def test_secrets_of_claims_are_hidden(cp: hf.SyncCheckpointer) -> None:
    with closing(sqlite3.connect("app.db")) as db, db:
        db.execute("CREATE TABLE sessions (token TEXT, state TEXT)")
        db.execute("INSERT INTO sessions VALUES ('hunter2', 'open')")
    claim = hf.Evidence(
        "db_row",
        "as https://ann:hunter2@example.org says",
        {"table": "sessions", "where": {"token": "hunter2"}, "values": {"state": "open"}},
        {"db_path": "app.db"},
    )

    @step(evidence=claim)
    def log_in() -> None: ...

    @workflow
    async def session() -> None:
        await log_in()

    hf.Engine(cp).run_sync(session(), run_id="session")
    made = statement_of(cp.attest("session", sign=KEY))
    assert "hunter2" not in json.dumps(made)
    (shown,) = made["predicate"]["claims"]
    assert shown["expected"]["values"] == {"state": "open"}


def test_a_damaged_run_is_not_attested(cp: hf.SyncCheckpointer) -> None:
    for n in range(3):
        cp.save("run", {"n": n}, step="s")
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET step = 'other' WHERE seq = 1")
    with pytest.raises(hf.CheckpointCorruptedError):
        cp.attest("run", sign=KEY)
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.attest("none", sign=KEY)


def test_a_key_that_only_its_owner_can_check_attests_nothing(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1)
    with pytest.raises(hf.KeyFileError, match="signs with HMAC"):
        cp.attest("run", sign=hf.SigningKey.hmac("ci", bytes(32)))


def test_only_trusted_statements_on_runs_are_accepted(cp: hf.SyncCheckpointer) -> None:
    cp.save("run", 1)
    envelope = cp.attest("run", sign=KEY)
    mallory = hf.SigningKey.ed25519("ci", bytes(32))
    with pytest.raises(hf.InvalidSignatureError, match="was not signed by the key 'ci'"):
        hf.check_attestation(envelope, mallory.trusted())
    with pytest.raises(hf.UntrustedKeyError):
        hf.check_attestation(envelope, hf.TrustedKeys({}))
    made = statement_of(envelope)
    for changed in (
        made | {"predicateType": "https://slsa.dev/provenance/v1"},
        made | {"_type": "https://in-toto.io/Statement/v0.1"},
        made | {"subject": [{"name": "x"}]},
        made | {"predicate": {}},
    ):
        payload = json.dumps(changed).encode()
        signed = dsse.signed(payload, attesting.PAYLOAD, KEY)
        with pytest.raises(ValueError, match="statement"):
            hf.check_attestation(signed, KEY.trusted())
