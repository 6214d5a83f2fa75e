"""The contract's tests of `append_with`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest

from holdfast.errors import HoldfastError, StoreClosedError
from holdfast.store import Store, Transactional, Work, WorkFailedError
from holdfast.testing.invariants import entry, read_all, tombstone


class TransactionalStore(Store, Transactional):
    """What `open_store` returns here."""


Effects = Callable[[], list[int]]


class TransactionalContract:
    """For stores that are `Transactional`: inherit it beside `StoreContract`. Override no test.

    The SQL is what every database understands, but for `effects`, which you may override.
    """

    @pytest.fixture
    def effects(self, store: TransactionalStore) -> Effects:
        """Makes the table `effects` with a number `n`, as a user would; reads what is in it."""
        return make_effects(store)

    def test_it_says_that_it_is_transactional(self, store: TransactionalStore) -> None:
        assert isinstance(store, Transactional)
        assert not store.inline

    def test_the_entries_and_the_work_are_both_done(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        batch = [entry("a", 0, b"x"), entry("a", 1, b"y"), entry("b", 0)]
        assert store.append_with(batch, _insert(1)) == [True, True, True]
        assert store.read("a") + store.read("b") == batch
        assert effects() == [1]

    def test_both_are_there_for_whoever_opens_the_store_next(
        self,
        store: TransactionalStore,
        effects: Effects,
        open_store: Callable[[], TransactionalStore],
    ) -> None:
        assert store.append_with([entry("run", 0)], _insert(1)) == [True]
        with closing(open_store()) as other:
            assert other.read("run") == store.read("run") != []
            assert read_effects(other) == [1]

    def test_without_entries_the_work_alone_is_done(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        assert store.append_with([], _insert(1)) == []
        assert effects() == [1]

    def test_a_lost_place_undoes_the_work(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        first = entry("run", 0, b"first")
        store.append([first])
        assert store.append_with([entry("run", 0, b"second")], _insert(1)) == [False]
        assert store.read("run") == [first]
        assert effects() == []

    def test_one_lost_place_undoes_every_entry(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        store.append([entry("b", 0)])
        batch = [entry("a", 0), entry("b", 0), entry("c", 0)]
        assert store.append_with(batch, _insert(1)) == [False, False, False]
        assert store.read("a") + store.read("c") == []
        assert effects() == []

    def test_a_seq_below_the_head_is_not_free(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        store.append([entry("run", seq) for seq in range(3)])
        store.erase(tombstone("run", 3))
        assert store.append_with([entry("run", 1)], _insert(1)) == [False]
        assert [item.seq for item in store.read("run")] == [3]
        assert effects() == []

    def test_beyond_a_gap_neither_is_done(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        store.append([entry("run", 0)])
        assert store.append_with([entry("run", 2)], _insert(1)) == [False]
        assert store.append_with([entry("new", 1)], _insert(1)) == [False]
        assert store.append_with([entry("run", 1), entry("run", 3)], _insert(1)) == [False, False]
        assert [item.seq for item in store.read("run")] == [0]
        assert effects() == []

    def test_behind_another_digest_neither_is_done(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        head, other = entry("run", 0), b"\x01" * 32
        store.append([head, entry("beside", 0)])
        batch = [entry("beside", 1), entry("run", 1), entry("run", 2)]
        assert store.append_with(batch, _insert(1), {"run": other}) == [False] * 3
        assert store.append_with([entry("run", 1)], _insert(1), {"run": b""}) == [False]
        assert store.append_with([entry("new", 0)], _insert(1), {"new": other}) == [False]
        assert [item.seq for item in store.read("beside")] == [0]
        assert effects() == []
        assert store.append_with(batch, _insert(2), {"run": head.digest}) == [True] * 3
        assert store.append_with([entry("new", 0)], _insert(3), {"new": b""}) == [True]
        assert effects() == [2, 3]

    def test_appends_with_and_without_work_follow_each_other(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        assert all(store.append([entry("run", 0), entry("other", 0)]))
        assert store.append_with([entry("run", 1)], _insert(1)) == [True]
        assert store.append([entry("run", 1), entry("other", 1)]) == [False, True]
        assert store.append([entry("run", 2), entry("other", 2)]) == [True, True]
        assert store.append_with([entry("run", 2)], _insert(2)) == [False]
        assert store.append_with([entry("run", 3)], _insert(3)) == [True]
        assert [item.seq for item in store.read("run")] == [0, 1, 2, 3]
        assert effects() == [1, 3]

    def test_work_that_raises_undoes_all_and_its_error_is_handed_on(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        for mistake in (KeyError("mine"), HoldfastError("mine"), OSError(5), SystemExit(1)):

            def fail(cursor: Any, mistake: BaseException = mistake) -> None:
                _insert(1)(cursor)
                raise mistake

            with pytest.raises(WorkFailedError) as caught:
                store.append_with([entry("run", 0)], fail)
            assert caught.value.error is mistake
            assert store.read("run") == []
            assert effects() == []
        assert store.append_with([entry("run", 0)], _insert(2)) == [True]
        assert effects() == [2]

    def test_an_error_of_the_database_in_work_is_left_as_it_is(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        with pytest.raises(WorkFailedError) as caught:
            store.append_with([entry("run", 0)], _execute("SELECT n FROM nowhere"))
        assert not isinstance(caught.value.error, HoldfastError)
        assert store.read("run") == []

    def test_work_that_goes_on_after_an_error_is_done_whole_or_not_at_all(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        def stumble(cursor: Any) -> None:
            _insert(1)(cursor)
            with suppress(Exception):
                cursor.execute("SELECT n FROM nowhere")
            _insert(2)(cursor)

        with suppress(HoldfastError):
            store.append_with([entry("run", 0)], stumble)
        assert (len(store.read("run")), effects()) in [(0, []), (1, [1, 2])]

    def test_work_cannot_end_the_transaction(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        for how in ("COMMIT", "ROLLBACK", "BEGIN", "commit()", "rollback()"):
            before = len(effects())
            with pytest.raises(WorkFailedError):
                store.append_with([entry(how, 0)], partial(_escape, how, fail=True))
            assert (store.read(how), len(effects()) - before) == ([], 0)
            with suppress(WorkFailedError):
                store.append_with([entry(how, 0)], partial(_escape, how))
            assert (len(store.read(how)), len(effects()) - before) in [(0, 0), (1, 2)]

    def test_work_reads_what_it_wrote_and_others_do_not(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        seen: list[object] = []

        def look(cursor: Any) -> None:
            _insert(1)(cursor)
            cursor.execute("SELECT n FROM effects")
            seen.append([row[0] for row in cursor.fetchall()])
            seen.append(store.read("run"))

        assert store.append_with([entry("run", 0)], look) == [True]
        assert seen == [[1], []]

    def test_the_cursor_is_of_no_use_afterwards(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        kept: list[Any] = []
        with suppress(WorkFailedError):
            store.append_with([entry("run", 0)], kept.append)

        def keep_and_fail(cursor: Any) -> None:
            kept.append(cursor)
            raise KeyError

        with suppress(WorkFailedError):
            store.append_with([entry("run", 1)], keep_and_fail)
        assert len(kept) == 2
        for cursor in kept:
            with pytest.raises(Exception):  # noqa: B017 - drivers differ
                _insert(1)(cursor)
        assert effects() == []

    def test_threads_that_race_for_a_position_leave_one_effect_each(
        self, store: TransactionalStore, effects: Effects
    ) -> None:
        def race(name: int) -> list[bool]:
            return [
                store.append_with([entry("run", seq, b"%d" % name)], _insert(10 * seq + name))[0]
                for seq in range(15)
            ]

        with ThreadPoolExecutor(4) as pool:
            tries = list(pool.map(race, range(4)))
        assert [sum(outcomes) for outcomes in zip(*tries, strict=True)] == [1] * 15
        assert effects() == [10 * item.seq + int(item.body) for item in read_all(store, "run")]

    def test_work_is_not_called_by_a_closed_store(
        self, open_store: Callable[[], TransactionalStore]
    ) -> None:
        store = open_store()
        store.close()
        called: list[Any] = []
        with pytest.raises(StoreClosedError):
            store.append_with([entry("run", 0)], called.append)
        assert called == []


def make_effects(store: TransactionalStore) -> Effects:
    """Make a user's own table; the answer reads it."""
    store.append_with([], _execute("CREATE TABLE effects (n INTEGER)"))
    return partial(read_effects, store)


def read_effects(store: TransactionalStore) -> list[int]:
    """What is in that table."""
    found: list[int] = []

    def read(cursor: Any) -> None:
        cursor.execute("SELECT n FROM effects ORDER BY n")
        found.extend(row[0] for row in cursor.fetchall())

    store.append_with([], read)
    return found


def _escape(how: str, cursor: Any, *, fail: bool = False) -> None:
    _insert(1)(cursor)
    with suppress(Exception):
        if how.endswith("()"):
            getattr(cursor.connection, how[:-2])()
        else:
            cursor.execute(how)
    _insert(2)(cursor)
    if fail:
        raise KeyError(how)


def _insert(number: int) -> Work:
    return _execute(f"INSERT INTO effects (n) VALUES ({number})")  # noqa: S608 - a number


def _execute(statement: str) -> Work:
    def work(cursor: Any) -> None:
        cursor.execute(statement)

    return work
