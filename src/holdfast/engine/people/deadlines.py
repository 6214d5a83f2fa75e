"""Until when a run waits for answers."""

from __future__ import annotations

from holdfast.checkpoint import to_micros
from holdfast.engine.people.dialog import Dialog
from holdfast.engine.resume.history import History
from holdfast.kernel.core import Core


def overdue(core: Core, history: History) -> bool:
    """Whether nobody answered in time what a run waits for."""
    return any(due <= core.journals.clock.now() for due in deadlines(core, history).values())


def deadlines(core: Core, history: History) -> dict[str, int]:
    """Until when the open questions of a run are to be answered, where that is limited, by key."""
    dialog = Dialog(core, history.run)
    dialog.take(history.telling)
    return {
        found.key: to_micros(found.deadline)
        for found in dialog.open_questions()
        if found.deadline is not None
    }
