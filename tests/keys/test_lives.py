"""Runs with all that a run can have live as well with a key, whatever is damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.damage.known import is_known
from tests.damage.lives import LIVES, Life
from tests.damage.operations import operations_on
from tests.damage.test_matrix import Specimen, _cells
from tests.effort import examples
from tests.keys.by_default import keyed_by_default

CELLS = 18


@pytest.mark.parametrize("life", LIVES, ids=str)
def test_a_damaged_run_with_a_key_works_or_names_the_damaged_entry(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[str] = []
    with keyed_by_default():
        specimen = Specimen("memory", life, tmp_path)
        cells = _cells(specimen, random.Random(f"memory {life.name}, keyed"))
        for _ in range(examples(CELLS)):
            found += specimen.wrongs(*next(cells))
    unknown = [wrong for wrong in found if not is_known(wrong)]
    assert not unknown, f"{len(unknown)}:\n" + "\n".join(unknown[:20])


def test_a_copy_takes_the_key_of_the_owner_whatever_a_forged_end_says(tmp_path: Path) -> None:
    with keyed_by_default():
        (hand,) = (life for life in LIVES if life.name == "hand")
        (copy,) = (operation for operation in operations_on(hand) if operation.name == "copy")
        specimen = Specimen("memory", hand, tmp_path)
        forged = [damage for damage in specimen.damages() if damage.name == "forge with flag"]
        assert forged
        assert [wrong for damage in forged for wrong in specimen.wrongs(copy, damage)] == []
