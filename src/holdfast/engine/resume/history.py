"""What a journal says about a run that is to be continued."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property, partial
from itertools import islice
from typing import Any

from holdfast.codec.meta import EPOCH, Meta, claimed_so_far, meta_text, without_arguments
from holdfast.codec.secrets import Carrying
from holdfast.engine.people.questions import FAIL
from holdfast.engine.program import Stored
from holdfast.engine.resume.stops import (
    TIMER,
    WAITS,
    asks_to_resume,
    last_to_resume,
    waits_by_itself,
)
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.kernel import compose
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_live
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import Damage
from holdfast.logs import logger
from holdfast.model import Entry, Kind, Status
from holdfast.operations.answers import authentic
from holdfast.operations.reading import outages_named

log = logger()

_UNHEARD = 1000  # entries: a request is heard with the next save


class History:
    """The entries that led to a run's head, oldest first. Reading it blocks.

    With `whole`, from the opening on; otherwise from the newest whole state on.
    """

    def __init__(self, core: Core, run: str, *, whole: bool) -> None:
        self.core = core
        self.run = run
        self._whole = whole
        self._metas: dict[int, Meta] = {}  # by seq
        self._alike: dict[str, Meta] = {}  # of results, by what those of a step say alike
        self._supplied: Carrying | None = None  # the inputs, if given again with secrets
        with outages_named(run):
            self._read(core.journals, run, whole)

    def _read(self, journals: Journals, run: str, whole: bool) -> None:
        head = journals.checked_head(run)
        if head is None or head.status == Status.DELETED:
            raise CheckpointNotFoundError(run)
        self.head = head
        first = 0
        if not whole:
            states = (e.seq for e in journals.branch_of(head) if e.kind == Kind.CHECKPOINT)
            first = next(states, 0)
        self._requests = _requests_before(journals, run, first) if first else []
        trail = journals.trail(run, start=first)
        opening = trail[0] if trail and trail[0].kind == Kind.OPEN else journals.opening(run)
        if opening is None:
            raise CheckpointNotFoundError(run)
        self.opening = opening
        self.hold(e for e in trail if e.seq > opening.seq)

    def hold(self, trail: Iterable[Entry]) -> None:
        """These are its entries."""
        self.__dict__.pop("versions", None)  # of others, if this is a copy
        self.entries = authentic(self.core, trail)
        self.telling = [e for e in self.entries if not _is_plain(e)]  # more than a step's result

    def read_on(self, before: int) -> History:
        """The history up to the seq `before`, with what was appended since this one was read."""
        with outages_named(self.run):
            trail = self.core.journals.trail(self.run, start=self.head.seq + 1)
            news = authentic(self.core, trail)
        if not self._whole or any(e.kind in (Kind.OPEN, Kind.TOMBSTONE) for e in news):
            found = History(self.core, self.run, whole=self._whole)
            found._supplied = self._supplied
        else:
            back = next((e for e in news if e.kind == Kind.ROLLBACK), None)
            last = self.head.seq if back is None else -1 if back.parent is None else back.parent
            found = copy(self)
            found.head = trail[-1] if trail else self.head
            found.entries = [*(e for e in self.entries if e.seq <= last), *news]
        found.hold(e for e in found.entries if e.seq < before)
        return found

    def back_to(self, target: Entry | None) -> History:
        """The history as if the run had gone back to a checkpoint; None: to its beginning.

        Without what is kept of the decisions and answers since.
        """
        found, trail = copy(self), list[Entry]()
        if target is not None:
            journals, first = self.core.journals, 0
            if not self._whole:
                branch = journals.branch_of(target)
                first = next((e.seq for e in branch if e.kind == Kind.CHECKPOINT), 0)
            with outages_named(self.run):
                trail = journals.trail(self.run, target.seq, start=first)
        found.hold(e for e in trail if e.seq > self.opening.seq)
        return found

    def meta(self, entry: Entry) -> Meta:
        """The metadata of one of its entries, parsed once."""
        found = self._metas.get(entry.seq)
        if found is None:
            found = self._metas[entry.seq] = Meta(entry)
        return found

    def meta_of_result(self, entry: Entry) -> tuple[Meta, str | None]:
        """The metadata of a step's result, and the digest of its arguments.

        There may be very many: what those of a step say alike is parsed once, and kept once.
        """
        text, arguments = without_arguments(meta_text(entry))
        found = self._alike.get(text)
        if found is None:
            found = self._alike[text] = Meta(entry._replace(meta=text))
        return found, arguments

    @property
    def inputs(self) -> Stored:
        """What the run was started with."""
        return self.stored(self.opening)

    def supply(self, inputs: Any) -> None:
        """Take secrets from the inputs that are given again, rather than ask for them."""
        encoding = compose.encode(self.core, self.run, inputs, root="inputs")
        self._supplied = encoding if isinstance(encoding, Carrying) else None

    @property
    def inputs_as_data(self) -> Any:
        """What the run was started with, for comparing: without secrets."""
        journals, entry = self.core.journals, self.opening
        return journals.value(entry.run, entry.seq, entry, as_data=True)

    @cached_property
    def versions(self) -> dict[str, Entry]:
        """The versions of the flow that executed it, each with the first entry that says so."""
        found: dict[str, Entry] = {}
        for entry in (self.opening, *self.entries):
            is_result = entry.kind == Kind.RESULT
            meta = self.meta_of_result(entry)[0] if is_result else self.meta(entry)
            if meta.flow_version is not None:
                found.setdefault(meta.flow_version, entry)
        return found

    @property
    def birth(self) -> str:
        """Distinguishes this run from earlier and later ones with its id."""
        return self.meta(self.opening).birth_id

    @property
    def epoch(self) -> int:
        """The seq of the newest rollback, or 0: steps after it are executed anew.

        A rollback from checkpoints that did not verify does not count: it repairs steps.
        """
        return max(map(self._epoch_of, self.entries), default=0)

    def _epoch_of(self, entry: Entry) -> int:
        if entry.kind == Kind.ROLLBACK and self.meta(entry).rejected is None:
            return entry.seq
        return self.meta(entry).epoch if EPOCH in entry.meta else 0

    @property
    def repairs(self) -> bool:
        """Whether the run went back because checkpoints did not verify."""
        return any(self.meta(e).rejected is not None for e in self.of(Kind.ROLLBACK))

    @property
    def may_claim(self) -> bool:
        """Whether anything may have been claimed about the world, as far as is known here."""
        return not self._whole or self.claimed or self._has_gaps

    @property
    def claimed(self) -> bool:
        """Whether one of its entries claims something, or says that an earlier one did."""
        return any(claimed_so_far(entry.meta) for entry in self.entries)

    @property
    def _has_gaps(self) -> bool:
        """Whether checkpoints were deleted: what they claimed may still bind later ones."""
        states = [entry for entry in self.entries if is_live(entry)]
        before = (None, *(entry.seq for entry in states))
        others = {e.parent for e, last in zip(states, before, strict=False) if e.parent != last}
        return not others.issubset(before)

    @property
    def ending(self) -> bool:
        """Whether nothing is left to do but to undo steps."""
        return self.rolling_back() is not None or self.wanted() == "cancel"

    @property
    def still_waits(self) -> bool:
        """Whether the run paused for answers that have not come."""
        head = self.head
        if head.status != Status.PAUSED:
            return False
        return head.kind == Kind.QUESTION or self.meta(head).waits_for == "questions"

    @property
    def asked_to_resume(self) -> bool:
        """Whether somebody asked workers to continue the run since it stopped."""
        since = (entry for entry in self.telling if entry.seq > self.head.term)
        return last_to_resume(since) is not None

    @property
    def is_for_workers(self) -> bool:
        """Whether workers may continue the run as it is, rather than people alone.

        They continue what was submitted, left or waits by itself, and undo what was cancelled.
        What failed, was forked or paused by somebody stays so, until one asks for a resume. May
        block.
        """
        if self.asked_to_resume:
            return True
        if self.wanted() == "cancel" or self.head.status in (Status.SUBMITTED, Status.RUNNING):
            return True
        return self.head.status == Status.PAUSED and waits_by_itself(self.core, self.head)

    @property
    def rolled_back(self) -> bool:
        """Whether the run failed, and its steps were undone."""
        return self.head.kind == Kind.FAIL and bool(self.meta(self.head).rolled_back)

    def branch(self, damage: Damage) -> Iterable[Entry]:
        """The live checkpoints of the run, newest first; read again only if not all are here.

        `damage` is called for damaged ones among them.
        """
        if not self._whole:
            return self.core.journals.branch_of(self.head, damage)
        return [entry for entry in reversed(self.entries) if is_live(entry)]

    def since(self, seq: int) -> list[Entry]:
        """The entries from this seq on; without bodies if they have to be read again."""
        if self._whole:
            return [entry for entry in self.entries if entry.seq >= seq]
        return self.core.journals.trail(self.run, start=seq, bodies=False)

    def of(self, *kinds: Kind) -> list[Entry]:
        """The entries of these kinds."""
        entries = self.entries if Kind.RESULT in kinds else self.telling
        return [e for e in entries if e.kind in kinds]

    def stored(self, entry: Entry) -> Stored:
        """What an entry carries, as it is recorded."""
        decode = partial(self.core.journals.decoded, entry.run, entry.seq)
        return Stored(self._encoding(entry), decode)

    def value(self, entry: Entry) -> Any:
        """What an entry carries; None if nothing."""
        if not entry.size:
            return None
        return self.core.journals.decoded(entry.run, entry.seq, self._encoding(entry))

    def _encoding(self, entry: Entry) -> bytes:
        encoding, given = self.core.journals.encoding(entry), self._supplied
        if given is None:
            return encoding
        withheld = given.withheld if entry is self.opening else {}
        return Carrying.of(encoding, given.secrets, withheld)

    def answers(self) -> dict[str, Any]:
        """The answers by question; FAIL where the deadline passed instead.

        If the run failed because of that, the question is asked again.
        """
        found: dict[str, Any] = {}
        for entry in self.of(Kind.QUESTION, Kind.ANSWER, Kind.FAIL):
            meta, key = self.meta(entry), str(entry.step)
            if entry.kind == Kind.QUESTION:
                found.pop(key, None)
            elif entry.kind == Kind.ANSWER:
                found[key] = answer_in(meta, self.value(entry))
            elif meta.of == "run":
                for failed in (meta.step, meta.cause):
                    if found.get(str(failed)) is FAIL:
                        del found[str(failed)]
        return found

    def deaths(self) -> int:
        """How many holders had died, without progress, when the run was claimed last."""
        deaths = 0
        for entry in reversed(self.entries):
            if entry.status in _STOPPED or entry.kind in _PROGRESS:
                break
            deaths += entry.kind == Kind.CLAIM and self.meta(entry).why == "died"
        return deaths

    def cut_short(self) -> Mapping[str, int]:
        """The attempts that a holder dropped when it left the run, by step."""
        for entry in reversed(self.telling):
            if entry.status in _STOPPED:
                break
            if entry.kind == Kind.RELEASE:
                return self.meta(entry).cut_short
        return {}

    def failed_attempts(self) -> dict[str, int]:
        """How often each step failed since the run last stopped, by step."""
        attempts: dict[str, int] = {}
        for entry in self.telling:
            if self._stopped_at(entry):
                attempts.clear()
            elif self._failed_attempt(entry):
                attempts[str(entry.step)] = attempts.get(str(entry.step), 0) + 1
        return attempts

    def due(self) -> dict[str, int]:
        """When the steps that were waiting are to continue: sleeps, and further attempts."""
        sleeps: dict[str, int] = {}
        attempts: dict[str, int] = {}
        for entry in self.telling:
            if self._stopped_at(entry):
                attempts.clear()
            elif entry.kind == Kind.SLEEP or self._failed_attempt(entry):
                found = sleeps if entry.kind == Kind.SLEEP else attempts
                due = self.meta(entry).due
                if due is not None:
                    found[str(entry.step)] = due
        return sleeps | attempts

    def _failed_attempt(self, entry: Entry) -> bool:
        return entry.kind == Kind.FAIL and self.meta(entry).of == "attempt"

    def _stopped_at(self, entry: Entry) -> bool:
        """Whether the run stopped here, rather than to wait for a timer."""
        return entry.status in _STOPPED and self.meta(entry).waits_for != TIMER

    def wanted(self) -> str | None:
        """ "cancel" if someone asked for it and no holder has got to it yet."""
        asked = (*self._requests, *self.of(Kind.REQUEST))
        return "cancel" if any(self.meta(e).action == "cancel" for e in asked) else None

    @property
    def asked_to_pause(self) -> Entry | None:
        """The request to pause that its last holder did not get to, unless it was resumed since.

        The request may have come while the holder recorded that the run waits for a question, a
        child run or a timer: the run then stopped without hearing it.
        """
        if self.ending:
            return None
        for entry in reversed((*reversed(self._requests), *self.telling)):
            if entry.kind == Kind.QUESTION or (entry.kind == Kind.CLAIM and self.meta(entry).again):
                continue  # its holder went on, to stop as it was asked to
            if entry.kind == Kind.PAUSE and self.meta(entry).waits_for in WAITS:
                continue
            if entry.kind == Kind.CLAIM or entry.status != Status.RUNNING or asks_to_resume(entry):
                break
            if entry.kind == Kind.REQUEST and self.meta(entry).action == "pause":
                return entry
        return None

    def rolling_back(self) -> Entry | None:
        """The failure for which the run was being rolled back, if it was."""
        found = (e for e in reversed(self.of(Kind.FAIL)) if self.meta(e).of == "rollback")
        return next(found, None)


def _is_plain(entry: Entry) -> bool:
    """Whether the entry says nothing but that a step of a run under way was finished."""
    is_result = entry.kind == Kind.RESULT and entry.status == Status.RUNNING
    return is_result and entry.type is None


_STOPPED = (Status.PAUSED, Status.FAILED, Status.OPEN)  # nobody executed the run from there on
_PROGRESS = (Kind.RESULT, Kind.CHECKPOINT)


def answer_in(meta: Meta, value: Any) -> Any:
    """What an answer's entry says: its value, or FAIL if the deadline passed instead."""
    return FAIL if meta.expired else value


def _unheard(error: CheckpointCorruptedError) -> None:
    log.warning("%s; a request to cancel that it may have been is not heard", error)


def _requests_before(journals: Journals, run: str, seq: int) -> list[Entry]:
    """Requests that came before a checkpoint which was on its way to the store then."""
    found = []
    before = journals.entries(run, newest_first=True, after=seq, damage=_unheard)
    for entry in islice(before, _UNHEARD):
        if entry.kind in (Kind.ROLLBACK, Kind.CLAIM, Kind.OPEN):
            break  # what was requested before that was heard then
        if entry.kind == Kind.REQUEST:
            found.append(entry)
    return found
