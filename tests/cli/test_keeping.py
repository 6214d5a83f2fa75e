"""export, import, copy, prune, forget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

import holdfast as hf
from holdfast import urls
from holdfast.cli._exits import Exit
from holdfast.cli._session import Session
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from tests.cli.conftest import Cli, Earlier


def states(cli: Cli, run: str, *options: str) -> list[object]:
    return [
        cli("show", run, "--at", at, "--json", *options).json["state"]
        for at in ("1", "2", "3", "4")
    ]


@pytest.mark.parametrize("form", ["jsonl", "json"])
@pytest.mark.parametrize("target", ["bundle", "dir/"])
def test_runs_survive_an_export_and_an_import(
    cli: Cli, plain: hf.SyncCheckpointer, form: str, target: str
) -> None:
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl/1")
    done = cli("export", "--all", "--to", target, "--format", form, "--json")
    assert [item["run_id"] for item in done.json] == ["etl/1", "etl/1//total", "plain-run"]
    files = sorted({item["file"] for item in done.json})
    assert len(files) == (1 if target == "bundle" else 3)
    if form == "json":
        assert isinstance(json.loads(Path(files[0]).read_text()), list)
    imported = cli("import", *files, "--store", "other.db", "--json")
    assert sorted(item["run_id"] for item in imported.json) == [
        "etl/1",
        "etl/1//total",
        "plain-run",
    ]
    assert states(cli, "plain", "--store", "other.db") == states(cli, "plain")
    assert cli("verify", "--store", "other.db").code == 0
    again = cli("import", *files, "--store", "other.db")
    assert again.out == "3 runs imported, 0 of them new\n"


def test_bundles_can_be_joined(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("second", 2)
    for name in ("plain", "second"):
        cli("export", name, "--to", f"{name}.jsonl")
    Path("both.jsonl").write_text(
        Path("plain.jsonl").read_text() + Path("second.jsonl").read_text()
    )
    assert len(cli("import", "both.jsonl", "--store", "other.db", "--json").json) == 2


def test_an_export_takes_the_runs_within_along(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl", "--owner", "ann")
    for arguments in (["etl"], ["--owner", "ann"]):
        done = cli("export", *arguments, "--to", "etl.jsonl", "--json")
        assert [item["run_id"] for item in done.json] == ["etl", "etl//total"]
    assert cli("export", "--owner", "bob").out == "no runs\n"
    assert cli("export").code == Exit.USAGE
    assert cli("export", "etl", "--all").code == Exit.USAGE


@pytest.mark.parametrize("form", ["parquet", "duckdb"])
def test_a_table_for_other_tools_is_written_as_the_files_name_ends(
    cli: Cli, plain: hf.SyncCheckpointer, form: str
) -> None:
    plain.save("second", 2)
    done = cli("export", "--all", "--to", f"all.{form}")
    assert done.out == f"2 runs written to all.{form}\n"
    cli("export", "second", "--to", "dir/", "--format", form)
    for file, count in ((f"all.{form}", 5), (f"dir/second.{form}", 1)):
        with duckdb.connect() as db:
            if form == "duckdb":
                db.execute(f"ATTACH '{file}' AS file (READ_ONLY)")
            table = f"'{file}'" if form == "parquet" else "file.checkpoints"
            assert db.execute(f"SELECT count(*) FROM {table}").fetchall() == [(count,)]
    refused = cli("import", f"all.{form}")
    assert refused.code == Exit.FAILED
    for wrong in (["x.jsonl", "--format", form], [f"x.{form}", "--format", "jsonl"]):
        refused = cli("export", "--all", "--to", *wrong)
        assert refused.code == Exit.USAGE
        assert "omit it, or name a file that ends in ." in refused.err
        assert not Path(wrong[0]).exists()


def test_a_file_that_can_not_be_written_is_named(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    done = cli("export", "plain", "--to", "nowhere/x.jsonl")
    assert done.code == Exit.UNAVAILABLE
    assert done.err.endswith("No such file or directory: 'nowhere/x.jsonl'\n")


def test_a_changed_file_is_refused_before_anything_is_written(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    plain.save("second", 2)
    cli("export", "--all", "--to", "all.jsonl")
    whole = Path("all.jsonl").read_text()
    for broken in (whole.replace('"n": 2', '"n": 5'), whole[:-20], whole + "{}\n", "", "[]", "[1]"):
        Path("all.jsonl").write_text(broken)
        done = cli("import", "all.jsonl", "--store", "other.db")
        assert done.code == Exit.FAILED
        assert "all.jsonl" in done.err
        assert not Path("other.db").exists()


def test_an_import_over_another_run_of_that_name_is_refused(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    cli("export", "plain", "--to", "plain.jsonl")
    with hf.SyncCheckpointer("other.db") as other:
        other.save("plain-run", "mine")
    assert cli("import", "plain.jsonl", "--store", "other.db").code == Exit.REFUSED


def test_a_copy_goes_from_one_store_to_another(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    assert cli("copy", "other/", "--run", "etl").out == "2 runs copied to other/: 2 new\n"
    again = cli("copy", ".holdfast/holdfast.db", "other/", "--json").json
    assert (again["runs"], again["new"], again["unchanged"]) == (3, 1, 2)
    plain.save("plain-run", {"n": 4})
    plain.save("later", 1)
    assert cli("copy", "other/").out == (
        "4 runs copied to other/: 1 new, 1 brought up to date, 2 unchanged\n"
    )
    assert states(cli, "plain", "--store", "other/") == states(cli, "plain")
    assert cli("verify", "--store", "other/").code == 0
    assert cli("copy", "a", "b", "c").code == Exit.USAGE
    assert cli("copy", "nothere.db", "other/").code == Exit.NOT_FOUND
    assert cli("copy", "a.db", "b.db", "--store", "c.db").code == Exit.USAGE


def test_a_copy_names_the_runs_that_it_left_alone(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("another", 1)
    with hf.SyncCheckpointer("other.db") as other:
        other.save("another", "theirs")
    done = cli("copy", "other.db")
    assert done.code == Exit.REFUSED
    assert done.out == "1 run copied to other.db: 1 new\n"
    assert "'another'; they are unchanged. Copy them to another store" in done.err
    again = cli("copy", "other.db", "--json")
    assert again.code == Exit.REFUSED
    assert (again.json["runs"], again.json["new"], again.json["refused"]) == (1, 0, ["another"])
    with hf.SyncCheckpointer("other.db") as other:
        assert [run.run_id for run in other.runs()] == ["another", "plain-run"]


class Interrupted(SQLiteStore):
    """Ctrl-C comes while a run is written."""

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if entries[0].run == "second":
            raise KeyboardInterrupt
        return super().append(entries, behind)


def test_ctrl_c_says_how_far_a_copy_came(
    cli: Cli, plain: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urls, "_openers", dict(urls._openers))
    hf.register_store("interrupted", lambda url: Interrupted("other.db"))
    plain.save("second", 2)
    stopped = cli("copy", "interrupted://")
    assert stopped.code == Exit.INTERRUPTED
    assert "1 of 2 runs copied; start it again to finish it\n" in stopped.err
    assert cli("copy", "other.db").out == "2 runs copied to other.db: 1 new, 1 unchanged\n"


# --- prune


def test_a_dry_run_deletes_nothing_and_says_what_would_go(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    would = cli("prune", "--keep-latest", "1", "--dry-run", "--json").json
    assert would["runs"] == [{"run_id": "plain-run", "checkpoints": 3, "whole": False}]
    assert plain.stats().checkpoints == 4
    assert (
        "3 checkpoints of 1 run would be deleted"
        in cli("prune", "--keep-latest", "1", "--dry-run").out
    )
    done = cli("prune", "--keep-latest", "1", "--archive", "kept", "--yes", "--json").json
    assert (done["runs"], done["checkpoints"]) == (would["runs"], 3)
    assert plain.stats().checkpoints == 1
    assert len(Path("kept/plain-run.jsonl").read_text().splitlines()) == 3
    assert cli("verify").code == 0


def test_nothing_is_pruned_before_a_person_or_yes_says_so(
    cli: Cli, plain: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        plain.save_many([{"run_id": f"many-{n:02}", "state": n} for _ in "ab"])
    command = ("prune", "--keep-latest", "1")
    for where in ((), ("--json",)):
        refused = cli(*command, *where)
        assert refused.code == Exit.USAGE
        assert "without asking, give --yes" in refused.err
    monkeypatch.setattr(Session, "interactive", True)
    refused = cli(*command, stdin="n\n")
    assert refused.code == Exit.FAILED
    assert "many-19" in refused.out
    assert "many-20" not in refused.out
    assert "20 of 31, ordered by id; see all with --dry-run" in refused.out
    assert "33 checkpoints of 31 runs would be deleted\nDelete permanently?" in refused.out
    assert "nothing was changed" in refused.err
    assert plain.stats().checkpoints == 64
    assert cli(*command, stdin="y\n").out.endswith("33 checkpoints of 31 runs deleted\n")
    assert plain.stats().checkpoints == 31
    assert cli(*command, stdin="").out == "0 checkpoints of 0 runs would be deleted\n"


def test_ages_are_told_in_units_people_use(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    assert cli("prune", "plain", "--older-than", "1d", "--yes", "--json").json["checkpoints"] == 0
    assert cli("prune", "--runs-older-than", "8w", "--yes", "--json").json["checkpoints"] == 0
    for wrong in ("1", "d", "0s", "-1d", "1y", "9" * 10 + "d"):
        assert cli("prune", "--older-than", wrong, "--yes").code == Exit.USAGE
    assert cli("prune", "--yes").code == Exit.USAGE
    assert cli("prune", "--keep-latest", "0", "--yes").code == Exit.USAGE
    assert cli("prune", "--runs-older-than", "0s", "--yes").code == Exit.USAGE
    assert cli("runs", "--limit", "-1").code == Exit.USAGE
    assert cli("recover", "--silent", "-1").code == Exit.USAGE


def test_whole_runs_go_when_nothing_was_saved_for_long(cli: Cli, tmp_path: Path) -> None:
    with hf.SyncCheckpointer(clock=Earlier()) as cp:
        cp.save("old", 1)
        cp.save("asks", 1)
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "waits")
    would = cli("prune", "--runs-older-than", "30d", "--dry-run", "--json").json
    assert [run["run_id"] for run in would["runs"]] == ["asks", "old"]
    done = cli("prune", "old", "--runs-older-than", "30d", "--yes", "--json").json
    assert done["runs"][0]["whole"]
    assert [run["run_id"] for run in cli("runs", "--json").lines] == ["waits", "asks"]


def test_what_is_pruned_may_be_chosen_by_owner_thread_flow_and_status(cli: Cli) -> None:
    with hf.SyncCheckpointer(clock=Earlier()) as cp:
        cp.save("hers", 1, owner="ann", thread_id="t")
        cp.save("his", 1, owner="bob", thread_id="t")
    old = ("--runs-older-than", "30d")

    def would(*options: str) -> list[str]:
        return [run["run_id"] for run in cli("prune", *options, "--dry-run", "--json").json["runs"]]

    assert would("--owner", "ann", *old) == ["hers"]
    assert would("--thread", "t", "--status", "open", *old) == ["hers", "his"]
    assert would("--flow", "etl", *old) == []
    assert cli("prune", "--owner", "ann", "--yes").code == Exit.USAGE
    assert cli("prune", "--status", "paused", *old, "--yes").code == Exit.USAGE
    Path("pyproject.toml").write_text(
        "[[tool.holdfast.retention]]\nowner = 'ann'\nkeep_all = true\n"
        "[[tool.holdfast.retention]]\nrun_ttl = '30d'\n"
    )
    assert would() == ["his"]
    assert "2 policies" in cli("config").out
    assert "2 retention policies in pyproject.toml" in cli("doctor").out
    assert cli("prune", "--yes").out == "1 checkpoint of 1 run deleted\n"
    Path("pyproject.toml").write_text("[[tool.holdfast.retention]]\nrun_ttl = 'soon'\n")
    config = cli("config")
    assert config.code == Exit.USAGE
    assert "not a length of time" in config.err
    assert "retention  invalid" in config.out
    assert "store      sqlite" in config.out, "and all the rest"
    assert "not a length of time" in cli("prune", "--yes").err
    assert cli("doctor").code == Exit.FAILED


def test_whole_runs_that_go_to_the_archive_can_be_imported_elsewhere(cli: Cli) -> None:
    with hf.SyncCheckpointer(clock=Earlier()) as cp:
        cp.save("old", {"n": 1})
        cp.save("old", {"n": 2})
    cli("prune", "--runs-older-than", "30d", "--archive", "kept", "--yes")
    assert cli("runs").out == "no runs\n"
    (file,) = Path("kept").iterdir()
    assert cli("import", str(file), "--store", "other.db").code == 0
    assert cli("show", "old", "--store", "other.db", "--json").json["state"] == {"n": 2}


def test_nothing_of_a_run_that_stays_whole_goes_to_the_archive(cli: Cli) -> None:
    assert cli("run", "jobs:broken", "--run-id", "b").code == Exit.FAILED
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    with hf.SyncCheckpointer() as cp:
        cp.fork("etl", seq=3, run_id="f")
    done = cli("prune", "--keep-latest", "1", "--archive", "kept", "--yes", "--json")
    assert [run["run_id"] for run in done.json["runs"]] == ["etl"], "the others need their results"
    assert [file.name for file in Path("kept").iterdir()] == ["etl.jsonl"]


# --- forget


def on_disk() -> bytes:
    return b"".join(file.read_bytes() for file in Path(".holdfast").iterdir())


def test_everything_of_an_owner_is_deleted_with_a_receipt(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    day = "someday-9f86d081"
    cli("run", "jobs:etl", "-i", f"day={day}", "--run-id", "etl", "--owner", "ann", "--thread", "t")
    assert day.encode() in on_disk()
    plain.save("bobs", "stays", owner="bob")
    refused = cli("forget", "--owner", "ann")
    assert refused.code == Exit.USAGE
    assert "--yes" in refused.err
    would = cli("forget", "--owner", "ann", "--dry-run", "--json").json
    assert [run["run_id"] for run in would["runs"]] == ["etl", "etl//total", "plain-run"]
    assert len(plain.runs()) == 4
    done = cli(
        "forget",
        "--owner",
        "ann",
        "--yes",
        "--export",
        "ann.jsonl",
        "--receipt",
        "r.json",
        "--json",
    )
    assert done.code == 0
    receipt = json.loads(Path("r.json").read_text())
    assert receipt == done.json
    assert {run["digest"] for run in receipt["runs"]} == {run["digest"] for run in would["runs"]}
    assert all(run["tombstone"] for run in receipt["runs"])
    assert [run["run_id"] for run in cli("runs", "--children", "--json").lines] == ["bobs"]
    assert cli("show", "etl").code == Exit.NOT_FOUND
    plain.close()
    assert day.encode() not in on_disk()
    assert len(cli("import", "ann.jsonl", "--store", "given.db", "--json").json) == 3
    assert cli("forget", "--owner", "ann", "--yes", "--json").json["runs"] == []


def test_a_receipt_is_checked_and_tells_what_came_back(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    exported = cli("export", "--owner", "ann", "--to", "ann.jsonl", "--json").json
    assert [one["run_id"] for one in exported] == ["plain-run"]
    done = cli("forget", "--owner", "ann", "--yes", "--receipt", "r.json", "--by", "dpo", "--json")
    assert done.json["by"] == "dpo"
    assert "ann" not in Path("r.json").read_text()
    assert "plain" not in Path("r.json").read_text()
    good = cli("verify", "--receipt", "r.json")
    assert (good.code, good.out) == (
        0,
        "1 of 1 run of the receipt deleted, as their tombstones prove\n",
    )
    cli("import", "ann.jsonl", "--store", "restored.db")
    bad = cli("verify", "--receipt", "r.json", "--store", "restored.db", "--json")
    assert bad.code == Exit.FAILED
    assert bad.json["came_back"] == ["plain-run"]
    assert "run 'plain-run' is back" in bad.json["problems"][0]
    assert cli("verify", "plain-run", "--receipt", "r.json").code == Exit.USAGE
    changed = Path("r.json").read_text().replace("dpo", "me")
    Path("r.json").write_text(changed)
    assert "was changed" in cli("verify", "--receipt", "r.json").err


def test_an_export_of_nobody_says_so(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    assert cli("export", "--owner", "zoe", "--to", "z.jsonl").out == "0 runs written to z.jsonl\n"
    assert json.loads(Path("z.jsonl").read_text())["runs"] == []
    assert cli("export", "--all", "--to", "a.jsonl", "--opened").code == Exit.USAGE


def test_doctor_tells_of_a_forgetting_that_was_interrupted(
    cli: Cli, plain: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise hf.StoreError("cut")

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "erase", fail)
        assert cli("forget", "--owner", "ann", "--yes").code != 0
    assert "of an owner was begun, and not finished" in cli("doctor").out
    assert cli("forget", "--owner", "ann", "--yes").code == 0
    assert "not finished" not in cli("doctor").out


def test_a_thread_is_forgotten_with_the_runs_within_its_runs(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl", "--thread", "t")
    assert "2 runs deleted" in cli("forget", "--thread", "t", "--yes").out
    assert cli("runs", "--children").out == "no runs\n"


def test_live_and_paused_runs_are_forgotten_only_by_force(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "waits", "--owner", "ann")
    would = cli("forget", "--owner", "ann", "--dry-run")
    assert "1 run live or paused: needs --force" in would.out
    assert cli("forget", "--owner", "ann", "--dry-run", "--json").json["refused"] == ["waits"]
    refused = cli("forget", "--owner", "ann", "--yes")
    assert refused.code == Exit.REFUSED
    assert "pass --force to delete it anyway" in refused.err
    assert cli("runs").out != "no runs\n"
    assert cli("forget", "--owner", "ann", "--yes", "--force").code == 0
    assert cli("runs").out == "no runs\n"


def test_forgetting_needs_to_be_told_whom(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    assert cli("forget", "--yes").code == Exit.USAGE
    assert cli("forget", "--owner", "a", "--thread", "b", "--yes").code == Exit.USAGE
    assert cli("forget", "plain-run", "--owner", "ann", "--yes").code == Exit.USAGE


def test_a_run_is_forgotten_by_its_whole_id(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("plain-run-2", 1)
    assert cli("forget", "plain", "--yes").code == Exit.NOT_FOUND
    assert "1 run would be deleted" in cli("forget", "plain-run", "--dry-run").out
    assert "1 run deleted" in cli("forget", "plain-run", "--yes").out
    assert [run["run_id"] for run in cli("runs", "--json").lines] == ["plain-run-2"]


def test_prune_says_why_it_deletes_nothing_of_a_failed_run(cli: Cli) -> None:
    Path("broken.py").write_text(
        "from holdfast.workflow import step, workflow\n"
        "@workflow('breaks')\n"
        "def breaks():\n"
        "    yield step('one').python(int)\n"
        "    yield step('two').python(int)\n"
        "    yield step('three').python(int, args=('x',))\n"
    )
    assert cli("run", "broken:breaks", "--run-id", "b").code == Exit.FAILED
    pruned = cli("prune", "b", "--keep-latest", "1", "--yes")
    assert pruned.code == Exit.OK
    assert "0 checkpoints of 0 runs deleted" in pruned.out
    assert "b is not changed: it failed, and needs them to be resumed" in pruned.out
    assert cli("prune", "--keep-latest", "1", "--yes", "--json").json["refused"] == {"b": "failed"}
    with hf.SyncCheckpointer() as cp, pytest.raises(hf.RunActiveError, match="needed to resume it"):
        cp.prune("b", keep_latest=1)
