"""Values that have broken other systems, for any test that stores or compares them."""

from __future__ import annotations

from typing import Final

from holdfast.model import OF_CHILD

HOSTILE_IDS: Final[list[str]] = [
    # paths
    "../../etc/passwd", "/etc/passwd", "..", ".", "...", "a/b", "a\\b", "~", "~root", "C:\\x", "//h/s",
    ".hidden", "a.", "a..", "-rf", "--", "con", "nul", "aux.txt", ".lock", ".tmp", "0000000000.json",
    # languages that look for their own words: keys, formats, globs, queries, markup
    "a:latest", "a", "{x}", "%s", "%00", "%2e%2e", "%", "$gt", '{"$gt": ""}', "$(id)", "`id`", "*", "?",
    "[a-z]", "_", "a_", "a%", "'", '"', "''", "' OR '1'='1", "'; DROP TABLE entries; --", "\\", "\\'",
    "<script>alert(1)</script>", "null", "None", "0", "1e3", "true", "run@3", "@", "a|b", "#", "&", ";",
    # what folds together: case, accents, normalisation, blanks, width, invisible characters
    "A", "\u00e1", "a\u0301", "\u00c1", "a ", " a", " ", "a\u00a0", "\u00df", "SS", "ss", "\ufb00", "ff",
    "\u0130", "i", "\u0131", "I", "\uff41", "a\u200b", "a\u00ad", "\ufeffa", "K", "\u212a", "\u00c5",
    "\u212b", "A\u030a", "\u03a9", "\u2126",
    # scripts and directions
    "😀", "👩‍👩‍👧", "שלום", "\u202egnp.exe", "مرحبا", "日本語", "\u2028", "\U0010fffd", "\uffff",
    # as long as they may be, and apart only at the end
    "x" * 511 + "a", "x" * 511 + "b", "X" * 511 + "a", "x" * 512, "é" * 256, "é" * 255 + "e",
    "😀" * 128, "😀" * 127 + "😁", "/" * 512, "%" * 512, "A" * 512, "a" * 255, "a" * 256, "." * 512,
]  # fmt: skip
"""Valid ids, all different, that a careless store mixes up, refuses or obeys."""

HOSTILE_RUN_IDS: Final[list[str]] = [run for run in HOSTILE_IDS if OF_CHILD not in run]
"""Those of them that a user may give to a new run."""

INVALID_IDS: Final[list[str]] = [
    "", "\x00", "a\x00b", "a\nb", "\n", "\r", "\t", "\x1f", "\x1fverdicts", "\x7f", "a\x85b", "\x9b",
    "\ud800", "a\udfffb", "x" * 513, "x" * 10_240, "é" * 257, "😀" * 129,
]  # fmt: skip
"""Ids that `check_id` must refuse."""

HOSTILE_BODIES: Final[list[bytes]] = [
    b"", b"\x00", b"{", b"}", b"{}", b"{}\n", b" {}", b'{"a": 1}', b'{"a":1}\n', b'{ "b" : 2 }',
    b'{"a":1,"a":2}', b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e999}', b'{"big": 123456789012345678901}',
    b'{"a": "\xff"}', '{"a": "é\u2028😀"}'.encode(), b'{"a": "\\ud800"}', b'{"a": "\x00"}',
    b'{"a": "\\u0000"}', b'{\n"body": {\n"meta": 1}\n}\n', b'{"a": 1}\n}\n', b"{}\r\n", b"\xef\xbb\xbf{}",
    '{"a": 1}'.encode("utf-16"), '{"a": 1}'.encode("utf-16-le"), b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"a": 1} ', b'{"a": 1}{"b": 2}', b"null", b'"text"', b"[1]", b"\xff\xfe", b"'; DROP TABLE entries; --",
    bytes(range(256)), b"\n", b"\r\n",
]  # fmt: skip
"""Bodies that a store which looks into them would change or refuse."""

HOSTILE_METAS: Final[list[str]] = [
    "", "{}", '{"a": 1}', '{"a":1}', '{ "a" : 1 }', '{"a":1,"a":2}', '{"z":1,"a":2}', '{"a":"é😀\u2028"}',
    '{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":1.0}', '{"a":1e2}', '{"a":12345678901234567890123}',
    '{\n"body": 1\n}', '{"a":1}\n', "[1, 2]", '"text"', "null", '{"a":"\\/"}', "{\"a\":\"'%s{}\"}",
]  # fmt: skip
"""JSON texts whose exact characters must come back."""
