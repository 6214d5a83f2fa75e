"""Whether what is stored is what was written: every checksum, every digest, the whole chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.codec import envelope
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.reader import state_seq
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.store import PAGE


class Problem(NamedTuple):
    """Something that is not as it was written."""

    run_id: str
    seq: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.run_id}@{self.seq}: {self.reason}"


class Integrity(NamedTuple):
    """What checking a run found."""

    run_id: str
    entries: int
    proved: int  # the digest vouches for every byte
    rewritten: int  # retention re-encoded the state; only the checksum vouches for it
    deleted: int  # stubs: their place in the chain is kept, their content is gone
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(core: Core, run_id: str) -> Integrity:
    """Check every entry of a run and the chain that binds them; reads the whole run.

    Raises `CheckpointNotFoundError` for an unknown run; what is wrong with a known one is
    reported, not raised. That newer entries were cut off altogether can't be seen from what is
    left.
    """
    check_id("run_id", run_id)
    counts = {True: 0, None: 0, "deleted": 0}
    problems: list[Problem] = []
    previous: Entry | None = None
    entries = 0
    for entry in _around_damage(core.journals, run_id, problems):
        entries += 1
        broken = {problem.seq for problem in problems}
        if (
            previous is not None
            and entry.seq != previous.seq + 1
            and not broken.issuperset(range(previous.seq + 1, entry.seq))
        ):
            problems.append(
                Problem(run_id, entry.seq, f"nothing stands between it and {previous.seq}")
            )
        if entry.status == Status.DELETED and not entry.body:
            counts["deleted"] += 1
        else:
            try:
                proof = envelope.proves(entry, _digest_before(entry, previous))
                if proof is False:
                    problems.append(
                        Problem(
                            run_id, entry.seq, "its digest does not follow from the entry before it"
                        )
                    )
                else:
                    counts[proof] += 1
            except CheckpointCorruptedError as error:
                problems.append(Problem(run_id, entry.seq, error.reason))
        previous = entry
    if previous is None:
        if not problems:
            raise CheckpointNotFoundError(run_id)
        return Integrity(run_id, entries, 0, 0, 0, tuple(problems))
    problems += [found for found in _unreadable(core.journals, previous) if found not in problems]
    return Integrity(
        run_id, entries, counts[True], counts[None], counts["deleted"], tuple(problems)
    )


def _around_damage(journals: Journals, run: str, problems: list[Problem]) -> Iterator[Entry]:
    """Every entry that can be read; those that can't become problems."""
    after = -1
    while True:
        limit = PAGE
        try:
            page = journals.store.read(run, after=after, limit=limit)
        except CheckpointCorruptedError as error:
            problems.append(Problem(run, error.seq, error.reason))
            if error.seq is None or error.seq <= after:
                return
            limit = error.seq - after - 1
            page = journals.store.read(run, after=after, limit=limit) if limit else []
            yield from (entry for entry in page if entry.seq < error.seq)
            after = error.seq
            continue
        yield from page
        if len(page) < limit:
            return
        after = page[-1].seq


def _digest_before(entry: Entry, previous: Entry | None) -> bytes:
    if previous is not None:
        return previous.digest
    if (
        entry.kind == Kind.TOMBSTONE
    ):  # what stood before was erased; the tombstone remembers its digest
        return bytes.fromhex(Meta(entry).after)
    return b""


def _unreadable(journals: Journals, head: Entry) -> list[Problem]:
    """The current state must not only be unaltered: it must come back."""
    wanted = state_seq(head)
    if wanted is None:
        return []
    try:
        journals.value(head.run, wanted)
    except CheckpointCorruptedError as error:
        return [Problem(error.run_id, error.seq, error.reason)]
    return []
