"""Processes that die while they write data keys, and processes that make the first one at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.keys.keyring import Keyring
from holdfast.model import key_journal
from holdfast.stores.sqlite.store import SQLiteStore
from tests import faults
from tests.effort import some
from tests.keys.forging import keyed
from tests.waiting import bounded, exit_code

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
BOTH = Keyring({"2025": OLD, "2026": NEW})
OWNERS = (None, "ann", "ben")

RACER = """
import sys
import holdfast as hf
from holdfast.keys.keyring import Keyring

with hf.SyncCheckpointer(sys.argv[1], key=Keyring({"2025": bytes(range(32))})) as cp:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(3):
        cp.save(f"{sys.argv[2]}-{number}", number, owner=f"owner-{number}")
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with runs of some owners."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with keyed(url, Keyring({"2025": OLD})) as cp:
        for number, owner in enumerate(OWNERS):
            cp.save(f"run-{number}", {"n": number}, owner=owner)
    return url


def dies_in_rekey(url: str, nth: int) -> int:
    """How a process ends that is killed when it is about to write the nth data key."""
    child = os.fork()
    if not child:
        try:
            with keyed(url, BOTH) as cp, faults.at("keys.replace", faults.kill, nth=nth):
                cp.rekey()
        finally:
            os._exit(0)
    return exit_code(child)


def states(url: str, ring: Keyring) -> Iterator[object]:
    with keyed(url, ring) as cp:
        for number in range(len(OWNERS)):
            found = cp.load(f"run-{number}")
            assert found is not None
            yield found.state["n"]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_rekey_that_is_killed_loses_nothing_and_is_finished_by_the_next(
    nth: int, url: str
) -> None:
    assert dies_in_rekey(url, nth) == -signal.SIGKILL
    assert [*states(url, BOTH)] == [0, 1, 2]
    with keyed(url, BOTH) as cp:
        assert cp.rekey() == (3, 4 - nth), "what was done is not done again"
    assert [*states(url, Keyring({"2026": NEW}))] == [0, 1, 2]


def test_two_processes_that_save_the_first_run_of_an_owner_agree_on_its_key(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "other")
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        with racer, bounded(racer):
            assert racer.wait() == 0
    with keyed(url, Keyring({"2025": OLD})) as cp:
        for run in cp.runs():
            assert cp.verify(run.run_id).ok
            found = cp.load(run.run_id)
            assert found is not None
            assert found.state == int(run.run_id[-1])
        assert len(cp.runs()) == 6
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        for number in range(3):
            assert [e.seq for e in store.read(key_journal(f"owner-{number}"))] == [0]


def test_a_first_save_that_is_killed_at_any_point_leaves_a_store_that_works(
    tmp_path: Path,
) -> None:
    ring = Keyring({"2025": OLD})
    with faults.record() as points, keyed(f"sqlite:///{tmp_path}/model.db", ring) as cp:
        cp.save("run", {"n": 1}, owner="ann")
    assert points.count("keys.replace") == 2
    for nth in some(range(1, len(points) + 1), 2, 1):
        url = f"sqlite:///{tmp_path}/{nth}.db"
        child = os.fork()
        if not child:
            try:
                with keyed(url, ring) as cp, faults.at(faults.ANY, faults.kill, nth=nth):
                    cp.save("run", {"n": 1}, owner="ann")
            finally:
                os._exit(0)
        assert exit_code(child) in (-signal.SIGKILL, 0)
        with keyed(url, ring) as cp:
            saved = cp.save("run", {"n": 2}, owner="ann")
            assert cp.load("run") == saved
            assert cp.verify("run").ok
        with hf.SyncCheckpointer(url) as cp, pytest.raises(hf.KeyMissingError):
            cp.save("plain", 1)
