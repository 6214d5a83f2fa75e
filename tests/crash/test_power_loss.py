"""The power fails at any moment: what was acknowledged is on the disk, whatever else is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Survived
from tests.crash.harness import first_seed, setting
from tests.crash.power import lose_power

STATES = setting("HOLDFAST_POWER_STATES", 200)  # over all tests here
TRACES = max(4, STATES // 8_000)  # different workloads on each kind of disk
SHARES = 5 if TRACES >= 20 else 1  # tests of each kind, for several cores


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize(
    ("kind", "in_order"),
    [("sqlite", True), ("sqlite", False), ("file", True), ("file", False)],
    ids=["sqlite", "sqlite-names-in-any-order", "file", "file-names-in-any-order"],
)
def test_no_power_loss_takes_an_acknowledged_save(
    kind: str, in_order: bool, share: int, tmp_path: Path, survived: Survived
) -> None:
    """Where names reach the disk in any order, as POSIX allows and no journaling file system does,
    one that nobody was told of may be there without the one before it. No more than that."""
    first = first_seed()
    for seed in range(first + share, first + TRACES, SHARES):
        where = tmp_path / str(seed)
        states = STATES // TRACES // 4
        found = lose_power(kind, where, seed=seed, states=states, in_order=in_order)
        if kind == "file" and not in_order:
            alone = {v.run for v in found if "is lost, so nothing proves it" in v.detail}
            found = [v for v in found if v.invariant != "I3" and v.run not in alone]
        listed = "\n".join(sorted(set(map(str, found))))
        assert not found, f"HOLDFAST_SEED={seed}, {len(found)} of {states}:\n{listed}"
        survived("power losses", states)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_directory_made_for_the_store_survives_with_it(kind: str, tmp_path: Path) -> None:
    found = lose_power(
        kind, tmp_path, seed=1, states=40, in_order=True, place="made/for/it", only=["save"]
    )
    assert not found, "\n".join(sorted(set(map(str, found))))


def test_a_store_that_survives_only_a_process_crash_loses_saves_with_the_power(
    tmp_path: Path,
) -> None:
    found = lose_power(
        "sqlite", tmp_path, seed=1, states=60, in_order=True,
        only=["save"], options={"survives": "process-crash"},
    )  # fmt: skip
    assert {violation.invariant for violation in found} == {"I1"}, "the replay can tell"
