"""What commands make of runs that are damaged."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.workflow import ask, step, workflow
from tests.cli.conftest import Cli

STORE = "--store=runs/"


@workflow
async def quick() -> int:
    return await step("a").python(lambda: 1)


@pytest.fixture
def damaged(cli: Cli) -> Path:
    """A run of files whose newest entry can't be read."""
    with hf.SyncCheckpointer("runs/") as cp:
        for n in range(1, 6):
            cp.save("a-1", {"n": n}, step=f"s{n}")
    newest = Path("runs/a-1/0000000005.json")
    newest.write_text("{")
    return newest


def test_a_run_whose_newest_entry_is_damaged_can_be_named_in_every_command(
    cli: Cli, damaged: Path
) -> None:
    shown = cli("show", "a-1", "--json", STORE)
    assert shown.code == 1
    assert "a-1@5" in shown.json["damage"]
    assert cli("show", "a-1", "--at", "4", "--json", STORE).json["state"] == {"n": 4}
    verified = cli("verify", "a-1", "--json", STORE)
    assert verified.json["verdicts"] == {"damaged": 1}
    assert cli("diff", "a-1", "3", "4", STORE).code == 0
    exported = cli("export", "a-1", "--to", "a.jsonl", STORE)
    assert exported.code == 1
    assert "a-1@5" in exported.err
    assert cli("fork", "a-1", "--at", "4", "--run-id", "b-1", STORE).code == 0
    assert cli("rollback", "a-1", "4", STORE).code == 0
    with hf.SyncCheckpointer("runs/") as cp:
        assert cp.load("b-1").state == {"n": 4}  # type: ignore[union-attr]
        assert cp.load("a-1").state == {"n": 4}  # type: ignore[union-attr]


def test_show_marks_an_edited_entry_though_the_current_state_can_be_loaded(cli: Cli) -> None:
    with hf.SyncCheckpointer("runs.db") as cp:
        for n in range(1, 4):
            cp.save("a-1", {"n": n}, step=f"s{n}")
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET step = 'forged' WHERE seq = 2")
    shown = cli("show", "a-1", "--json", "--store=runs.db")
    assert shown.code == 0
    notes = {moment["seq"]: moment["note"] for moment in shown.json["timeline"]}
    assert [seq for seq, note in notes.items() if "damaged" in note] == [2]


def test_doctor_says_how_to_go_back_behind_a_damaged_end(cli: Cli, damaged: Path) -> None:
    advice = {
        found["what"]: found["advice"]
        for found in cli("doctor", "--json", STORE).json["findings"]
        if found["status"] == "error"
    }
    assert "holdfast rollback a-1 4" in advice["damage"]
    assert cli("rollback", "a-1", "4", STORE).code == 0
    left = [f for f in cli("doctor", "--json", STORE).json["findings"] if f["what"] == "damage"]
    assert "Its current state is intact" in left[0]["advice"]
    assert left[0]["advice"].endswith("holdfast delete a-1 5 --store=runs/")
    assert cli("delete", "a-1", "5", STORE).code == Exit.USAGE, "nobody can be asked"
    assert cli("delete", "a-1", "5", "--yes", STORE).out == "a-1@5 deleted\n"
    assert cli("verify", "a-1", "--no-evidence", STORE).code == Exit.OK
    assert cli("doctor", STORE).code == Exit.OK


@workflow
async def asks() -> bool:
    await step("a").python(lambda: 1)
    return await ask("Go on?", returns=bool)


@pytest.fixture
def edited(cli: Cli) -> str:
    """A run that waits for an answer, whose newest entry says that it is completed."""
    with hf.Engine("sqlite:///runs.db") as engine, pytest.raises(hf.RunPausedError):
        engine.run_sync(asks(), run_id="t2")
    with closing(sqlite3.connect("runs.db")) as db, db:
        (seq,) = db.execute("SELECT max(seq) FROM holdfast_entries WHERE run = 't2'").fetchone()
        db.execute("UPDATE holdfast_entries SET status = 'completed' WHERE seq = ?", (seq,))
    return f"t2@{seq}"


DB = "--store=runs.db"


def test_lists_show_a_run_with_an_edited_status_as_damaged(cli: Cli, edited: str) -> None:
    assert "t2   damaged" in cli("runs", DB).out
    for every in ([], ["--limit", "5"]):
        [found] = cli("runs", "--json", *every, DB).lines
        assert found["damage"].startswith(f"{edited}: ")
        assert found["status"] != "completed"


def test_a_run_with_an_edited_status_is_not_watched_to_its_end(cli: Cli, edited: str) -> None:
    watched = cli("watch", "t2", DB)
    assert watched.code == Exit.FAILED
    assert f"{edited}: its checksum" in watched.err


def test_show_begins_with_the_damage_and_the_way_back(cli: Cli, edited: str) -> None:
    shown = cli("show", "t2", DB)
    assert shown.code == Exit.FAILED
    first, *_ = shown.out.splitlines()
    assert first.startswith("t2  damaged")
    above = shown.out.partition("SEQ")[0]
    assert f"damaged: {edited}: its checksum" in above
    back = next(line.strip() for line in above.splitlines() if "holdfast rollback" in line)
    assert "holdfast answer" not in shown.out
    assert cli(*back.removeprefix("holdfast ").split()).code == Exit.OK
    assert cli("show", "t2", DB).code == Exit.OK


def test_hints_about_damage_work_as_printed_whatever_the_run_is_called(cli: Cli) -> None:
    name = "--it's; a $(run)"
    with hf.SyncCheckpointer("runs.db") as cp:
        for n in range(1, 6):
            cp.save(name, {"n": n})
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET step = 'forged'")
    for command, lead in (("watch", "see: "), ("show", "more: ")):
        told = cli(command, DB, "--", name)
        [line] = [one for one in (told.out + told.err).splitlines() if lead in one]
        hint = shlex.split(line.partition(lead)[2])
        assert hint[-1] == name
        assert cli(*hint[1:]).code == Exit.FAILED, "there is such a run, and it is damaged"


def test_doctor_finds_an_orphan_that_the_index_takes_for_finished(cli: Cli) -> None:
    with hf.Engine("sqlite:///runs.db") as engine:
        engine.run_sync(quick(), run_id="t3")
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("DELETE FROM holdfast_entries WHERE run = 't3' AND status = 'completed'")
    assert "t3   orphaned" in cli("runs", DB).out
    found = cli("doctor", DB).out
    assert "every running run" not in found
    assert "✗ orphans: 1 run of 'quick' has no living process: t3" in found
    assert "Make the index anew, which `recover` needs: see below. Start your program " in found
    assert "1 row of the index of runs is not what the runs say" in found
    assert "t3" in cli("doctor", "--repair", DB).out, "and the index knows it then"


def test_doctor_goes_on_behind_the_damaged_beginning_of_a_run_that_waits_for_a_worker(
    cli: Cli,
) -> None:
    cli("submit", "jobs:anything", "--run-id", "r", DB)
    assert cli("resume", "r", "--flow", "jobs:anything", DB).code == Exit.PAUSED
    assert cli("answer", "r", "--with", "3", DB).code == 0
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET status = 'forged' WHERE run = 'r' AND seq = 0")
    done = cli("doctor", DB)
    assert done.code == Exit.FAILED
    assert "✗ damage: r@0: " in done.out
    assert "! workers: 1 run of 'anything' should be executed, and no worker is there" in done.out
    assert "size: 1 run" in done.out, "it looks at everything"


def test_damage_at_the_beginning_advises_no_rollback() -> None:
    error = hf.CheckpointCorruptedError("a-1", 0, "it is cut short")
    assert "rollback" not in str(error)
    assert "restore the run from a backup" in str(error)


def test_exports_and_copies_say_what_they_lack(cli: Cli, damaged: Path) -> None:
    with hf.SyncCheckpointer("runs/") as cp:
        cp.save("whole", 1)
    exported = cli("export", "a-1", "--to", "a.jsonl", STORE)
    assert exported.code == Exit.FAILED
    assert exported.out == "1 run written to a.jsonl, without a-1@5\n"
    each = cli("export", "--all", "--to", "all/", "--json", STORE)
    assert each.code == Exit.FAILED
    assert {one["run_id"]: one["lost"] for one in each.json} == {"a-1": ["a-1@5"], "whole": []}
    assert len(list(Path("all").iterdir())) == 2, "the others are written, too"
    copied = cli("copy", "runs/", "copy.db")
    assert copied.code == Exit.FAILED
    assert copied.out == "2 runs copied to copy.db: 2 new, without a-1@5\n"
    assert cli("verify", "--no-evidence", "--store=copy.db").code == Exit.OK


@pytest.mark.parametrize("seconds", [1e308, float("inf")])
def test_a_duration_that_nothing_can_take_is_shown_as_damage(cli: Cli, seconds: float) -> None:
    with hf.Engine("sqlite:///runs.db") as engine:
        engine.run_sync(quick(), run_id="q-1")
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET duration = ? WHERE step = 'a'", (seconds,))
    for arguments in (["show", "q-1"], ["show", "q-1", "--step", "a"]):
        shown = cli(*arguments, DB)
        assert shown.code == Exit.FAILED
        assert "its checksum does not match" in shown.err
        assert "over 10,000 years" in shown.out
        assert max(map(len, shown.out.splitlines())) < 200
    assert cli("show", "q-1", "--json", DB).json["result"] == 1
