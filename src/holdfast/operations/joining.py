"""What leads to a run that was copied or imported: its thread and its aliases. Blocks."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.codec.meta import Meta
from holdfast.kernel.appending import alias_of, append, thread_member
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import pass_by
from holdfast.kernel.threads import members
from holdfast.model import (
    Entry,
    Kind,
    Status,
    alias_journal,
    check_id,
    checkpoint_id,
    thread_journal,
)


def join_thread(core: Core, run_id: str) -> None:
    """Add a run that was copied or imported to its thread."""
    head = _newest(core.journals, run_id)
    if head is None or head.thread is None:
        return
    member = thread_member(run_id, head.owner)
    name = thread_journal(head.thread)
    known = members(core.journals, head.thread, newest_first=False, damage=pass_by)
    if all(dict(one.fields) != {"run": run_id} for one in known):
        core.drive(append(core, name, member))


def keep_aliases(core: Core, run_id: str) -> None:
    """Add the aliases of a copied run's checkpoints, unless they are taken here."""
    begun: dict[str, int] = {}
    for entry in core.journals.entries(run_id, damage=pass_by):
        if entry.kind == Kind.BEGIN:
            begun[entry.entry_id.hex()] = entry.seq
        elif entry.kind == Kind.CHECKPOINT and '"alias":' in entry.meta:
            meta = Meta(entry)
            step = begun.get(meta.begun or "")
            if meta.alias is None or step is None:
                continue
            alias = check_id("alias", meta.alias)
            names = {entry.owner: alias_journal(alias, entry.owner)}
            if core.journals.owner is None:  # who sees all runs finds it by the alias alone
                names[None] = alias_journal(alias)
            for name in names.values():
                if core.journals.head(name) is None:
                    core.drive(append(core, name, alias_of(checkpoint_id(run_id, step))))


def in_thread_order(source: Journals, runs: list[str]) -> Iterator[str]:
    """Those of the runs that belong to a thread, each thread's in the order they were opened."""
    wanted = set(runs)
    threads = {head.thread for run in runs if (head := _newest(source, run)) and head.thread}
    for thread in sorted(threads):
        for member in members(source, thread, newest_first=False, damage=pass_by):
            if member.run in wanted:
                yield member.run


def _newest(journals: Journals, run: str) -> Entry | None:
    """The run's newest entry that can be read and was not deleted."""
    entries = journals.entries(run, newest_first=True, page=1, damage=pass_by)
    return next((entry for entry in entries if entry.status != Status.DELETED), None)
