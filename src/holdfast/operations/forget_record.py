"""The store's own record of what is forgotten: written before the first run goes. Blocks.

It says what is about to go, then what went. If the process dies in between, the next `forget` of
the same subject finds it, and its receipt covers both. Ids are hashed, as in a receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.checkpoint import to_datetime
from holdfast.codec.meta import Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.appending import append
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.reader import all_runs
from holdfast.kernel.store_id import store_id
from holdfast.model import FORGETTINGS, Entry, Kind, Status, forget_journal
from holdfast.operations.receipts import Forgotten, Receipt, hashed
from holdfast.operations.subjects import Of
from holdfast.store import RunFilter

_PAGE: Final = 200  # runs that one entry names


class Record:
    """What one store knows of one forgetting."""

    def __init__(self, core: Core, identity: str) -> None:
        self._core = core
        self.identity = identity
        self.header: dict[str, Any] = {}
        self.began = 0
        self.doomed: dict[str, Forgotten] = {}  # by the hash of the id
        self._gone: dict[str, Forgotten] = {}
        self._end: dict[str, Any] | None = None
        for entry in core.journals.entries(forget_journal(identity)):
            self._read(entry)

    @classmethod
    def begin(cls, core: Core, of: Of, value: str, by: str | None) -> Record:
        """Record that a forgetting begins."""
        identity, salt = core.journals.new_birth(), core.journals.entropy(16).hex()
        header = {
            "of": of,
            "subject": hashed(salt, of, value),
            "salt": salt,
            "store": store_id(core),
            "by": by,
        }
        if core.journals.owner is not None:  # only what is theirs goes
            header["bound"] = hashed(salt, "owner", core.journals.owner)
        _append(core, identity, Status.OPEN, {"forgetting": header})
        return cls(core, identity)

    @property
    def is_over(self) -> bool:
        """Whether it was finished."""
        return self._end is not None

    def is_of(self, of: Of, value: str) -> bool:
        """Whether it is about this owner, thread or run, for the same owner if one is bound."""
        salt, subject = self.header.get("salt", ""), self.header.get("subject")
        owner = self._core.journals.owner
        bound = None if owner is None else hashed(salt, "owner", owner)
        return (
            self.header.get("of") == of
            and subject == hashed(salt, of, value)
            and self.header.get("bound") == bound
        )

    def name(self, run_id: str) -> str:
        """The hash of the id of a run."""
        return hashed(self.header["salt"], "run", run_id)

    def doom(self, runs: Iterable[Forgotten]) -> None:
        """Record, durably, which runs are about to go."""
        new = [run for run in runs if self.doomed.get(run.name) != run._replace(run_id="")]
        for page in _pages(new):
            rows = [[r.name, r.status, r.checkpoints, r.entries, r.digest] for r in page]
            _append(self._core, self.identity, Status.OPEN, {"doomed": rows})
        self.doomed |= {run.name: run._replace(run_id="") for run in new}

    def finish(self, gone: list[Forgotten], keys: tuple[str, ...]) -> Receipt:
        """Record, durably, what went; returns the receipt."""
        for page in _pages(gone):
            rows = [[run.name, run.seq, run.tombstone] for run in page]
            _append(self._core, self.identity, Status.OPEN, {"gone": rows})
        now = self._core.journals.clock.now()
        receipt = self.receipt(gone, now, keys)
        self._end = {
            "at": now,
            "keys": list(keys),
            "sha256": receipt.to_dict()["sha256"],
        }
        _append(self._core, self.identity, Status.COMPLETED, {"receipt": self._end})
        return receipt

    def receipt(
        self,
        gone: Iterable[Forgotten],
        now: int,
        keys: tuple[str, ...] = (),
        *,
        complete: bool = True,
    ) -> Receipt:
        """What was done by then, as a receipt."""
        return Receipt(
            self.identity,
            self.header["store"],
            self.header["of"],
            self.header["subject"],
            self.header["salt"],
            to_datetime(self.began),
            to_datetime(now),
            self.header["by"],
            tuple(sorted(gone, key=lambda run: (run.run_id, run.name))),
            keys,
            complete,
        )

    def recorded(self) -> Receipt | None:
        """The receipt that was given; None if it was never finished."""
        if self._end is None:
            return None
        gone = [self._gone[name] for name in self._gone]
        return self.receipt(gone, self._end["at"], tuple(self._end["keys"]))

    @property
    def digest(self) -> str | None:
        """The digest of the receipt that was given."""
        return None if self._end is None else self._end["sha256"]

    def _read(self, entry: Entry) -> None:
        meta = Meta(entry)
        if meta.forgetting is not None:
            self.header, self.began = meta.forgetting, entry.at
        for name, status, checkpoints, entries, digest in meta.doomed:
            self.doomed[name] = Forgotten("", name, status, checkpoints, entries, digest)
        for name, seq, tombstone in meta.gone:
            self._gone[name] = self.doomed[name]._replace(seq=seq, tombstone=tombstone)
        if meta.receipt is not None:
            self._end = meta.receipt


def unfinished(core: Core, of: Of, value: str) -> Record | None:
    """The record of a forgetting of this owner, thread or run that was not finished."""
    for record in records(core, status=Status.OPEN):
        if record.is_of(of, value) and not record.is_over:
            return record
    return None


def records(core: Core, *, status: str | None = None) -> Iterator[Record]:
    """What the store has forgotten; what can't be read is left out."""
    where = RunFilter(prefix=FORGETTINGS, status=status)
    for head in all_runs(core.journals.store, where):
        try:
            yield Record(core, head.run.removeprefix(FORGETTINGS))
        except (CheckpointCorruptedError, KeyError, TypeError, ValueError):
            continue


def find_record(core: Core, identity: str) -> Record | None:
    """The record of one receipt; None if the store has none that can be read."""
    try:
        found = Record(core, identity) if identity else None
    except (CheckpointCorruptedError, KeyError, TypeError, ValueError):
        return None
    return found if found is not None and found.header else None


def _append(core: Core, identity: str, status: Status, facts: dict[str, Any]) -> None:
    draft = Draft(Kind.MEMBER.value, status.value, meta=dump_meta(facts))
    core.drive(append(core, forget_journal(identity), draft))


def _pages(runs: list[Forgotten]) -> Iterator[list[Forgotten]]:
    for place in range(0, len(runs), _PAGE):
        yield runs[place : place + _PAGE]
