from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast as hf
from tests.waiting import join


def test_tasks_that_begin_a_run_together_open_it_once(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            await asyncio.gather(*(cp.save("run", n, thread_id="talk") for n in range(20)))
            kinds = [entry.kind for entry in cp.store.read("run")]
            assert kinds == ["open", *["checkpoint"] * 20]
            assert [run.run_id for run in await cp.thread("talk")] == ["run"]

    asyncio.run(main())


def test_of_many_saves_that_expect_the_same_checkpoint_one_wins(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            base = await cp.save("run", "base")
            outcomes = await asyncio.gather(
                *(cp.save("run", n, expect=base) for n in range(20)), return_exceptions=True
            )
            winners = [result for result in outcomes if isinstance(result, hf.Checkpoint)]
            assert len(winners) == 1
            assert all(isinstance(r, hf.Checkpoint | hf.ConflictError) for r in outcomes)
            assert len(await cp.list_checkpoints("run")) == 2

    asyncio.run(main())


def test_a_batch_keeps_to_what_it_expects(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as one, hf.SyncCheckpointer(kept_url) as two:
        base = one.save("run", "base")
        two.save("run", "theirs")
        with pytest.raises(hf.ConflictError):
            one.save_many([{"run_id": "run", "state": "lost", "expect": base}])
        assert len(two.list_checkpoints("run")) == 2


def test_loads_beside_saves_only_see_whole_states(url: str) -> None:
    with hf.SyncCheckpointer(url) as cp:
        cp.save("run", {"n": 0, "check": [0] * 3000})
        done = threading.Event()
        seen: list[int] = []
        wrong: list[object] = []

        def read() -> None:
            while not done.is_set():
                checkpoint = cp.load("run")
                assert checkpoint is not None
                state = checkpoint.state
                seen.append(state["n"])
                if state["check"] != [state["n"]] * 3000:
                    wrong.append(state)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for n in range(1, 60):
            cp.save("run", {"n": n, "check": [n] * 3000})
        done.set()
        for reader in readers:
            join(reader)
        assert wrong == []
        assert seen


def test_reads_never_go_back_in_time(url: str) -> None:
    async def main() -> None:
        async with hf.Checkpointer(url) as cp:
            await cp.save("run", 0)
            seen: list[int] = []

            async def read() -> None:
                while not seen or seen[-1] < 49:
                    checkpoint = await cp.load("run")
                    assert checkpoint is not None
                    seen.append(checkpoint.state)
                    await asyncio.sleep(0)

            async def write() -> None:
                for n in range(1, 50):
                    await cp.save("run", n)
                    await asyncio.sleep(0)

            async with asyncio.timeout(60):
                await asyncio.gather(read(), write())
            assert seen == sorted(seen)

    asyncio.run(main())
