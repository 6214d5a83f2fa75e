"""The lines of an export, read within limits: the file may come from anyone.

A line is refused before it is parsed if it is larger than what it says about itself allows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.model import Entry, Kind, Status, check_id, verdict_journal

MAX_META: Final = 16 << 20
"""Characters of an entry's metadata: 10,000 claims take a quarter of that."""

_BESIDE: Final = 20 << 20  # bytes of a line that are not its state, nor its content
_VALUES: Final = 1_000_000  # in them
_PER_BYTE: Final = 12  # bytes of text for a byte of a state: `false, ` and `\u0001`, and base64
_HEAD: Final = 1 << 14  # where an entry says how large its state is
_SIZE: Final = re.compile(rb'"size": (\d{1,15})\b')
_REFORMATTED: Final = 64 << 20
_LONGEST_HASH: Final = 64
_LAST_MOMENT: Final = 253_402_300_800_000_000  # the year 10000, in microseconds


def bundle_lines(path: Path, largest_state: int) -> Iterator[bytes]:
    """The lines that the checksum covers, also of a file that has them as items of an array.

    Raises `ValueError` for a line that is larger than an entry with such a state can be.
    """
    with path.open("rb") as file:
        first = file.readline(_HEAD)
        if not first.startswith(b"["):
            file.seek(0)
            yield from _bounded(path, file, largest_state)
            return
        begins = file.tell()
        if first == b"[\n" and file.readline(_HEAD).startswith(b'{"holdfast_export": '):
            file.seek(begins)
            for line in _bounded(path, file, largest_state):
                if line.startswith(b"]"):
                    return
                yield line.removesuffix(b"\n").removesuffix(b",") + b"\n"
            raise ValueError(f"{path} was cut short: its last line is missing")
    yield from _items(path)


def _bounded(path: Path, file: BinaryIO, largest_state: int) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_BESIDE + 1):
        number += 1
        said = _SIZE.search(line, 0, _HEAD)
        size = min(int(said[1]), largest_state) if said else 0
        most = _BESIDE + _PER_BYTE * size
        if len(line) > _BESIDE and not line.endswith(b"\n"):
            line += file.readline(most - len(line) + 1)
        if len(line) > most:
            raise ValueError(
                f"{path}:{number}: it takes more than {most:,} bytes, which is too large for a "
                f"state of {size:,} bytes"
            )
        if line.count(b",") + line.count(b"[") + line.count(b"{") > _VALUES + 3 * size:
            raise ValueError(
                f"{path}:{number}: it has too many values for a state of {size:,} bytes"
            )
        yield line


def _items(path: Path) -> Iterator[bytes]:
    """Of an array that somebody formatted anew."""
    if path.stat().st_size > _REFORMATTED:
        raise ValueError(f"{path}: an array this large must have an item on each line, as exported")
    data = path.read_bytes()
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _VALUES:
        raise ValueError(f"{path}: an array of so many values must have an item on each line")
    try:
        documents = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    for document in documents:
        yield json.dumps(document).encode() + b"\n"


def check_fields(entry: Entry) -> None:
    """Refuse what no save would have written: the file is not trusted."""
    if not isinstance(entry.run, str):
        raise ValueError(f"run can't be {entry.run!r}")
    check_id("run", entry.run.removeprefix(verdict_journal("")))
    for name in ("flow", "thread", "owner", "step", "type"):
        value = getattr(entry, name)
        if value is not None:
            check_id(name, value)
    Kind(entry.kind)
    Status(entry.status)
    if max(len(entry.entry_id), len(entry.digest)) > _LONGEST_HASH:
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
