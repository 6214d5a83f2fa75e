"""Runs in files: export and import. Everything here blocks.

A run keeps its ids, seqs, digests and contents wherever it goes, byte for byte. A file has each
state a second time, for people and other tools; an import checks that both are the same. An
interrupted import is finished by starting it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from holdfast.codec import envelope, readable
from holdfast.errors import (
    BoundOwnerError,
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    RunDeletedError,
    RunExistsError,
)
from holdfast.kernel import keyed
from holdfast.kernel.branches import FEW
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import Damage, Found, entries_of, pass_by
from holdfast.kernel.playback import Playback
from holdfast.kernel.proving import Prover
from holdfast.kernel.writer import writer_for
from holdfast.keys.data_keys import KeyRow
from holdfast.model import (
    HIDDEN,
    Entry,
    Status,
    check_id,
    erases,
    verdict_journal,
)
from holdfast.operations.blocks import in_blocks
from holdfast.operations.bundle_entries import LOST, entry_of, line_of
from holdfast.operations.bundle_sections import FORMAT, Numbered, bundle_sections
from holdfast.operations.copying import Progress, copy_run, raise_first, unseen
from holdfast.operations.joining import join_thread, keep_aliases
from holdfast.operations.private_files import replacing
from holdfast.operations.verifying import examine
from holdfast.stores.memory import MemoryStore

Form = Literal["jsonl", "json"]


def export_run(core: Core, run_id: str, path: str | os.PathLike[str]) -> int:
    """Write a run and its verdicts to a JSON Lines file; returns the number of entries.

    The file appears whole or not at all, and ends with a checksum of itself. Raises
    `CheckpointNotFoundError`. Of a damaged entry, the file says only that it is lost; then
    `CheckpointCorruptedError` names it once the file is complete.
    """
    return export_runs(core, [run_id], path)


def export_runs(
    core: Core,
    run_ids: Iterable[str],
    path: str | os.PathLike[str],
    *,
    form: Form = "jsonl",
    progress: Progress = unseen,
) -> int:
    """Write runs to one file, like `export_run`; `progress` is called with each run's id.

    A bundle is nothing but exports one after the other. In the form "json" its lines are the
    items of one array.
    """
    names = [check_id("run_id", run_id) for run_id in run_ids]
    if not names:
        raise ValueError("an export needs at least one run")
    for name in names:
        if core.journals.head_seq(name) is None:
            raise CheckpointNotFoundError(name)
    return write_bundle(core, names, path, form, progress)


def write_bundle(
    core: Core,
    names: Iterable[str],
    path: str | os.PathLike[str],
    form: Form,
    progress: Progress,
    last_line: Callable[[Mapping[str, str]], dict[str, Any]] | None = None,
    *,
    opened: bool = False,
) -> int:
    """Write runs to one file; `last_line` is given the digest of each run's last entry.

    If it is to be `opened`, what is encrypted is there in the clear, too.
    """
    opening, between, closing = {"jsonl": (b"", b"\n", b"\n"), "json": (b"[\n", b",\n", b"\n]\n")}[
        form
    ]
    count = 0
    damaged: list[CheckpointCorruptedError] = []
    ends: dict[str, str] = {}
    with replacing(path) as partial, partial.open("xb") as file:
        before = opening
        for name in names:
            for line in _section(core.journals, name, damaged.append, ends, opened):
                file.write(before + line)
                before = between
                count += 1
            count -= 2  # the lines that begin and end it
            progress(name)
        if last_line is not None:
            file.write(before + json.dumps(last_line(ends)).encode())
        file.write(closing)
    raise_first(damaged)
    return count


def _section(
    journals: Journals, run_id: str, damage: Damage, ends: dict[str, str], opened: bool
) -> Iterator[bytes]:
    """The lines of one run, without their ends: what it is, its entries, and a checksum."""
    checksum = hashlib.sha256()
    count = 0

    def line(document: dict[str, Any]) -> bytes:
        text = json.dumps(document).encode()
        checksum.update(text + b"\n")
        return text

    yield line({"holdfast_export": FORMAT, "run_id": run_id, **_keys_of(journals, run_id)})
    for name in (run_id, verdict_journal(run_id)):
        for document in _documents(journals, name, damage, opened):
            yield line(document)
            count += 1
            if name == run_id:
                ends[run_id] = document["digest"]
    yield line({"entries": count, "sha256": checksum.hexdigest()})


def _keys_of(journals: Journals, run_id: str) -> dict[str, Any]:
    """The wrapped data keys that an encrypted run needs: who has the keyring can read it."""
    rows = keyed.key_rows(journals, run_id)
    return {"data_keys": [[row.owner, row.wrapped] for row in rows]} if rows else {}


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
    progress: Progress = unseen,
) -> list[str]:
    """Add all runs in a file, like `import_run`; returns their ids.

    The whole file is checked first. With `most`, one that holds more runs is refused. What an
    export lacks is missing here, too. Of a run whose newest entries are lost, all before them is
    added; once all runs are, `CheckpointCorruptedError` names the first that is not.
    """
    file = Path(path)
    names = []
    cut: list[CheckpointCorruptedError] = []
    for run_id, lines, keys in bundle_sections(file, core.settings.max_state_bytes):
        _scratch(core, file, run_id, lines, keys)
        names.append(run_id)
    if most is not None and len(names) > most:
        raise ValueError(f"{file} holds {len(names)} runs; import them with import_runs")
    core.journals.prepare(None)
    for run_id, ends_before in in_blocks(
        core.journals.store,
        bundle_sections(file, core.settings.max_state_bytes),
        lambda section: (section[0], _import(core, file, *section)),
        alone=core.journals.sealer is not None,
    ):
        core.journals.forget(run_id)
        if core.journals.head_seq(run_id) is not None:
            join_thread(core, run_id)
            keep_aliases(core, run_id)
        if ends_before is not None:
            cut.append(ends_before)
        progress(run_id)
    raise_first(cut)
    return names


def runs_in(path: str | os.PathLike[str]) -> list[str]:
    """The ids of the runs in a file that `export_runs` wrote.

    Raises `ValueError` for another kind of file, or one that was cut or changed.
    """
    return [run_id for run_id, *_ in bundle_sections(Path(path))]


def _import(
    core: Core, path: Path, run_id: str, lines: list[Numbered], keys: object
) -> CheckpointCorruptedError | None:
    """Add a run; returns what is wrong with the entry it ends before, if not all is added."""
    scratch = _scratch(core, path, run_id, lines, keys)
    try:
        lost_end = copy_run(scratch, core.journals, run_id)
    except RunExistsError:
        head = core.journals.head(run_id)
        if head is not None and erases(head):
            raise RunDeletedError(run_id) from None
        raise
    if lost_end is None:
        return None
    reason = "it was lost before the export; the imported run ends before it"
    return CheckpointCorruptedError(run_id, lost_end.seq, reason)


def _scratch(core: Core, path: Path, run_id: str, lines: list[Numbered], keys: object) -> Journals:
    """The run of a file in a store of its own, proved. Raises `ValueError` if it was changed."""
    store = MemoryStore()
    numbers: dict[tuple[str, int | None], int] = {}
    states: dict[tuple[str, int], Any] = {}
    missing: set[tuple[str, int | None]] = set()
    deleted: dict[str, list[int]] = {run_id: [], verdict_journal(run_id): []}
    unvouched: set[tuple[str, int | None]] = set()  # what said that they were deleted may be lost
    for number, line in lines:
        try:
            entry = entry_of(line)
            if entry.status != Status.DELETED:
                _check_owner(core, entry)
            if entry.run not in (run_id, verdict_journal(run_id)):
                raise ValueError(f"it belongs to another run, {entry.run!r}")
            if store.append([entry]) != [True]:
                raise ValueError(f"{entry.seq} can't follow the line before it")
        except BoundOwnerError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not an entry: {error}") from None
        place = entry.run, entry.seq
        numbers[place] = number
        if "state" in line:
            states[place] = line["state"]
        if LOST in line:
            missing.add(place)
            unvouched.update((entry.run, seq) for seq in deleted[entry.run])
            deleted[entry.run].clear()
        elif is_stub(entry):
            deleted[entry.run].append(entry.seq)
    largest = core.settings.max_state_bytes
    source = core.journals
    scratch = keyed.elsewhere(source, store, writer_for(store), largest)
    for row in _key_rows(path, keys):
        keyed.data_keys(scratch).take_over(row)
    for name in (run_id, verdict_journal(run_id)):
        if store.last(name) is not None:
            for problem in examine(scratch, name).problems:
                where = name, problem.seq
                if where not in missing and where not in unvouched:
                    at = numbers.get(where, "?")
                    raise ValueError(f"{path}:{at}: it was changed: {problem}")
            _compare(scratch, name, states, lambda seq: f"{path}:{numbers[name, seq]}")  # noqa: B023
    return scratch


def _key_rows(path: Path, keys: object) -> Iterator[KeyRow]:
    """The wrapped data keys of a file. Raises `ValueError` if they are none."""
    try:
        for owner, wrapped in keys:  # type: ignore[attr-defined]
            if owner is not None:
                check_id("owner", owner)
            yield KeyRow(owner, None, tuple((str(a), str(b), str(c)) for a, b, c in wrapped))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: it holds no data keys: {error}") from None


def _check_owner(core: Core, entry: Entry) -> None:
    """Raise `BoundOwnerError` for a run of another owner than the one that the core is bound to."""
    owner = core.journals.owner
    if owner is not None and entry.owner != owner and not entry.run.startswith(HIDDEN):
        raise BoundOwnerError(owner, entry.owner)


def _compare(
    journals: Journals, name: str, states: dict[tuple[str, int], Any], at: Callable[[int], str]
) -> None:
    """Raise `ValueError` if a state that people read is not the one that is imported."""
    playback = Playback(journals)
    for entry in journals.entries(name, bodies=True, damage=pass_by):
        if entry.size and not is_stub(entry):
            try:
                encoding = playback.encoding(entry)
            except CheckpointCorruptedError:
                continue  # what it builds on is lost
            assert encoding is not None, "nobody deletes from it"
            state = readable.to_json(journals.decoded(name, entry.seq, encoding, as_data=True))
            if envelope.glance(entry).is_sealed and (name, entry.seq) not in states:
                continue
            if states.get((name, entry.seq)) != state:
                raise ValueError(f"{at(entry.seq)}: it was changed: its state is not its content")


def _documents(
    journals: Journals, name: str, damage: Damage, opened: bool
) -> Iterator[dict[str, Any]]:
    """The entries of a journal as JSON objects."""
    playback = Playback(journals)
    prover = Prover(journals.vouch, journals.admits, every_byte=True)
    for found, after in _with_next(_all_entries(journals, name)):
        while isinstance(found, Entry):
            try:
                line = _proved_line(journals, prover, playback, found, opened)
                _check_before(journals, found, after)
                break
            except CheckpointCorruptedError as error:
                error.digest = found.digest
                now = _stored_now(journals, found)
                found = error if now == found else now  # others prune it meanwhile
        else:
            if found.seq is None:
                raise found
            damage(found)
            prover.pass_over(found.seq, found.digest)
            digest = found.digest.hex()
            line = {"run": name, "seq": found.seq, "digest": digest, LOST: found.reason}
        yield line


def _with_next(entries: Iterator[Found]) -> Iterator[tuple[Found, Found | None]]:
    """Each with the one after it."""
    found = next(entries, None)
    while found is not None:
        after = next(entries, None)
        yield found, after
        found = after


def _check_before(journals: Journals, entry: Entry, after: Found | None) -> None:
    """Raise if the entry after it was deleted, and it is not the one that was there then."""
    if isinstance(after, Entry) and is_stub(after):
        try:
            journals.check_stub(after, entry.digest)
        except CheckpointCorruptedError as error:
            if error.seq == entry.seq:
                raise


def _all_entries(journals: Journals, name: str) -> Iterator[Found]:
    """The entries of a journal, with all that others add meanwhile, such as what they deleted."""
    last: int | None = None
    while True:
        before = last
        for found in entries_of(journals.store, name, False, last, FEW, bodies=True):
            yield found
            last = found.seq
        if last == before:
            return


def _stored_now(journals: Journals, entry: Entry) -> Found:
    """The entry as it is stored by now; itself if it can't be read any more."""
    try:
        page = journals.store.read(entry.run, after=entry.seq - 1, limit=1)
    except CheckpointCorruptedError:
        return entry
    return page[0] if page and page[0].seq == entry.seq else entry


def _proved_line(
    journals: Journals, prover: Prover, playback: Playback, entry: Entry, opened: bool
) -> dict[str, Any]:
    """An entry as a JSON object. Raises `CheckpointCorruptedError` unless it is proved."""
    if is_stub(entry):
        prover.pass_over(entry.seq, entry.digest)
        journals.check_stub(entry)
    elif prover.prove(entry) is None:
        raise CheckpointCorruptedError(entry.run, entry.seq, "the state it builds on is lost")
    return line_of(journals, playback, entry, opened)
