from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.evidence import EvidenceVerifier, process_evidence
from holdfast.evidence.checks import process_exists
from holdfast.evidence.world import programs
from holdfast.kernel.processes import _from_ps, start_of
from tests.waiting import bounded, in_time, wait_until

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, status, verifier

CHECKER = EvidenceVerifier()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_runs_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    evidence = process_evidence(child.pid)
    assert status(CHECKER, evidence) == VERIFIED
    assert status(CHECKER, process_evidence(os.getpid())) == VERIFIED
    child.kill()
    wait_until(lambda: status(CHECKER, evidence) != VERIFIED)
    assert status(CHECKER, evidence) == FAILED, "one that only waits to be collected has ended"
    child.wait()
    assert status(CHECKER, evidence) == FAILED
    with pytest.raises(ProcessLookupError):
        process_evidence(child.pid)


def test_another_process_with_the_same_number_is_not_the_one(
    child: subprocess.Popen[bytes],
) -> None:
    expected = process_evidence(child.pid).expected
    boot, ticks = expected["start_time"].split()
    for start in (f"{boot} {int(ticks) - 1}", f"{'0' * 36} {ticks}", "", ticks):
        another = claim("process_exists", **{**expected, "start_time": start})
        assert status(CHECKER, another) == FAILED


SAY = "print(flush=True); input()"


@contextmanager
def talking(code: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """A process that says something, and continues when it is told to, until it says more."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        stdin, stdout = process.stdin, process.stdout

        def go_on() -> None:
            stdin.write(b"\n")
            stdin.flush()
            stdout.readline()

        with bounded(process):
            stdout.readline()
            yield process, go_on
        process.kill()


def test_a_process_that_executes_another_program_is_not_the_one() -> None:
    code = f"{SAY}\nimport os; os.execv('/bin/sh', ['sh', '-c', 'echo; read x'])"
    with talking(code) as (process, go_on):
        evidence = process_evidence(process.pid)
        assert status(CHECKER, evidence) == VERIFIED
        go_on()
        assert status(CHECKER, evidence) == FAILED
        assert "another program" in (evidence.verification_error or "")


def test_a_process_that_executes_another_script_is_not_verified() -> None:
    code = f"{SAY}\nimport os, sys; os.execv(sys.executable, [sys.executable, '-c', {SAY!r}])"
    with talking(code) as (process, go_on):
        evidence = process_evidence(process.pid)
        assert status(CHECKER, evidence) == VERIFIED
        alone = claim(
            "process_exists", **{k: v for k, v in evidence.expected.items() if k != "image"}
        )
        go_on()
        assert status(CHECKER, evidence) == FAILED
        assert status(CHECKER, alone) == INCONCLUSIVE, "it may have another name only"


def test_a_process_may_give_itself_another_name() -> None:
    """As servers do, that show what they do in the list of processes."""
    rename = "open('/proc/self/comm', 'w').write('other')"
    arguments = (
        "import ctypes; start = int(open('/proc/self/stat').read().rpartition(')')[2].split()[45]); "
        "ctypes.memmove(start, b'renamed', 7)"
    )
    with talking(f"{SAY}\n{rename}; {arguments}; {SAY}") as (process, go_on):
        evidence = process_evidence(process.pid)
        alone = claim(
            "process_exists", **{k: v for k, v in evidence.expected.items() if k != "image"}
        )
        go_on()
        assert Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"renamed")
        assert status(CHECKER, evidence) == VERIFIED
        assert status(CHECKER, alone) == INCONCLUSIVE


def test_where_programs_are_always_put_to_the_same_place_the_command_line_decides(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "off").write_text("0\n")
    monkeypatch.setattr(programs, "_RANDOMIZE", tmp_path / "off")
    evidence = process_evidence(child.pid)
    assert "image" not in evidence.expected
    assert status(CHECKER, evidence) == VERIFIED


def test_a_program_that_was_replaced_on_the_disk_is_still_the_one(tmp_path: Path) -> None:
    program = tmp_path / "sleepy"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        evidence = process_evidence(process.pid)
        program.unlink()
        assert status(CHECKER, evidence) == VERIFIED
        process.kill()


def test_a_process_can_be_claimed_as_soon_as_it_is_started() -> None:
    """The kernel may still be busy with its exec then."""
    for _ in range(50):
        with subprocess.Popen(["sleep", "60"]) as process:
            evidence = process_evidence(process.pid)
            found = status(CHECKER, evidence)
            process.kill()
        assert found == VERIFIED
        assert "image" in evidence.expected


def test_what_may_not_be_inspected_is_inconclusive(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the process of another user: its command line is known, its file is not."""
    evidence = process_evidence(child.pid)
    monkeypatch.setattr(programs, "_image", lambda pid: None)
    assert status(CHECKER, evidence) == INCONCLUSIVE
    less = process_evidence(child.pid)
    assert "image" not in less.expected
    assert status(CHECKER, less) == VERIFIED


def test_a_command_line_is_recorded_by_its_digest_only() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read x; : hunter2"], stdin=subprocess.PIPE) as process:
        assert "hunter2" not in str(process_evidence(process.pid).to_dict())
        process.kill()


def test_a_name_with_brackets_does_not_confuse_us() -> None:
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z (x y', 0, 0, 0); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with bounded(process):
            process.stdout.readline()
        assert status(CHECKER, process_evidence(process.pid)) == VERIFIED
        process.kill()


@pytest.mark.parametrize(
    "expected",
    [{}, {"pid": 1}, {"pid": 1, "start_time": "x"}, {"pid": 1, "start_time": "x", "command": "ls"},
     {"pid": 1, "start_time": "x", "command": "0" * 64, "image": "0"}, {"pid": 0, "start_time": "x"}, {"pid": -1, "start_time": "x"}, {"pid": True, "start_time": "x"},
     {"pid": "1", "start_time": "x"}, {"pid": 1 << 40, "start_time": "x"}, {"pid": 1, "start_time": 7},
     {"pid": 1, "start_time": "x", "name": "init"}],
)  # fmt: skip
def test_a_number_alone_is_not_enough(expected: dict[str, Any]) -> None:
    assert status(CHECKER, claim("process_exists", **expected)) == ERROR


def test_what_the_system_does_not_say_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = claim("process_exists", pid=1, start_time="x", command="0" * 64)

    def fail(*args: object) -> str:
        raise PermissionError(13, "no")

    monkeypatch.setattr(process_exists, "start_of", fail)
    assert status(CHECKER, evidence) == INCONCLUSIVE
    monkeypatch.setattr(process_exists, "start_of", lambda *args: None)

    def hidden(*args: object) -> None:
        raise PermissionError(1, "not yours")

    monkeypatch.setattr(os, "kill", hidden)
    assert status(CHECKER, evidence) == INCONCLUSIVE


def test_a_system_that_hangs_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    monkeypatch.setattr(process_exists, "start_of", lambda *args: gone.wait(60))
    evidence = claim("process_exists", pid=1, start_time="x", command="0" * 64)
    with in_time():
        assert status(verifier(check_seconds=0.1), evidence) == INCONCLUSIVE
    gone.set()


def test_ps_tells_the_same_where_there_is_no_proc(child: subprocess.Popen[bytes]) -> None:
    start = _from_ps(child.pid, 5)
    assert start
    assert start == _from_ps(child.pid, 5)
    assert _from_ps(2**22 + 1, 5) is None
    assert start_of(child.pid)
