"""What a checkpointer with `remember=` remembers, compared with the store. Blocks."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import HistoryRewoundError
from holdfast.kernel.core import Core
from holdfast.kernel.remembering import RememberedHeads
from holdfast.model import check_id


def check_remembered(core: Core) -> list[HistoryRewoundError]:
    """Every run that is shorter, other or gone, compared with what is remembered; as errors.

    Raises `HistoryRewoundError` if the store itself is another one, and `ValueError` for a
    checkpointer without `remember=`.
    """
    return list(_remembered(core).problems(core.journals))


def accept_history(core: Core, run_ids: Iterable[str] | None = None) -> int:
    """Take these runs as they are now for right, or the store and all runs in it.

    What was remembered of them is replaced, or forgotten if they are gone. Returns how many runs
    that was. Raises `ValueError` for a checkpointer without `remember=`.
    """
    if isinstance(run_ids, str):
        raise TypeError("accept_history needs a list of run ids if not all are meant")
    runs = None if run_ids is None else [check_id("run_id", run_id) for run_id in run_ids]
    return _remembered(core).accept(core.journals, runs)


def _remembered(core: Core) -> RememberedHeads:
    found = core.journals.remembered
    if found is None:
        raise ValueError("this checkpointer remembers nothing; open it with remember=")
    return found
