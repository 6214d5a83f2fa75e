"""The programme is checked: an engine that makes a known mistake is caught by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Survived
from tests.crash.engine_harness import STOPS, carry_out
from tests.crash.engine_mutants import MUTANTS
from tests.crash.harness import ForkServer, first_seed, fork_server
from tests.crash.history import Violation
from tests.crash.test_engine_races import race
from tests.crash.test_engine_takeovers import take_over

TRIES = 40  # runs; most mistakes show in the first

Try = Callable[[ForkServer, Path, int, str], list[Violation]]


def _everything(server: ForkServer, place: Path, seed: int, mutant: str) -> list[Violation]:
    return carry_out(server, "sqlite", place, "everything", seed=seed, mutant=mutant).violations


def _doomed(server: ForkServer, place: Path, seed: int, mutant: str) -> list[Violation]:
    return carry_out(
        server, "sqlite", place, "doomed", seed=seed, mutant=mutant,
        errors=(*STOPS, "StepFailedError"),
    ).violations  # fmt: skip


def _crowd(server: ForkServer, place: Path, seed: int, mutant: str) -> list[Violation]:
    return carry_out(server, "sqlite", place, "crowd", seed=seed, mutant=mutant).violations


def _takeover(server: ForkServer, place: Path, seed: int, mutant: str) -> list[Violation]:
    return take_over(server, place, seed, asleep=True, mutant=mutant).violations


def _race(server: ForkServer, place: Path, seed: int, mutant: str) -> list[Violation]:
    return race(server, place, seed, 100, mutant)[1]


CAUGHT: dict[str, tuple[Try, set[str]]] = {
    "acknowledges_before_it_is_durable": (_everything, {"again", "lost"}),
    "decides_anew": (_everything, {"decision"}),
    "takes_another_branch": (_everything, {"decision", "journal"}),
    "counts_attempts_anew": (_everything, {"attempt"}),
    "does_every_item_again": (_everything, {"again"}),
    "does_not_record_what_is_undone": (_doomed, {"again", "undo"}),
    "forgets_what_to_undo": (_doomed, {"undo"}),
    "ignores_the_fence": (_takeover, {"owner"}),
    "takes_over_without_a_claim": (_takeover, {"owner"}),
    "drops_the_step_that_a_request_came_before": (_race, {"lost", "again"}),
    "forgets_a_cancel": (_race, {"status"}),
    "hands_results_over_as_they_are_asked_for": (_crowd, {"decision", "error"}),
}
ELSEWHERE = {"commits_beside_the_result"}  # in test_engine_transactions


@pytest.mark.parametrize("mutant", CAUGHT)
def test_the_mistake_is_brought_to_light(mutant: str, tmp_path: Path, survived: Survived) -> None:
    attempt, telling = CAUGHT[mutant]
    seed, found = first_seed(), set[str]()
    server = fork_server("tests.crash.engine_worker")
    for at in range(seed, seed + TRIES):
        found |= {v.invariant for v in attempt(server, tmp_path / str(at), at, mutant)}
        if found & telling:
            survived("mistakes", 1)
            return
    raise AssertionError(f"HOLDFAST_SEED={seed}: {found or 'nothing'} was found")


def test_no_mistake_is_left_out() -> None:
    assert set(MUTANTS) == set(CAUGHT) | ELSEWHERE
