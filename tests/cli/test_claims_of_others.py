"""Claims that anyone may have written: a command reads and connects to what it was told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.cli._exits import Exit
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy, file_evidence
from holdfast.manager import CheckpointManager
from tests.cli.conftest import Cli
from tests.waiting import wait_until

POLICY = Policy(private_addresses=True)

FAR = """
from holdfast.workflow import ask, step, workflow

@step(outputs=lambda _, path: path)
def far(path):
    open(path, "w").close()

@workflow("far")
async def flow(path: str) -> None:
    await far(path)
    await ask("well?")
"""


def _claim(*claims: Evidence) -> None:
    """A run of somebody's program, with these claims."""
    with CheckpointManager(policy=POLICY) as manager:
        begun = manager.begin_step("task", "iteration_end", {"n": 1})
        manager.commit_step(begun, EvidencePack(list(claims)))


@pytest.fixture
def elsewhere(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is not in the current directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "data" / "secret"
    path.parent.mkdir()
    path.write_text("secret")
    return path


class Service:
    """A port that counts who connects."""

    def __init__(self) -> None:
        self.came = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                with closing(self._server.accept()[0]):
                    self.came += 1
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def service() -> Iterator[Service]:
    with closing(Service()) as made:
        yield made


def test_a_file_elsewhere_is_looked_at_only_if_its_directory_is_given(
    cli: Cli, elsewhere: Path
) -> None:
    _claim(file_evidence(elsewhere))
    refused = cli("verify")
    assert refused.code == Exit.FAILED
    assert "task  intact, but a claim was not checked\n" in refused.out
    assert f"{elsewhere} can't be checked here" in refused.out
    assert "--root DIR allows it" in refused.out
    assert cli("verify", "--root", "../data").code == 0
    assert cli("verify", "--base-path", "../data").code == 0


def test_a_link_in_the_current_directory_does_not_lead_out_of_it(cli: Cli, elsewhere: Path) -> None:
    Path("link").symlink_to(elsewhere)
    _claim(file_evidence(elsewhere))
    claim = file_evidence(elsewhere)
    claim = Evidence(claim.evidence_type, "a link", {**claim.expected, "path": "link"})
    with CheckpointManager(auto_verify=False) as manager:
        begun = manager.begin_step("linked", "iteration_end", {"n": 1})
        manager.commit_step(begun, EvidencePack([claim]))
    refused = cli("verify", "linked")
    assert refused.code == Exit.FAILED
    assert "--root DIR" in refused.out
    assert cli("verify", "linked", "--root", "../data").code == 0


def test_files_in_the_current_directory_are_looked_at(cli: Cli, elsewhere: Path) -> None:
    Path("mine").write_text("mine")
    _claim(file_evidence("mine"), file_evidence(Path("mine").absolute()))
    assert cli("verify").code == 0


def test_the_root_directory_is_nobodys_choice(
    cli: Cli, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where cron and services start: it must not allow every file there is."""
    _claim(file_evidence(elsewhere))
    store = f"sqlite:///{Path('.holdfast/holdfast.db').absolute()}"
    monkeypatch.chdir("/")
    refused = cli("verify", "--store", store)
    assert refused.code == Exit.FAILED
    assert "--root DIR allows it" in refused.out
    assert cli("verify", "--store", store, "--root", "/").code == 0


def test_no_host_is_connected_to_unless_it_is_given(cli: Cli, service: Service) -> None:
    where = {"host": "127.0.0.1", "port": service.port}
    _claim(Evidence("network_reachable", "it is up", where))
    wait_until(lambda: service.came == 1)  # when the claim was made
    refused = cli("verify")
    assert refused.code == Exit.FAILED
    assert "--host NAME allows it" in refused.out
    still = cli("verify", "--host", "127.0.0.1")
    assert still.code == Exit.FAILED
    assert "--private-addresses allows it" in still.out
    assert service.came == 1
    other = cli("verify", "--host", "example.org", "--private-addresses")
    assert other.code == Exit.FAILED
    allowed = ("--host", f"127.0.0.1:{service.port}", "--private-addresses")
    assert cli("verify", *allowed).code == 0


def test_a_project_allows_its_own_files_and_hosts(
    cli: Cli, elsewhere: Path, service: Service
) -> None:
    where = {"host": "127.0.0.1", "port": service.port}
    _claim(file_evidence(elsewhere), Evidence("network_reachable", "it is up", where))
    Path("pyproject.toml").write_text(
        '[tool.holdfast]\nroots = ["../data"]\nhosts = ["127.0.0.1"]\n'
    )
    assert cli("verify", "--private-addresses").code == 0
    shown = {row["name"]: row["value"] for row in cli("config", "--json").json}
    assert (shown["roots"], shown["hosts"]) == ("../data", "127.0.0.1")
    Path("pyproject.toml").write_text('[tool.holdfast]\nroots = "../data"\n')
    wrong = cli("verify")
    assert wrong.code == Exit.USAGE
    assert "roots under [tool.holdfast] must be a list" in wrong.err


@pytest.mark.parametrize("command", ["resume", "recover", "worker"])
def test_a_resumed_run_looks_at_nothing_that_was_not_allowed(
    cli: Cli, elsewhere: Path, command: str
) -> None:
    Path("far.py").write_text(FAR)
    begun = cli("run", "far:flow", "-i", f"path={elsewhere}", "--run-id=far-1", "--root=../data")
    assert begun.code == Exit.PAUSED
    cli("answer", "far-1", "--with", '"yes"')
    arguments = {
        "resume": ("resume", "far-1", "--flow", "far:flow"),
        "recover": ("recover", "--flow", "far:flow"),
        "worker": ("worker", "--until-idle", "--flow", "far:flow", "--json"),
    }[command]
    refused = cli(*arguments)
    assert refused.code == Exit.FAILED
    assert f"{elsewhere} can't be checked here" in refused.out + refused.err
    assert "--root DIR allows it" in refused.out + refused.err
    assert cli("runs", "--json").lines[0]["status"] != "completed"
    assert cli(*arguments, "--root", "../data").code == 0
    assert cli("runs", "--json").lines[0]["status"] == "completed"


def test_a_step_that_claims_a_file_elsewhere_is_told_which_option_allows_it(
    cli: Cli, elsewhere: Path
) -> None:
    Path("far.py").write_text(FAR)
    refused = cli("run", "far:flow", "-i", f"path={elsewhere}")
    assert refused.code == Exit.FAILED
    assert "--root DIR allows it" in refused.err
    assert (
        cli("run", "far:flow", "-i", f"path={elsewhere}", "--root", "../data").code == Exit.PAUSED
    )


def test_a_flow_with_its_own_verifier_decides_itself(cli: Cli, elsewhere: Path) -> None:
    Path("graphs.py").write_text(
        "from holdfast.evidence import EvidenceVerifier\n"
        "from holdfast.graph import END, Graph\n"
        "graph = (\n"
        "    Graph(dict, name='far')\n"
        f"    .add_node('far', lambda state: state, outputs={str(elsewhere)!r})\n"
        "    .add_edge('far', END).set_entry('far').compile(verifier=EvidenceVerifier())\n"
        ")\n"
    )
    assert cli("run", "graphs:graph").code == 0


def test_the_librarys_own_policy_is_as_it_was(elsewhere: Path) -> None:
    """A program's own word about absolute paths is enough for the program itself."""
    assert EvidenceVerifier().verify_evidence(file_evidence(elsewhere))


def test_a_project_is_checked_from_any_directory_in_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.holdfast]\nstore = "runs.db"\n')
    cli("run", "jobs:claims", "--run-id", "c")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert cli("verify", "--json").json["verdicts"] == {"verified": 1}
    (tmp_path / "pyproject.toml").unlink()
    store = str(tmp_path / "runs.db")
    elsewhere = cli("verify", "--store", store)
    assert elsewhere.code == Exit.FAILED
    assert f"was claimed in {tmp_path}" in elsewhere.out
    assert "--root DIR with that directory looks there, and --base-path DIR" in elsewhere.out
    assert cli("verify", "--store", store, "--root", "..").code == 0
