"""The simulation is checked: an engine that makes a known mistake is found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Survived
from tests.simulation.mutants import MUTANTS, Patch, mutated
from tests.simulation.schedule import many, simulate

TRIES = 1000  # schedules, if the one that is known to show it does not any more


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_mistake_is_found(mutant: Callable[[Patch], None], survived: Survived) -> None:
    with mutated(mutant), many():
        emphasis, seed = MUTANTS[mutant]
        seeds = (seed, *range(TRIES))
        found = any(simulate(seed, emphasis).violations for seed in seeds)
    assert found, "no schedule shows it"
    survived("mistakes", 1)
