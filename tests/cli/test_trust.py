"""verify, doctor."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.evidence import Evidence, EvidencePack, Policy, file_evidence
from holdfast.manager import CheckpointManager
from tests import forks
from tests.cli.conftest import Cli


def damage(seq: int, run: str = "plain-run") -> None:
    """Change one byte of what is stored."""
    with closing(sqlite3.connect(".holdfast/holdfast.db")) as db, db:
        ((body,),) = db.execute(
            "SELECT body FROM holdfast_entries WHERE run = ? AND seq = ?", (run, seq)
        )
        changed = body[:-1] + bytes([body[-1] ^ 1])
        db.execute(
            "UPDATE holdfast_entries SET body = ? WHERE run = ? AND seq = ?", (changed, run, seq)
        )
    db.close()


def test_evidence_is_checked_as_it_is_now(cli: Cli) -> None:
    cli("run", "jobs:claims", "--run-id", "claims")
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    done = cli("verify", "--json")
    assert done.code == 0
    assert done.json["verdicts"] == {"verified": 1, "unverified": 2}
    assert cli("verify").out == "3 runs: 1 verified, 2 intact (nothing claimed)\n"
    Path("out.txt").write_text("something else")
    failed = cli("verify")
    assert failed.code == Exit.FAILED
    assert "claims  intact, but a claim is false\n" in failed.out
    assert "out.txt" in failed.out
    assert cli("verify", "--no-evidence").code == 0
    assert cli("verify", "etl").code == 0
    one = cli("verify", "claims", "--json").json
    assert (one["ok"], one["runs"][0]["verdict"]) == (False, "failed")


def test_what_is_logged_about_hostile_names_is_harmless(cli: Cli) -> None:
    Path("jobs.py").write_text(
        Path("jobs.py").read_text().replace('step("write")', 'step("w\u202e\u2066rite")')
    )
    assert cli("run", "./jobs.py:claims", "--run-id", "\u202eclaims").code == 0
    Path("out.txt").unlink()
    resume = ["resume", "\u202eclaims", "--flow", "jobs:claims", "--json"]
    done = forks.run("-m", "holdfast", *resume, capture_output=True, check=True)
    assert "warning: \\u202eclaims@1: verification failed" in done.stderr
    assert "\u202e" not in done.stderr


def test_a_base_path_says_where_claims_start_and_end(cli: Cli, tmp_path: Path) -> None:
    cli("run", "jobs:claims", "--run-id", "claims")
    assert cli("verify", "--base-path", str(tmp_path)).code == 0
    (tmp_path / "elsewhere").mkdir()
    assert cli("verify", "--base-path", str(tmp_path / "elsewhere")).code == Exit.FAILED


def _claim(row: int = 1) -> None:
    """A run that claims a file, and a row of a database that only its program knows."""
    with closing(sqlite3.connect("orders.db")) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")
        db.execute("INSERT INTO orders VALUES (?)", (row,))
    Path("out.txt").write_text("1")
    claims = [
        file_evidence("out.txt"),
        Evidence(
            "db_row", "the order is there", {"table": "orders", "where": {"id": 1}},
            {"connection": "main"},
        ),
    ]  # fmt: skip
    policy = Policy(connections={"main": "orders.db"})
    with CheckpointManager(policy=policy, auto_verify=False) as manager:
        begun = manager.begin_step("task", "iteration_end", {"n": 1})
        manager.commit_step(begun, EvidencePack(claims))


def _noted(run: str = "task") -> dict[str, str]:
    """What was noted about each claim of a run."""
    with CheckpointManager() as manager:
        (checkpoint,) = manager.list_checkpoints(run)
        assert checkpoint.evidence_pack is not None
        found = {
            c.description: c.verification_status for c in checkpoint.evidence_pack.evidence_list
        }
        return {name: str(status) for name, status in found.items()}


def test_evidence_that_is_out_of_reach_is_not_checked_and_nothing_is_noted_of_it(
    cli: Cli,
) -> None:
    _claim()
    done = cli("verify")
    assert done.code == Exit.FAILED
    assert "task  intact, but a claim was not checked\n" in done.out
    assert "the connection 'main'" in done.out
    assert "--connection NAME=URL" in done.out
    assert done.out.endswith("1 run: 1 intact (but a claim was not checked)\n")
    assert _noted() == {"out.txt is unchanged": "verified", "the order is there": "pending"}
    fine = cli("verify", "--connection", "main=orders.db", "--json")
    assert (fine.code, fine.json["verdicts"]) == (0, {"verified": 1})
    assert set(_noted().values()) == {"verified"}
    cli("verify")
    assert set(_noted().values()) == {"verified"}, "and is not forgotten"
    assert cli("verify", "--connection", "orders.db").code == Exit.USAGE


def test_evidence_that_fails_is_failed_whatever_is_out_of_reach(cli: Cli) -> None:
    _claim()
    Path("out.txt").write_text("2")
    assert cli("verify", "--json").json["verdicts"] == {"failed": 1}
    assert _noted() == {"out.txt is unchanged": "failed", "the order is there": "pending"}


def test_damage_is_found_and_what_can_be_saved_is_said(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    plain.save("whole", 1)
    plain.close()
    damage(4)
    done = cli("verify")
    assert done.code == Exit.FAILED
    assert "plain-run  damaged" in done.out
    assert "plain-run@4" in done.out
    assert "2 runs: 1 damaged, 1 intact (nothing claimed)" in done.out
    examined = cli("doctor")
    assert examined.code == Exit.FAILED
    assert "✗ damage: plain-run@4" in examined.out
    assert "holdfast rollback plain-run 3" in examined.out
    assert cli("fork", "plain-run", "--at", "3", "--run-id", "saved").code == 0
    assert cli("show", "saved", "--json").json["state"]["n"] == 2
    assert cli("doctor", "--quick").code == 0
    shown = cli("show", "plain-run")
    assert shown.code == Exit.FAILED
    assert "s3" in shown.out, "what can be told is told"
    assert "plain-run is damaged; plain-run@4: " in shown.err


@pytest.mark.parametrize("store", ["sqlite:///runs.db", "files/"])
def test_a_run_of_which_nothing_is_left_is_deleted_as_the_doctor_says(cli: Cli, store: str) -> None:
    with hf.SyncCheckpointer(store) as cp:
        cp.save("it's lost", 1)
        cp.save("whole", 1)
    if store == "files/":
        (newest,) = Path("files").glob("it*/*1.json")
        newest.write_bytes(b"{}")
    else:
        with closing(sqlite3.connect("runs.db")) as db, db:
            db.execute("UPDATE holdfast_entries SET body = x'00' WHERE run = 'it''s lost'")
    examined = cli("doctor", "--store", store)
    assert examined.code == Exit.FAILED
    (advice,) = [line for line in examined.out.splitlines() if "delete it: holdfast" in line]
    command = shlex.split(advice.partition("delete it: holdfast ")[2])
    assert cli(*command, "--yes").code == 0
    assert cli("doctor", "--store", store).code == 0
    assert [run["run_id"] for run in cli("runs", "--json", "--store", store).lines] == ["whole"]


def test_everybody_counts_the_same_runs(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "no-checkpoint-yet")
    count = len(cli("runs", "--children", "--json").lines)
    assert plain.stats("no-checkpoint-yet").checkpoints == 0
    assert cli("stats", "--json").json["runs"] == count
    examined = cli("doctor").out
    assert f"✓ damage: {count} runs," in examined
    assert f"✓ size: {count} runs," in examined
    assert len(cli("export", "--all", "--to", "all.jsonl", "--json").json) == count


@pytest.mark.on_disk
def test_the_doctor_finds_a_healthy_store_healthy(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    done = cli("doctor", "--json")
    assert done.code == 0
    found = {finding["what"]: finding for finding in done.json["findings"]}
    assert set(found) == {
        "store",
        "access",
        "durability",
        "SQLite",
        "orphans",
        "damage",
        "index",
        "size",
    }
    assert found["durability"]["found"] == "what was saved survives a power loss"
    old = sqlite3.sqlite_version_info < (3, 51, 3)
    assert found["SQLite"]["status"] == ("warning" if old else "ok")
    assert "✓ damage: 1 run, every byte as it was written" in cli("doctor").out


def test_the_doctor_warns_of_a_store_that_survives_less(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/fast.db?survives=process-crash"
    with hf.SyncCheckpointer(url) as cp:
        cp.save("run", 1)
    done = cli("doctor", "--store", url)
    assert done.code == 0
    assert "! durability: what was saved survives a crash of the process" in done.out


def test_the_doctor_says_who_else_can_reach_the_store(cli: Cli) -> None:
    with hf.SyncCheckpointer() as cp:
        cp.save("run", 1)
    assert "✓ access: nobody else can read or write it" in cli("doctor").out
    file = Path(".holdfast/holdfast.db").absolute()
    file.chmod(0o666)
    done = cli("doctor")
    assert done.code == 0
    assert f"! access: everyone can write to {file}" in done.out
    assert f"Change that: chmod o-w {file}." in done.out
    file.chmod(0o664)
    done = cli("doctor")
    assert f"✓ access: its group can write to {file}" in done.out
    assert f"✓ access: everyone can read {file}" in done.out


def test_histories_are_proved_without_looking_at_claims(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    plain.save("other", {"n": 1}, thread_id="t")
    plain.clear("other")
    whole = cli("verify", "--chain", "--json")
    assert (whole.code, whole.json["chain"]["runs"]) == (0, 2)
    assert cli("verify", "--chain").out.startswith("proved  2 runs and 1 journal beside them: ")
    one = cli("verify", "--chain", "plain").out
    assert one == (
        "proved  1 run and 0 journals beside them: 5 entries, 5 proved by the chain, "
        "0 rewritten since, 0 deleted\n"
    )
    assert cli("verify", "--chain", "nowhere").code == Exit.NOT_FOUND
    damage(2)
    damaged = cli("verify", "--chain")
    assert damaged.code == Exit.FAILED
    assert "✗ plain-run@2: " in damaged.out


def test_an_index_that_hides_a_run_is_a_problem_of_the_chain(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    with closing(sqlite3.connect(".holdfast/holdfast.db")) as db, db:
        db.execute("DELETE FROM holdfast_run_heads WHERE run = 'plain-run'")
    found = cli("verify", "--chain")
    assert found.code == Exit.FAILED
    assert "the index of runs: 2 rows are not what the runs say" in found.out
    assert cli("doctor", "--repair").code == 0
    assert cli("verify", "--chain").code == 0


def test_an_anchor_is_written_every_night_and_compared_in_the_morning(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    first = cli("anchor", "--to", "safe.jsonl", "--json").json
    assert first["heads"] == 2
    plain.save("plain-run", {"n": 5})
    assert "2 heads anchored in safe.jsonl\n  root " in cli("anchor", "--to", "safe.jsonl").out
    assert cli("anchor", "--to", "sqlite:///other.db").code == 0
    assert cli("verify", "--anchor", "safe.jsonl", "--all").code == 0
    assert cli("verify", "--anchor", "sqlite:///other.db", "--chain").code == 0
    plain.close()
    with closing(sqlite3.connect(".holdfast/holdfast.db")) as db, db:
        db.execute("DELETE FROM holdfast_entries WHERE run = 'plain-run' AND seq = 5")
    for where in ("safe.jsonl", "sqlite:///other.db"):
        found = cli("verify", "--anchor", where)
        assert found.code == Exit.FAILED
        assert "✗ plain-run: it ends at seq 4, and seq 5 was saved" in found.out
        assert "holdfast import FILE" in found.out
    (problem,) = cli("verify", "--anchor", "safe.jsonl", "--json").json["anchor"]["problems"]
    assert (problem["run_id"], problem["seq"], problem["what"]) == ("plain-run", 5, "cut off")
    older = cli("verify", "--anchor", "safe.jsonl", "--anchor-root", first["root"])
    assert older.code == 0, "it is what it was then"
    assert cli("verify", "--anchor", "jobs.py").code == Exit.UNAVAILABLE
    assert cli("verify", "--anchor", "nowhere.jsonl").code == Exit.UNAVAILABLE
    assert cli("verify", "--all").code == Exit.USAGE
    assert cli("verify", "plain-run", "--anchor", "safe.jsonl").code == Exit.USAGE


def test_a_completed_run_whose_claims_are_false_says_how_to_execute_those_steps_again(
    cli: Cli,
) -> None:
    cli("run", "jobs:claims", "--run-id", "claims")
    assert "to execute those steps again" not in cli("show", "claims").out
    Path("out.txt").unlink()
    cli("verify")
    shown = cli("show", "claims").out
    assert "what it claims was found to be false; to execute those steps again" in shown
    hint = shlex.split(shown.splitlines()[-2])
    assert cli(*hint[1:-1], "--flow=jobs:claims").code == 0
    assert Path("out.txt").exists()


def test_a_false_claim_is_told_from_a_run_that_failed(cli: Cli) -> None:
    cli("run", "jobs:claims", "--run-id", "claims")
    Path("out.txt").unlink()
    for done in (cli("verify", "claims"), cli("verify")):
        assert done.code == Exit.FAILED
        assert "claims  intact, but a claim is false\n" in done.out
        assert "failed" not in done.out
    named = cli("verify", "claims")
    assert "  the run itself is completed\n" in named.out
    advice = "to execute those steps again, continue it with:\n  holdfast resume claims --flow="
    assert advice in named.out
    assert advice in cli("show", "claims").out
    assert cli("verify").out.endswith("see what to do: holdfast show claims\n")
    assert cli("verify", "claims", "--json").json["verdicts"] == {"failed": 1}
    shown = cli("show", "claims").out
    assert "\nevidence  1 found false\n" in shown
    assert "failed" not in shown


def test_a_checkpoint_is_shown_with_the_claims_up_to_it(cli: Cli) -> None:
    Path("two.py").write_text(
        "from pathlib import Path\n"
        "from holdfast.workflow import step, workflow\n"
        "@workflow\n"
        "async def two():\n"
        "    for name in ('one.txt', 'two.txt'):\n"
        "        await step(name).python(Path(name).write_text, args=(name,)).outputs(name)\n"
    )
    assert cli("run", "two:two", "--run-id", "run").code == 0
    assert "\nevidence  2 not checked yet\n" in cli("show", "run").out
    shown = cli("show", "run@1").out.partition("\nevidence")[2].partition("\nstate")[0]
    assert shown.startswith("  1 not checked yet\n")
    assert "one.txt" in shown
    assert "two.txt" not in shown
    (claim,) = cli("show", "run", "--at", "1", "--json").json["claims"]
    assert claim["step"] == "one.txt"
