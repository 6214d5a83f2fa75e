"""Whether what is stored is what was written: every checksum, every digest, the whole chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any, Final, NamedTuple

from holdfast import markup
from holdfast.codec import envelope
from holdfast.codec.meta import claimed_so_far
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    KeyDestroyedError,
    KeyMissingError,
    WrongKeyError,
)
from holdfast.errors.base import named_journals
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub, state_seq
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import entries_of
from holdfast.kernel.proving import MARKERS, Prover
from holdfast.kernel.reader import all_heads, all_runs
from holdfast.model import (
    HIDDEN,
    KEYS,
    Entry,
    Status,
    check_id,
    is_passing,
    thread_journal,
    verdict_journal,
)
from holdfast.operations.copying import Progress, unseen
from holdfast.operations.spreading import (
    LAST_HIDDEN,
    Journal,
    Page,
    beside,
    can_be_scanned,
    processes_for,
    spread,
)
from holdfast.store import PAGE, RunFilter, Store

_CARD: Final = markup.card("run_id", "ok", "entries", "proved", "rewritten", "deleted", "problems")
_COUNTED: Final = ("entries", "proved", "rewritten", "deleted")


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


class ChainReport(NamedTuple):
    """What proving the chains of runs, or of a whole store, found."""

    runs: int = 0  # deleted ones too, of which a tombstone is left
    journals: int = 0  # beside the runs: verdicts, threads, aliases, keys and the store's own
    entries: int = 0
    proved: int = 0
    rewritten: int = 0
    deleted: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"ok": self.ok, **self._asdict(), "problems": list(map(str, self.problems))}


def verify_chain(
    core: Core,
    run_ids: Iterable[str] | None = None,
    *,
    progress: Progress = unseen,
    processes: int = 1,
) -> ChainReport:
    """Prove the histories of these runs, or of the whole store, from the first entry to the head.

    Every entry, its digest, its checksum, what it builds on and what says that entries before it
    were deleted; also of the journals beside the runs, and of a whole store, whether the index is
    what the journals say. Needs no key: digests are of what is stored. Claims are not checked.
    `progress` is called with the name of each journal. It takes little memory, however much is
    stored. Of a large store that can be shared, so many `processes` read parts, if they can be
    forked.

    Raises `CheckpointNotFoundError` for an unknown run; what is wrong is reported, not raised. That
    newer entries were cut off, or a run removed, can't be seen from what is left: see
    `verify_anchor`.
    """
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    store = core.journals.store
    check_index = partial(store.rebuild, write=False)
    with beside(store, check_index, processes=processes if run_ids is None else 1) as wrong:
        for page in _pages(core, run_ids, processes):
            for found in page:
                name = found.run_id
                counts["journals" if name.startswith(HIDDEN) else "runs"] += 1
                counts.update({each: getattr(found, each) for each in _COUNTED})
                problems += found.problems
                progress(name)
        if run_ids is None:
            problems += _index(wrong())
    return ChainReport(**counts, problems=tuple(problems))


def _pages(core: Core, run_ids: Iterable[str] | None, processes: int) -> Iterator[list[Integrity]]:
    """What is found of these runs and the journals beside them, or of all journals of the store."""

    def settled(page: Iterable[Journal]) -> list[Integrity]:
        found = []
        for journal in page:
            with suppress(CheckpointNotFoundError):  # it expired meanwhile
                found.append(_settled(core.journals, journal))
        return found

    store = core.journals.store
    if run_ids is None and can_be_scanned(store):
        return spread(
            store,
            lambda page: settled(one for one in page.journals if not is_passing(one.name)),
            processes=processes_for(store, processes),
        )
    if run_ids is None:
        return (settled([Journal(head.run)]) for head in all_heads(store))
    return (settled([Journal(name)]) for name in _named(core, run_ids))


def _named(core: Core, run_ids: Iterable[str]) -> Iterator[str]:
    """These runs, each with its journals."""
    named = [check_id("run_id", run_id) for run_id in run_ids]
    for run_id in named:
        if core.journals.head_seq(run_id) is None:
            raise CheckpointNotFoundError(run_id)
    return iter(dict.fromkeys(name for run_id in named for name in _beside(core, run_id)))


def _beside(core: Core, run_id: str) -> Iterator[str]:
    """A run, and the journals that there are of its verdicts and its thread."""
    yield run_id
    with suppress(CheckpointCorruptedError):
        head = core.journals.store.read(run_id, newest_first=True, limit=1, bodies=False)
        thread = head[0].thread if head else None
        others = [verdict_journal(run_id), *([thread_journal(thread)] if thread else [])]
        yield from (name for name in others if core.journals.head_seq(name) is not None)


def _settled(journals: Journals, journal: Journal) -> Integrity:
    """As `examine`; again, if others wrote to the journal while it was read."""
    name, before = journal.name, None
    found = None if journal.entries is None else examine(journals, name, journal.entries)
    while found is None or not found.ok:
        head = journals.head_seq(name)
        if found is not None and head == before:
            break
        found, before = examine(journals, name), head
    return found


def _index(wrong: int) -> Iterator[Problem]:
    if wrong:
        rows = "1 row is" if wrong == 1 else f"{wrong:,} rows are"
        reason = f"{rows} not what the runs say, so lists may hide runs; `holdfast doctor --repair`"
        yield Problem("the index of runs", None, f"{reason} makes them anew")


def verify(core: Core, run_id: str) -> Integrity:
    """Check every entry of a run and the chain that binds them; reads the whole run.

    Raises `CheckpointNotFoundError` for an unknown run; what is wrong with a known one is
    reported, not raised. That newer entries were cut off altogether can't be seen from what is
    left.
    """
    found = examine(core.journals, check_id("run_id", run_id))
    return _with_verdicts(core, found)


def _with_verdicts(core: Core, found: Integrity) -> Integrity:
    """What was found of a run, and of the journal of its verdicts if there is one."""
    beside = verdict_journal(found.run_id)
    if core.journals.head_seq(beside) is None:
        return found
    wrong = examine(core.journals, beside).problems
    verdicts = (
        Problem(found.run_id, None, f"its verdicts: at {at}: {why}") for _, at, why in wrong
    )
    return found._replace(problems=(*found.problems, *verdicts))


class Checked(NamedTuple):
    """What checking a run among all found."""

    integrity: Integrity
    claims: bool = True  # whether anything may have been claimed in it


def verify_runs(core: Core, *, processes: int = 1) -> Iterator[list[Checked]]:
    """As `verify`, for all runs of a store that can be scanned, some at a time, by id."""
    store = core.journals.store

    def check(page: Page) -> list[Checked]:
        judged = _with_verdict_journals(store, page)
        found = []
        for run_id, head, entries in page.journals:
            if _is_deleted(store, run_id, head):
                continue
            with suppress(CheckpointNotFoundError):
                integrity = examine(core.journals, run_id, entries)
                claims = entries is None or any(map(_may_claim, entries))
                if run_id in judged:
                    integrity = _with_verdicts(core, integrity)
                found.append(Checked(integrity, claims))
        return found

    return spread(store, check, after=LAST_HIDDEN, processes=processes_for(store, processes))


def _with_verdict_journals(store: Store, page: Page) -> set[str]:
    """The runs on a page that have verdicts."""
    first, last = verdict_journal(page.after), verdict_journal(page.last)
    where = RunFilter(prefix=verdict_journal(""))
    heads = takewhile(lambda head: head.run <= last, all_runs(store, where, after=first))
    return {head.run.removeprefix(where.prefix) for head in heads}


def _is_deleted(store: Store, run_id: str, head: Entry | None) -> bool:
    try:
        found = [head] if head else store.read(run_id, newest_first=True, limit=1, bodies=False)
    except CheckpointCorruptedError:
        return False
    return not found or found[0].status == Status.DELETED


def _may_claim(entry: Entry) -> bool:
    return claimed_so_far(entry.meta) or entry.kind in MARKERS  # which has what deleted ones left


def examine(journals: Journals, run_id: str, entries: list[Entry] | None = None) -> Integrity:
    """As `verify`, for any journal; with all its `entries`, if these were read already."""
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    admits = None if run_id.startswith(KEYS) else journals.admits  # the ring seals what is in these
    prover = Prover(journals.vouch, admits, every_byte=True)
    head: Entry | None = None
    stored = entries_of(journals.store, run_id, False, None, PAGE, bodies=True)
    for found in stored if entries is None else entries:
        if isinstance(found, CheckpointCorruptedError):
            problems.append(Problem(run_id, found.seq, found.reason))
            if found.seq is not None:
                prover.pass_over(found.seq, found.digest)
            continue
        counts["entries"] += 1
        head = found
        try:
            counts[_proof(journals, prover, found)] += 1
        except KeyDestroyedError as error:
            if run_id.startswith(HIDDEN):  # others go on using the list of a thread, for example
                counts["proved"] += 1  # its digest is; the key that could tell more was destroyed
            else:
                problems.append(Problem(run_id, found.seq, error.reason))
        except CheckpointCorruptedError as error:
            at = found.seq if error.seq is None else error.seq  # or the one before a deleted one
            if not problems or problems[-1].seq != at:
                problems.append(Problem(run_id, at, error.reason))
    if head is not None:
        proved_now = None if problems else entries
        unreadable = _unreadable(journals, head, proved_now)
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


def _unreadable(
    journals: Journals, head: Entry, proved: list[Entry] | None = None
) -> list[Problem]:
    """Why the current state can't be loaded, if it can't. What is `proved` is not read again."""
    wanted = state_seq(head)
    if wanted is None:
        return []
    last = proved[wanted] if proved and 0 <= wanted < len(proved) else None
    try:
        journals.value(
            head.run, wanted, None if last is None or is_stub(last) else last, as_data=True
        )
    except CheckpointCorruptedError as error:
        return [Problem(error.run_id, error.seq, error.reason)]
    except (KeyMissingError, WrongKeyError, KeyDestroyedError):
        return []  # what is stored is proved, and only the key can tell more
    return []
