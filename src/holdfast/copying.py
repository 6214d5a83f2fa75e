"""Runs on their way into another store. Everything here blocks.

A run keeps its ids, seqs and digests wherever it goes. Where its states had to be encoded anew,
`verify` says "rewritten" for them. What was copied is read back and checked, and so is what was there
already. An interrupted copy is finished by starting it again. The source may be in use meanwhile: what
is deleted there while it is copied is deleted in the copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from holdfast.appending import alias_of, append, thread_member
from holdfast.chains import is_stub, rewrites
from holdfast.codec import envelope
from holdfast.core import Core
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, RunExistsError
from holdfast.journal import Journals, Tip
from holdfast.model import (
    Entry,
    Kind,
    Status,
    alias_journal,
    check_id,
    checkpoint_id,
    thread_journal,
    verdict_journal,
)
from holdfast.store import Store
from holdfast.urls import open_store
from holdfast.writer import writer_for

PAGE: Final = 100
"""Entries that are added at once."""

Progress = Callable[[str], object]
_TRIMS: Final = (Kind.TRIM.value, Kind.TOMBSTONE.value)
_name = attrgetter("seq", "entry_id", "digest")


def unseen(run_id: str) -> None:
    """Nobody looks on."""


def copy_to(
    core: Core,
    target: Store | str | os.PathLike[str],
    run_ids: Iterable[str] | None = None,
    *,
    progress: Progress = unseen,
) -> int:
    """Copy runs, or all there are, into another store; returns the number of runs.

    `progress` is called with the id of each run that was copied. Every entry is checked on its way,
    and again as the target gives it back. Raises `CheckpointNotFoundError`, `CheckpointCorruptedError`
    rather than copy damage or leave it in the target, and `RunExistsError` when the target holds a
    different run by the same id.
    """
    if isinstance(run_ids, str) or not isinstance(target, Store | str | os.PathLike):
        raise TypeError("copy_to needs a store or URL, and a list of run ids if not all are meant")
    names = None if run_ids is None else [check_id("run_id", run) for run in run_ids]
    for name in names or ():
        if core.journals.head(name) is None:
            raise CheckpointNotFoundError(name)
    store = target if isinstance(target, Store) else open_store(target)
    try:
        source = core.journals
        there = Core(
            Journals(store, writer_for(store), source.clock, source.entropy), core.settings
        )
        copied = []
        for name in _all_runs(core) if names is None else names:
            for journal in (name, verdict_journal(name)):
                _copy_journal(source, there.journals, journal)
            keep_aliases(there, name)
            copied.append(name)
            progress(name)
        for name in _in_thread_order(source, copied):
            join_thread(there, name)
        return len(copied)
    finally:
        if store is not target:
            store.close()


def add(store: Store, entries: list[Entry]) -> None:
    """Append what is not there yet of a part of a journal; all of it must then be there, and whole.

    Raises `RunExistsError` where something else stands, `CheckpointCorruptedError` for damage.
    """
    run, known = entries[0].run, -1
    while True:
        found = store.read(run, after=entries[0].seq - 1, limit=len(entries))
        for ours, wanted in zip(found, entries, strict=False):
            _check(store, ours)
            if _name(ours) != _name(wanted):
                raise RunExistsError(run)
        if len(found) == len(entries):
            return
        if len(found) == known:  # there is no room for the next one
            raise RunExistsError(run)
        known = len(found)
        store.append(entries[known:])


def join_thread(core: Core, run_id: str) -> None:
    """A run that came alone still belongs to its thread."""
    head = core.journals.head(run_id)
    if head is None or head.thread is None:
        return
    member = thread_member(run_id)
    name = thread_journal(head.thread)
    if all(entry.meta != member.meta for entry in core.journals.entries(name)):
        core.drive(append(core, name, member))


def keep_aliases(core: Core, run_id: str) -> None:
    """The callers' own names for checkpoints lead to them here, too, unless they are taken."""
    begun: dict[str, int] = {}
    for entry in core.journals.entries(run_id):
        if entry.kind == Kind.BEGIN:
            begun[entry.entry_id.hex()] = entry.seq
        elif entry.kind == Kind.CHECKPOINT and '"alias":' in entry.meta:
            facts = json.loads(entry.meta)
            alias, step = facts.get("alias"), begun.get(facts.get("begun"))
            if alias is None or step is None:
                continue
            name = alias_journal(check_id("alias", alias))
            if core.journals.head(name) is None:
                core.drive(append(core, name, alias_of(checkpoint_id(run_id, step))))


def _copy_journal(source: Journals, target: Journals, name: str) -> None:
    begun, there = source.head(name), target.head(name)
    if begun is None:
        return
    tip = Tip(name, None)
    same_form = source.store.form == target.store.form
    # Up to here markers tell of trims before anything was read; what later ones tell of is to be done.
    trimmed = begun.seq if there is None else there.seq
    last: Entry | None = None
    while True:
        by_now = source.head_seq(name)
        page = source.store.read(name, after=last and last.seq, limit=PAGE)
        if not page:
            break
        for entry in page:
            _check(source.store, entry)
        try:
            entries = page if same_form else [_recoded(source, target, tip, e) for e in page]
        except CheckpointCorruptedError:
            if source.store.read(name, after=last and last.seq, limit=PAGE) == page:
                raise
            continue  # it was deleted meanwhile
        for place, entry in enumerate(entries):
            if _erases(entry):
                _erase(target, entry, last)
            elif entry.kind in _TRIMS and entry.seq > trimmed:
                if place:
                    add(target.store, entries[:place])
                _trim(source, target, entry)
                trimmed = max(entry.seq, by_now or 0)
        add(target.store, entries)
        last = page[-1]
    copied = target.head(name)
    if last is None or copied is None or (copied.seq, copied.digest) != (last.seq, last.digest):
        raise RunExistsError(name)
    target.forget(name)


def _erases(entry: Entry) -> bool:
    return entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED


def _erase(target: Journals, tombstone: Entry, last: Entry | None) -> None:
    """Erase what the target has of the run, if that is known to be what was erased in the source."""
    head = target.head(tombstone.run)
    if head is not None and head.seq < tombstone.seq:
        after = json.loads(tombstone.meta or "{}").get("after")
        if head.seq != (last and last.seq) and head.digest.hex() != after:
            raise RunExistsError(tombstone.run)
    target.store.erase(tombstone)


def _trim(source: Journals, target: Journals, marker: Entry) -> None:
    """Thin the target out as the source was."""
    run = marker.run
    entries = list(target.entries(run))
    gone = {entry.seq for entry in source.entries(run) if entry.status == Status.DELETED}
    gone &= {entry.seq for entry in entries if entry.status != Status.DELETED}
    target.store.trim(marker, rewrite=rewrites(target, entries, gone), drop=gone)


def _recoded(source: Journals, target: Journals, tip: Tip, entry: Entry) -> Entry:
    if entry.status == Status.DELETED and not entry.body:
        return entry
    encoding = None
    if entry.size:
        encoding = target.encode(source.decode(source.chain(entry.run, entry.seq).encoding))
    return target.recode(tip, entry, encoding)


def _check(store: Store, entry: Entry) -> None:
    try:
        if not is_stub(entry):
            envelope.check(entry)
    except CheckpointCorruptedError as error:
        raise CheckpointCorruptedError(
            entry.run, entry.seq, f"{error.reason} (in {store.url})"
        ) from None


def _all_runs(core: Core) -> Iterator[str]:
    after = ""
    while page := core.journals.store.runs(after=after):
        yield from (head.run for head in page)
        after = page[-1].run


def _in_thread_order(source: Journals, runs: list[str]) -> Iterator[str]:
    """Those of the runs that belong to a thread, each thread's in the order they were opened."""
    wanted = set(runs)
    threads = {head.thread for run in runs if (head := source.head(run)) and head.thread}
    for thread in sorted(threads):
        for entry in source.entries(thread_journal(thread)):
            run = json.loads(entry.meta).get("run") if entry.kind == Kind.MEMBER else None
            if run in wanted:
                yield run
