"""Moving runs: to a file and back, and from one store to another. Everything here blocks.

A run keeps its ids, seqs and digests wherever it goes. Where its states had to be encoded anew,
`verify` says "rewritten" for them. An interrupted transfer is finished by starting it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from holdfast.appending import append, thread_member
from holdfast.checkpoint import dump_meta
from holdfast.codec import readable
from holdfast.core import Core
from holdfast.errors import CheckpointNotFoundError, RunExistsError
from holdfast.journal import Journals, Tip
from holdfast.model import Entry, Kind, Status, check_id, thread_journal, verdict_journal
from holdfast.seams import new_id
from holdfast.store import Store
from holdfast.urls import open_store
from holdfast.writer import writer_for

FORMAT: Final = 1
_PAGE: Final = 100
_HEX: Final = ("entry_id", "digest")


def export_run(core: Core, run_id: str, path: str | os.PathLike[str]) -> int:
    """Write a run, with everything beside it, to a JSON Lines file; returns its number of entries.

    The file appears whole or not at all. Raises `CheckpointNotFoundError`.
    """
    check_id("run_id", run_id)
    if core.journals.head(run_id) is None:
        raise CheckpointNotFoundError(run_id)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{new_id()}")
    count = 0
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(json.dumps({"holdfast_export": FORMAT, "run_id": run_id}) + "\n")
            for name in (run_id, verdict_journal(run_id)):
                for entry in core.journals.entries(name):
                    file.write(json.dumps(_to_line(core.journals, entry)) + "\n")
                    count += 1
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def import_run(core: Core, path: str | os.PathLike[str]) -> str:
    """Add the run in a file that `export_run` wrote; returns its id.

    Raises `ValueError` for another kind of file, and `RunExistsError` when the store holds a
    different run by that name. What is there already of this very run is left alone.
    """
    with Path(path).open(encoding="utf-8") as file:
        header = _parsed(path, 1, file.readline())
        if header.get("holdfast_export") != FORMAT:
            raise ValueError(f"{os.fspath(path)} is not an export that this holdfast can read")
        run_id = check_id("run_id", header["run_id"])
        tips: dict[str, Tip] = {}
        batch: list[Entry] = []
        for number, line in enumerate(file, 2):
            document = _parsed(path, number, line)
            try:
                entry = _from_line(core.journals, document, tips)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{os.fspath(path)}:{number}: not an entry: {error!r}") from None
            if entry.run not in (run_id, verdict_journal(run_id)):
                raise ValueError(
                    f"{os.fspath(path)}:{number}: belongs to another run, {entry.run!r}"
                )
            batch.append(entry)
            if len(batch) >= _PAGE:
                _add(core.journals.store, batch)
                batch = []
        _add(core.journals.store, batch)
    core.journals.forget(run_id)
    _join_thread(core, run_id)
    return run_id


def copy_to(
    core: Core, target: Store | str | os.PathLike[str], run_ids: Iterable[str] | None = None
) -> int:
    """Copy runs, or all there are, into another store; returns the number of runs.

    Each copy is checked by its digest. Raises `CheckpointNotFoundError`, and `RunExistsError`
    when the target holds a different run by the same id.
    """
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
            _copy_journal(source, there.journals, name)
            if source.head(verdict_journal(name)) is not None:
                _copy_journal(source, there.journals, verdict_journal(name))
            copied.append(name)
        for name in _in_thread_order(source, copied):
            _join_thread(there, name)
        return len(copied)
    finally:
        if store is not target:
            store.close()


def _join_thread(core: Core, run_id: str) -> None:
    """A run that came alone still belongs to its thread."""
    head = core.journals.head(run_id)
    if head is None or head.thread is None:
        return
    member = thread_member(run_id)
    name = thread_journal(head.thread)
    if all(entry.meta != member.meta for entry in core.journals.entries(name)):
        core.drive(append(core, name, member))


def _copy_journal(source: Journals, target: Journals, name: str) -> None:
    tip = Tip(name, None)
    same_form = source.store.form == target.store.form
    head: Entry | None = None
    after = None
    while page := source.store.read(name, after=after, limit=_PAGE, bodies=True):
        head = page[-1]
        after = head.seq
        if not same_form:
            page = [_recoded(source, target, tip, entry) for entry in page]
        _add(target.store, page)
    copied = target.head(name)
    if head is None or copied is None or (copied.seq, copied.digest) != (head.seq, head.digest):
        raise RunExistsError(name)


def _recoded(source: Journals, target: Journals, tip: Tip, entry: Entry) -> Entry:
    if entry.status == Status.DELETED and not entry.body:
        return entry
    encoding = None
    if entry.size:
        encoding = target.encode(source.decode(source.chain(entry.run, entry.seq).encoding))
    return target.recode(tip, entry, encoding)


def _add(store: Store, entries: list[Entry]) -> None:
    """Append what is not there yet; whatever holds its place must be the very same entry."""
    while entries:
        outcomes = store.append(entries)
        lost = [entry for entry, won in zip(entries, outcomes, strict=True) if not won]
        for entry in lost[:1]:
            found = store.read(entry.run, after=entry.seq - 1, limit=1, bodies=False)
            if not found or (found[0].seq, found[0].digest) != (entry.seq, entry.digest):
                raise RunExistsError(entry.run)
        entries = lost[1:]  # they lost with the first, and may yet win without it


def _all_runs(core: Core) -> Iterator[str]:
    after = ""
    while page := core.journals.store.runs(after=after):
        yield from (head.run for head in page)
        after = page[-1].run


def _in_thread_order(source: Journals, runs: list[str]) -> Iterator[str]:
    """Those of the runs that belong to a thread, each thread's in the order they were opened."""
    threads = {head.thread for run in runs if (head := source.head(run)) and head.thread}
    for thread in sorted(threads):
        for entry in source.entries(thread_journal(thread)):
            run = json.loads(entry.meta).get("run") if entry.kind == Kind.MEMBER else None
            if run in runs:
                yield run


def _to_line(journals: Journals, entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = entry._asdict()
    del line["body"]
    for name in _HEX:
        line[name] = line[name].hex()
    line["meta"] = json.loads(entry.meta) if entry.meta else {}
    if entry.size:
        state = journals.decode(journals.chain(entry.run, entry.seq).encoding)
        line["state"] = readable.to_json(state)
    return line


def _from_line(journals: Journals, line: dict[str, Any], tips: dict[str, Tip]) -> Entry:
    fields = {name: line[name] for name in Entry._fields if name != "body"}
    for name in _HEX:
        fields[name] = bytes.fromhex(fields[name])
    fields["meta"] = dump_meta(fields["meta"])
    entry = Entry(**fields, body=b"")
    if type(line["seq"]) is not int or entry.seq < 0:
        raise ValueError(f"seq can't be {entry.seq!r}")
    if entry.status == Status.DELETED and entry.kind != "tombstone":
        return entry
    encoding = journals.encode(readable.from_json(line["state"])) if "state" in line else None
    return journals.recode(tips.setdefault(entry.run, Tip(entry.run, None)), entry, encoding)


def _parsed(path: str | os.PathLike[str], number: int, line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}:{number}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{os.fspath(path)}:{number}: not a JSON object")
    return document
