"""Runs in files: export and import. Everything here blocks.

A run keeps its ids, seqs and digests wherever it goes. Its states are encoded anew when they come
back, and `verify` says "rewritten" for them. An interrupted import is finished by starting it
again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from holdfast.codec import readable
from holdfast.codec.meta import Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals, Tip
from holdfast.kernel.playback import Playback
from holdfast.model import (
    Entry,
    Kind,
    Status,
    check_id,
    follows,
    verdict_journal,
)
from holdfast.operations.copying import Progress, add, join_thread, keep_aliases, pieces, unseen
from holdfast.seams import new_id

FORMAT: Final = 1
_LONGEST_HASH: Final = 64
_LAST_MOMENT: Final = 253_402_300_800_000_000  # the year 10000, in microseconds
_HEX: Final = ("entry_id", "digest")

Form = Literal["jsonl", "json"]
Numbered = tuple[int, dict[str, Any]]


def export_run(core: Core, run_id: str, path: str | os.PathLike[str]) -> int:
    """Write a run and its verdicts to a JSON Lines file; returns the number of entries.

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
        if core.journals.head(name) is None:
            raise CheckpointNotFoundError(name)
    opening, between, closing = {"jsonl": (b"", b"\n", b"\n"), "json": (b"[\n", b",\n", b"\n]\n")}[
        form
    ]
    count = 0
    with replacing(path) as partial, partial.open("xb") as file:
        before = opening
        for name in names:
            for line in _section(core.journals, name):
                file.write(before + line)
                before = between
                count += 1
            count -= 2  # the lines that begin and end it
            progress(name)
        file.write(closing)
    return count


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file to write to, which takes the place of `path` if all went well, durably."""
    target = Path(path).absolute()
    partial = target.with_name(f".{new_id()}{target.suffix}")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        partial.unlink(missing_ok=True)


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
        playback = Playback(journals)
        for entry in journals.entries(name, bodies=True):
            yield line(_to_line(journals, playback, entry))
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
    progress: Progress = unseen,
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
    for _, of_one in groupby(entries, lambda entry: entry.run):
        states: set[int] = set()
        for piece in pieces(of_one):
            add(core.journals.store, piece, states)
    core.journals.forget(run_id)
    join_thread(core, run_id)
    keep_aliases(core, run_id)


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
    """The lines that the checksum covers, also of a file that has them as items of an array."""
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


def _to_line(journals: Journals, playback: Playback, entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = entry._asdict()
    del line["body"]
    for name in _HEX:
        line[name] = line[name].hex()
    line["meta"] = dict(Meta(entry).fields)
    if entry.size:
        encoding = playback.encoding(entry)
        if encoding is None:
            raise CheckpointCorruptedError(entry.run, entry.seq, "it was deleted meanwhile")
        state = journals.decoded(entry.run, entry.seq, encoding)
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
    if entry.seq != tip.seq + 1 and (tip.seq >= 0 or not follows(entry, -1)):
        raise ValueError(f"{entry.seq} can't follow {tip.seq}")
    tip.seq = entry.seq
    if entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE:
        return entry
    encoding = journals.encode(readable.from_json(line["state"])) if "state" in line else None
    if encoding is not None and len(encoding) > core.settings.max_state_bytes:
        raise ValueError(f"its state takes {len(encoding):,} bytes, more than max_state_bytes")
    return journals.recode(tip, entry, encoding)


def _check_fields(entry: Entry) -> None:
    """Refuse what no save would have written: the file is not trusted."""
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
    if type(entry.term) is not int or not 0 <= entry.term <= entry.seq:
        raise ValueError(f"term can't be {entry.term!r}")
    for name in ("parent", "step_index"):
        value = getattr(entry, name)
        if value is not None and (type(value) is not int or abs(value) >= 2**62):
            raise ValueError(f"{name} can't be {value!r}")
    if entry.duration is not None and not math.isfinite(entry.duration):
        raise ValueError(f"duration can't be {entry.duration!r}")
    if entry.meta and not isinstance(json.loads(entry.meta), dict):
        raise ValueError("meta must be an object")
