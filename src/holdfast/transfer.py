"""Moving runs: to a file and back, and from one store to another. Everything here blocks.

A run keeps its ids, seqs and digests wherever it goes. Where its states had to be encoded anew,
`verify` says "rewritten" for them. An interrupted transfer is finished by starting it again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from holdfast.appending import alias_of, append, thread_member
from holdfast.chains import is_stub
from holdfast.checkpoint import dump_meta
from holdfast.codec import envelope, readable
from holdfast.core import Core
from holdfast.errors import CheckpointNotFoundError, RunExistsError
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
from holdfast.seams import new_id
from holdfast.store import Store
from holdfast.urls import open_store
from holdfast.writer import writer_for

FORMAT: Final = 1
_PAGE: Final = 100
_LONGEST_HASH: Final = 64
_LAST_MOMENT: Final = 253_402_300_800_000_000  # the year 10000, in microseconds
_HEX: Final = ("entry_id", "digest")

Form = Literal["jsonl", "json"]
Progress = Callable[[str], object]
Numbered = tuple[int, dict[str, Any]]


def _unseen(run_id: str) -> None:
    """Nobody looks on."""


def export_run(core: Core, run_id: str, path: str | os.PathLike[str]) -> int:
    """Write a run, with everything beside it, to a JSON Lines file; returns its number of entries.

    The file appears whole or not at all, and ends with a checksum of itself. Raises
    `CheckpointNotFoundError`, and `CheckpointCorruptedError` rather than export damage.
    """
    return export_runs(core, [run_id], path)


def export_runs(
    core: Core,
    run_ids: Iterable[str],
    path: str | os.PathLike[str],
    *,
    form: Form = "jsonl",
    progress: Progress = _unseen,
) -> int:
    """Write runs to one file, like `export_run`; `progress` is called with each run's id.

    A bundle is nothing but exports one after the other. In the form "json" its lines are the
    items of one array.
    """
    names = [check_id("run_id", run_id) for run_id in run_ids]
    if not names:
        raise ValueError("an export needs at least one run")
    for name in names:
        if core.journals.head(name) is None:
            raise CheckpointNotFoundError(name)
    opening, between, closing = {"jsonl": (b"", b"\n", b"\n"), "json": (b"[\n", b",\n", b"\n]\n")}[
        form
    ]
    target = Path(path).absolute()
    partial = target.with_name(f".{target.name}.{new_id()}")
    count = 0
    try:
        with partial.open("xb") as file:
            before = opening
            for name in names:
                for line in _section(core.journals, name):
                    file.write(before + line)
                    before = between
                    count += 1
                count -= 2  # the lines that begin and end it
                progress(name)
            file.write(closing)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        partial.unlink(missing_ok=True)
    return count


def _section(journals: Journals, run_id: str) -> Iterator[bytes]:
    """The lines of one run, without their ends: what it is, its entries, and a checksum."""
    checksum = hashlib.sha256()
    count = 0

    def line(document: dict[str, Any]) -> bytes:
        text = json.dumps(document).encode()
        checksum.update(text + b"\n")
        return text

    yield line({"holdfast_export": FORMAT, "run_id": run_id})
    for name in (run_id, verdict_journal(run_id)):
        for entry in journals.entries(name, bodies=True):
            yield line(_to_line(journals, entry))
            count += 1
    yield line({"entries": count, "sha256": checksum.hexdigest()})


def import_run(core: Core, path: str | os.PathLike[str]) -> str:
    """Add the run in a file that `export_run` wrote; returns its id.

    Raises `ValueError` for another kind of file, or one that was cut or changed, before anything
    is written, and `RunExistsError` when the store holds a different run by that name. What is
    there already of this very run is left alone.
    """
    runs = import_runs(core, path, most=1)
    return runs[0]


def import_runs(
    core: Core,
    path: str | os.PathLike[str],
    *,
    most: int | None = None,
    progress: Progress = _unseen,
) -> list[str]:
    """Add all runs in a file, like `import_run`; returns their ids.

    The whole file is checked first. With `most`, one that holds more runs is refused.
    """
    file = Path(path)
    names = runs_in(file)
    if most is not None and len(names) > most:
        raise ValueError(f"{file} holds {len(names)} runs; import them with import_runs")
    for run_id, lines in _sections(file):
        _import(core, file, run_id, lines)
        progress(run_id)
    return names


def runs_in(path: str | os.PathLike[str]) -> list[str]:
    """The ids of the runs in a file that `export_runs` wrote.

    Raises `ValueError` for another kind of file, or one that was cut or changed.
    """
    return [run_id for run_id, _ in _sections(Path(path))]


def _import(core: Core, path: Path, run_id: str, lines: list[Numbered]) -> None:
    scratch: dict[str, Tip] = {}
    entries = []
    for number, line in lines:
        try:
            entry = _from_line(core, line, scratch)
            if entry.run not in (run_id, verdict_journal(run_id)):
                raise ValueError(f"it belongs to another run, {entry.run!r}")
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not an entry: {error}") from None
        entries.append(entry)
    for at in range(0, len(entries), _PAGE):
        _add(core.journals.store, entries[at : at + _PAGE])
    core.journals.forget(run_id)
    _join_thread(core, run_id)
    _keep_aliases(core, run_id)


def _sections(path: Path) -> Iterator[tuple[str, list[Numbered]]]:
    """Each run's id and lines, if the file is whole and as it was written."""
    header: dict[str, Any] | None = None
    lines: list[Numbered] = []
    checksum = hashlib.sha256()
    found = False
    for number, line in enumerate(_lines(path), 1):
        document = _document(path, number, line)
        if header is None:
            if document.get("holdfast_export") != FORMAT:
                raise ValueError(f"{path} is not an export that this holdfast can read")
            header, lines, checksum = document, [], hashlib.sha256()
        elif "sha256" in document and "run" not in document:
            if document.get("entries") != len(lines):
                raise ValueError(f"{path} was cut short: lines are missing")
            if document["sha256"] != checksum.hexdigest():
                raise ValueError(f"{path} was changed: its checksum does not match")
            yield check_id("run_id", header.get("run_id", "")), lines
            header, found = None, True
            continue
        else:
            lines.append((number, document))
        checksum.update(line)
    if header is not None:
        raise ValueError(f"{path} was cut short: its last line is missing")
    if not found:
        raise ValueError(f"{path} is not an export that this holdfast can read")


def _lines(path: Path) -> Iterator[bytes]:
    """The lines as they were summed up, also of a file that has them as the items of an array."""
    with path.open("rb") as file:
        if file.read(1) != b"[":
            file.seek(0)
            yield from file
            return
    try:
        documents = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    for document in documents:
        yield json.dumps(document).encode() + b"\n"


def _document(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{number}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}:{number}: not a JSON object")
    return document


def copy_to(
    core: Core,
    target: Store | str | os.PathLike[str],
    run_ids: Iterable[str] | None = None,
    *,
    progress: Progress = _unseen,
) -> int:
    """Copy runs, or all there are, into another store; returns the number of runs.

    `progress` is called with the id of each run that was copied.
    Every entry is checked on its way. Raises `CheckpointNotFoundError`,
    `CheckpointCorruptedError` rather than copy damage, and `RunExistsError` when the target holds
    a different run by the same id.
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
            _copy_journal(source, there.journals, name)
            if source.head(verdict_journal(name)) is not None:
                _copy_journal(source, there.journals, verdict_journal(name))
            _keep_aliases(there, name)
            copied.append(name)
            progress(name)
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


def _keep_aliases(core: Core, run_id: str) -> None:
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
    tip = Tip(name, None)
    same_form = source.store.form == target.store.form
    head: Entry | None = None
    after = None
    while page := source.store.read(name, after=after, limit=_PAGE, bodies=True):
        head = page[-1]
        after = head.seq
        for entry in page:
            if not is_stub(entry):
                envelope.check(entry)
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
    wanted = set(runs)
    threads = {head.thread for run in runs if (head := source.head(run)) and head.thread}
    for thread in sorted(threads):
        for entry in source.entries(thread_journal(thread)):
            run = json.loads(entry.meta).get("run") if entry.kind == Kind.MEMBER else None
            if run in wanted:
                yield run


def _to_line(journals: Journals, entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = entry._asdict()
    del line["body"]
    for name in _HEX:
        line[name] = line[name].hex()
    line["meta"] = json.loads(entry.meta) if entry.meta else {}
    if entry.size:
        state = journals.value(entry.run, entry.seq)
        line["state"] = readable.to_json(state)
    return line


def _from_line(core: Core, line: dict[str, Any], scratch: dict[str, Tip]) -> Entry:
    journals = core.journals
    fields = {name: line[name] for name in Entry._fields if name != "body"}
    for name in _HEX:
        fields[name] = bytes.fromhex(fields[name])
    fields["meta"] = dump_meta(fields["meta"])
    entry = Entry(**fields, body=b"")
    _check_fields(entry)
    tip = scratch.setdefault(entry.run, Tip(entry.run, None))
    if tip.seq >= 0 and entry.seq != tip.seq + 1:
        raise ValueError(f"{entry.seq} can't follow {tip.seq}")
    tip.seq = entry.seq
    if entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE:
        return entry
    encoding = journals.encode(readable.from_json(line["state"])) if "state" in line else None
    if encoding is not None and len(encoding) > core.settings.max_state_bytes:
        raise ValueError(f"its state takes {len(encoding):,} bytes, more than max_state_bytes")
    return journals.recode(tip, entry, encoding)


def _check_fields(entry: Entry) -> None:
    """Refuse what no save would have written: the file may come from anyone."""
    check_id("run", entry.run.removeprefix(verdict_journal("")))
    for name in ("flow", "thread", "owner", "step", "type"):
        value = getattr(entry, name)
        if value is not None:
            check_id(name, value)
    Kind(entry.kind)
    Status(entry.status)
    if not 0 < len(entry.entry_id) <= _LONGEST_HASH or not 0 < len(entry.digest) <= _LONGEST_HASH:
        raise ValueError("entry_id and digest must be bytes in hex")
    for name, most in (("seq", 2**62), ("size", 2**40), ("at", _LAST_MOMENT)):
        value = getattr(entry, name)
        if type(value) is not int or not 0 <= value < most:
            raise ValueError(f"{name} can't be {value!r}")
    for name in ("parent", "step_index"):
        value = getattr(entry, name)
        if value is not None and (type(value) is not int or abs(value) >= 2**62):
            raise ValueError(f"{name} can't be {value!r}")
    if entry.duration is not None and not math.isfinite(entry.duration):
        raise ValueError(f"duration can't be {entry.duration!r}")
    if entry.meta and not isinstance(json.loads(entry.meta), dict):
        raise ValueError("meta must be an object")
