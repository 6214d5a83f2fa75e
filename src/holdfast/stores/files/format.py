"""Names and contents of the file store's files: JSON that people can read, with checksums.

A run is a directory, an entry a file in it, one field a line:

    {
    "holdfast": "entry/1",
    "check": "…",          covers every line from the next one up to "meta"
    "run": "run-1",
    …
    "meta": {…},           the caller's own text where it is a JSON object, else a string
    "body": {…}            the caller's own bytes where they are a JSON object, else base64
    }

Meta and body are cut out of the file again, never re-encoded, so they return to the byte.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry

BODY: Final = b',\n"body": '
"""Ends the head of a file. JSON strings hold no line break, so no field can contain it."""

_META: Final = b',\n"meta": '
_START: Final = b'{\n"holdfast": "entry/1",\n"check": "'
_END: Final = b"\n}\n"
_HEX: Final = 32
_LONGEST: Final = 200  # of a directory name; file systems allow 255 bytes
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_ENTRY_FILE: Final = re.compile(r"[0-9]{10,19}\.json", re.ASCII)
_DIGEST: Final = re.compile(rb'\n"digest": "([0-9a-f]{64})"')
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def directory_name(run: str) -> str:
    """One name per run and one run per name, also where case is folded or text normalised.

    Small letters, digits, "-", "_" and inner dots are kept, all else is %XX of
    its UTF-8. A name that would be too long is cut and gets its SHA-256 after a "~".
    """
    raw = run.encode()
    inner = range(1, len(raw) - 1)
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == 0x2E and place in inner) else f"%{byte:02x}"
        for place, byte in enumerate(raw)
    )
    if len(name) <= _LONGEST:
        return name
    return f"{name[:100]}~{hashlib.sha256(raw).hexdigest()}"


def run_of(name: str) -> str | None:
    """The run that a directory is named after; None if the name is cut, or not the store's."""
    try:
        run = re.sub(
            rb"%([0-9a-f]{2})", lambda code: bytes([int(code[1], 16)]), name.encode()
        ).decode()
    except UnicodeError:
        return None
    return run if run and directory_name(run) == name else None


def is_cut(name: str) -> bool:
    """Whether a directory name is cut, so that its run can't be read from it."""
    return "~" in name


def file_name(seq: int) -> str:
    """The name of an entry's file: sorted as text, entries are in order."""
    return f"{seq:010d}.json"


def seq_of(name: str) -> int | None:
    """The seq that a file is named after; None for anything that is not an entry."""
    if _ENTRY_FILE.fullmatch(name):
        seq = int(name[:-5])
        if file_name(seq) == name:
            return seq
    return None


def encode(entry: Entry) -> bytes:
    """The file's content."""
    fields: dict[str, Any] = entry._asdict()
    meta, body = fields.pop("meta"), fields.pop("body")
    fields["entry_id"] = entry.entry_id.hex()
    fields["digest"] = entry.digest.hex()
    if entry.duration is not None and not math.isfinite(entry.duration):
        fields["duration"] = str(entry.duration)
    fields["time"] = _time(entry.at)  # for people; `at` counts
    fields["body_bytes"] = len(body)
    fields["body_check"] = _check(body)
    lines = [f"{_json(name)}: {_json(value)}" for name, value in fields.items()]
    index = ",\n".join(lines).encode() + _META + _meta_text(meta)
    return b"".join((_START, _check(index).encode(), b'",\n', index, BODY, _body_text(body), _END))


def decode_head(content: bytes, run: str | None, seq: int) -> tuple[Entry, int]:
    """The entry without its body, and the body's size, from a file's beginning.

    Raises `CheckpointCorruptedError` unless it is whole and, if `run` is given, belongs there.
    """
    entry, size, _ = _parse(content, run, seq)
    return entry, size


def decode(content: bytes, run: str, seq: int) -> Entry:
    """The whole entry; raises `CheckpointCorruptedError` unless every byte of it is as written."""
    entry, size, check = _parse(content, run, seq)
    if not content.endswith(_END):
        raise _damaged(content, run, seq, "its file is cut short")
    raw = content[content.index(BODY) + len(BODY) : -len(_END)]
    try:
        body = raw if raw.startswith(b"{") else _from_base64(raw)
    except ValueError as error:
        raise _damaged(content, run, seq, f"its body is not base64: {error}") from None
    if len(body) != size or _check(body) != check:
        raise _damaged(content, run, seq, "its body does not match its checksum")
    return entry._replace(body=body)


def _damaged(content: bytes, run: str | None, seq: int, reason: str) -> CheckpointCorruptedError:
    """The error, with the digest that the file still has: the entry behind it may need it."""
    error = CheckpointCorruptedError(run or "?", seq, reason)
    digest = _DIGEST.search(content)
    if digest is not None:
        error.digest = bytes.fromhex(digest[1].decode())
    return error


def _parse(content: bytes, run: str | None, seq: int) -> tuple[Entry, int, str]:
    plain, _, meta = _index(content, run, seq).partition(_META)
    try:
        fields = json.loads(b"{" + plain + b"}")
        size, check = fields.pop("body_bytes"), fields.pop("body_check")
        del fields["time"]
        fields["entry_id"] = bytes.fromhex(fields["entry_id"])
        fields["digest"] = bytes.fromhex(fields["digest"])
        if fields["duration"] is not None:
            fields["duration"] = float(fields["duration"])
        text = meta.decode() if meta.startswith(b"{") else json.loads(meta)
        entry = Entry(**fields, meta=text, body=b"")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        problem = f"its file is not as written: {error}"
        raise _damaged(content, run, seq, problem) from None
    if run is not None and (entry.run, entry.seq) != (run, seq):
        raise CheckpointCorruptedError(run, seq, f"its file belongs to {entry.run}@{entry.seq}")
    return entry, size, check


def _index(content: bytes, run: str | None, seq: int) -> bytes:
    start = len(_START) + _HEX
    end = content.find(BODY)
    if not content.startswith(_START) or end < 0:
        raise _damaged(content, run, seq, "its file is cut short or not an entry")
    index = content[start + 3 : end]
    if (
        content[start : start + 3] != b'",\n'
        or content[len(_START) : start] != _check(index).encode()
    ):
        raise _damaged(content, run, seq, "its file does not match its checksum")
    return index


def _check(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_HEX // 2).hexdigest()


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_text(text) else json.dumps(value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _meta_text(meta: str) -> bytes:
    verbatim = "\n" not in meta and _is_text(meta) and _is_object(meta)
    return (meta if verbatim else _json(meta)).encode()


def _body_text(body: bytes) -> bytes:
    if body.startswith(b"{"):
        try:
            if _is_object(body.decode()):
                return body
        except UnicodeDecodeError:
            pass
    return b'"' + binascii.b2a_base64(body, newline=False) + b'"'


def _from_base64(text: bytes) -> bytes:
    if not (len(text) >= 2 and text.startswith(b'"') and text.endswith(b'"')):
        raise ValueError("it has no quotes")
    return binascii.a2b_base64(text[1:-1], strict_mode=True)


def _is_object(text: str) -> bool:
    """Whether it can be embedded in a JSON document as it is: an object, with nothing JSON forbids."""
    if not text.startswith("{"):
        return False
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _time(at: int) -> str | None:
    try:
        return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds")
    except OverflowError:
        return None
