"""A store with all kinds of runs, for browsers, pictures and people.

python -m tests.web.store orders.db && holdfast ui --store orders.db
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import holdfast as hf


def build(path: Path) -> None:
    """Make the store."""
    with hf.SyncCheckpointer(path) as cp:
        for n in range(3):
            cp.save("order-8839", {"n": n}, step=f"s{n}", owner="ann")


def copied(factory: pytest.TempPathFactory) -> Path:
    """A copy of one's own of the store that all workers of a session share: it is made once."""
    mine = factory.mktemp("store") / "orders.db"
    shared = factory.getbasetemp()
    if shared.name.startswith("popen-"):  # a worker of xdist
        shared = shared.parent
    made = shared / "orders.db"
    with (shared / "orders.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=shared) as directory:
                build(Path(directory) / "orders.db")
                (Path(directory) / "orders.db").rename(made)
    shutil.copyfile(made, mine)
    mine.chmod(0o600)
    return mine


if __name__ == "__main__":
    build(Path(sys.argv[1]))
