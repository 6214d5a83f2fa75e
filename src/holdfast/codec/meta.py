"""What an entry says beside its state: its `meta`, parsed once, every key with its type.

The keys are part of the stored format (docs/format.md, section 5): this is the only module that
spells them. `Meta` reads them; whoever writes an entry gives a mapping to `dump_meta`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Generic, NoReturn, TypeVar, overload

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry

T = TypeVar("T")
D = TypeVar("D")

_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_NONE: Final[tuple[Any, ...]] = ()


class Key(Generic[T, D]):
    """One key of the metadata, read as an attribute: its value, or the default if it is absent.

    Raises `CheckpointCorruptedError` if the entry has a value of another type there.
    """

    def __init__(self, kind: type[T], default: D, name: str = "") -> None:
        self._kind = kind
        self._default = default
        self._name = name

    def __set_name__(self, owner: type[Meta], name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, meta: None, owner: type[Meta]) -> Key[T, D]: ...

    @overload
    def __get__(self, meta: Meta, owner: type[Meta]) -> T | D: ...

    def __get__(self, meta: Meta | None, owner: type[Meta]) -> Key[T, D] | T | D:
        if meta is None:
            return self
        found = meta.fields.get(self._name)
        if found is None:
            return self._default
        if not isinstance(found, self._kind):
            meta.refuse(f"its {self._name} is not a {self._kind.__name__}")
        return found


class Meta:
    """The metadata of one entry, parsed when it is made.

    Raises `CheckpointCorruptedError` for text that is not a JSON object. Keys without an
    attribute here are in `fields`. Do not change what it returns.
    """

    __slots__ = ("_entry", "fields")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.fields: Mapping[str, Any] = {}
        if entry.meta:
            try:
                self.fields = json.loads(entry.meta)
            except (ValueError, RecursionError) as error:
                self.refuse(f"its metadata: {error}")
            if not isinstance(self.fields, dict):
                self.refuse("its metadata is not an object")

    def refuse(self, reason: str) -> NoReturn:
        """Raise `CheckpointCorruptedError` for this entry."""
        raise CheckpointCorruptedError(self._entry.run, self._entry.seq, reason) from None

    # checkpoints
    step_name = Key(str, None)
    next_steps = Key(list, _NONE)
    iteration = Key(int, None)
    flow_version = Key(str, None)
    schema_version = Key(int, None)
    metadata = Key(dict, None)  # the caller's own, in the readable form
    origin = Key(str, None)  # the checkpoint that a fork began with
    child = Key(str, None)  # the run that the step stands for
    inherited = Key(list, _NONE)  # of a fork: what was claimed before it, oldest first

    # hidden journals and markers
    run = Key(str, "")  # of a thread's member
    step = Key(str, None)  # of an alias's member: RUN@SEQ of the `begin`
    checkpoints = Key(list, _NONE)  # of a verdict: the seqs it is about
    after = Key(str, "")  # of a tombstone: the digest of the entry before it, in hex

    # runs
    parent = Key(str, None)  # RUN@STEP that a child run is
    source = Key(str, None)  # what `holdfast run` was called with: shown, never imported
    rolled_back = Key(list, _NONE)  # the undo steps that were executed
    rejected = Key(list, None)  # of a rollback: what did not verify
    action = Key(str, None)  # of a request
    reason = Key(str, None)
    by = Key(str, None)  # who answered

    # the steps of tasks
    begun = Key(str, None)  # the id of the `begin` entry, in hex
    alias = Key(str, None)  # the caller's own name for the checkpoint
    work_item = Key(str, None)
    worker = Key(str, None)

    @property
    def evidence(self) -> list[Any]:
        """The packs of claims made with this checkpoint."""
        found = self.fields.get("evidence")
        return found if isinstance(found, list) else [] if found is None else [found]


def dump_meta(meta: Mapping[str, Any]) -> str:
    """An entry's metadata as it is stored; empty if there is none."""
    return _JSON.encode(meta) if meta else ""
