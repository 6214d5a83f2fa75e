from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.revive import revive
from holdfast.evidence import (
    CommandResult,
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    command_evidence,
    run_command,
)
from holdfast.manager import CheckpointManager
from tests.servers.server import wait_for_death
from tests.waiting import in_time

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, open_files, status

PYTHON = sys.executable


@pytest.mark.parametrize(
    ("claimed", "snapshot", "found"),
    [
        (0, {"exit_code": 0}, VERIFIED),
        (3, {"exit_code": 3, "more": "state"}, VERIFIED),
        (0, {"exit_code": 1}, FAILED),
        (0, {"exit_code": None}, FAILED),
        (0, None, INCONCLUSIVE),
        (0, {}, INCONCLUSIVE),
        (0, {"code": 0}, INCONCLUSIVE),
        (0, "exit_code", INCONCLUSIVE),
        (0, ["exit_code"], INCONCLUSIVE),
        (0, {"exit_code": False}, ERROR),
        (0, {"exit_code": 0.0}, ERROR),
        (0, {"exit_code": "0"}, ERROR),
        (False, {"exit_code": 0}, ERROR),
        (0.0, {"exit_code": 0}, ERROR),
        (None, {"exit_code": None}, ERROR),
    ],
)
def test_the_code_is_compared_with_the_one_in_the_snapshot(
    claimed: Any, snapshot: dict[str, Any] | None, found: str
) -> None:
    evidence = claim("command_exit", {"command": "make"}, exit_code=claimed)
    assert status(EvidenceVerifier(), evidence, snapshot=snapshot) == found


@pytest.mark.parametrize(
    ("named", "snapshot", "found"),
    [
        ("make", {"exit_code": 0, "command": "make"}, VERIFIED),
        (["make", "it"], {"exit_code": 0, "command": ("make", "it")}, VERIFIED),
        ("make", {"exit_code": 0, "command": "test"}, INCONCLUSIVE),
        ("make", {"exit_code": 1, "command": "test"}, INCONCLUSIVE),
        (["make"], {"exit_code": 0, "command": "make"}, INCONCLUSIVE),
    ],
)
def test_a_state_vouches_for_the_command_that_it_names(
    named: Any, snapshot: dict[str, Any], found: str
) -> None:
    evidence = claim("command_exit", {"command": named}, exit_code=0)
    assert status(EvidenceVerifier(), evidence, snapshot=snapshot) == found


def test_a_claim_does_not_prove_itself() -> None:
    """Neither with a record in its metadata, nor with one that says so when it is loaded."""
    forged = {"command": ["make"], "recorded": {"exit_code": 0}, "observed": {"exit_code": 0}}
    evidence = claim("command_exit", forged, exit_code=0)
    assert status(EvidenceVerifier(), evidence) == INCONCLUSIVE
    data = command_evidence(CommandResult(("make",), 0, 1.0)).to_dict()
    assert status(EvidenceVerifier(), Evidence.from_dict(data)) == INCONCLUSIVE
    data["metadata"]["recorded"] = {"exit_code": 0}
    assert status(EvidenceVerifier(), Evidence.from_dict(data)) == INCONCLUSIVE


def test_a_record_vouches_for_its_own_command_only() -> None:
    record = command_evidence(CommandResult(("make",), 0, 1.0)).observed
    other = claim("command_exit", {"command": ["make", "test"]}, exit_code=0)
    assert status(EvidenceVerifier(), other.noted(observed=record)) == INCONCLUSIVE
    unnamed = claim("command_exit", exit_code=0)
    assert status(EvidenceVerifier(), unnamed.noted(observed=record)) == INCONCLUSIVE


def test_one_exit_code_in_the_state_does_not_vouch_for_several_commands() -> None:
    build, test = (
        claim("command_exit", {"command": name}, exit_code=0) for name in ("build", "test")
    )
    found = EvidenceVerifier().verify_multiple([build, test], snapshot={"exit_code": 0})
    assert found["inconclusive"] == 2
    with pytest.raises(hf.InvalidEvidenceError, match="several commands"):
        EvidenceVerifier().refuse_unverifiable(EvidencePack([build, test]))
    unnamed = [Evidence("command_exit", f"part {n}", {"exit_code": 0}) for n in range(2)]
    assert EvidenceVerifier().verify_multiple(unnamed, snapshot={"exit_code": 0})["verified"] == 0
    seen = command_evidence(CommandResult(("seen",), 0, 1.0))
    pack = EvidencePack([seen, build])
    EvidenceVerifier().refuse_unverifiable(pack)
    assert EvidenceVerifier().verify_evidence_pack(pack, snapshot={"exit_code": 0})


def test_a_program_hands_over_how_its_own_command_ended() -> None:
    done = subprocess.run([sys.executable, "-c", "raise SystemExit(3)"])
    assert status(EvidenceVerifier(), command_evidence(done, exit_code=3)) == VERIFIED
    evidence = command_evidence(done)
    assert status(EvidenceVerifier(), evidence) == FAILED
    assert "the program recorded exit code 3" in (evidence.verification_error or "")
    line = subprocess.run("exit 4", shell=True)
    assert status(EvidenceVerifier(), command_evidence(line, exit_code=4)) == VERIFIED
    assert command_evidence(line).metadata == {"command": "exit 4"}


def test_the_record_is_kept_with_a_tasks_checkpoint_and_counts_again_later() -> None:
    with CheckpointManager("memory://") as manager:
        done = run_command([PYTHON, "-c", ""])
        step_id = manager.begin_step("t", "tool_executed", {"n": 1})
        first = manager.commit_step(step_id, EvidencePack([command_evidence(done)]))
        assert first.verified
        step_id = manager.begin_step("t", "tool_executed", {"n": 2})
        bad = command_evidence(run_command([PYTHON, "-c", "raise SystemExit(1)"]))
        assert not manager.commit_step(step_id, EvidencePack([bad])).verified
        last = manager.get_last_verified_checkpoint("t")
        assert last is not None
        assert last.checkpoint_id == first.checkpoint_id


def test_a_number_alone_proves_nothing() -> None:
    assert status(EvidenceVerifier(), claim("command_exit", exit_code=0)) == INCONCLUSIVE
    assert status(EvidenceVerifier(), claim("command_exit"), snapshot={"exit_code": 0}) == ERROR


def test_what_holdfast_recorded_counts_before_the_snapshot() -> None:
    evidence = command_evidence(run_command([PYTHON, "-c", "raise SystemExit(3)"]))
    assert status(EvidenceVerifier(), evidence, snapshot={"exit_code": 0}) == FAILED
    assert "3" in (evidence.verification_error or "")


def test_a_command_is_run_and_its_end_recorded(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    result = run_command([PYTHON, "-c", code], cwd=tmp_path)
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert not result.timed_out
    assert result.duration > 0
    assert status(EvidenceVerifier(), command_evidence(result)) == FAILED
    assert status(EvidenceVerifier(), command_evidence(result, exit_code=7)) == VERIFIED
    assert command_evidence(result).subject == command_evidence(result, exit_code=7).subject


def test_checking_never_runs_it_again(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    result = run_command([PYTHON, "-c", f"open({str(mark)!r}, 'a').write('x')"])
    evidence = command_evidence(result)
    for _ in range(3):
        assert status(EvidenceVerifier(), evidence) == VERIFIED
    assert mark.read_text() == "x"


def test_no_shell_reads_the_words(tmp_path: Path) -> None:
    result = run_command(["echo", "$HOME; touch x", "*"], cwd=tmp_path)
    assert result.stdout == "$HOME; touch x *\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match="shell"):
        run_command("echo hello")
    with pytest.raises(ValueError, match="empty"):
        run_command([])
    with pytest.raises(FileNotFoundError):
        run_command(["/no/such/command"])


def test_a_command_that_takes_too_long_is_killed_with_its_children() -> None:
    with in_time():
        result = run_command(["/bin/sh", "-c", "sleep 60 & echo $!; sleep 60"], timeout=1)
    assert result.timed_out
    assert status(EvidenceVerifier(), command_evidence(result)) == FAILED
    wait_for_death(int(result.stdout))


def test_what_runs_on_in_the_background_does_not_hold_us_up() -> None:
    with in_time():
        result = run_command(["/bin/sh", "-c", "sleep 60 & echo started"])
    assert (result.exit_code, result.stdout) == (0, "started\n")


def test_a_signal_is_no_success() -> None:
    result = run_command([PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert result.exit_code == -9
    assert status(EvidenceVerifier(), command_evidence(result)) == FAILED


def test_only_the_last_whole_lines_of_a_long_output_are_kept() -> None:
    code = "import sys\nfor n in range(200000): print(n)\nprint('the end', file=sys.stderr)"
    result = run_command([PYTHON, "-c", code], tail=100)
    assert result.stdout == "".join(f"{n}\n" for n in range(200000 - 14, 200000)), "98 bytes"
    assert result.stderr == "the end\n"
    assert result.truncated
    assert not run_command(["echo", "short"]).truncated


@pytest.mark.parametrize(
    ("written", "tail", "kept", "truncated"),
    [
        ("one\ntwo\n", 8, "one\ntwo\n", False),
        ("one\ntwo\n", 7, "two\n", True),
        ("one\ntwo\n", 4, "two\n", True),
        ("one\ntwo", 3, "two", True),
        ("one line alone\n", 6, "alone\n", True),
        ("one line alone", 5, "alone", True),
        ("x", 0, "", True),
        ("", 0, "", False),
    ],
)
def test_what_was_lost_is_told_and_the_rest_begins_a_line(
    written: str, tail: int, kept: str, truncated: bool
) -> None:
    for stream in ("stdout", "stderr"):
        code = f"import sys; sys.{stream}.write({written!r})"
        result = run_command([PYTHON, "-c", code], tail=tail)
        assert (getattr(result, stream), result.truncated) == (kept, truncated)


def test_the_output_of_an_ordinary_command_is_kept_whole() -> None:
    code = "for n in range(9000): print(n)"
    result = run_command([PYTHON, "-c", code])
    assert (result.stdout.count("\n"), result.truncated) == (9000, False)
    with pytest.raises(ValueError, match="tail"):
        run_command(["true"], tail=-1)


def test_a_result_recorded_before_it_could_be_truncated_is_still_one() -> None:
    stored = {"argv": ("make",), "exit_code": 0, "duration": 1.0, "stdout": "x", "stderr": ""}
    assert revive(stored, CommandResult) == CommandResult(("make",), 0, 1.0, "x")


def test_it_has_no_input_and_the_environment_it_is_given() -> None:
    code = "import os, sys; print(repr(sys.stdin.read()), os.environ.get('A'))"
    assert run_command([PYTHON, "-c", code], env={"A": "1"}).stdout == "'' 1\n"


def test_output_that_is_no_text_is_kept_readable() -> None:
    code = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe')"
    assert run_command([PYTHON, "-c", code]).stdout == "��"


def test_a_result_survives_as_a_value() -> None:
    result = CommandResult(("make",), 0, 1.0)
    assert result.recorded() == {"exit_code": 0, "duration": 1.0}
    assert result == CommandResult(("make",), 0, 1.0)


def test_nothing_is_left_open_or_running() -> None:
    run_command(["true"])
    before = open_files()
    for _ in range(3):
        run_command(["echo", "x"])
        run_command(["sleep", "9"], timeout=0.05)
    assert open_files() == before
