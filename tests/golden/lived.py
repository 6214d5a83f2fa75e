"""A run that has everything in it, made the same way every time.

`python -m tests.golden.lived DIRECTORY` writes it in every form. The files that are checked in
were written by the version they are named after and are never written again.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

import holdfast as hf
from tests.faults import FakeClock, SeededEntropy
from tests.golden import flows

RUNS = ("values", "run", "fork", "paused", "doubling", "counting", "approved")


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


EVERYTHING: dict[str, Any] = {
    "plain": [None, True, -1, 2**63, 0.5, "é\x00", b"\x00\xff", {"nested": {}}],
    "tuple": (1, (2,)),
    "set": {1, 2},
    "frozenset": frozenset({"a"}),
    "keys": {1: "int", None: "none", (1, 2): "tuple", UUID(int=7): "uuid"},
    "surrogate": "\ud800",
    "big": -(2**100),
    "decimal": Decimal("1.50"),
    "complex": 1 - 2.5j,
    "datetime": datetime(2026, 10, 25, 2, 30, tzinfo=UTC),
    "naive": datetime(2026, 10, 25, 2, 30, 0, 1),
    "date": date(2026, 1, 2),
    "time": time(3, 4, 5, 6),
    "timedelta": timedelta(days=-1, microseconds=1),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "array": np.arange(6, dtype="<f8").reshape(2, 3),
    "scalar": np.float32(0.25),
    "enum": Colour.RED,
    "dataclass": Point(1, 2.0),
    "$tag": {"$tuple": "not a tag"},
}


def growing(n: int) -> dict[str, Any]:
    """A state large enough to be stored as a change to the one before."""
    return {"n": n, "log": [f"line {i}: {i * i}" for i in range(600 + 10 * n)]}


def live(store: str | Path | hf.Store, **keys: Any) -> None:
    """Live the life: values of every type, deltas, a rollback, a fork, deletions, a thread."""
    clock, entropy = FakeClock(1_767_225_600_000_000), SeededEntropy("golden")
    with hf.SyncCheckpointer(store, clock=clock, entropy=entropy, **keys) as cp:
        cp.save(
            "values",
            EVERYTHING,
            step="all",
            step_index=3,
            step_name="All of them",
            next_steps=["none"],
            type="manual_checkpoint",
            duration=1.25,
            iteration=2,
            metadata={"when": (1, 2)},
            flow="golden",
            flow_version="1",
            schema_version=4,
            thread_id="thread",
            owner="ann",
        )
        for n in range(10):
            clock.advance(60)
            cp.save("run", growing(n), step=f"s{n}")
        cp.rollback("run", seq=4)
        cp.save("run", growing(20), step="after", status="failed")
        cp.delete("run", "run@6")
        cp.fork("run", seq=2, run_id="fork")
        cp.save("gone", 1)
        cp.clear("gone")
        cp.save("paused", {"question": "go on?"}, status="paused")
        flows.live(cp)


def keys_of(name: str) -> dict[str, Any]:
    """The keys of a golden store."""
    if name == "sealed":
        return {"key": hf.Keyring({"golden": bytes(range(32))})}
    if name == "signed":
        return {"sign": hf.SigningKey.hmac("golden", bytes(range(32)))}
    return {}


def main() -> None:
    """Write every form into a directory."""
    directory = Path(sys.argv[1])
    live(directory / "store.db")
    live(f"{directory}/files/")
    live(f"duckdb:///{directory}/store.duckdb")
    packed = gzip.compress((directory / "store.duckdb").read_bytes(), mtime=0)
    (directory / "store.duckdb.gz").write_bytes(packed)
    (directory / "store.duckdb").unlink()
    for name in ("sealed", "signed"):
        keys = keys_of(name)
        live(directory / f"{name}.db", **keys)
        live(f"{directory}/{name}-files/", **keys)
        with hf.SyncCheckpointer(directory / f"{name}.db", **keys) as cp:
            cp.export_runs(RUNS, directory / f"{name}.export")
    with hf.SyncCheckpointer(directory / "store.db") as cp:
        cp.export_runs(RUNS, directory / "store.export")
    from tests.golden import dumps  # which needs the drivers of all stores

    dumps.write(directory / "servers", live)


if __name__ == "__main__":
    main()
