"""verify --worker and worker --verify: claims that another machine has to check."""

from __future__ import annotations

import socket
from pathlib import Path

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.evidence import Evidence, EvidencePack, file_evidence
from holdfast.manager import CheckpointManager
from tests.cli.conftest import Cli
from tests.cli.test_workers import worker
from tests.waiting import wait_until

HERE = socket.gethostname()


def claim(host: str) -> None:
    Path("model").write_text("weights")
    seen = file_evidence("model")
    labelled = Evidence(seen.evidence_type, "the model", seen.expected, host=host)
    with CheckpointManager(hf.SyncCheckpointer(), auto_verify=False) as manager:
        step = manager.begin_step("train", "tool_executed", {})
        manager.commit_step(step, EvidencePack([labelled]))


def test_a_worker_is_asked_and_its_vote_is_shown(cli: Cli) -> None:
    claim(HERE)
    with worker("--verify") as started:
        started.says("working")
        wait_until(lambda: "verifies for others" in cli("workers").out)
        assert [line["verifies"] for line in cli("workers", "--json").lines] == [True]
        done = cli("verify", "train", "--worker", "--within", "60")
        assert done.code == Exit.OK
        assert "train  verified" in done.out
        assert f"answered by {HERE}:{started.process.pid}" in done.out
        nobody = cli("verify", "train", "--worker", "--on", "nohost", "--within", "60")
        assert nobody.code == Exit.FAILED
        assert f"there are some on {HERE}" in nobody.out
        Path("model").write_text("others")
        found = cli("verify", "train", "--worker", "--within", "60", "--json")
        assert found.code == Exit.FAILED
        (run,) = found.json["runs"]
        assert run["verdict"] == "failed"
        (voted,) = run["claims"]
        assert (voted["host"], voted["verdict"]) == (HERE, "failed")
        assert voted["votes"][0]["by"] == f"{HERE}:{started.process.pid}"


def test_a_claim_of_another_host_names_the_command_that_asks_it(cli: Cli) -> None:
    claim("gpu-1")
    here = cli("verify", "train")
    assert here.code == Exit.FAILED
    assert "train  intact, but a claim is inconclusive\n" in here.out
    assert "only on gpu-1" in here.out
    assert "`holdfast verify --worker`" in here.out
    asked = cli("verify", "train", "--worker", "--within", "60")
    assert asked.code == Exit.FAILED
    assert "no worker on gpu-1 verifies claims" in asked.out


def test_options_that_make_no_sense_are_refused(cli: Cli) -> None:
    for arguments in (
        ("verify", "--quorum", "2"),
        ("verify", "--on", "gpu-1"),
        ("verify", "--worker", "--within", "0"),
        ("verify", "--worker", "--within", "2h"),
        ("worker", "--verify", "--until-idle"),
    ):
        assert cli(*arguments).code == Exit.USAGE, arguments
