"""config, bench, completion."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli


def store_of(cli: Cli, *arguments: str) -> tuple[str, str]:
    found = {one["name"]: one for one in cli("config", "--json", *arguments).json}
    return found["store"]["value"], found["store"]["source"]


def test_config_says_where_each_setting_comes_from(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert store_of(cli) == ("sqlite:///.holdfast/holdfast.db", "built in")
    project = Path("pyproject.toml")
    project.write_text('[tool.holdfast]\nstore = "p.db"\nflows = ["jobs:etl"]\n')
    assert store_of(cli) == (str(tmp_path / "p.db"), str(tmp_path / "pyproject.toml"))
    assert "jobs:etl" in cli("config").out
    monkeypatch.setenv("HOLDFAST_STORE", "e.db")
    assert store_of(cli) == ("e.db", "$HOLDFAST_STORE")
    assert store_of(cli, "--store", "a.db") == ("a.db", "--store")
    project.write_text("not toml")
    assert cli("config", "--store", "a.db").code == Exit.USAGE


def test_the_settings_are_those_that_commands_use(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p.db", "e.db", "a.db"):
        with hf.SyncCheckpointer(name) as cp:
            cp.save(f"run-in-{name}", 1)
    Path("pyproject.toml").write_text('[tool.holdfast]\nstore = "p.db"\n')
    assert cli("runs", "--json").lines[0]["run_id"] == "run-in-p.db"
    monkeypatch.setenv("HOLDFAST_STORE", "e.db")
    assert cli("runs", "--json").lines[0]["run_id"] == "run-in-e.db"
    assert cli("runs", "--json", "--store", "a.db").lines[0]["run_id"] == "run-in-a.db"


@pytest.mark.parametrize("words", [["config"], ["runs"], ["resume", "run"]], ids=" ".join)
def test_settings_that_nothing_reads_are_warned_about(
    cli: Cli, cp: hf.SyncCheckpointer, caplog: pytest.LogCaptureFixture, words: list[str]
) -> None:
    cp.save("run", 1)
    cli(*words)
    assert not caplog.messages
    Path("pyproject.toml").write_text('[tool.holdfast]\nflow = ["jobs:etl"]\n')
    cli(*words)
    (line,) = caplog.messages
    said = "nothing reads 'flow' under [tool.holdfast]; did you mean 'flows'?"
    assert line == f"'{Path.cwd()}/pyproject.toml': {said}"
    assert said in cli("doctor").out


@pytest.mark.on_disk
def test_a_bench_measures_and_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    done = cli("bench", "--dir", "disk", "--seconds", "0.1", "--json").json
    assert [one["what"] for one in done["figures"]] == [
        "fsync of 4 KB", "save, one run", "load the newest", "save, 100 runs at once",
    ]  # fmt: skip
    assert all(one["per_second"] > 0 for one in done["figures"])
    assert done["survives"] == "power-loss"
    assert list((tmp_path / "disk").iterdir()) == []
    assert "save, one run" in cli("bench", "--dir", "disk", "--seconds", "0.1").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_the_shell(cli: Cli, shell: str) -> None:
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in cli("completion", shell).out


@pytest.mark.parametrize(
    "words",
    [["run", "jobs:etl"], ["submit", "jobs:etl"], ["worker", "--flow", "jobs:etl", "--until-idle"]],
    ids=["run", "submit", "worker"],
)
def test_a_new_store_beside_another_is_pointed_out_once(cli: Cli, words: list[str]) -> None:
    inputs = [] if words[0] == "worker" else ["-i", "day=1"]
    with hf.SyncCheckpointer("runs.db") as cp:
        cp.save("run", 1)
    hint = "this is a new store: .holdfast/holdfast.db; to use runs.db: --store runs.db"
    assert hint not in cli(*words, *inputs, "--store", "runs.db").err
    assert hint in cli(*words, *inputs).err
    assert Path(".holdfast/holdfast.db").exists()
    assert hint not in cli(*words, *inputs).err
