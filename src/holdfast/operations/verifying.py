"""Whether what is stored is what was written: every checksum, every digest, the whole chain."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from holdfast import markup
from holdfast.codec import envelope
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError, KeyMissingError
from holdfast.errors.base import named_journals
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub, state_seq
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import entries_of
from holdfast.kernel.proving import Prover
from holdfast.model import Entry, check_id, verdict_journal
from holdfast.store import PAGE

_CARD: Final = markup.card("run_id", "ok", "entries", "proved", "rewritten", "deleted", "problems")


class Problem(NamedTuple):
    """Something that is not as it was written."""

    run_id: str
    seq: int | None
    reason: str

    def __str__(self) -> str:
        place = self.run_id if self.seq is None else f"{self.run_id}@{self.seq}"
        return named_journals(f"{place}: {self.reason}")


class Integrity(NamedTuple):
    """What checking a run found."""

    run_id: str
    entries: int
    proved: int  # the digest vouches for every byte
    rewritten: int  # retention re-encoded the state; the marker that it wrote vouches for it
    deleted: int  # stubs: their place in the chain is kept, their content is gone
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def _repr_html_(self) -> str:
        return _CARD(self)


def verify(core: Core, run_id: str) -> Integrity:
    """Check every entry of a run and the chain that binds them; reads the whole run.

    Raises `CheckpointNotFoundError` for an unknown run; what is wrong with a known one is
    reported, not raised. That newer entries were cut off altogether can't be seen from what is
    left.
    """
    found = examine(core.journals, check_id("run_id", run_id))
    beside = verdict_journal(run_id)
    if core.journals.head_seq(beside) is None:
        return found
    wrong = examine(core.journals, beside).problems
    verdicts = (Problem(run_id, None, f"its verdicts: at {at}: {why}") for _, at, why in wrong)
    return found._replace(problems=(*found.problems, *verdicts))


def examine(journals: Journals, run_id: str) -> Integrity:
    """As `verify`, for any journal."""
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    prover = Prover(journals.vouch, journals.admits, every_byte=True)
    head: Entry | None = None
    for found in entries_of(journals.store, run_id, False, None, PAGE, bodies=True):
        if isinstance(found, CheckpointCorruptedError):
            problems.append(Problem(run_id, found.seq, found.reason))
            if found.seq is not None:
                prover.pass_over(found.seq, found.digest)
            continue
        counts["entries"] += 1
        head = found
        try:
            counts[_proof(journals, prover, found)] += 1
        except CheckpointCorruptedError as error:
            problems.append(Problem(run_id, found.seq, error.reason))
    if head is not None:
        unreadable = _unreadable(journals, head)
        problems += [problem for problem in unreadable if problem not in problems]
    elif not problems:
        raise CheckpointNotFoundError(run_id)
    proved, rewritten, deleted = (counts[name] for name in ("proved", "rewritten", "deleted"))
    return Integrity(run_id, counts["entries"], proved, rewritten, deleted, tuple(problems))


def _proof(journals: Journals, prover: Prover, entry: Entry) -> str:
    """What vouches for an entry. Raises `CheckpointCorruptedError` if nothing does."""
    if is_stub(entry):
        prover.pass_over(entry.seq, entry.digest)
        journals.check_stub(entry, prover.digest_before(entry))
        return "deleted"
    proof = prover.prove(entry)
    if proof is None:
        base = f"{entry.run}@{envelope.base(entry)}"
        reason = f"the state it builds on, {base}, is gone or not proved"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    return proof


def _unreadable(journals: Journals, head: Entry) -> list[Problem]:
    """Why the current state can't be loaded, if it can't."""
    wanted = state_seq(head)
    if wanted is None:
        return []
    try:
        journals.value(head.run, wanted, as_data=True)
    except CheckpointCorruptedError as error:
        return [Problem(error.run_id, error.seq, error.reason)]
    except KeyMissingError:  # the chain is whole, which is all that can be seen without the key
        return []
    return []
