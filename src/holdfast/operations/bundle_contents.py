"""The last line of an export of somebody's data: whose it is, and which runs must be there.

Each run in a bundle has its own checksum. This line proves that no run is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CONTENTS: Final = "holdfast_contents"
FORMAT: Final = 1


def contents(facts: Mapping[str, Any], ends: Mapping[str, str]) -> dict[str, Any]:
    """The line, given the digest of the last entry of each run."""
    runs = [{"run_id": run, "digest": digest} for run, digest in ends.items()]
    document = {CONTENTS: FORMAT, **facts, "runs": runs}
    return document | {"sha256": _digest(document)}


def check_contents(path: Path, document: dict[str, Any], ends: Mapping[str, str]) -> None:
    """Raise `ValueError` if the line was changed, or a run that it lists is not in the file."""
    if document.get(CONTENTS) != FORMAT:
        raise ValueError(f"{path} has a list of contents that this holdfast can't read")
    said = {name: value for name, value in document.items() if name != "sha256"}
    if document.get("sha256") != _digest(said):
        raise ValueError(f"{path} was changed: the checksum of its contents does not match")
    try:
        listed = {run["run_id"]: run["digest"] for run in document["runs"]}
    except (KeyError, TypeError):
        raise ValueError(f"{path} has a list of contents that this holdfast can't read") from None
    for run, digest in listed.items():
        if run not in ends:
            raise ValueError(f"{path} was cut: run {run!r} is missing")
        if ends[run] != digest:
            raise ValueError(f"{path} was changed: run {run!r} is not the one that was exported")


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
