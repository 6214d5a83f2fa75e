"""Several processes, threads and loops at one run; old writers that wake up; saves cut short."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests import faults
from tests.crash import states
from tests.crash.harness import ForkServer, fork_server, judge, url_of, wait_until_stopped
from tests.crash.history import Oracle, check, dump, read_history, state_hash
from tests.waiting import ENOUGH, exit_code, join

RUN = "run-a"
KINDS = pytest.mark.parametrize("kind", ["sqlite", "file"])


@pytest.fixture
def server() -> ForkServer:
    return fork_server()


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that give way to each other all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def _together(*calls: Callable[[], Any]) -> list[Any]:
    """Call all at once, each in a thread; what each returned, or the error of ours it raised."""
    barrier = threading.Barrier(len(calls), timeout=ENOUGH)

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        except hf.HoldfastError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def _kinds(checkpointer: hf.SyncCheckpointer | hf.Checkpointer, run: str) -> list[str]:
    return [entry.kind for entry in checkpointer.store.read(run, bodies=False)]


# --- processes


@KINDS
def test_plain_saves_of_two_processes_all_land(
    kind: str, tmp_path: Path, server: ForkServer
) -> None:
    url, oracle = url_of(kind, tmp_path), tmp_path / "oracle"
    pids = [
        server.start(
            url=url, oracle=str(oracle), worker=f"w{n}", runs=[RUN], lanes=2, ops=15,
            only=["save"], mode=mode, deadline=20.0,
        )
        for n, mode in enumerate(("sync", "async"))
    ]  # fmt: skip
    assert [server.wait(pid) for pid in pids] == [0, 0], server.errors()
    assert judge(url, oracle, min_acks=60) == []
    with hf.SyncCheckpointer(url) as checkpointer:
        assert _kinds(checkpointer, RUN) == ["open"] + ["checkpoint"] * 60


@KINDS
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_writer_that_slept_through_a_clear_resurrects_nothing(
    kind: str, mode: str, tmp_path: Path, server: ForkServer
) -> None:
    """It has several saves in flight: what it saves later begins the run anew, after the tombstone."""
    url, path = url_of(kind, tmp_path), tmp_path / "oracle"
    pid = server.start(
        url=url, oracle=str(path), worker="sleeper", runs=[RUN], lanes=6, ops=20, only=["save"],
        mode=mode, stop_at="writer.append.before", deadline=20.0,
    )  # fmt: skip
    wait_until_stopped(pid)
    oracle = Oracle(path, "parent")
    with hf.SyncCheckpointer(url) as checkpointer:
        call = oracle.begin("clear", RUN)
        checkpointer.clear(RUN)
        call.ack()
        tombstone = checkpointer.store.last(RUN)
        assert tombstone is not None
        os.kill(pid, signal.SIGCONT)
        assert server.wait(pid) == 0, server.errors()
    oracle.close()
    assert judge(url, path, min_acks=120) == []
    with hf.SyncCheckpointer(url) as checkpointer:
        journal = checkpointer.store.read(RUN, bodies=False)
        assert [entry.kind for entry in journal[:2]] == ["tombstone", "open"]
        assert journal[0] == tombstone._replace(body=b"")
        assert {entry.kind for entry in journal[2:]} == {"checkpoint"}


# --- threads and loops of one process


@KINDS
def test_of_those_who_expect_the_same_checkpoint_one_wins(
    kind: str, tmp_path: Path, eager_threads: None
) -> None:
    url = url_of(kind, tmp_path)
    rounds = 60 if kind == "sqlite" else 20
    with hf.SyncCheckpointer(url) as one, hf.SyncCheckpointer(url) as other:
        expected = one.save(RUN, {"n": -1})
        for n in range(rounds):
            results = _together(
                partial(one.save, RUN, {"by": 1}, expect=expected),
                partial(one.save, RUN, {"by": 2}, expect=expected),
                partial(other.save, RUN, {"by": 3}, expect=expected),
            )
            winners = [result for result in results if isinstance(result, hf.Checkpoint)]
            losers = [result for result in results if isinstance(result, hf.ConflictError)]
            assert (len(winners), len(losers)) == (1, 2), f"round {n}: {results}"
            expected = winners[0]


@KINDS
def test_save_many_refuses_what_it_does_not_expect(kind: str, tmp_path: Path) -> None:
    url = url_of(kind, tmp_path)
    with hf.SyncCheckpointer(url) as one, hf.SyncCheckpointer(url) as other:
        expected = one.save(RUN, {"by": "one"})
        other.save(RUN, {"by": "other"})
        with pytest.raises(hf.ConflictError):
            one.save_many([{"run_id": RUN, "state": {"by": "one again"}, "expect": expected}])
        current = other.load(RUN)
        assert current is not None
        assert current.state == {"by": "other"}


@KINDS
def test_the_first_saves_of_many_threads_open_a_run_once(
    kind: str, tmp_path: Path, eager_threads: None
) -> None:
    with hf.SyncCheckpointer(url_of(kind, tmp_path)) as checkpointer:
        for n in range(40 if kind == "sqlite" else 15):
            run = f"run-{n}"
            _together(*[partial(checkpointer.save, run, {"by": by}) for by in range(4)])
            assert _kinds(checkpointer, run) == ["open"] + ["checkpoint"] * 4


@KINDS
def test_of_several_forks_to_one_id_one_wins(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hf.Checkpointer(url_of(kind, tmp_path)) as checkpointer:
            await checkpointer.save(RUN, {"n": 1}, thread_id="thread")
            forks = [checkpointer.fork(RUN, run_id="fork", state={"by": by}) for by in range(3)]
            results = await asyncio.gather(*forks, return_exceptions=True)
            winners = [result for result in results if isinstance(result, hf.Checkpoint)]
            losers = [result for result in results if isinstance(result, hf.RunExistsError)]
            assert (len(winners), len(losers)) == (1, 2), results
            assert _kinds(checkpointer, "fork") == ["open", "checkpoint"]
            assert await checkpointer.load("fork") == winners[0]

    asyncio.run(scenario())


@KINDS
@pytest.mark.parametrize("rival", ["prune", "clear"])
def test_a_rollback_never_leads_to_what_is_gone(
    kind: str, rival: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is deleted by another process after it was looked up."""
    url = url_of(kind, tmp_path)
    with hf.SyncCheckpointer(url) as one, hf.SyncCheckpointer(url) as other:
        first, *_ = [other.save(RUN, {"n": n}) for n in range(4)]
        read = one.store.read

        def too_late(run: str, **which: Any) -> Any:
            if which.get("newest_first"):  # the head, behind which it is about to be written
                if rival == "clear":
                    other.clear(RUN)
                else:
                    other.prune(RUN, keep_latest=1)
            return read(run, **which)

        monkeypatch.setattr(one.store, "read", too_late)
        with pytest.raises(hf.CheckpointNotFoundError):
            one.rollback(RUN, seq=first.seq)
        current = other.load(RUN)
        assert (current and current.state) == (None if rival == "clear" else {"n": 3})
        assert other.verify(RUN).ok


@KINDS
def test_a_load_never_sees_a_save_that_is_under_way(
    kind: str, tmp_path: Path, eager_threads: None
) -> None:
    """What it returns under a checkpoint's id is that checkpoint's state."""
    lines = [random.Random(n).randbytes(30).hex() for n in range(600)]
    seen: list[tuple[int, int]] = []
    saved: dict[int, int] = {}
    over = threading.Event()
    with hf.SyncCheckpointer(url_of(kind, tmp_path)) as checkpointer:

        def load() -> None:
            while not over.is_set():
                found = checkpointer.load(RUN)
                if found is not None:
                    seen.append((found.seq, found.state["n"]))

        loader = threading.Thread(target=load)
        loader.start()
        for n in range(10_000):
            lines[n % len(lines)] = str(n)
            saved[checkpointer.save(RUN, {"n": n, "lines": lines}).seq] = n
            if n >= 150 and len({seq for seq, _ in seen}) > 5:
                break
        over.set()
        join(loader)
    assert len({seq for seq, _ in seen}) > 5
    assert [(seq, n) for seq, n in seen if saved[seq] != n] == []


@KINDS
def test_one_process_may_run_one_loop_after_another(kind: str, tmp_path: Path) -> None:
    checkpointer = hf.Checkpointer(url_of(kind, tmp_path))
    for n in range(5):
        checkpoints = asyncio.run(_save_several(checkpointer, n))
        assert [checkpoint.state["n"] for checkpoint in checkpoints] == [n] * 4
    asyncio.run(checkpointer.close())
    with hf.SyncCheckpointer(url_of(kind, tmp_path)) as reader:
        assert _kinds(reader, RUN) == ["open"] + ["checkpoint"] * 20


async def _save_several(checkpointer: hf.Checkpointer, n: int) -> list[hf.Checkpoint]:
    return await asyncio.gather(*(checkpointer.save(RUN, {"n": n, "by": by}) for by in range(4)))


# --- saves cut short


@KINDS
def test_a_save_cancelled_at_any_await_leaves_the_next_one_clean(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "oracle"
    url = url_of(kind, tmp_path)

    async def scenario() -> int:
        cancelled = 0
        oracle = Oracle(path, "worker")
        rng = random.Random(1)
        async with hf.Checkpointer(url) as checkpointer:
            for n in range(80):
                run = f"run-{n % 7}"
                outcomes = []
                for turns in (n // 2, None):
                    op_id = oracle.next_id()
                    state = states.make(op_id, rng)
                    call = oracle.begin("save", run, id=op_id, hash=state_hash(state))
                    task = asyncio.create_task(checkpointer.save(run, state))
                    for _ in range(turns or 0):
                        await asyncio.sleep(0)
                    if turns is not None:
                        task.cancel()
                    try:
                        call.ack(seq=(await task).seq)
                        outcomes.append("saved")
                    except asyncio.CancelledError as error:
                        call.fail(error)
                        cancelled += 1
                        outcomes.append("cancelled")
                assert outcomes[1] == "saved", f"after a cancellation at turn {n // 2}"
        oracle.close()
        return cancelled

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) > 10
    assert judge(url, path, min_acks=80) == []


@KINDS
def test_a_cancelled_flush_forgets_no_save(kind: str, tmp_path: Path) -> None:
    """With durability="async", a save that lost its place is saved again, however often one asks."""
    url = url_of(kind, tmp_path)

    async def scenario() -> None:
        with hf.SyncCheckpointer(url) as rival:
            async with hf.Checkpointer(url, durability="async") as checkpointer:
                for turns in range(12):
                    run = f"run-{turns}"
                    await checkpointer.save(run, {"by": "first"})
                    await checkpointer.flush()
                    rival.save(run, {"by": "rival"})
                    await checkpointer.save(run, {"by": "second"})
                    task = asyncio.create_task(checkpointer.flush())
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    await checkpointer.flush()
                    newest = rival.load(run)
                    assert newest is not None
                    assert newest.state == {"by": "second"}, f"cancelled after {turns} turns"

    asyncio.run(asyncio.wait_for(scenario(), 60))


@KINDS
@pytest.mark.parametrize("point", ["writer.append.before", "writer.append.after"])
def test_an_accident_in_the_writer_is_told_and_not_the_end_of_it(
    kind: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that ran out, a bug in a store: whoever waits is told, and the next save works."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    url, path = url_of(kind, tmp_path), tmp_path / "oracle"

    async def scenario() -> None:
        oracle = Oracle(path, "worker")
        checkpointer = hf.Checkpointer(url)
        for n in range(3):
            state = {"n": n}
            call = oracle.begin("save", RUN, hash=state_hash(state))
            with faults.at(point, faults.raising(MemoryError()), nth=1 if n == 1 else -1):
                try:
                    saved = await asyncio.wait_for(checkpointer.save(RUN, state), 5)
                    call.ack(seq=saved.seq)
                except hf.HoldfastError as error:
                    call.fail(error)
        await checkpointer.close()
        oracle.close()

    asyncio.run(scenario())
    assert judge(url, path, min_acks=2) == []


@KINDS
def test_an_interrupt_during_a_commit_hides_nothing(kind: str, tmp_path: Path) -> None:
    """Ctrl-C in the thread that commits for others: they learn what they can rely on."""
    path = tmp_path / "oracle"
    url = url_of(kind, tmp_path)
    with hf.SyncCheckpointer(url) as checkpointer:
        oracle = Oracle(path, "worker")
        pause = faults.Pause()
        outcomes: list[BaseException | None] = []

        def save(run: str) -> None:
            state = {"run": run}
            call = oracle.begin("save", run, hash=state_hash(state))
            try:
                call.ack(seq=checkpointer.save(run, state).seq)
                outcomes.append(None)
            except BaseException as error:  # noqa: BLE001 - what is raised is the point
                call.fail(error)
                outcomes.append(error)

        with faults.at("writer.append.before", pause):
            first = threading.Thread(target=save, args=("first",))
            first.start()
            pause.wait_until_reached()
            others = [threading.Thread(target=save, args=(f"other-{n}",)) for n in range(3)]
            for thread in others:
                thread.start()
            with faults.at("writer.append.after", faults.raising(KeyboardInterrupt()), nth=1):
                pause.go_on()
                for thread in (first, *others):
                    thread.join(20)
                    assert not thread.is_alive(), "everyone gets an answer"
        oracle.close()
        assert check(read_history(path), dump(checkpointer)) == []


# --- fork


@KINDS
@pytest.mark.parametrize("run_of_child", [RUN, "run-b"])
@pytest.mark.parametrize("parent_closes", [False, True])
def test_parent_and_child_of_a_fork_both_go_on_saving(
    kind: str, run_of_child: str, parent_closes: bool, tmp_path: Path
) -> None:
    url, path = url_of(kind, tmp_path), tmp_path / "oracle"
    checkpointer = hf.SyncCheckpointer(url)

    def save(oracle: Oracle, run: str, count: int) -> None:
        for _ in range(count):
            op_id = oracle.next_id()
            state = {"op": op_id}
            call = oracle.begin("save", run, id=op_id, hash=state_hash(state))
            call.ack(seq=checkpointer.save(run, state).seq)

    parent = Oracle(path, "parent")
    save(parent, RUN, 3)
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child = Oracle(path, "child")
            save(child, run_of_child, 3)
            os.read(heard, 1)  # the parent has closed its store, or saved to it
            save(child, run_of_child, 3)
            os._exit(0)
        finally:
            os._exit(1)
    if parent_closes:
        checkpointer.close()
    else:
        save(parent, RUN, 3)
    os.write(said, b".")
    assert exit_code(pid) == 0
    checkpointer.close()
    assert judge(url, path, min_acks=9 if parent_closes else 12) == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_child_of_a_fork_saves_behind_what_its_parent_saved_since(
    kind: str, tmp_path: Path
) -> None:
    checkpointer = hf.SyncCheckpointer(url_of(kind, tmp_path))
    checkpointer.save(RUN, {"by": "both"})
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.read(heard, 1)
            checkpointer.save(RUN, {"by": "child"})
            os._exit(0)
        finally:
            os._exit(1)
    checkpointer.save(RUN, {"by": "parent"})
    os.write(said, b".")
    assert exit_code(pid) == 0
    checkpointer.close()
