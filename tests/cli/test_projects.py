"""What commands import because a pyproject.toml says so: the project's own modules."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.urls import default_url
from tests.cli.conftest import Cli
from tests.users import ANN, BOB, as_user, belongs_to, needs_root, public_directory

PLANTED = """
from pathlib import Path
Path("planted-code-ran").touch()
"""
PROJECT = """
[tool.holdfast]
store = "theirs.db"
flows = ["planted:flow"]
"""


@needs_root
def test_another_users_project_runs_no_code_and_chooses_no_store(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hf.SyncCheckpointer("runs.db") as cp:
        cp.save("run", 1)
    assert cli("recover", "--store", "runs.db").code == Exit.OK  # imports what others can't read
    with public_directory() as shared:
        (shared / "pyproject.toml").write_text(PROJECT)
        (shared / "planted.py").write_text(PLANTED)
        belongs_to(ANN, shared, *shared.iterdir())
        (shared / "bob").mkdir()
        belongs_to(BOB, shared / "bob")
        monkeypatch.chdir(shared / "bob")
        with as_user(BOB):
            with hf.SyncCheckpointer() as cp:
                cp.save("run", 1)
            recovered = cli("recover")
        assert recovered.code == Exit.OK
        assert "no orphaned runs" in recovered.out
        assert not list(shared.rglob("planted-code-ran"))
        assert not (shared / "theirs.db").exists()
        with as_user(ANN):
            assert default_url() == f"{shared}/theirs.db", "her own"
        monkeypatch.chdir("/")


def test_a_projects_flows_are_not_looked_for_in_the_current_directory(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text(PROJECT)
    Path("uploads").mkdir()
    Path("uploads/planted.py").write_text(PLANTED)
    monkeypatch.chdir("uploads")
    with hf.SyncCheckpointer() as cp:
        cp.save("run", 1)
    recovered = cli("recover")
    assert "there is no module 'planted'" in recovered.err
    assert not Path("planted-code-ran").exists()


def test_files_that_a_project_names_are_relative_to_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text(PROJECT.replace("planted:flow", "jobs.py:anything"))
    cli("run", "jobs:anything", "--run-id", "any")
    cli("answer", "any", "--with", "1")
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    assert cli("recover").code == Exit.OK


def test_a_store_that_a_project_names_by_url_is_relative_to_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = Path("a 100% dir/deep")
    deep.mkdir(parents=True)
    Path("a 100% dir/pyproject.toml").write_text('[tool.holdfast]\nstore = "SQLITE:///runs.db"\n')
    with hf.SyncCheckpointer("a 100% dir/runs.db") as cp:
        cp.save("r", {"n": 1})
    monkeypatch.chdir(deep)
    assert cli("show", "r", "--json").json["state"] == {"n": 1}


@needs_root
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_project_that_a_group_of_others_can_write_to_is_ignored(
    cli: Cli, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    Path("pyproject.toml").write_text(PROJECT)
    place = Path("pyproject.toml" if what == "file" else ".").absolute()
    before = place.stat().st_mode
    os.chown(place, -1, ANN)
    place.chmod(before | 0o020)
    assert "theirs.db" not in default_url()
    assert "its group can write to it" in caplog.text
    os.chown(place, -1, os.getegid())
    assert "theirs.db" in default_url()


def test_a_project_remembers_the_heads_of_its_own_store(cli: Cli, tmp_path: Path) -> None:
    Path("pyproject.toml").write_text('[tool.holdfast]\nstore = "runs.db"\nremember = "heads.db"\n')
    assert cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl").code == Exit.OK
    with hf.SyncCheckpointer() as cp:
        cp.save("by hand", {"n": 1})
    assert "every run has what is remembered of it" in cli("remember").out
    assert str(tmp_path / "heads.db") in cli("config").out
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("DELETE FROM holdfast_entries WHERE run = 'by hand' AND seq = 1")
        db.execute("DELETE FROM holdfast_entries WHERE run = 'etl' AND seq > 2")
    found = cli("remember")
    assert found.code == Exit.FAILED
    assert "--accept='by hand'" in found.out
    assert {one["run_id"] for one in cli("remember", "--json").json["problems"]} == {
        "by hand",
        "etl",
    }
    refused = cli("resume", "etl", "--flow", "jobs:etl")
    assert refused.code == Exit.REFUSED
    assert "newer entries were cut off" in refused.err
    with pytest.raises(hf.HistoryRewoundError), hf.SyncCheckpointer() as cp:
        cp.load("by hand")
    assert cli("remember", "--accept", "by hand", "--json").json["accepted"] == 1
    assert cli("remember", "--accept-all").code == Exit.OK
    assert cli("resume", "etl", "--flow", "jobs:etl").code == Exit.OK
    assert cli("remember", "--accept", "x", "--accept-all").code == Exit.USAGE
    Path("pyproject.toml").unlink()
    assert cli("remember", "--store", "runs.db").code == Exit.USAGE
