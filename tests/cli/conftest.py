from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Done]


class Earlier:
    """A clock of 40 days ago."""

    def now(self) -> int:
        return int((datetime.now(UTC) - timedelta(days=40)).timestamp() * 1e6)

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Calls `holdfast` in a directory of its own, where nobody looks on."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("jobs.py").write_text((Path(__file__).parent / "jobs.py").read_text())

    def call(*arguments: str, stdin: str | None = None) -> Done:
        result = CliRunner().invoke(holdfast, arguments, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    yield call
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]  # its directory is removed


@pytest.fixture
def cp(cli: Cli) -> Iterator[hf.SyncCheckpointer]:
    """The store that commands find there, to prepare it and to look into it."""
    with hf.SyncCheckpointer() as checkpointer:
        yield checkpointer


@pytest.fixture
def plain(cp: hf.SyncCheckpointer) -> hf.SyncCheckpointer:
    """A run with four checkpoints."""
    for n in range(4):
        cp.save("plain-run", {"n": n, "log": ["a"] * n, "same": "ü"}, step=f"s{n}", owner="ann")
    return cp
