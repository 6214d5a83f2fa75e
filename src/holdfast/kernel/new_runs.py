"""What is checked of a run that is about to be opened, and how it is opened without a look."""

from __future__ import annotations

import json

from holdfast.errors import InvalidIdError
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Ticket
from holdfast.model import OF_CHILD, Kind


def open_at_once(
    core: Core, run: str, drafts: list[Draft], deadline: float, *, listed: bool
) -> Ticket | None:
    """Submit what opens a run that nobody here has heard of; the store refuses if it is there.

    None if something is to be asked or written first: its thread must have `listed` it.
    """
    tip = core.journals.unheard_of(run)
    in_thread = drafts[0].thread is not None and not listed
    if tip is None or in_thread or core.withholding.encrypts or core.journals.writer.full:
        return None
    check_new_id(run, drafts[0])
    return core.journals.extend(tip, drafts, deadline, only_at=-1)


def check_new_id(run: str, first: Draft) -> None:
    """Raise `InvalidIdError` for an id that only child runs have, unless one is opened."""
    if OF_CHILD not in run.replace("://", ""):  # an address may be an id
        return
    if first.kind != Kind.OPEN or "parent" not in json.loads(first.meta or "{}"):
        reason = f"holds {OF_CHILD!r}, as only the ids of child runs do; put '/' there, for example"
        raise InvalidIdError("run_id", run, reason)
