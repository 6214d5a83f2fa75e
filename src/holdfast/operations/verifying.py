"""Whether what is stored is what was written: every checksum, every digest, the whole chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.codec import envelope
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.reader import is_stub, state_seq
from holdfast.model import Entry, Kind, begins_term, check_id
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
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    previous: Entry | None = None
    for entry in _around_damage(core.journals, run_id, problems):
        if previous is not None and entry.seq != previous.seq + 1:
            broken = {problem.seq for problem in problems}
            # Stops at the first that is missing: an altered seq may leave a gap of any size.
            if not broken.issuperset(range(previous.seq + 1, entry.seq)):
                reason = f"the entries between {previous.seq} and it are missing"
                problems.append(Problem(run_id, entry.seq, reason))
        try:
            counts[_proof(entry, previous)] += 1
        except CheckpointCorruptedError as error:
            problems.append(Problem(run_id, entry.seq, error.reason))
        counts["entries"] += 1
        previous = entry
    if previous is not None:
        found = _unreadable(core.journals, previous)
        problems += [problem for problem in found if problem not in problems]
    elif not problems:
        raise CheckpointNotFoundError(run_id)
    proved, rewritten, deleted = (counts[name] for name in ("proved", "rewritten", "deleted"))
    return Integrity(run_id, counts["entries"], proved, rewritten, deleted, tuple(problems))


def _proof(entry: Entry, previous: Entry | None) -> Literal["proved", "rewritten", "deleted"]:
    """What vouches for an entry. Raises `CheckpointCorruptedError` if nothing does."""
    if is_stub(entry):
        return "deleted"
    before = b"" if previous is None else previous.digest
    if previous is None and entry.kind == Kind.TOMBSTONE:
        before = Meta(entry).digest_before  # of what was erased before it
    proof = envelope.proves(entry, before)
    if proof is False:
        reason = "its digest does not follow from the entry before it"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    if proof is None and previous is not None and previous.seq == entry.seq - 1:
        # Until the heads index, a save by hand always began a term; a stub's status is not known.
        may = begins_term(entry.kind, entry.status, None)
        must = may and begins_term(entry.kind, entry.status, entry.status)
        term = entry.seq if may else previous.term
        if entry.term != term and (must or not may or entry.term != previous.term):
            raise CheckpointCorruptedError(entry.run, entry.seq, f"its term is not {term}")
    return "proved" if proof else "rewritten"


def _around_damage(journals: Journals, run: str, problems: list[Problem]) -> Iterator[Entry]:
    """Every entry that can be read; those that can't become problems."""
    after = -1
    while True:
        try:
            page = journals.store.read(run, after=after)
        except CheckpointCorruptedError as error:
            problems.append(Problem(run, error.seq, error.reason))
            if error.seq is None or error.seq <= after:
                return
            before = error.seq - after - 1
            page = journals.store.read(run, after=after, limit=before) if before else []
            yield from (entry for entry in page if entry.seq < error.seq)
            after = error.seq
            continue
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def _unreadable(journals: Journals, head: Entry) -> list[Problem]:
    """Why the current state can't be loaded, if it can't."""
    wanted = state_seq(head)
    if wanted is None:
        return []
    try:
        journals.value(head.run, wanted)
    except CheckpointCorruptedError as error:
        return [Problem(error.run_id, error.seq, error.reason)]
    return []
