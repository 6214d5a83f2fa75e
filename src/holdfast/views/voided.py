"""Questions that no longer count, because their run was rolled back behind them."""

from collections.abc import Sequence
from typing import Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind
from holdfast.operations.timeline import Moment
from holdfast.views.step_names import left_behind

VOID: Final = "void: the run was rolled back behind it"
"""What commands and pages say of such a question, and of its answer."""

_ASKED: Final = (Kind.QUESTION.value, Kind.ANSWER.value)


def is_void(moment: Moment) -> bool:
    """Whether it is a question or an answer that no longer counts."""
    return moment.kind in _ASKED and not moment.current


def marked(cp: SyncCheckpointer, run_id: str, moments: Sequence[Moment]) -> list[Moment]:
    """The moments, of which questions and answers that a rollback voided are not current."""
    asked = [moment.seq for moment in moments if moment.kind in _ASKED]
    if not asked:
        return list(moments)
    void = {entry.seq for entry in _left(cp, run_id, min(asked) - 1)}
    return [one._replace(current=one.current and one.seq not in void) for one in moments]


def keys(cp: SyncCheckpointer, run_id: str) -> list[str]:
    """The keys of a run's questions that a rollback voided, in the order asked; each once."""
    found = (one for one in _left(cp, run_id) if one.kind == Kind.QUESTION)
    return list(dict.fromkeys(str(one.step) for one in found))


def _left(cp: SyncCheckpointer, run_id: str, after: int | None = None) -> list[Entry]:
    """The questions and answers that did not lead to the current state. Reads no bodies."""
    entries = list(cp.core.journals.entries(run_id, after=after, damage=pass_by))
    void = left_behind(entries)
    return [entry for entry in entries if entry.kind in _ASKED and entry.seq in void]
