"""What every store promises, as tests anyone can run against theirs.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self) -> Callable[[], Store]:
            return MyStore

Call `pytest.register_assert_rewrite("holdfast.testing")` first to see the values that differ.
"""

# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing.synchronize import Barrier
from threading import Event
from typing import Final, TypeVar

import pytest

from holdfast.changes import Change
from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import StoreClosedError, StoreUnavailableError
from holdfast.model import Entry
from holdfast.store import Store
from holdfast.testing._behind import OTHER, BehindContract
from holdfast.testing._listing import ListingContract
from holdfast.testing._reading import ReadingContract
from holdfast.testing._transacting import TransactionalContract
from holdfast.testing._watching import WatchingContract, told
from holdfast.testing._writing import WritingContract
from holdfast.testing.corpus import HOSTILE_IDS, INVALID_IDS
from holdfast.testing.invariants import check_store, entry, read_all, tombstone

__all__ = [
    "HOSTILE_IDS",
    "INVALID_IDS",
    "PersistentStoreContract",
    "StoreContract",
    "TransactionalContract",
    "check_store",
    "entry",
]

DEADLINE: Final = 60.0
"""Seconds after which a race counts as a deadlock."""

_T = TypeVar("_T")


class StoreContract(
    WritingContract, BehindContract, ReadingContract, ListingContract, WatchingContract
):
    """Subclass, provide `open_store`, inherit every test. Override none.

    Each call of `open_store` opens the same storage anew. A store that keeps nothing may
    return the same object; one that does keeps to `PersistentStoreContract` as well.
    """

    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        """Yours to provide."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: Callable[[], Store]) -> Iterator[Store]:
        """An open store; all that it holds is checked after the test."""
        with closing(open_store()) as store:
            yield store
            assert check_store(store) == []

    def test_threads_that_race_for_a_position_have_one_winner_each_time(self, store: Store) -> None:
        tries = _in_threads([partial(_append_in_turn, store, f"t{n}", 15) for n in range(4)])
        _assert_won_once(store, "run", tries)

    def test_batches_over_the_same_runs_in_opposite_order_do_not_deadlock(
        self, store: Store
    ) -> None:
        orders = (["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"])
        wins = _in_threads([partial(_append_across, store, order, 15) for order in orders])
        _assert_won_across(wins, 15)

    def test_a_reader_sees_a_trim_whole_or_not_at_all(self, store: Store) -> None:
        store.append([entry("run", seq, b"before") for seq in range(4)])
        done = Event()
        seen, _ = _in_threads([partial(_watch, store, done), partial(_trim_often, store, done)])
        for journal in seen:
            bodies = {item.body for item in journal if item.kind == "checkpoint"}
            assert len(bodies) == 1, "old and new bodies together"
            marker = journal[-1]
            assert bodies == {b"before" if marker.kind == "checkpoint" else b"%d" % marker.seq}

    def test_a_reader_never_sees_an_entry_without_those_before_it(self, store: Store) -> None:
        """A listing that others write to may well hold the newest and miss the one before."""
        done = Event()
        seen, _ = _in_threads([partial(_watch, store, done), partial(_append_often, store, done)])
        for journal in seen:
            assert [item.seq for item in journal] == list(range(len(journal)))

    def test_close_may_be_called_twice(self, open_store: Callable[[], Store]) -> None:
        store = open_store()
        store.append([entry("run", 0)])
        store.close()
        store.close()

    def test_every_call_after_close_says_that_the_store_is_closed(
        self, open_store: Callable[[], Store]
    ) -> None:
        store = open_store()
        store.append([entry("run", 0)])
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.append([entry("run", 1)]),
            lambda: store.append([]),
            lambda: store.read("run"),
            lambda: store.last("run"),
            lambda: store.runs(),
            lambda: store.trim(entry("run", 1), {}),
            lambda: store.erase(tombstone("run", 1)),
            lambda: store.stats(),
            lambda: store.stats("run"),
            lambda: store.survives(),
            lambda: store.listed(),
            lambda: store.due(0),
            lambda: store.holders(),
            lambda: store.counts(),
            lambda: store.tally(0, 1),
        ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                call()

    def test_it_says_where_it_is_and_what_it_survives(self, store: Store) -> None:
        assert store.url in repr(store)
        assert store.form in ("packed", "readable")
        assert store.survives() in ("nothing", "process-crash", "power-loss")

    def test_a_store_that_was_written_to_exists(self, store: Store) -> None:
        store.append([entry("run", 0)])
        assert store.exists()


class PersistentStoreContract(StoreContract):
    """For stores that outlive the process: provide `opener`, a callable that can be pickled.

    It opens the same storage in this process and in others, such as `partial(MyStore, path)`.
    """

    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        """Yours to provide."""
        raise NotImplementedError

    @pytest.fixture
    def open_store(self, opener: Callable[[], Store]) -> Callable[[], Store]:
        """The opener itself."""
        return opener

    def test_what_was_appended_is_there_after_reopening(self, opener: Callable[[], Store]) -> None:
        entries = [entry(run, seq, b"%d" % seq) for run in HOSTILE_IDS[:20] for seq in range(2)]
        with closing(opener()) as store:
            assert all(store.append(entries))
        with closing(opener()) as store:
            for run in HOSTILE_IDS[:20]:
                assert store.read(run) == [item for item in entries if item.run == run]
            assert check_store(store) == []

    def test_what_was_trimmed_or_erased_stays_so_after_reopening(
        self, opener: Callable[[], Store]
    ) -> None:
        marker, grave = entry("trimmed", 3), tombstone("erased", 3)
        with closing(opener()) as store:
            store.append(
                [entry(run, seq, b"x") for run in ("trimmed", "erased") for seq in range(3)]
            )
            assert store.trim(marker, {1: b"new", 0: None})
            assert store.erase(grave)
        with closing(opener()) as store:
            assert [item.body for item in store.read("trimmed")] == [b"", b"new", b"x", b""]
            assert store.read("erased") == [grave]
            assert store.append([entry("erased", 1)]) == [False]
            assert check_store(store) == []

    def test_two_open_stores_see_each_other_at_once(self, opener: Callable[[], Store]) -> None:
        with closing(opener()) as one, closing(opener()) as other:
            for seq in range(0, 6, 2):
                assert one.append([entry("run", seq)]) == [True]
                assert other.append([entry("run", seq)]) == [False]
                assert other.append([entry("run", seq + 1)]) == [True]
                assert one.append([entry("run", seq + 1)]) == [False]
                assert one.read("run") == other.read("run")
            assert one.erase(tombstone("run", 6))
            assert other.append([entry("run", 3), entry("run", 7)]) == [False, False]
            assert other.append([entry("run", 7)]) == [True]
            assert one.trim(entry("run", 8), {7: None})
            assert other.read("run", after=6)[0].status == "deleted"
            assert other.append([entry("run", 8)]) == [False]

    def test_what_another_wrote_is_told_to_whoever_watches(
        self, opener: Callable[[], Store]
    ) -> None:
        with (
            closing(opener()) as store,
            closing(opener()) as other,
            SyncCheckpointer(store) as cp,
            cp.watch(every=0.02) as every,
            cp.watch("run", every=0.02) as one,
        ):
            told(every, {None})
            assert other.append([entry("run", 0)]) == [True]
            assert told(every, {"run"}) == {"run"}
            assert one.wait(DEADLINE) == [Change("run", 0, "open")]

    def test_what_another_wrote_counts_for_the_digest_of_the_head(
        self, opener: Callable[[], Store]
    ) -> None:
        with closing(opener()) as one, closing(opener()) as other:
            first = entry("run", 0)
            assert all(one.append([first, entry("beside", 0)]))
            assert other.erase(tombstone("run", 1, digest=OTHER))
            behind = {"run": first.digest}
            assert one.append([entry("run", 2)], behind) == [False]
            batch = [entry("run", 2), entry("beside", 1)]
            assert one.append(batch, behind) == [False, True]
            assert one.append([entry("run", 2)], {"run": OTHER}) == [True]
            assert other.append([entry("run", 3)], {"run": entry("run", 2).digest}) == [True]
            assert check_store(one) == []

    def test_processes_that_race_for_a_position_have_one_winner_each_time(
        self, opener: Callable[[], Store]
    ) -> None:
        work = [partial(_open_and, opener, _append_in_turn, f"p{n}", 25) for n in range(3)]
        tries = _in_processes(work)
        with closing(opener()) as store:
            _assert_won_once(store, "run", tries)
            assert check_store(store) == []

    def test_processes_with_batches_in_opposite_order_do_not_deadlock(
        self, opener: Callable[[], Store]
    ) -> None:
        orders = (["a", "b", "c"], ["c", "b", "a"])
        wins = _in_processes([partial(_open_and, opener, _append_across, o, 25) for o in orders])
        _assert_won_across(wins, 25)
        with closing(opener()) as store:
            assert check_store(store) == []

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
    def test_a_child_made_by_fork_goes_on_with_the_store(self, opener: Callable[[], Store]) -> None:
        with closing(opener()) as store:
            store.append([entry("run", 0)])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # others' threads, if any
                child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if store.append([entry("run", 1)]) == [True] else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert store.append([entry("run", 1)]) == [False]
            assert store.append([entry("run", 2)]) == [True]
            assert [item.seq for item in store.read("run")] == [0, 1, 2]
            assert check_store(store) == []


def _append_in_turn(store: Store, name: str, count: int) -> list[bool]:
    return [_append_in_time(store, [entry("run", seq, name.encode())])[0] for seq in range(count)]


def _append_across(store: Store, runs: Sequence[str], count: int) -> list[dict[str, bool]]:
    return [
        dict(zip(runs, _append_in_time(store, [entry(run, seq) for run in runs]), strict=True))
        for seq in range(count)
    ]


def _append_in_time(store: Store, entries: Sequence[Entry]) -> list[bool]:
    """Append as savers do: others may have the store locked for longer than it waits."""
    until = time.monotonic() + DEADLINE
    while True:
        try:
            return store.append(entries)
        except StoreUnavailableError:
            if time.monotonic() > until:
                raise


def _assert_won_once(store: Store, run: str, tries: Sequence[Sequence[bool]]) -> None:
    rounds = list(zip(*tries, strict=True))
    assert [sum(outcomes) for outcomes in rounds] == [1] * len(rounds)
    bodies = [item.body[1:] for item in read_all(store, run)]
    assert bodies == [b"%d" % outcomes.index(True) for outcomes in rounds]


def _assert_won_across(wins: Sequence[list[dict[str, bool]]], count: int) -> None:
    for run in ("a", "b", "c"):
        assert [sum(own[seq][run] for own in wins) for seq in range(count)] == [1] * count


def _watch(store: Store, done: Event) -> list[list[Entry]]:
    seen = [store.read("run")]
    while not done.is_set():
        seen.append(store.read("run"))
    return seen


def _append_often(store: Store, done: Event) -> list[list[Entry]]:
    try:
        for seq in range(0, 120, 2):
            assert all(store.append([entry("run", seq), entry("run", seq + 1)]))
    finally:
        done.set()
    return []


def _trim_often(store: Store, done: Event) -> list[list[Entry]]:
    try:
        for seq in range(4, 25):
            bodies = dict.fromkeys(range(4), b"%d" % seq)
            assert store.trim(entry("run", seq, kind="trim"), bodies)
    finally:
        done.set()
    return []


def _in_threads(work: Sequence[Callable[[], _T]]) -> list[_T]:
    pool = ThreadPoolExecutor(len(work))
    try:
        return _results([pool.submit(part) for part in work])
    finally:
        pool.shutdown(wait=False)  # after a deadlock there would be no end to wait for


def _in_processes(work: Sequence[Callable[[], _T]]) -> list[_T]:
    server = multiprocessing.get_context("forkserver")  # they share nothing with this process
    given = server.Barrier(len(work)), dict(os.environ)  # the server has the one it began with
    with ProcessPoolExecutor(len(work), server, _set_up, given) as pool:
        return _results([pool.submit(_start_together, part) for part in work])


def _results(futures: Sequence[Future[_T]]) -> list[_T]:
    return [future.result(DEADLINE) for future in futures]


def _open_and(opener: Callable[[], Store], work: Callable[..., _T], *arguments: object) -> _T:
    with closing(opener()) as store:
        return work(store, *arguments)


_barrier: Barrier


def _set_up(barrier: Barrier, environment: dict[str, str]) -> None:
    global _barrier
    _barrier = barrier
    os.environ.update(environment)


def _start_together(work: Callable[[], _T]) -> _T:
    _barrier.wait(DEADLINE)
    return work()
