"""`watch` of a checkpointer, on every kind of store."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

import pytest

import holdfast as hf
from holdfast.changes import ANY_RUN, Change
from holdfast.errors import StoreClosedError, StoreError, StoreUnavailableError
from holdfast.kernel.watcher import Subscriber
from holdfast.model import HIDDEN, process_journal
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing.contract import entry
from holdfast.testing.invariants import tombstone
from tests.waiting import exit_code, in_time, join, wait_until

SOON = 0.02  # seconds between polls


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    wait_until(lambda: not _watchers())


def _watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-watcher"]


def _of(changes: Sequence[Change], run: str) -> bool:
    return any(change.run_id in (None, run) for change in changes)


def test_a_watched_run_says_where_it_is_and_then_what_is_new(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, cp.watch("run", every=SOON) as changes, in_time():
        cp.save("run", {"n": 1})
        assert changes.wait() == [Change("run", 1, "open")]
        cp.save("other", {"n": 1})
        cp.save("run", {"n": 2})
        assert changes.wait() == [Change("run", 2, "open")]
        cp.complete("run")
        assert changes.wait() == [Change("run", 3, "completed")]


def test_a_run_that_does_not_exist_yet_can_be_watched(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, cp.watch("run", every=SOON) as changes, in_time():
        assert changes.wait(0.1) == []
        cp.save("run", {"n": 1})
        assert changes.wait()[-1].run_id == "run"


def test_iterating_goes_on_until_it_is_closed(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        cp.save("run", {"n": 0})
        changes = cp.watch("run", every=SOON)
        seen = []
        for n, change in enumerate(changes, 1):
            seen.append(change.seq)
            if n == 3:
                changes.close()
            else:
                cp.save("run", {"n": n})
        assert seen == [1, 2, 3]
        assert changes.wait() == []


async def _awaited(url: str) -> list[int | None]:
    async with hf.Checkpointer(url) as cp:
        await cp.save("run", {"n": 0})
        seen = []
        async for change in cp.watch("run", every=SOON):
            seen.append(change.seq)
            if change.status == "completed":
                break
            await (cp.save("run", {"n": 1}) if len(seen) < 3 else cp.complete("run"))
        return seen


def test_changes_can_be_awaited(url: str) -> None:
    with in_time():
        assert asyncio.run(_awaited(url)) == [1, 2, 3, 4]


def test_whoever_watches_all_runs_looks_at_them_first(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        cp.save("old", {"n": 1})
        with cp.watch(every=SOON) as changes:
            assert changes.wait() == [ANY_RUN]
            cp.save("new", {"n": 1})
            cp.save("old", {"n": 2})
            told: set[str | None] = set()
            while told != {"new", "old"}:
                told |= {change.run_id for change in changes.wait()}


def test_a_deleted_run_is_a_change(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        cp.save("run", {"n": 1})
        with cp.watch("run", every=SOON) as one, cp.watch(every=SOON) as every:
            assert one.wait()
            assert every.wait() == [ANY_RUN]
            cp.clear("run")
            assert one.wait()[-1].status == "deleted"
            assert _of(every.wait(), "run")


def test_internal_journals_are_never_told_of(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, cp.watch(every=SOON) as changes, in_time():
        assert changes.wait() == [ANY_RUN]
        assert cp.store.append([entry(f"{HIDDEN}secret", 0)]) == [True]
        assert cp.store.erase(tombstone(process_journal(0), 0))
        cp.save("run", {"n": 1})
        told = changes.wait()
        assert {change.run_id for change in told} == {"run"}
        with pytest.raises(hf.InvalidIdError):
            cp.watch(f"{HIDDEN}secret")


def test_two_watch_by_one_thread_and_the_last_to_close_ends_it(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        cp.save("run", {"n": 1})
        with cp.watch("run", every=SOON) as first:
            first.wait()
            with cp.watch("run", every=SOON) as second, cp.watch(every=SOON) as third:
                assert second.wait() == [Change("run", 1, "open")]
                assert third.wait() == [ANY_RUN]
                assert len(_watchers()) == 1
            cp.save("run", {"n": 2})
            assert first.wait() == [Change("run", 2, "open")]
        wait_until(lambda: not _watchers())


def test_a_wait_ends_when_another_thread_closes_the_watch(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        changes = cp.watch("run", every=3600)
        found: list[list[Change]] = []
        thread = threading.Thread(target=lambda: found.append(changes.wait()))
        thread.start()
        wait_until(_watchers)
        changes.close()
        join(thread)
        assert found == [[]]
        wait_until(lambda: not _watchers())


def test_closing_the_checkpointer_ends_what_watches_by_it(url: str) -> None:
    with in_time():
        cp = hf.SyncCheckpointer(url)
        changes = cp.watch(every=3600)
        assert changes.wait() == [ANY_RUN]
        cp.close()
        assert not _watchers()
        with pytest.raises(StoreClosedError):
            changes.wait()
        with pytest.raises(StoreClosedError):
            cp.watch()


def test_a_watch_that_is_forgotten_stops(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp, in_time():
        for change in cp.watch(every=3600):
            assert change == ANY_RUN
            break
        gc.collect()
        wait_until(lambda: not _watchers())


def test_a_wait_can_be_cancelled_and_nothing_is_lost(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp, cp.watch("run", every=SOON) as changes:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await changes.wait()
            await cp.save("run", {"n": 1})
            assert await changes.wait() == [Change("run", 1, "open")]
            assert await changes.wait(0.01) == []

    with in_time():
        asyncio.run(main())


def test_a_hundred_tasks_watch_by_one_thread(url: str) -> None:
    async def one(cp: hf.Checkpointer, run: str) -> int | None:
        async for change in cp.watch(run, every=SOON):
            return change.seq
        return None

    async def main() -> list[int | None]:
        async with hf.Checkpointer(url) as cp:
            tasks = [asyncio.create_task(one(cp, f"run-{n}")) for n in range(100)]
            await asyncio.sleep(0)
            assert len(_watchers()) == 1
            await cp.save_many([{"run_id": f"run-{n}", "state": {"n": n}} for n in range(100)])
            return await asyncio.gather(*tasks)

    with in_time():
        assert len(asyncio.run(main())) == 100


def test_a_watch_can_be_used_by_one_event_loop_after_another(url: str) -> None:
    with in_time():
        cp = hf.Checkpointer(url)
        changes = cp.watch("run", every=SOON)

        async def save_and_wait(n: int) -> list[Change]:
            await cp.save("run", {"n": n})
            return await changes.wait()

        for n in (1, 2):
            assert asyncio.run(save_and_wait(n)) == [Change("run", n, "open")]
        asyncio.run(cp.close())


def test_other_processes_are_watched(kept_url: str) -> None:
    with (
        in_time(),
        hf.SyncCheckpointer(kept_url) as cp,
        cp.watch(every=SOON) as every,
        cp.watch("run", every=SOON) as one,
        closing(hf.open_store(kept_url)) as other,
    ):
        assert every.wait() == [ANY_RUN]
        other.append([entry("run", 0)])
        assert one.wait() == [Change("run", 0, "open")]
        assert _of(every.wait(), "run")


def test_a_child_of_fork_watches_by_itself(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as cp, cp.watch("run", every=SOON) as changes, in_time():
        cp.save("run", {"n": 1})
        assert changes.wait() == [Change("run", 1, "open")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that the child lacks
            child = os.fork()
        if child == 0:
            try:
                cp.save("run", {"n": 2})
                os._exit(0 if changes.wait(20)[-1].seq == 2 else 1)
            except BaseException:  # noqa: BLE001 - the child must end here
                os._exit(2)
        assert changes.wait() == [Change("run", 2, "open")]
        assert exit_code(child) == 0
        cp.save("run", {"n": 3})
        assert changes.wait() == [Change("run", 3, "open")]


class Troubled(SQLiteStore):
    """Fails when told to."""

    trouble: Exception | None = None
    polled = 0
    refused = 0

    def _answer(self) -> None:
        self.polled += 1
        if self.trouble is not None:
            self.refused += 1
            raise self.trouble

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        self._answer()
        return super().poll(mark)


@pytest.fixture
def troubled(tmp_path: os.PathLike[str]) -> Iterator[Troubled]:
    with closing(Troubled(f"{os.fspath(tmp_path)}/runs.db")) as store:
        yield store


def test_after_an_outage_any_run_may_have_changed(
    troubled: Troubled, caplog: pytest.LogCaptureFixture
) -> None:
    with hf.SyncCheckpointer(troubled) as cp, cp.watch(every=SOON) as changes, in_time():
        assert changes.wait() == [ANY_RUN]
        troubled.trouble = StoreUnavailableError(f"{process_journal(3)} is locked")
        wait_until(lambda: troubled.refused > 2)
        cp.save("run", {"n": 1})
        troubled.trouble = None
        assert changes.wait()[0] == ANY_RUN
    said = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
    assert said == [
        "can't watch for now: record of process 3 is locked",
        f"watching again: {troubled.url} answers",
    ]
    assert all(HIDDEN not in line and "x1f" not in line for line in said)


def test_more_who_watch_do_not_ask_the_store_more_often(troubled: Troubled) -> None:
    with hf.SyncCheckpointer(troubled) as cp, ExitStack() as stack, in_time():
        for _ in range(5):
            changes = stack.enter_context(cp.watch(every=3600))
            assert changes.wait() == [ANY_RUN]
        assert troubled.polled == 1


def test_an_error_that_stays_is_raised_to_whoever_waits(troubled: Troubled) -> None:
    with hf.SyncCheckpointer(troubled) as cp, cp.watch(every=SOON) as changes, in_time():
        assert changes.wait() == [ANY_RUN]
        troubled.trouble = StoreError("no such table")
        with pytest.raises(StoreError, match="no such table"):
            changes.wait()


def test_whoever_falls_behind_is_told_to_look_at_everything() -> None:
    subscriber = Subscriber(None, 1.0)
    for n in range(10_001):
        subscriber.put(Change(f"run-{n}"))
    assert subscriber.take() == [ANY_RUN]


@pytest.mark.parametrize("every", [0, -1, float("nan")])
def test_the_pause_between_polls_must_be_positive(every: float) -> None:
    with hf.SyncCheckpointer(MemoryStore()) as cp, pytest.raises(ValueError, match="every"):
        cp.watch(every=every)
