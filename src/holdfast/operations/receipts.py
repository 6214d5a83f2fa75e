"""Receipts of forgetting: what was deleted, and how to find out later that it still is.

A receipt is kept for years, so it holds no data of the people whom it is about: ids are hashed,
each receipt with its own salt. Whoever knows an id can ask whether a receipt concerns it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from holdfast.operations.private_files import replacing
from holdfast.operations.subjects import Of

FORMAT: Final = 1
_LARGEST: Final = 1 << 30


class Forgotten(NamedTuple):
    """A run that was deleted, or would be."""

    run_id: str  # empty in a receipt that was read: it has only the hash
    name: str  # the hash of the id
    status: str  # what it was doing
    checkpoints: int
    entries: int
    digest: str  # of its last entry: whoever holds an export of the run can prove that it is meant
    seq: int | None = None  # of its tombstone; None while there is none
    tombstone: str = ""  # the digest of its tombstone

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the id."""
        named = self._asdict()
        del named["run_id"]
        return {"run": named.pop("name"), **named}


class Receipt(NamedTuple):
    """What was deleted, and proof of it.

    `to_dict()`, or `save(path)`, is what to keep: ids are hashed there. The ids of the runs stay in
    the store, in tombstones that keep old workers from writing there again.
    """

    id: str  # random; the store has a record of this id. Empty if there was nothing to forget
    store: str  # the random id of the store
    of: Of
    subject: str  # the hash of the owner, thread or run
    salt: str
    began: datetime
    at: datetime
    by: str | None
    runs: tuple[Forgotten, ...]
    keys: tuple[str, ...] = ()  # the ids of the owner's data keys, which were destroyed
    complete: bool = True
    dry_run: bool = False

    @property
    def checkpoints(self) -> int:
        """How many checkpoints were deleted."""
        return sum(run.checkpoints for run in self.runs)

    def concerns(
        self, *, owner: str | None = None, thread_id: str | None = None, run_id: str | None = None
    ) -> bool:
        """Whether this owner or thread was forgotten, or this run is one of those deleted."""
        if owner is not None:
            return self.of == "owner" and hashed(self.salt, "owner", owner) == self.subject
        if thread_id is not None:
            return self.of == "thread" and hashed(self.salt, "thread", thread_id) == self.subject
        name = hashed(self.salt, "run", run_id or "")
        return any(run.name == name for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data without ids, and with a digest of all of it."""
        fields = self._asdict()
        del fields["dry_run"]
        document = {
            "holdfast_receipt": FORMAT,
            **fields,
            "began": self.began.isoformat(),
            "at": self.at.isoformat(),
            "keys": list(self.keys),
            "runs": [run.to_dict() for run in sorted(self.runs, key=lambda run: run.name)],
        }
        return document | {"sha256": _digest(document)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file as JSON, all or nothing; only you can read the file."""
        with replacing(path) as file:
            file.write_text(json.dumps(self.to_dict(), indent=2) + "\n")


def read_receipt(given: Receipt | Mapping[str, Any] | str | os.PathLike[str]) -> Receipt:
    """A receipt from a file, or from what `to_dict` made. Raises `ValueError` if it was changed."""
    if isinstance(given, Receipt):
        return given
    if isinstance(given, Mapping):
        return _parsed("the receipt", dict(given))
    path = Path(given)
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"{path} is not a receipt: it is too large")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a receipt: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is not a receipt")
    return _parsed(str(path), document)


def hashed(salt: str, what: str, value: str) -> str:
    """An id as a receipt has it."""
    return hashlib.sha256(f"{salt}\0{what}\0{value}".encode()).hexdigest()


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _parsed(source: str, document: dict[str, Any]) -> Receipt:
    if document.get("holdfast_receipt") != FORMAT:
        raise ValueError(f"{source} is not a receipt that this holdfast can read")
    said = document.pop("sha256", None)
    if said != _digest(document):
        raise ValueError(f"{source} was changed: its checksum does not match")
    try:
        fields = {name: document[name] for name in Receipt._fields if name != "dry_run"}
        fields["began"] = datetime.fromisoformat(fields["began"])
        fields["at"] = datetime.fromisoformat(fields["at"])
        fields["runs"] = tuple(_run(run) for run in fields["runs"])
        fields["keys"] = tuple(str(key) for key in fields["keys"])
        if fields["of"] not in get_args(Of):
            raise ValueError(f"it can't be of {fields['of']!r}")
        if fields["began"].tzinfo is None or fields["at"].tzinfo is None:
            raise ValueError("its times need an offset from UTC")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{source} is not a receipt: {error}") from None
    return Receipt(**fields)


def _run(document: dict[str, Any]) -> Forgotten:
    fields = {name: document[name] for name in Forgotten._fields[2:]}
    if not isinstance(document["run"], str) or not isinstance(fields["tombstone"], str):
        raise TypeError("the names and digests of its runs must be text")
    if type(fields["seq"]) is not int:
        raise TypeError("the seqs of its runs must be numbers")
    return Forgotten("", document["run"], **fields)
