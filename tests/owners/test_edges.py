"""Where owners meet: at one id, in one thread, at what is deleted or damaged, in one process."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

import holdfast as hf
from holdfast.kernel.owner_view import OwnerView
from holdfast.model import Kind, Status, lost
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import step, workflow


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with closing(hf.open_store(f"sqlite:///{tmp_path}/runs.db")) as opened:
        yield opened


def of(store: Store, owner: str | None, **options: object) -> hf.SyncCheckpointer:
    return hf.SyncCheckpointer(store, owner=owner, **options)  # type: ignore[arg-type]


def test_runs_without_an_owner_are_nobodys(store: Store) -> None:
    of(store, None).save("run", 1)
    ann = of(store, "ann")
    assert ann.load("run") is None
    with pytest.raises(hf.RunTakenError):
        ann.save("run", 2)
    assert of(store, None).load("run").state == 1  # type: ignore[union-attr]


def test_runs_that_were_only_labelled_are_the_owners(store: Store) -> None:
    of(store, None).save("run", 1, owner="ann", thread_id="t")
    ann = of(store, "ann")
    assert [run.run_id for run in ann.thread("t")] == ["run"]
    ann.save("run", 2)
    assert of(store, None).load("run").state == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_taken_id_is_refused_however_it_is_saved(
    store: Store, durability: Literal["sync", "async", "exit"]
) -> None:
    of(store, "bob").save("run", "bob's", thread_id="t")
    ann = of(store, "ann", durability=durability)

    def save() -> None:
        ann.save("run", "ann's", thread_id="t")
        ann.flush()

    with pytest.raises(hf.RunTakenError) as caught:
        save()
    assert str(caught.value) == "the id 'run' is taken in this store; choose another one"
    assert of(store, "bob").load("run").state == "bob's"  # type: ignore[union-attr]
    assert of(store, "ann").thread("t") == []


def test_of_owners_who_race_for_an_id_one_gets_it(store: Store) -> None:
    start = threading.Barrier(4)
    outcomes: list[str] = []

    def save(owner: str) -> None:
        cp = of(store, owner)
        start.wait()
        try:
            cp.save("run", owner)
            outcomes.append(owner)
        except hf.RunTakenError:
            outcomes.append("taken")

    threads = [threading.Thread(target=save, args=(f"owner-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("taken") == 3
    (winner,) = {*outcomes} - {"taken"}
    assert of(store, winner).load("run").state == winner  # type: ignore[union-attr]


def test_the_id_of_a_deleted_run_is_free_for_all(store: Store) -> None:
    bob, ann = of(store, "bob"), of(store, "ann")
    bob.save("run", "bob's")
    bob.clear("run")
    assert ann.run("run") is None
    ann.save("run", "ann's")
    with pytest.raises(hf.RunTakenError):
        bob.save("run", "again")
    assert [checkpoint.state for checkpoint in ann.iter_states("run")] == ["ann's"]
    assert bob.list_checkpoints("run") == []


def test_a_tombstone_from_elsewhere_erases_no_run_of_others(store: Store) -> None:
    of(store, "bob").save("run", "bob's")
    view = OwnerView(store, "ann")
    tombstone = lost("run", 99)._replace(kind=Kind.TOMBSTONE.value)
    with pytest.raises(hf.RunTakenError):
        view.erase(tombstone)
    with pytest.raises(hf.RunTakenError):
        view.append([tombstone])
    with pytest.raises(hf.RunTakenError):
        view.trim(tombstone, {0: None, 1: None})
    assert of(store, "bob").load("run").state == "bob's"  # type: ignore[union-attr]


def test_stubs_belong_to_the_owner_of_their_run(store: Store) -> None:
    bob = of(store, "bob")
    for n in range(10):
        bob.save("run", n)
    bob.prune("run", keep_latest=1)
    entries = store.read("run", after=1, limit=3)
    assert {entry.status for entry in entries} == {Status.DELETED}
    assert OwnerView(store, "ann").read("run", after=1, limit=3) == []
    assert OwnerView(store, "ann").entries_at([("run", 3)]) == []
    assert OwnerView(store, "bob").read("run", after=1, limit=3) == entries
    assert OwnerView(store, "bob").entries_at([("run", 3)]) == store.entries_at([("run", 3)])


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_damage_is_told_to_the_owner_only(store: Store, tmp_path: Path) -> None:
    of(store, "bob").save("run", "bob's")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = x'00' WHERE seq = 1")
    assert of(store, "ann").load("run") is None
    with pytest.raises(hf.CheckpointNotFoundError):
        of(store, "ann").verify("run")
    with pytest.raises(hf.RunTakenError):
        of(store, "ann").save("run", 1)
    assert not of(store, "bob").verify("run").ok
    with pytest.raises(hf.CheckpointCorruptedError):
        of(store, "bob").load("run")


def test_who_watches_all_runs_hears_of_their_own(store: Store) -> None:
    bob, ann = of(store, "bob"), of(store, "ann")
    bob.save("bobs", 0)
    with ann.watch(every=0.02) as changes:
        assert [change.run_id for change in changes.wait(5)] == [None]
        bob.save("bobs", 1)
        bob.clear("bobs")
        ann.save("anns", 1)
        heard: set[str | None] = set()
        while "anns" not in heard:
            heard |= {change.run_id for change in changes.wait(5)}
    assert heard <= {"anns", None}


def test_who_watches_a_run_of_another_hears_nothing(store: Store) -> None:
    bob, ann = of(store, "bob"), of(store, "ann")
    bob.save("run", 0)
    with ann.watch("run", every=0.02) as changes, bob.watch("run", every=0.02) as own:
        bob.save("run", 1)
        assert own.wait(5)
        assert changes.wait(0.1) == []


def test_a_run_that_another_executes_in_this_process_is_not_reached(store: Store) -> None:
    gate = asyncio.Event()

    @step
    async def waits() -> str:
        await gate.wait()
        return "done"

    @workflow
    async def slow() -> str:
        return await waits()

    async def main() -> None:
        async with (
            hf.Engine(store, owner="bob", flows=[slow]) as bob,
            hf.Engine(store, owner="ann", flows=[slow]) as ann,
        ):
            handle = await bob.start(slow(), run_id="run")
            for call in (
                ann.pause("run"),
                ann.cancel("run"),
                ann.resume("run", flow=slow, take_over=True),
                ann.resume("run", flow=slow, from_step="waits"),
                ann.status("run"),
            ):
                with pytest.raises(hf.CheckpointNotFoundError):
                    await call
            with pytest.raises(hf.RunTakenError):
                await ann.run(slow(), run_id="run", resume=True)
            gate.set()
            assert await handle == "done"

    asyncio.run(main())


def test_child_runs_and_forks_belong_to_the_owner(store: Store) -> None:
    @workflow
    async def inner() -> int:
        return 1

    @workflow
    async def outer() -> int:
        return await inner()

    with hf.Engine(store, owner="ann") as engine:
        engine.run_sync(outer(), run_id="run")
    with of(store, "ann") as cp:
        cp.save("plain", 1)
        cp.fork("plain", run_id="fork")
    assert {run.owner for run in of(store, None).runs()} == {"ann"}
    assert [run.run_id for run in of(store, "bob").runs()] == []


def test_with_keys_each_owner_has_and_destroys_its_own(store: Store) -> None:
    ring = hf.Keyring({"2026": b"k" * 32})
    ann, bob = of(store, "ann", key=ring), of(store, "bob", key=ring)
    ann.save("anns", "ann's", thread_id="t")
    bob.save("bobs", "bob's", thread_id="t")
    with pytest.raises(hf.BoundOwnerError):
        ann.forget(owner="bob")
    for call in (ann.rekey, ann.cut_over):
        with pytest.raises(hf.BoundOwnerError, match="all owners"):
            call()
    ann.forget(owner="ann")
    assert bob.load("bobs").state == "bob's"  # type: ignore[union-attr]
    assert [run.run_id for run in bob.thread("t")] == ["bobs"]
    assert [run.run_id for run in of(store, None, key=ring).thread("t")] == ["bobs"]


def test_a_saver_sees_the_threads_of_its_owner() -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    from holdfast.integrations.langgraph import HoldfastSaver

    store = MemoryStore()
    ann, bob = HoldfastSaver(store, owner="ann"), HoldfastSaver(store, owner="bob")
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    bob.put(config, empty_checkpoint(), {}, {})  # type: ignore[arg-type]
    assert ann.get_tuple(config) is None  # type: ignore[arg-type]
    assert list(ann.list(None)) == []
    with pytest.raises(hf.RunTakenError):
        ann.put(config, empty_checkpoint(), {}, {})  # type: ignore[arg-type]
    ann.delete_thread("t")
    assert len(list(bob.list(None))) == 1
