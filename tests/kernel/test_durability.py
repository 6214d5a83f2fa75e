from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.store import ANY_HEAD, Store
from holdfast.stores.memory import MemoryStore
from tests.waiting import run_process


def run_program(program: str, *args: str) -> str:
    code = textwrap.dedent(program)
    done = run_process(
        [sys.executable, "-W", "error", "-c", code, *args],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_async_saves_are_in_order_and_durable_after_flush(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url, durability="async") as cp:
            for n in range(200):
                await cp.save("run", {"n": n})
            await cp.flush()
            infos = await cp.list_checkpoints("run", oldest_first=True)
            loaded = [await cp.load("run", seq=info.seq) for info in infos]
            assert [c.state["n"] for c in loaded if c] == list(range(200))

    asyncio.run(main())


def test_async_saves_that_lost_their_place_are_saved_again_in_order(kept_url: str) -> None:
    with (
        hf.SyncCheckpointer(kept_url, durability="async") as one,
        hf.SyncCheckpointer(kept_url) as two,
    ):
        one.save("run", ["one", 0])
        for n in range(1, 20):
            one.save("run", ["one", n])
            two.save("run", ["two", n])
        one.flush()
        infos = two.list_checkpoints("run", oldest_first=True)
        found = [c.state for info in infos if (c := two.load("run", seq=info.seq))]
        assert [n for who, n in found if who == "one"] == list(range(20))
        assert [n for who, n in found if who == "two"] == list(range(1, 20))
        assert two.verify("run").ok


def test_no_async_save_overtakes_those_whose_flush_was_cancelled(kept_url: str) -> None:
    async def main() -> None:
        one = hf.Checkpointer(kept_url, durability="async")
        await one.save("run", ["one", 0])
        two.save("run", ["two", 0])
        for n in range(1, 9):
            await one.save("run", ["one", n])
        backlog = one.core.backlog
        while not all(ticket.done for ticket in backlog):
            await asyncio.sleep(0)
        flush = asyncio.create_task(one.flush())
        while backlog and (backlog[0].error is not None or not backlog[0].entries):
            await asyncio.sleep(0)  # until the first is on its way again
        flush.cancel()
        await one.save("run", ["one", 9])
        await one.close()

    with hf.SyncCheckpointer(kept_url) as two:
        asyncio.run(main())
        infos = two.list_checkpoints("run", oldest_first=True)
        found = [c.state for info in infos if (c := two.load("run", seq=info.seq))]
        assert [n for who, n in found if who == "one"] == list(range(10))


class Failing(MemoryStore):
    """Refuses everything once told to."""

    inline = False
    broken = False

    def append(self, entries, behind=ANY_HEAD):  # type: ignore[no-untyped-def]
        if self.broken:
            raise hf.StoreError("the disk is on fire")
        return super().append(entries, behind)


def test_an_error_of_an_async_save_shows_at_the_next_call() -> None:
    store = Failing()
    cp = hf.SyncCheckpointer(store, durability="async")
    cp.save("run", 1)
    store.broken = True
    cp.save("run", 2)
    with pytest.raises(hf.CheckpointSaveError, match="on fire"):
        cp.flush()
    store.broken = False
    cp.save("run", 3)
    cp.close()


class Away(MemoryStore):
    """Can't be reached a few times."""

    inline = False
    reads = appends = 0  # that fail before the next one does not

    def append(self, entries, behind=ANY_HEAD):  # type: ignore[no-untyped-def]
        if self.appends:
            self.appends -= 1
            raise hf.StoreUnavailableError("nobody answers")
        return super().append(entries, behind)

    def read(self, run, **which):  # type: ignore[no-untyped-def]
        if self.reads:
            self.reads -= 1
            raise hf.StoreUnavailableError("nobody listens")
        return super().read(run, **which)


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Away()
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run", 1)
        assert not caplog.records, "nothing happened"
        store.appends = 3
        cp.save("run", 2)
        held_up, goes_on = caplog.records
        assert (held_up.name, held_up.levelname) == ("holdfast", "WARNING")
        assert "retrying to save: nobody answers" in held_up.message
        assert "saving again" in goes_on.message
        caplog.clear()
        store.reads = 2
        cp.save("another", 1)
        assert ["nobody listens" in record.message for record in caplog.records] == [True, False]
        caplog.clear()
        cp.save("another", 2)
        assert not caplog.records


def test_an_outage_that_outlasts_the_deadline_is_over_with_the_next_save(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Away()
    with hf.SyncCheckpointer(store, deadline=0.01) as cp:
        cp.save("run", 1)
        store.appends = 1_000_000
        for _ in range(2):
            with pytest.raises(hf.CheckpointSaveError, match="nobody answers"):
                cp.save("run", 2)
        assert len(caplog.records) == 1, "once, however many saves fail"
        store.appends = 0
        cp.save("run", 3)
        assert "saving again" in caplog.records[-1].message


def test_with_exit_only_the_newest_state_is_written_and_the_run_is_known_at_once(url: str) -> None:
    store = hf.open_store(url)
    with hf.SyncCheckpointer(store, durability="exit") as cp, hf.SyncCheckpointer(store) as other:
        for n in range(10):
            cp.save("run", n)
        early = other.load("run")
        assert early is not None, "beginning a run is never put off"
        assert early.state == 0
        cp.flush()
        late = other.load("run")
        assert late is not None
        assert late.state == 9
        assert len(other.list_checkpoints("run")) == 2
    store.close()


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_nothing_is_lost_when_the_interpreter_exits_without_close(
    durability: str, kept_url: str
) -> None:
    run_program(
        """
        import sys, holdfast as hf
        cp = hf.SyncCheckpointer(sys.argv[1], durability=sys.argv[2])
        for n in range(100):
            cp.save("run", n)
        """,
        kept_url,
        durability,
    )
    with hf.SyncCheckpointer(kept_url) as cp:
        checkpoint = cp.load("run")
        assert checkpoint is not None
        assert checkpoint.state == 99


def test_close_is_final_and_may_be_called_twice(url: str) -> None:
    cp = hf.SyncCheckpointer(url)
    cp.save("run", 1)
    cp.close()
    cp.close()
    with pytest.raises(hf.StoreClosedError, match="open it again"):
        cp.save("run", 2)
    with pytest.raises(hf.StoreClosedError):
        cp.load("run")


def test_a_store_that_was_handed_in_stays_open(url: str) -> None:
    store = hf.open_store(url)
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run", 1)
    with hf.SyncCheckpointer(store) as cp:
        assert cp.load("run") is not None
    store.close()


def test_nothing_is_left_behind_after_close(kept_url: str) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def use() -> None:
        async with hf.Checkpointer(kept_url) as cp:
            await asyncio.gather(*(cp.save(f"run-{n}", n) for n in range(20)))
            await asyncio.gather(*(cp.load(f"run-{n}") for n in range(20)))

    asyncio.run(use())
    files, threads = open_files(), set(threading.enumerate())
    for _ in range(5):
        asyncio.run(use())
    assert open_files() <= files
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.on_disk
def test_what_must_be_survived_can_be_required(tmp_path: Path) -> None:
    hf.SyncCheckpointer(tmp_path / "a.db", survives="power-loss").close()
    hf.SyncCheckpointer(tmp_path / "b.db", survives="process-crash").close()
    with pytest.raises(hf.DurabilityError, match="survives nothing, but process-crash"):
        hf.SyncCheckpointer("memory://", survives="process-crash")


def test_a_child_of_fork_saves_beside_its_parent(kept_url: str) -> None:
    out = run_program(
        """
        import os, sys, warnings, holdfast as hf
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of fork with threads
        cp = hf.SyncCheckpointer(sys.argv[1], durability="async")
        cp.save("shared", "parent before")
        cp.flush()
        child = os.fork()
        for n in range(10):
            cp.save("shared", f"{'parent' if child else 'child'} {n}")
            cp.save("parent" if child else "child", n)
        cp.close()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        with hf.SyncCheckpointer(sys.argv[1]) as cp:
            assert cp.load("parent").state == cp.load("child").state == 9
            states = [cp.load("shared", seq=i.seq).state for i in cp.list_checkpoints("shared")]
            assert sorted(states) == sorted(
                ["parent before", *(f"{who} {n}" for who in ("parent", "child") for n in range(10))]
            )
            assert cp.verify("shared").ok
            print("ok")
        """,
        kept_url,
    )
    assert out == "ok\n"


def test_the_default_store_is_found_in_the_environment_the_project_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with hf.SyncCheckpointer() as cp:
        assert cp.store.url == f"sqlite:///{tmp_path}/.holdfast/holdfast.db"
    (tmp_path / "pyproject.toml").write_text('[tool.holdfast]\nstore = "sqlite:///mine.db"\n')
    with hf.SyncCheckpointer() as cp:
        assert cp.store.url == f"sqlite:///{tmp_path}/mine.db"
    monkeypatch.setenv("HOLDFAST_STORE", "memory://")
    with hf.SyncCheckpointer() as cp:
        assert cp.store.url == "memory://"


def test_import_is_light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # it imports some of them itself
    out = run_program(
        """
        import sys, holdfast
        holdfast.SyncCheckpointer, holdfast.Checkpointer
        heavy = {"asyncio", "numpy", "pydantic", "rich", "click", "sqlite3", "http", "multiprocessing"}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    assert out == "[]\n"
    assert os.fspath(Path(hf.__file__).with_name("py.typed"))


def test_a_save_whose_reply_was_lost_is_neither_lost_nor_doubled() -> None:
    class LosesReplies(MemoryStore):
        inline = False
        replies = 0

        def append(self, entries, behind=ANY_HEAD):  # type: ignore[no-untyped-def]
            outcomes = super().append(entries, behind)
            self.replies += 1
            if self.replies % 2:
                raise hf.OutcomeUnknownError(entries[0].run, "the connection broke")
            return outcomes

    store: Store = LosesReplies()
    with hf.SyncCheckpointer(store) as cp:
        for n in range(10):
            cp.save("run", n)
        infos = cp.list_checkpoints("run", oldest_first=True)
        assert [c.state for info in infos if (c := cp.load("run", seq=info.seq))] == list(range(10))
        assert cp.verify("run").ok


def test_a_program_that_leaves_its_store_open_ends_without_a_word(kept_url: str) -> None:
    program = "import sys, holdfast as hf; store = hf.open_store(sys.argv[1])"
    done = run_process([sys.executable, "-c", program, kept_url], capture_output=True, check=True)
    assert done.stderr == ""
