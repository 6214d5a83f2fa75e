"""`holdfast ui` as users start it: a process of its own, on a port that is free."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.waiting import bounded

_FAILED: Final = ("Traceback", "Warning:", "ERROR")


@dataclass(frozen=True, slots=True)
class Served:
    """A store, and where a browser finds it."""

    store: str
    url: str
    pid: int


@contextmanager
def serve(
    store: str | Path,
    *options: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    may_fail: bool = False,
) -> Iterator[Served]:
    """Serve a store in the block, with options of `holdfast ui`; start it from the main thread.

    Unless it `may_fail`, a traceback or a warning that it logs fails the test.
    """
    ui = [sys.executable, "-W", "error", "-m", "holdfast", "ui"]
    given = ["--store", str(store), "--port", "0", "--json", *options]
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *ui, *given],
            cwd=cwd, env={**os.environ, **(env or {})}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                with bounded(process):
                    said = process.stdout.readline()
                if not said:
                    log.seek(0)
                    raise RuntimeError(f"holdfast ui does not start: {log.read()}")
                yield Served(str(store), json.loads(said)["url"], process.pid)
            finally:
                process.terminate()
                with bounded(process):
                    process.wait()
        log.seek(0)
        logged = log.read()
    assert may_fail or not any(word in logged for word in _FAILED), logged
