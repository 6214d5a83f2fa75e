"""Several processes on one task: what one begins another commits, and nothing happens twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import holdfast as hf
from holdfast.manager import CheckpointManager
from tests import forks
from tests.waiting import bounded

from .support import exists, numbers, step

PRELUDE = """
import json, os, signal, sys
from holdfast.manager import CheckpointManager, Evidence, EvidencePack
import holdfast as hf

def pack(path="a"):
    return EvidencePack([Evidence("artifact_exists", f"{path} is there", {"path": path})])

url = sys.argv[1]
manager = CheckpointManager(url)
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def process(code: str, *args: str) -> Iterator[forks.Process]:
    started = forks.start(
        "-c", PRELUDE + code, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        with bounded(started):
            assert out(started).readline() == "ready\n"
            yield started
    finally:
        started.kill()
        started.wait()
        for stream in (started.stdin, started.stdout):
            if stream:
                stream.close()


def out(started: forks.Process) -> IO[str]:
    assert started.stdout is not None
    return started.stdout


def go(*all_of_them: forks.Process) -> None:
    for started in all_of_them:
        assert started.stdin is not None
        started.stdin.write("go\n")
        started.stdin.flush()


@pytest.fixture(autouse=True)
def artifact(workplace: Path) -> None:
    (workplace / "a").touch()


def test_processes_that_commit_to_one_task_never_share_a_number(kept_url: str) -> None:
    code = """
def committed(n):
    while True:
        step_id = manager.begin_step("task", "tool_executed", {"n": f"{sys.argv[2]}.{n}"})
        try:
            return manager.commit_step(step_id, pack())
        except hf.StepConflictError:  # another was faster
            manager.abandon_step(step_id)

for n in range(15):
    print(committed(n).sequence_number, flush=True)
print("done", flush=True)
"""
    with (
        process(code, kept_url, "0") as one,
        process(code, kept_url, "1") as two,
        process(code, kept_url, "2") as three,
    ):
        go(one, two, three)
        told = [out(each).read().split() for each in (one, two, three)]
    assert [lines[-1] for lines in told] == ["done"] * 3
    numbered = [int(line) for lines in told for line in lines[:-1]]
    assert len(set(numbered)) == 45
    with CheckpointManager(kept_url) as manager:
        found = manager.list_checkpoints("task")
        assert sorted(c.sequence_number for c in found) == sorted(numbered)
        assert sorted(numbers(found)) == sorted(f"{p}.{n}" for p in range(3) for n in range(15))
        assert all(checkpoint.verified for checkpoint in found)
        assert manager.steps_in_flight() == []
        assert hf.SyncCheckpointer(manager.checkpointer.store).verify("task").ok


def test_processes_that_commit_one_step_get_one_checkpoint(kept_url: str) -> None:
    code = """
for step_id in json.loads(sys.argv[2]):
    print(manager.commit_step(step_id, pack()).checkpoint_id, flush=True)
"""
    with CheckpointManager(kept_url) as manager:
        begun = [manager.begin_step("task", "tool_executed", {"n": n}) for n in range(15)]
        with (
            process(code, kept_url, json.dumps(begun)) as one,
            process(code, kept_url, json.dumps(begun)) as two,
            process(code, kept_url, json.dumps(begun)) as three,
        ):
            go(one, two, three)
            told = [out(each).read().split() for each in (one, two, three)]
        assert told[0] == told[1] == told[2]
        assert len(set(told[0])) == 15
        assert sorted(numbers(manager.list_checkpoints("task"))) == list(range(15))
        assert manager.steps_in_flight() == []


def test_processes_that_want_one_name_do_not_both_get_it(kept_url: str) -> None:
    code = """
step_id = manager.begin_step(f"task-{sys.argv[2]}", "tool_executed", {"n": int(sys.argv[2])})
try:
    print(manager.commit_step(step_id, pack(), "the one").task_id, flush=True)
except hf.StepConflictError:
    print("refused", flush=True)
"""
    with process(code, kept_url, "1") as one, process(code, kept_url, "2") as two:
        go(one, two)
        told = [out(each).read().strip() for each in (one, two)]
    assert "refused" in told
    assert len(set(told)) == 2
    with CheckpointManager(kept_url) as manager:
        found = manager.get_checkpoint("the one")
        assert found is not None
        assert found.task_id in told


def test_a_step_begun_by_a_process_that_was_killed_is_in_flight(kept_url: str) -> None:
    code = """
print(manager.begin_step("task", "tool_executed", {"n": 7}, "item"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with process(code, kept_url) as killed:
        go(killed)
        step_id = out(killed).readline().strip()
        assert killed.wait() == -signal.SIGKILL
    with CheckpointManager(kept_url) as manager:
        [found] = manager.steps_in_flight()
        assert (found.step_id, found.snapshot, found.work_item_id) == (step_id, {"n": 7}, "item")
        checkpoint = manager.commit_step(step_id, exists("a"))
        assert checkpoint.snapshot_data == {"n": 7}
        assert manager.get_last_verified_checkpoint("task") == checkpoint
        assert manager.steps_in_flight() == []


def test_a_step_that_another_process_overtook_does_not_send_the_task_back(kept_url: str) -> None:
    code = """
for n in (2, 3):
    manager.commit_step(manager.begin_step("task", "tool_executed", {"n": n}), pack())
print("done", flush=True)
"""
    with CheckpointManager(kept_url) as manager:
        stale = manager.begin_step("task", "tool_executed", {"n": 1})
        with process(code, kept_url) as other:
            go(other)
            assert out(other).read() == "done\n"
        with pytest.raises(hf.StepConflictError, match=r"abandon_step\(\) it, and begin again"):
            manager.commit_step(stale, exists("a"))
        with pytest.raises(hf.StepConflictError, match="another process"):
            manager.commit_step(stale, exists("a"), "mine")
        assert numbers(manager.list_checkpoints("task")) == [3, 2]
        manager.abandon_step(stale)
        assert manager.steps_in_flight() == []
        assert step(manager, {"n": 4}, exists("a")).snapshot_data == {"n": 4}


def test_work_items_of_one_task_do_not_hinder_each_other(kept_url: str) -> None:
    code = """
assert manager.resume_or_start("task") == {"n": 0}
step = manager.begin_step("task", "tool_executed", {"n": 2}, "item 2")
print("begun", flush=True)
sys.stdin.readline()
manager.commit_step(step, pack())
print("done", flush=True)
"""
    with CheckpointManager(kept_url) as manager:
        step(manager, {"n": 0}, exists("a"))
        mine = manager.begin_step("task", "tool_executed", {"n": 1}, "item 1")
        with process(code, kept_url) as other:
            go(other)
            assert out(other).readline() == "begun\n"
            go(other)
            assert out(other).readline() == "done\n"
        manager.commit_step(mine, exists("a"))
        assert numbers(manager.list_checkpoints("task")) == [1, 2, 0]


def test_resuming_a_task_leaves_the_steps_of_other_work_items_alone(kept_url: str) -> None:
    def begin(manager: CheckpointManager, n: int, item: str) -> str:
        return manager.begin_step("task", "tool_executed", {"n": n}, item)

    with CheckpointManager(kept_url) as one, CheckpointManager(kept_url) as two:
        step(one, {"n": 0}, exists("a"))
        left, waiting = begin(one, 1, "item 1"), begin(two, 2, "item 2")
        assert one.resume_or_start("task") == {"n": 0}
        two.commit_step(waiting, exists("a"))
        again = begin(one, 3, "item 1")
        with pytest.raises(hf.StepConflictError, match="was abandoned"):
            one.commit_step(left, exists("a"))
        one.commit_step(again, exists("a"))
        assert numbers(one.list_checkpoints("task")) == [3, 2, 0]
        assert two.resume_or_start("task") == {"n": 3}
        step(one, {"n": 4}, exists("a"))
        with pytest.raises(hf.ConflictError):
            begin(two, 5, "item 2")


def test_a_step_waits_while_another_process_only_begins_one(kept_url: str) -> None:
    code = """
print(manager.begin_step("task", "tool_executed", {"n": 2}), flush=True)
"""
    with CheckpointManager(kept_url) as manager:
        mine = manager.begin_step("task", "tool_executed", {"n": 1})
        with process(code, kept_url) as other:
            go(other)
            later = out(other).read().strip()
        manager.commit_step(mine, exists("a"))
        manager.commit_step(later, exists("a"))
        assert numbers(manager.list_checkpoints("task")) == [2, 1], "whoever commits them"


def test_what_overtook_a_step_and_was_left_behind_is_no_hindrance(kept_url: str) -> None:
    code = """
manager.commit_step(manager.begin_step("task", "tool_executed", {"n": 2}), pack())
"""
    with CheckpointManager(kept_url) as manager:
        first = manager.begin_step("task", "tool_executed", {"n": 0})
        mine = manager.begin_step("task", "tool_executed", {"n": 1})
        manager.commit_step(first, exists("a"), "first")
        with process(code, kept_url) as other:
            go(other)
            out(other).read()
        manager.rollback_to_checkpoint("first")
        manager.begin_step("task", "tool_executed", {"n": 3})
        manager.commit_step(mine, exists("a"))
        assert numbers(manager.list_checkpoints("task")) == [1, 2, 0]


@pytest.mark.parametrize("point", range(1, 17))
def test_a_commit_that_was_killed_anywhere_is_done_or_can_be_done_again(
    kept_url: str, point: int
) -> None:
    """Killed at one fault point after the other, in between the entries of a commit."""
    code = """
from holdfast import seams
left = int(sys.argv[3])
def count(name):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
seams.set_fault_hook(count)
manager.commit_step(sys.argv[2], pack(), "mine")
print("done", flush=True)
"""
    with CheckpointManager(kept_url) as manager:
        step(manager, {"n": 0}, exists("a"))
        step_id = manager.begin_step("task", "tool_executed", {"n": 1})
    with process(code, kept_url, step_id, str(point)) as killed:
        go(killed)
        out(killed).read()
        assert killed.wait() in (0, -signal.SIGKILL)
    with CheckpointManager(kept_url) as manager:
        before = manager.get_checkpoint("mine")
        checkpoint = manager.commit_step(step_id, exists("a"), "mine")
        assert before in (None, checkpoint)
        assert manager.get_checkpoint("mine") == checkpoint
        assert checkpoint.verified
        assert numbers(manager.list_checkpoints("task")) == [1, 0]
        assert manager.steps_in_flight() == []


LOOP = """
def work(last):
    while True:
        n = 1 + (last or {"n": 0})["n"]
        if n > 6:
            return
        step_id = manager.begin_step("task", "iteration_end", {"n": n})
        with open(f"out-{n}", "w") as out:
            out.write("done")
        with open("told", "a") as told:
            told.write(f"{n} ")
        if n == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        assert manager.commit_step(step_id, pack(f"out-{n}")).verified
        last = {"n": n}

work(manager.resume_or_start("task"))
print("done", flush=True)
"""


def test_a_loop_that_is_killed_twice_repeats_no_verified_iteration(kept_url: str) -> None:
    for die_at in ("3", "5", "0"):
        with process(LOOP, kept_url, die_at) as run:
            go(run)
            said = out(run).read()
            assert run.wait() == (0 if die_at == "0" else -signal.SIGKILL)
    assert said == "done\n"
    assert Path("told").read_text() == "1 2 3 3 4 5 5 6 "
    Path("out-4").unlink()
    with process(LOOP, kept_url, "0") as run:
        go(run)
        assert out(run).read() == "done\n"
    assert Path("told").read_text() == "1 2 3 3 4 5 5 6 4 5 6 "
    assert Path("out-4").exists()
