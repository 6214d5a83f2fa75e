"""Steps that write to the user's own tables: kill -9 around the commit, and each row is there once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model import Kind
from tests.conftest import Survived
from tests.crash.engine_check import dump
from tests.crash.engine_harness import Outcome, carry_out
from tests.crash.harness import CYCLES, ForkServer, first_seed, fork_server, url_of
from tests.crash.history import Violation

POINTS = 60  # fault points; a commit passes four


@pytest.fixture
def server() -> ForkServer:
    return fork_server("tests.crash.engine_worker")


def _books(place: Path) -> list[Violation]:
    """Where the user's table and the recorded results differ."""
    with closing(sqlite3.connect(place / "runs.db")) as db:
        made = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'booked'").fetchone()
        rows = sorted(db.execute("SELECT what, mark FROM booked")) if made else []
    results = sorted(
        (entry.value["value"], entry.value["mark"])
        for journal in dump(url_of("sqlite", place)).values()
        for entry in journal.of(Kind.RESULT)
        if entry.step.split("#")[0] in ("pay", "split")
    )
    return [] if rows == results else [Violation("exactly once", "", f"{rows} != {results}")]


def _carry_out(server: ForkServer, place: Path, seed: int, mutant: str = "") -> Outcome:
    return carry_out(
        server, "sqlite", place, "ledger", seed=seed, points=POINTS, ends=("completed",),
        mutant=mutant, also=_books,
    )  # fmt: skip


def test_no_kill_parts_a_step_from_its_row(
    tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    seed, kills, runs = first_seed(), 0, 0
    while kills < CYCLES or kills <= runs:  # more than one on average, before it ends
        outcome = _carry_out(server, tmp_path / str(seed), seed)
        assert not outcome.violations, f"HOLDFAST_SEED={seed}\n{outcome}"
        kills, runs, seed = kills + outcome.kills, runs + 1, seed + 1
    survived("kills", kills)


def test_a_commit_beside_the_result_is_found_out(
    tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    seed, found = first_seed(), list[str]()
    for at in range(seed, seed + 20):
        outcome = _carry_out(server, tmp_path / str(at), at, "commits_beside_the_result")
        found += [violation.invariant for violation in outcome.violations]
        if "exactly once" in found:
            survived("mistakes", 1)
            return
    raise AssertionError(f"HOLDFAST_SEED={seed}: {found}")
