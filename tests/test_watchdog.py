from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers.server import wait_for_death
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
HUNG = """
import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

def test_one_passes():
    pass

def test_a_child_does_not_end():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path("child").write_text(str(child.pid))
    child.wait()

def test_a_lock_is_not_released():
    lock = threading.Lock()
    with lock, lock:
        pass

async def nobody_answers():
    await asyncio.Event().wait()

@pytest.fixture
def answer():
    asyncio.run(nobody_answers())

def test_a_fixture_waits(answer):
    pass

def test_another_passes():
    pass
"""


def pytest_on(directory: Path, *options: str) -> str:
    """What pytest says about the tests that hang."""
    (directory / "test_hung.py").write_text(HUNG)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.watchdog", "--hung-after", "3"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--rootdir={directory}", *options, "test_hung.py"],
        cwd=directory, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=4 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_tests_that_hang_fail_and_the_others_still_run(tmp_path: Path) -> None:
    told = pytest_on(tmp_path, "-p", "xdist", "-n", "2", "--dist", "worksteal")
    for name in ("a_child_does_not_end", "a_lock_is_not_released", "a_fixture_waits"):
        assert f"test_{name} hung for 3 seconds" in told
        assert f"crashed while running 'test_hung.py::test_{name}'" in told
    assert "3 failed, 2 passed" in told


def test_a_test_that_hangs_says_where_and_leaves_no_process(tmp_path: Path) -> None:
    told = pytest_on(tmp_path, "-k", "child")
    assert "in test_a_child_does_not_end" in told
    child = int((tmp_path / "child").read_text())
    assert f"process {child}: {sys.executable} -c import time" in told
    wait_for_death(child)


def test_a_test_that_hangs_in_an_event_loop_says_in_which_coroutine(tmp_path: Path) -> None:
    told = pytest_on(tmp_path, "-k", "fixture")
    assert "in nobody_answers" in told
