from __future__ import annotations

import pytest

from holdfast.errors import InvalidIdError
from holdfast.model import check_id
from holdfast.testing.contract import HOSTILE_IDS, INVALID_IDS


def test_hostile_ids_are_valid_and_all_different() -> None:
    assert [check_id("run_id", run) for run in HOSTILE_IDS] == HOSTILE_IDS
    assert len(set(HOSTILE_IDS)) == len(HOSTILE_IDS)


@pytest.mark.parametrize("value", INVALID_IDS, ids=lambda value: ascii(value)[:20])
def test_invalid_ids_are_refused(value: str) -> None:
    with pytest.raises(InvalidIdError):
        check_id("run_id", value)
