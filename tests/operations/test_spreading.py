"""Whole stores are checked a page at a time, by several processes where that helps."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.kernel.store_view import StoreView
from holdfast.manager import CheckpointManager
from holdfast.model import Entry
from holdfast.operations import processes, spreading
from holdfast.operations.spreading import LAST_HIDDEN, Page, beside, page, processes_for, spread
from holdfast.operations.verifying import Checked, verify_runs
from holdfast.store import PAGE, Store
from tests.processes import GONE, descendants, state_of
from tests.waiting import bounded, wait_until

LONG = 2 * PAGE + 50

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""Tests fork beside threads of pytest's; `processes_for` would not."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Runs of all sorts: short and long, thinned, deleted, with claims and verdicts, damaged."""
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for n in range(40):
            for step in range(4):
                cp.save(f"run-{n:02}", {"n": n, "log": [f"{step} {i}" for i in range(50)]})
        cp.save_many({"run_id": "long", "state": {"n": n}} for n in range(LONG))
        for run in ("run-03", "run-04"):
            cp.prune(run, keep_latest=1)
        cp.clear("run-05")
    with CheckpointManager(path) as manager:
        begun = manager.begin_step("task", "manual_checkpoint", {"n": 1})
        claim = Evidence("artifact_exists", "it is there", {"path": str(path), "type": "file"})
        manager.commit_step(begun, EvidencePack([claim]))
    statements = [
        "UPDATE holdfast_entries SET step = 'forged' WHERE run = 'run-07' AND seq = 2",
        "UPDATE holdfast_entries SET body = x'00' WHERE run = 'run-08' AND seq = 4",
        "DELETE FROM holdfast_entries WHERE run = 'run-09' AND seq = 1",
        "UPDATE holdfast_entries SET meta = '{}' WHERE run = 'long' AND seq = 900",
        "UPDATE holdfast_entries SET body = x'00' WHERE kind = 'verdict'",
    ]
    tamper(path, *statements)
    return path


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            assert db.execute(statement).rowcount == 1


@pytest.fixture
def cp(path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(path) as cp:
        yield cp


def checked(cp: hf.SyncCheckpointer, processes: int = 1) -> list[Checked]:
    return [one for some in verify_runs(cp.core, processes=processes) for one in some]


def pages(store: Store) -> list[Page]:
    return list(spread(store, lambda found: found))


def test_all_runs_together_are_found_to_be_what_each_one_is(cp: hf.SyncCheckpointer) -> None:
    names = sorted(run.run_id for run in cp.runs())
    found = checked(cp)
    assert [one.integrity for one in found] == [cp.verify(name) for name in names]
    damaged = [one.integrity.run_id for one in found if not one.integrity.ok]
    assert damaged == ["long", "run-07", "run-08", "run-09", "task"]


def test_what_makes_a_page_unreadable_is_found_in_its_own_run(
    cp: hf.SyncCheckpointer, path: Path
) -> None:
    before = [one.integrity for one in checked(cp)]
    no_text = "UPDATE holdfast_entries SET step = CAST(x'ff' AS TEXT)"
    tamper(path, f"{no_text} WHERE run = 'run-10' AND seq = 1")
    after = [one.integrity for one in checked(cp)]
    assert [one.run_id for one in after if one not in before] == ["run-10"]


def test_several_processes_find_the_same_in_the_same_order(
    cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, chain = checked(cp), cp.verify_chain()
    monkeypatch.setattr(spreading, "_MANY", 1)
    monkeypatch.setattr(processes, "ENTRIES", 20)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # pytest has some
    assert processes_for(cp.store, 3) == min(3, len(os.sched_getaffinity(0)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    assert [one.integrity for one in checked(cp, 3)] == [one.integrity for one in alone]
    assert cp.verify_chain(processes=3) == chain
    assert multiprocessing.active_children() == []


def test_what_may_be_claimed_is_known_without_reading_it_again(cp: hf.SyncCheckpointer) -> None:
    claims = {one.integrity.run_id for one in checked(cp) if one.claims}
    assert "task" in claims
    assert {"run-03", "run-04"} <= claims, "a marker may hold what deleted checkpoints claimed"
    assert not claims & {"run-00", "run-01", "run-39"}


def test_pages_are_bounded_and_have_every_journal_once(cp: hf.SyncCheckpointer) -> None:
    found = [journal for one in pages(cp.store) for journal in one.journals]
    names = [journal.name for journal in found]
    assert names == sorted(set(names))
    whole = {journal.name: journal.entries for journal in found}
    assert whole["long"] is None, "it is longer than a page"
    assert whole["run-05"] is None, "it was erased"
    assert whole["run-09"] is None, "an entry is missing"
    assert whole["run-00"] == cp.store.read("run-00")
    assert sum(len(entries or ()) for entries in whole.values()) > 150


def test_large_bodies_make_shorter_pages(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        for n in range(12):
            cp.save(f"run-{n:02}", {"data": os.urandom(1 << 20)})
        found = page(cp.store, LAST_HIDDEN)
        assert found is not None
        assert found.limit <= 8


def test_reading_many_runs_takes_few_reads(tmp_path: Path) -> None:
    class Counting(StoreView):
        reads = 0

        def read(self, run: str, **options: object) -> list[Entry]:
            self.reads += 1
            return super().read(run, **options)  # type: ignore[arg-type]

        def scan(self, *args: object, **options: object) -> list[Entry] | None:
            self.reads += 1
            return super().scan(*args, **options)  # type: ignore[arg-type]

    store = Counting(hf.SyncCheckpointer(tmp_path / "runs.db").store)
    with hf.SyncCheckpointer(store) as cp:
        cp.save_many({"run_id": f"run-{n}", "state": {"n": n}} for n in range(600))
        store.reads = 0
        assert len(checked(cp)) == 600
        assert store.reads < 10


def test_one_process_reads_what_is_small_in_memory_or_beside_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp, hf.SyncCheckpointer("memory://") as own:
        for each in (cp, own):
            each.save("run", {})
        assert processes_for(cp.store, 4) == 1
        monkeypatch.setattr(spreading, "_MANY", 1)
        monkeypatch.setattr(threading, "active_count", lambda: 2)
        assert processes_for(cp.store, 4) == 1
        monkeypatch.setattr(threading, "active_count", lambda: 1)
        assert processes_for(own.store, 4) == 1


def test_an_error_of_a_child_is_raised_and_no_child_is_left(cp: hf.SyncCheckpointer) -> None:
    def work(found: Page) -> int:
        raise hf.StoreUnavailableError(f"gone at {found.last}")

    with pytest.raises(hf.StoreUnavailableError, match="gone at"):
        list(spread(cp.store, work, processes=2))
    assert multiprocessing.active_children() == []


def test_a_killed_child_is_an_error_and_not_a_shorter_answer(cp: hf.SyncCheckpointer) -> None:
    parent = os.getpid()

    def work(found: Page) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    with pytest.raises(hf.StoreError, match="was killed"):
        list(spread(cp.store, work, processes=2))
    assert multiprocessing.active_children() == []


def test_who_stops_listening_leaves_no_child(cp: hf.SyncCheckpointer) -> None:
    results = spread(cp.store, lambda found: found.last, processes=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


_SLOW = """
    import sys, time
    import holdfast as hf
    from holdfast.operations.spreading import spread

    def work(page):
        print("working", flush=True)
        time.sleep(600 if sys.argv[2] == "long" else 0.2)

    with hf.SyncCheckpointer(sys.argv[1]) as cp:
        for _ in spread(cp.store, work, processes=2):
            pass
"""


@pytest.mark.parametrize(
    ("sent", "lasts"),
    [(signal.SIGINT, "long"), (signal.SIGTERM, "short"), (signal.SIGKILL, "short")],
)
def test_children_end_with_the_process_that_started_them(
    tmp_path: Path, sent: signal.Signals, lasts: str
) -> None:
    """With Ctrl-C at once, though a terminal sends it to all; else as soon as they have a result."""
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        for n in range(4):
            cp.save_many({"run_id": f"run-{n}", "state": {}} for _ in range(PAGE))
    command = [sys.executable, "-c", textwrap.dedent(_SLOW), str(path), lasts]
    with (
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
        bounded(process),
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "working\n"
        wait_until(lambda: len(descendants(process.pid)) == 2)  # one may be quick to work
        children = descendants(process.pid)
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        process.wait()
        wait_until(lambda: all(state_of(pid) in (GONE, "Z") for pid in children))
        if sent == signal.SIGINT:
            assert process.stderr.read().count("KeyboardInterrupt") == 1


def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small stores read by several processes."""
    monkeypatch.setattr(spreading, "_MANY", 1)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))


def test_a_call_beside_is_made_by_another_process_where_there_are_several(
    cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with beside(cp.store, os.getpid, processes=2) as caller:  # a small store
        assert caller() == os.getpid()
    several(monkeypatch)
    with beside(cp.store, os.getpid, processes=2) as caller:
        assert caller() != os.getpid()
    assert not multiprocessing.active_children()


def test_what_a_call_beside_raises_is_raised_and_nobody_waits_for_it_in_vain() -> None:
    def fail() -> int:
        raise hf.StoreUnavailableError("the disk is gone")

    with processes.Aside(fail) as child, pytest.raises(hf.StoreUnavailableError, match="is gone"):
        child.result()
    with processes.Aside(signal.pause):
        pass  # whoever does not ask ends it
    with (
        processes.Aside(lambda: os._exit(1)) as killed,
        pytest.raises(hf.StoreError, match="killed"),
    ):
        killed.result()
    assert not multiprocessing.active_children()


def test_a_wrong_index_is_found_by_the_process_beside(
    cp: hf.SyncCheckpointer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tamper(path, "UPDATE holdfast_run_heads SET status = 'paused' WHERE run = 'run-11'")
    alone = cp.verify_chain()
    assert "not what the runs say" in str(alone.problems[-1])
    several(monkeypatch)
    assert cp.verify_chain(processes=2) == alone
