"""Stores that a session makes once, however many workers it has."""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

import pytest

from tests.waiting import run_process


def copied(factory: pytest.TempPathFactory, module: str) -> Path:
    """A copy of one's own of the directory that `python -m tests.web.MODULE` makes."""
    shared = factory.getbasetemp()
    if shared.name.startswith("popen-"):  # a worker of xdist
        shared = shared.parent
    made = shared / module
    with (shared / f"{module}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            new = shared / f"{module}.new"
            command = [sys.executable, "-W", "error", "-m", f"tests.web.{module}", str(new)]
            run_process(command, check=True, cwd=Path(__file__).parents[2])
            new.rename(made)
    mine = factory.mktemp(module) / "directory"
    shutil.copytree(made, mine)
    return mine
