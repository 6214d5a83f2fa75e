"""Whose data is meant: an owner's, a thread's or a run's, and which runs that is. Blocks."""

from __future__ import annotations

from typing import Literal

from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.model import Entry, check_id
from holdfast.operations.children import family, runs_of_thread
from holdfast.operations.reading import outages_named
from holdfast.store import RunFilter

Of = Literal["owner", "thread", "run"]
"""All runs of an owner or of a thread, or one run; each with its child runs."""


def subject(owner: str | None, thread_id: str | None, run_id: str | None) -> tuple[Of, str]:
    """What is meant. Raises `ValueError` unless exactly one is given."""
    given: dict[Of, str | None] = {"owner": owner, "thread": thread_id, "run": run_id}
    named = [(of, value) for of, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError("one of these is needed: an owner, a thread_id or a run_id")
    of, value = named[0]
    return of, check_id(of if of == "owner" else f"{of}_id", value)


def heads_of(core: Core, of: Of, value: str) -> list[Entry]:
    """The heads of all runs that are meant, every child run before its parent."""
    with outages_named(value if of == "run" else None):
        if of == "run":
            return family(core, value)
        found: dict[str, Entry] = {}
        if of == "thread":
            runs = runs_of_thread(core, value)
        else:
            runs = [head.run for head in all_runs(core.journals.store, RunFilter(owner=value))]
        for run in runs:
            for head in family(core, run):
                found.setdefault(head.run, head)
        return list(found.values())
