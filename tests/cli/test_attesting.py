from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.workflow import step, workflow
from tests.cli.conftest import Cli

FILE = "tide.intoto.jsonl"


@step(outputs="report.txt")
def write() -> int:
    return Path("report.txt").write_text("low water")


@workflow
async def report() -> int:
    return await write()


@workflow
async def tide() -> int:
    return await report()


@pytest.fixture
def attested(cli: Cli, cp: hf.SyncCheckpointer) -> Path:
    hf.Engine(cp).run_sync(tide(), run_id="tide")
    cli("keygen", "--out", "ci.key", "--sign")
    assert cli("verify").code == 0
    done = cli("attest", "tide", "--sign-key", "ci.key")
    assert done.code == 0, done.err
    assert done.out == f"2 runs attested by ci in {FILE}\n"
    return Path(FILE)


def test_a_run_and_its_child_runs_are_checked_with_the_public_key_alone(
    cli: Cli, attested: Path
) -> None:
    shutil.rmtree(".holdfast")
    Path("ci.key").unlink()
    done = cli("attest", "--check", FILE, "--trusted", "ci.key.pub")
    assert done.code == 0
    assert "tide//report  signed by ci" in done.out
    assert "claims in force: 1 verified" in done.out
    assert "report.txt" in done.out
    found = cli("attest", "--check", FILE, "--trusted", "ci.key.pub", "--json").json
    assert [one["run_id"] for one in found] == ["tide", "tide//report"]


def test_a_changed_attestation_and_one_of_another_key_are_refused(cli: Cli, attested: Path) -> None:
    cli("keygen", "--out", "other.key", "--sign", "--id", "ci")
    done = cli("attest", "--check", FILE, "--trusted", "other.key.pub")
    assert done.code == Exit.FAILED
    assert "line 1: the attestation was not signed by the key 'ci'" in done.err
    lines = [json.loads(line) for line in attested.read_text().splitlines()]
    lines[1]["signatures"] = lines[0]["signatures"]
    attested.write_text("\n".join(map(json.dumps, lines)))
    done = cli("attest", "--check", FILE, "--trusted", "ci.key.pub")
    assert done.code == Exit.FAILED
    assert "line 2:" in done.err
    attested.write_text("")
    assert cli("attest", "--check", FILE, "--trusted", "ci.key.pub").code == Exit.FAILED


def test_openssl_alone_can_check_an_attestation(cli: Cli, attested: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/operate/attestations.md").read_text()
    script = guide.partition("```bash\n")[2].partition("```")[0]
    assert "openssl pkeyutl -verify" in script
    command = ["sh", "-ec", script.replace("nightly.intoto.jsonl", FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Signature Verified Successfully" in done.stdout, done.stderr
    Path("ci.key").unlink()
    cli("keygen", "--out", "x.key", "--sign")
    Path("x.key.pub").rename("ci.key.pub")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["tide"],
        ["--sign-key", "ci.key"],
        ["--check", FILE],
        ["tide", "--check", FILE, "--trusted", "ci.key.pub"],
    ],
)
def test_what_does_not_belong_together_is_a_usage_error(
    cli: Cli, attested: Path, arguments: list[str]
) -> None:
    assert cli("attest", *arguments).code == Exit.USAGE


def test_a_key_that_others_can_read_attests_nothing(cli: Cli, attested: Path) -> None:
    Path("ci.key").chmod(0o644)
    done = cli("attest", "tide", "--sign-key", "ci.key", "--out", "other.jsonl")
    assert done.code == Exit.UNAVAILABLE
    assert "can be used by others" in done.err
    assert not Path("other.jsonl").exists()
