"""Entries and a user's own SQL in one transaction, by way of the writer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.kernel.draft import Draft
from holdfast.kernel.journal import Journals
from holdfast.kernel.ticket import Ticket
from holdfast.kernel.tip import Tip
from holdfast.kernel.writer import Writer
from holdfast.model import Entry, Kind, Status
from holdfast.seams import SYSTEM_CLOCK, SYSTEM_ENTROPY
from holdfast.store import ANY_HEAD, Behind, Store, Work
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing.invariants import entry
from tests import faults
from tests.crash.transactions import raise_error
from tests.waiting import wait_until

LONG = 30.0


class Recording(SQLiteStore):
    """Notes each call, and may be told to fail it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, busy_seconds=0.01)
        self.commits: list[tuple[list[str], bool]] = []
        self.before: list[Exception] = []  # raised in place of a call
        self.after: list[Exception] = []  # raised though it was done

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return self._recorded(entries, False, partial(super().append, entries))

    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        return self._recorded(entries, True, partial(super().append_with, entries, work))

    def _recorded(
        self, entries: Sequence[Entry], work: bool, call: Callable[[], list[bool]]
    ) -> list[bool]:
        self.commits.append(([f"{e.run}@{e.seq}" for e in entries], work))
        if self.before:
            raise self.before.pop()
        outcomes = call()
        if self.after:
            raise self.after.pop()
        return outcomes


class Desk:
    """Submits drafts to a writer of its own, without waiting for them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.writer = Writer(store)
        self.journals = Journals(store, self.writer, SYSTEM_CLOCK, SYSTEM_ENTROPY)

    def tip(self, run: str) -> Tip:
        return self.journals.tip(run) or self.journals.fetch_tip(run, with_state=False)

    def submit(self, run: str, work: Work | None = None, seconds: float = LONG) -> Ticket:
        draft = Draft(Kind.RESULT.value, Status.RUNNING.value)
        ticket = self.journals.extend(
            self.tip(run), [draft], SYSTEM_CLOCK.monotonic() + seconds, work=work
        )
        assert ticket is not None
        return ticket

    def save(self, run: str, work: Work | None = None, seconds: float = LONG) -> None:
        ticket = self.submit(run, work, seconds)
        self.writer.wait(ticket)
        raise_error(ticket)

    def seqs(self, run: str) -> list[int]:
        return [item.seq for item in self.store.read(run)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Recording]:
    with closing(Recording(tmp_path / "runs.db")) as store:
        with closing(sqlite3.connect(store.path)) as db:
            db.execute("CREATE TABLE effects (n INTEGER)")
        yield store


@pytest.fixture
def desk(store: Recording) -> Iterator[Desk]:
    desk = Desk(store)
    yield desk
    desk.writer.close()


class Effect:
    """Work that writes a number and counts its calls."""

    def __init__(self, number: int, then: BaseException | None = None) -> None:
        self.number = number
        self.then = then
        self.calls = 0

    def __call__(self, cursor: Any) -> None:
        self.calls += 1
        cursor.execute("INSERT INTO effects (n) VALUES (?)", (self.number,))
        if self.then is not None:
            raise self.then


def effects(store: SQLiteStore) -> list[int]:
    with closing(sqlite3.connect(store.path)) as db:
        return [row[0] for row in db.execute("SELECT n FROM effects ORDER BY n")]


def test_a_blocking_caller_has_both_done(desk: Desk, store: Recording) -> None:
    for n in range(3):
        desk.save("run", Effect(n))
    assert desk.seqs("run") == [0, 1, 2]
    assert effects(store) == [0, 1, 2]


def test_an_awaiting_caller_has_both_done(desk: Desk, store: Recording) -> None:
    async def main() -> None:
        tickets = [desk.submit(f"run-{n % 3}", Effect(n)) for n in range(9)]
        await asyncio.gather(*map(desk.writer.future, tickets))
        for ticket in tickets:
            raise_error(ticket)

    asyncio.run(main())
    assert effects(store) == list(range(9))
    assert [desk.seqs(f"run-{n}") for n in range(3)] == [[0, 1, 2]] * 3


def test_work_is_alone_in_its_transaction_and_in_its_order(desk: Desk, store: Recording) -> None:
    for run, work in [
        ("b", None), ("a", None), ("b", Effect(1)), ("c", Effect(2)), ("b", None), ("a", None),
        ("a", Effect(3)),
    ]:  # fmt: skip
        desk.submit(run, work)
    desk.writer.drain()
    assert store.commits == [
        (["a@0", "b@0"], False),
        (["b@1"], True),
        (["c@0"], True),
        (["a@1", "b@2"], False),
        (["a@2"], True),
    ]
    assert effects(store) == [1, 2, 3]


@pytest.mark.parametrize("mistake", [KeyError("mine"), hf.StoreUnavailableError("mine")])
def test_an_error_of_work_is_its_submitters_and_nobody_elses(
    desk: Desk, store: Recording, mistake: Exception
) -> None:
    before = desk.submit("other")
    failing = desk.submit("run", Effect(1, mistake))
    behind = desk.submit("run")
    after = desk.submit("other", Effect(2))
    desk.writer.drain()
    with pytest.raises(type(mistake)) as caught:
        raise_error(failing)
    assert caught.value is mistake
    with pytest.raises(hf.ConflictError):  # it was to stand behind what is not there
        raise_error(behind)
    raise_error(before)
    raise_error(after)
    assert (desk.seqs("run"), desk.seqs("other")) == ([], [0, 1])
    assert effects(store) == [2]
    desk.save("run", Effect(3))
    assert desk.seqs("run") == [0]
    assert effects(store) == [2, 3]


def test_the_writers_thread_outlives_whatever_work_raises(desk: Desk, store: Recording) -> None:
    async def main() -> None:
        for mistake in (SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), KeyError(1)):
            ticket = desk.submit("run", Effect(1, mistake))
            await asyncio.wait_for(desk.writer.future(ticket), LONG)
            with pytest.raises(type(mistake)):
                raise_error(ticket)
        ticket = desk.submit("run", Effect(2))
        await asyncio.wait_for(desk.writer.future(ticket), LONG)
        raise_error(ticket)

    asyncio.run(main())
    assert effects(store) == [2]


def test_whoever_lost_the_place_has_done_no_work(desk: Desk, store: Recording) -> None:
    desk.save("run")
    with closing(SQLiteStore(store.path)) as other:
        assert other.append([entry("run", 1)]) == [True]
    with pytest.raises(hf.ConflictError):
        desk.save("run", Effect(1))
    assert effects(store) == []
    desk.save("run", Effect(2))
    assert desk.seqs("run") == [0, 1, 2]
    assert effects(store) == [2]


def test_an_unavailable_store_is_tried_again(desk: Desk, store: Recording) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        work = Effect(1)
        ticket = desk.submit("run", work)
        waiting = threading.Thread(target=desk.writer.wait, args=(ticket,))
        waiting.start()
        wait_until(lambda: len(store.commits) >= 3)
        other.execute("ROLLBACK")
        waiting.join(LONG)
    raise_error(ticket)
    assert work.calls == 1
    assert effects(store) == [1]


def test_work_is_called_again_if_what_it_wrote_is_gone(desk: Desk, store: Recording) -> None:
    work = Effect(1)
    with faults.at("sqlite.commit.before", faults.raising(hf.StoreUnavailableError("full"))):
        desk.save("run", work)
    assert work.calls == 2
    assert desk.seqs("run") == [0]
    assert effects(store) == [1]


def test_a_lost_reply_is_found_out_about(desk: Desk, store: Recording) -> None:
    work = Effect(1)
    store.after = [hf.OutcomeUnknownError("run", "the line went dead")]
    desk.save("run", work)
    assert work.calls == 1
    assert desk.seqs("run") == [0]
    assert effects(store) == [1]


def test_a_commit_that_did_not_happen_is_made_up_for(desk: Desk, store: Recording) -> None:
    work = Effect(1)
    store.before = [hf.OutcomeUnknownError("run", "the line went dead")]
    desk.save("run", work)
    assert work.calls == 1
    assert effects(store) == [1]


def test_a_deadline_holds_for_work_too_and_for_those_behind_it(
    desk: Desk, store: Recording
) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        patient = desk.submit("patient", Effect(1))
        hasty = desk.submit("hasty", Effect(2), seconds=0.05)
        hastier = desk.submit("hastier", seconds=0.02)
        leading = threading.Thread(target=desk.writer.wait, args=(patient,))
        leading.start()
        begun = time.monotonic()
        while not (hasty.done and hastier.done) and time.monotonic() < begun + LONG / 2:
            time.sleep(0.001)
        assert not patient.done
        for ticket in (hasty, hastier):
            with pytest.raises(hf.CheckpointSaveError, match="locked"):
                raise_error(ticket)
        other.execute("ROLLBACK")
        leading.join(LONG)
    raise_error(patient)
    assert effects(store) == [1]


@pytest.mark.parametrize("url", ["memory://", "file://{}/runs"])
def test_other_stores_say_that_they_cannot(url: str, tmp_path: Path) -> None:
    with closing(hf.open_store(url.format(tmp_path))) as store:
        desk = Desk(store)
        with pytest.raises(hf.StoreError, match="can't run commit= in its transaction; use SQLite"):
            desk.submit("run", Effect(1))
        desk.save("run")
        assert desk.seqs("run") == [0]
        desk.writer.close()


def test_work_that_saves_is_told_so_instead_of_waiting_for_itself(
    desk: Desk, store: Recording
) -> None:
    early = desk.submit("early")
    for act in (
        lambda: desk.submit("inner"),
        lambda: desk.writer.drain(),
        lambda: desk.writer.wait(Ticket(early.entries, early.line, LONG)),
    ):
        with pytest.raises(hf.StoreError, match="can't save by itself"):
            desk.save("run", lambda cursor, act=act: act())  # type: ignore[misc]
    assert desk.seqs("run") == []
    raise_error(early)
    desk.save("inner", lambda cursor: store.read("run"))  # type: ignore[arg-type]


def test_after_ctrl_c_in_work_nothing_is_lost_or_done_twice(desk: Desk, store: Recording) -> None:
    """As with any save: it stays in the queue, and whoever comes next writes it."""
    work = Effect(1, KeyboardInterrupt())
    ticket = desk.submit("run", work)
    with pytest.raises(KeyboardInterrupt):
        desk.writer.wait(ticket)
    assert not ticket.done
    assert effects(store) == []
    work.then = None
    desk.save("other")
    raise_error(ticket)
    assert ticket.done
    assert work.calls == 2
    assert effects(store) == [1]


def test_a_save_is_tried_however_long_it_waited(desk: Desk) -> None:
    """Behind a slow commit, or on a busy machine."""
    desk.save("run", seconds=-1)
    assert desk.seqs("run") == [0]
