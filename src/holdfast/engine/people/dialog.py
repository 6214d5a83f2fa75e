"""The questions and answers of a run, read without its states, and kept up to date."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.engine.people.questions import Question, asked
from holdfast.errors import CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.model import CheckpointType, Entry, Kind
from holdfast.operations.answers import counts
from holdfast.operations.reading import outages_named

_ELSEWHERE = (Kind.OPEN, Kind.ROLLBACK, Kind.TOMBSTONE, Kind.TRIM)


class Dialog:
    """The questions and answers that led to a run's head. Reading them blocks.

    Of the journal, values are read only where they are wanted: a run may be long and its
    states large.
    """

    def __init__(self, core: Core, run: str) -> None:
        self._core = core
        self._journals = core.journals
        self.run = run
        self._last: Entry | None = None  # that was taken note of
        self._questions: dict[str, Entry] = {}  # by key: those that are open
        self._answers: dict[str, Entry] = {}
        self._read_before: dict[bytes, Question] = {}  # by entry id

    def catch_up(self, head: Entry) -> None:
        """Take note of everything up to this entry, be it in the store or only queued here."""
        news = self._news(head)
        if news is None or any(entry.kind in _ELSEWHERE for entry in news):
            with outages_named(self.run):
                news = self._journals.trail(self.run, head.seq, bodies=False)
            self._questions.clear()
            self._answers.clear()
        self.take(news)
        self._last = head

    def take(self, entries: Iterable[Entry]) -> None:
        """Take note of these, which come next."""
        for entry in entries:
            self._take(entry)

    def open_questions(self) -> list[Question]:
        """Those that were asked and not answered yet, in the order they were asked."""
        return [self._read(entry) for entry in self._questions.values()]

    def asking(self, key: str) -> Entry:
        """The entry of an open question, proved."""
        entry = self._questions[key]
        found = entry if entry.body else self._journals.entry(entry.run, entry.seq)
        if found is None:
            raise CheckpointNotFoundError(self.run)
        return found

    def full_key(self, name: str) -> str:
        """The matching key: the last part of one, such as `price` of `offer/price`, is enough."""
        known = (*self._questions, *self._answers)
        meant = [key for key in known if key.rpartition("/")[2] == name]
        return meant[0] if name not in known and len(meant) == 1 else name

    def answered(self, key: str | None) -> Entry | None:
        """The answer to a question, or the newest of all, if there is one."""
        if key is None:
            return next(reversed(self._answers.values()), None)
        return self._answers.get(key)

    def _news(self, head: Entry) -> list[Entry] | None:
        """What came since; None where it has to be read from the beginning."""
        last = self._last
        if last is None:
            return None
        queued = self._journals.writer.queued(self.run)
        if queued and queued[0].seq == last.seq + 1 and queued[-1].seq >= head.seq:
            return [entry for entry in queued if entry.seq <= head.seq]
        with outages_named(self.run):
            found = list(self._journals.entries(self.run, after=last.seq - 1))
        if not found or found[0].entry_id != last.entry_id:
            return None  # what was queued never reached the store: another entry took its place
        return [entry for entry in found[1:] if entry.seq <= head.seq]

    def _take(self, entry: Entry) -> None:
        key = str(entry.step)
        if entry.kind == Kind.QUESTION:
            self._questions[key] = entry
            self._answers.pop(key, None)
        elif entry.kind == Kind.ANSWER and counts(self._core, entry):
            self._questions.pop(key, None)
            self._answers[key] = entry
        elif entry.type == CheckpointType.MANUAL_CHECKPOINT:
            self._questions.clear()  # someone edited the state: what is asked is asked anew

    def _read(self, entry: Entry) -> Question:
        """The question that an entry records: from the store only once, and while it is queued never."""
        known = self._read_before.get(entry.entry_id)
        if known is None:
            journals = self._journals
            found = self.asking(str(entry.step))
            known = asked(found, journals.value(found.run, found.seq, found))
            self._read_before[entry.entry_id] = known
        return known
