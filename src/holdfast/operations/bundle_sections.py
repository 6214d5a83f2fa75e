"""The sections of an export, one for each run; a file may hold any number of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from holdfast.kernel.core import MAX_STATE_BYTES
from holdfast.model import check_id
from holdfast.operations.bundle_contents import CONTENTS, check_contents
from holdfast.operations.bundle_lines import bundle_lines

FORMAT: Final = 2

Numbered = tuple[int, dict[str, Any]]
"""A line of the file by its number."""


def bundle_sections(
    path: Path, largest_state: int = MAX_STATE_BYTES
) -> Iterator[tuple[str, list[Numbered], object]]:
    """Each run's id, lines and wrapped keys, if the file is whole and as it was written."""
    header: dict[str, Any] | None = None
    lines: list[Numbered] = []
    checksum = hashlib.sha256()
    found = False
    ends: dict[str, str] = {}
    listed: list[dict[str, Any]] = []
    for number, line in enumerate(bundle_lines(path, largest_state), 1):
        document = _document(path, number, line)
        if header is None and CONTENTS in document:
            listed.append(document)
            found = True
            continue
        if header is None:
            if document.get("holdfast_export") != FORMAT:
                raise ValueError(f"{path} is not an export that this holdfast can read")
            header, lines, checksum = document, [], hashlib.sha256()
        elif "sha256" in document and "run" not in document:
            if document.get("entries") != len(lines):
                raise ValueError(f"{path} was cut short: lines are missing")
            if document["sha256"] != checksum.hexdigest():
                raise ValueError(f"{path} was changed: its checksum does not match")
            run_id = check_id("run_id", header.get("run_id", ""))
            for _, one in lines:
                if one.get("run") == run_id:
                    ends[run_id] = one.get("digest", "")
            yield run_id, lines, header.get("data_keys", [])
            header, found = None, True
            continue
        else:
            lines.append((number, document))
        checksum.update(line)
    if header is not None:
        raise ValueError(f"{path} was cut short: its last line is missing")
    if not found:
        raise ValueError(f"{path} is not an export that this holdfast can read")
    for document in listed:
        check_contents(path, document, ends)


def _document(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}:{number}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}:{number}: not a JSON object")
    return document
