"""An entry as a line of an export, and back."""

from __future__ import annotations

import binascii
import json
from typing import Any, Final

from holdfast.codec import envelope, readable, wrapping
from holdfast.codec.meta import Meta, SealedText, dump_meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.journal import Journals
from holdfast.kernel.playback import Playback
from holdfast.model import Entry, lost
from holdfast.operations.bundle_lines import MAX_META, check_fields

LOST: Final = "lost"
"""In a line: why the entry could not be exported."""

_HEX: Final = ("entry_id", "digest")


def line_of(journals: Journals, playback: Playback, entry: Entry, opened: bool) -> dict[str, Any]:
    """A proved entry as a JSON object; with its state as people read it, unless that is sealed.

    With `opened`, also what is sealed. Raises `CheckpointCorruptedError` if it was deleted meanwhile.
    """
    line: dict[str, Any] = entry._asdict()
    line["body"] = binascii.b2a_base64(wrapping.undressed(entry), newline=False).decode()
    for name in _HEX:
        line[name] = line[name].hex()
    line["meta"] = _stored_fields(entry)
    if opened and isinstance(entry.meta, SealedText):
        line["opened_meta"] = dict(Meta(entry).fields)
    if entry.size and (opened or not envelope.glance(entry).is_sealed):
        encoding = playback.encoding(entry)
        if encoding is None:
            raise CheckpointCorruptedError(entry.run, entry.seq, "it was deleted meanwhile")
        state = journals.decoded(entry.run, entry.seq, encoding, as_data=True)
        line["state"] = readable.to_json(state)
    return line


def entry_of(line: dict[str, Any]) -> Entry:
    """The entry that a line holds, which may come from anyone.

    Raises `KeyError`, `TypeError`, `ValueError` or `OverflowError` for what is none.
    """
    if LOST in line:
        entry = lost(line["run"], line["seq"], bytes.fromhex(line["digest"]))
    else:
        fields = {name: line[name] for name in Entry._fields}
        for name in _HEX:
            fields[name] = bytes.fromhex(fields[name])
        fields["meta"] = dump_meta(fields["meta"])
        if len(fields["meta"]) > MAX_META:
            raise ValueError(f"its metadata takes more than {MAX_META:,} characters")
        fields["body"] = binascii.a2b_base64(fields["body"], strict_mode=True)
        entry = Entry(**fields)
    check_fields(entry)
    return entry


def _stored_fields(entry: Entry) -> dict[str, Any]:
    """The metadata as it is stored: what is encrypted stays so."""
    if isinstance(entry.meta, SealedText):
        fields: dict[str, Any] = json.loads(entry.meta)
        return fields
    return dict(Meta(entry).fields)
