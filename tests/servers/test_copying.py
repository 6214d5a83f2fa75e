"""Runs go from any store to any other, whole, whatever happens to either meanwhile."""

from __future__ import annotations

import random
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import envelope
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager
from holdfast.model import Entry, stub, verdict_journal
from holdfast.operations import adding, copying
from holdfast.store import ANY_HEAD, Behind, Store
from holdfast.stores.dynamodb import DynamoDBStore
from holdfast.stores.memory import MemoryStore
from holdfast.stores.mongodb import MongoDBStore
from holdfast.testing.contract import check_store
from tests.effort import examples
from tests.servers import children, dynamodb, mariadb, postgres, redis
from tests.servers.mongodb import MongoClient

PAGES = 130  # entries, of which a hundred are copied at a time

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: hf.open_store("memory://"),
    "file": lambda place: hf.open_store(f"file://{place}/runs"),
    "sqlite": lambda place: hf.open_store(f"sqlite:///{place}/runs.db"),
    "duckdb": lambda place: hf.open_store(f"duckdb:///{place}/runs.duckdb"),
    "postgres": lambda _: hf.open_store(postgres.new_url()),
    "mysql": lambda _: hf.open_store(mariadb.new_url()),
    "redis": lambda _: hf.open_store(redis.new_url()),
    "mongodb": lambda _: MongoDBStore(MongoClient()),
    "dynamodb": lambda _: DynamoDBStore(dynamodb.new_table(), client=dynamodb.DirectClient()),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Deltas, a branch left behind, a stub, a thread, evidence, its verdicts, and a name of its own."""
    work = tmp_path_factory.mktemp("work")
    (work / "made").touch()
    claim = Evidence("artifact_exists", "made", {"path": str(work / "made")})
    with (
        closing(MemoryStore()) as store,
        hf.SyncCheckpointer(store) as cp,
        CheckpointManager(store, base_path=work) as manager,
    ):
        log = [f"line {n:04}" for n in range(300)]
        saved = [cp.save("run", {"n": n, "log": log[: 250 + n]}, step=f"s{n}") for n in range(5)]
        cp.rollback("run", seq=saved[2].seq)
        cp.save("run", {"n": 9, "log": log}, metadata={"why": (1, b"\x00")})
        cp.delete("run", saved[1].checkpoint_id)
        for name in ("talk-2", "talk-1"):
            cp.save(name, {"hello": name}, thread_id="talk", owner="ann")
        begun = manager.begin_step("task", "iteration_end", {"n": 1})
        manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="mine")
        assert manager.verify_checkpoint("mine")
        yield store


def save_long(cp: hf.SyncCheckpointer, run: str) -> None:
    """So much that it is copied in parts, as changes to one another."""
    states = ({"n": n, "log": list(range(n + 99))} for n in range(PAGES))
    cp.save_many({"run_id": run, "state": state} for state in states)


def everything(store: Store) -> dict[str, Any]:
    """What a user sees of a store, in any form."""
    seen: dict[str, Any] = {}
    with hf.SyncCheckpointer(store) as cp, CheckpointManager(store) as manager:
        for run in (run.run_id for run in cp.runs(limit=500)):
            assert cp.verify(run).ok
            states = []
            for info in cp.list_checkpoints(run, limit=500, oldest_first=True):
                checkpoint = cp.load(run, seq=info.seq)
                assert checkpoint is not None
                states.append((info.seq, checkpoint.state, checkpoint.digest, checkpoint.metadata))
            verdicts = [entry.digest for entry in store.read(verdict_journal(run))]
            seen[run] = states, verdicts
        seen["thread"] = [run.run_id for run in cp.thread("talk")]
        mine = manager.get_checkpoint("mine")
        seen["alias"] = mine and (mine.task_id, mine.seq, mine.verified)
    assert check_store(store) == []
    return seen


@pytest.mark.parametrize("kind", STORES)
def test_everything_goes_from_each_store_to_each_other(
    kind: str, original: Store, tmp_path: Path
) -> None:
    """To the next two of them; `make crash` has every pair."""
    kinds = [*STORES, *STORES]
    others = kinds[kinds.index(kind) + 1 :][: min(examples(2), len(STORES))]
    wanted = everything(original)
    assert (len(wanted["run"][0]), wanted["thread"]) == (5, ["talk-1", "talk-2"])
    assert wanted["task"][1]
    assert wanted["alias"]
    with closing(STORES[kind](tmp_path)) as source, hf.SyncCheckpointer(original) as cp:
        assert cp.copy_to(source) == 4
        for other in others:
            (place := tmp_path / other).mkdir()
            with closing(STORES[other](place)) as target, hf.SyncCheckpointer(source) as here:
                assert here.copy_to(target) == 4
                assert everything(target) == wanted, other
                assert here.copy_to(target) == 4, "what is there is left alone"


@pytest.mark.parametrize(("at_once", "nth"), [(500, 1), (500, 5), (1, 2), (1, 6), (1, 8)])
def test_a_copy_that_was_killed_is_finished_by_starting_it_again(
    at_once: int, nth: int, original: Store, tmp_path: Path
) -> None:
    """In a block of runs, in a long run, between runs, before the last of them is in its thread."""
    source, target = f"sqlite:///{tmp_path}/source.db", f"sqlite:///{tmp_path}/target.db"
    with hf.SyncCheckpointer(original) as cp:
        cp.copy_to(source)
    with hf.SyncCheckpointer(source) as cp:
        save_long(cp, "long")
        work = (children.copy_and_die, source, target, "sqlite.commit.after", nth, at_once)
        assert children.run(work) == [-signal.SIGKILL]
        with closing(hf.open_store(target)) as store:
            assert store.runs()
            assert cp.copy_to(store) == 5
            assert everything(store) == everything(cp.store)


class Busy(MemoryStore):
    """Somebody else does something between two pages."""

    between: Callable[[], object] | None = None

    def read(self, run: str, **options: Any) -> list[Entry]:
        if run == "run" and (options.get("after") or 0) > 50 and self.between is not None:
            act, self.between = self.between, None
            act()
        return super().read(run, **options)


@pytest.fixture(params=["memory", "file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(STORES[request.param](tmp_path)) as store:
        yield store


@pytest.mark.parametrize("what", ["save", "prune", "delete", "clear"])
def test_a_source_may_be_used_while_it_is_copied(what: str, target: Store) -> None:
    with closing(Busy()) as source, hf.SyncCheckpointer(source) as cp:
        save_long(cp, "run")
        source.between = {
            "save": lambda: cp.save("run", "more"),
            "prune": lambda: (cp.prune("run", keep_latest=3), cp.save("run", "more")),
            "delete": lambda: cp.delete("run", seq=PAGES),  # the current one
            "clear": lambda: (cp.clear("run"), cp.save("run", "anew")),
        }[what]
        cp.copy_to(target, ["run"])
        assert source.between is None
        assert everything(target) == everything(source)


def test_what_is_deleted_after_a_copy_is_deleted_by_the_next(target: Store) -> None:
    with closing(MemoryStore()) as source, hf.SyncCheckpointer(source) as cp:
        for run in ("pruned", "cleared"):
            save_long(cp, run)
        cp.copy_to(target)
        for keep in (9, 3):
            cp.prune("pruned", keep_latest=keep)
            cp.save("pruned", f"since {keep}")
        cp.clear("cleared")
        cp.save("cleared", "anew")
        cp.copy_to(target)
        assert everything(target) == everything(source)
        assert everything(target)["cleared"] == everything(source)["cleared"]


@pytest.fixture
def source() -> Iterator[Store]:
    with closing(MemoryStore()) as store:
        yield store


def state_of(store: Store, run: str) -> object:
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load(run)
        return loaded and loaded.state


def test_another_run_of_that_name_is_not_erased_with_it(source: Store, target: Store) -> None:
    with hf.SyncCheckpointer(target) as there:
        there.save("run", "theirs")
    with hf.SyncCheckpointer(source) as cp:
        for n in range(5):
            cp.save("run", n)
        cp.clear("run")
        cp.save("run", "anew")
        with pytest.raises(hf.RunExistsError):
            cp.copy_to(target, ["run"])
    assert state_of(target, "run") == "theirs"


def test_a_run_that_is_refused_keeps_no_other_from_being_copied(
    source: Store, target: Store
) -> None:
    """It was saved to and cleared since: nobody knows whether the target went on from there."""
    with hf.SyncCheckpointer(source) as cp, hf.SyncCheckpointer(target) as there:
        for run in ("a", "b", "c"):
            cp.save(run, 1)
        cp.copy_to(target)
        for run in ("a", "b"):
            cp.save(run, 2)
            cp.clear(run)
            cp.save(run, "anew")
        cp.save("c", 2)
        cp.save("d", 1, thread_id="talk")
        seen: list[str] = []
        with pytest.raises(hf.CopyRefusedError, match="'a', 'b'; they are unchanged") as error:
            cp.copy_to(target, progress=seen.append)
        assert (error.value.run_ids, error.value.target) == (("a", "b"), target.url)
        assert seen == ["c", "d"]
        assert [state_of(target, run) for run in "abcd"] == [1, 1, 2, 1]
        assert [run.run_id for run in there.thread("talk")] == ["d"]
        for run in ("a", "b"):
            there.clear(run)
        assert cp.copy_to(target) == 4
        assert everything(target) == everything(source)


def test_a_deleted_run_can_be_named_no_more_and_stays_in_the_copy(
    source: Store, target: Store
) -> None:
    with hf.SyncCheckpointer(source) as cp:
        cp.save("run", 1)
        cp.copy_to(target)
        cp.clear("run")
        assert cp.copy_to(target) == 0
        with pytest.raises(hf.CheckpointNotFoundError, match="'run'"):
            cp.copy_to(target, ["run"])
    assert state_of(target, "run") == 1


@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.parametrize("verified", ["source", "target"])
def test_verdicts_never_keep_a_run_from_being_copied(
    verified: str, cleared: bool, source: Store, target: Store, tmp_path: Path
) -> None:
    """Each store has its own of them; those of a run that was cleared go with it."""
    (tmp_path / "made").touch()
    claim = Evidence("artifact_exists", "made", {"path": str(tmp_path / "made")})
    with (
        hf.SyncCheckpointer(source) as cp,
        CheckpointManager(source, base_path=tmp_path) as manager,
    ):
        for name in ("first", "second"):
            begun = manager.begin_step("task", "iteration_end", {"n": name})
            manager.commit_step(begun, EvidencePack([claim]), checkpoint_id=name)
        assert manager.verify_checkpoint("first")
        cp.copy_to(target)
        with CheckpointManager(
            source if verified == "source" else target, base_path=tmp_path
        ) as checking:
            assert checking.verify_checkpoint("second")
        assert manager.verify_checkpoint("second")
        if cleared:
            cp.clear("task")
        cp.save("task", "more")
        cp.copy_to(target)
    assert state_of(target, "task") == "more"
    left = [entry.status for entry in target.read(verdict_journal("task"))]
    assert (left == ["deleted"]) == cleared


class Shared(MemoryStore):
    """Somebody else does something before the reads with these numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: dict[int, Callable[[], object]] = {}

    def read(self, run: str, **options: Any) -> list[Entry]:
        if run == "run":
            acts, self.acts = self.acts, {}
            if 0 in acts:
                acts.pop(0)()
            self.acts = {number - 1: act for number, act in acts.items()}
        return super().read(run, **options)


class Readable(Shared):
    form = "readable"


ACTS = st.sampled_from(["save", "back", "delete", "prune 1", "prune 2", "prune 4"])


@settings(max_examples=examples(100), deadline=None)
@given(
    kinds=st.tuples(*[st.sampled_from([Shared, Readable])] * 2),
    copied=st.booleans(),
    since=st.lists(ACTS, max_size=5),
    meanwhile=st.dictionaries(st.integers(0, 30), ACTS, max_size=5),
)
@example(  # trimmed again while the target is
    kinds=(Shared, Shared), copied=True, since=["prune 4", "save"], meanwhile={4: "prune 1"}
)
@example(  # the same, with a target whose changes are made anew
    kinds=(Readable, Shared), copied=True, since=["prune 4", "save"], meanwhile={8: "prune 1"}
)
@example(  # what is being encoded anew goes
    kinds=(Readable, Shared), copied=False, since=["back", "save"], meanwhile={6: "prune 1"}
)
@example(kinds=(Shared, Readable), copied=False, since=[], meanwhile={8: "prune 2"})
def test_every_state_of_a_copy_can_be_loaded_whenever_its_source_was_changed(
    kinds: tuple[type[Shared], type[Shared]],
    copied: bool,
    since: list[str],
    meanwhile: dict[int, str],
) -> None:
    states: dict[int, object] = {}

    def act(what: str) -> None:
        seqs = sorted(info.seq for info in cp.list_checkpoints("run"))
        if what == "save":
            state = {"n": len(states), "log": [f"line {n:05}" for n in range(900 + len(states))]}
            states[cp.save("run", state).seq] = state
        elif what == "back":
            cp.rollback("run", seq=seqs[len(seqs) // 2])
        elif what == "delete" and len(seqs) > 1:
            cp.delete("run", seq=seqs[-1])
        elif what.startswith("prune"):
            cp.prune("run", keep_latest=int(what.split()[1]))

    with (
        patch.multiple(copying, PAGE=5, _FEW=3),
        patch.object(adding, "PAGE", 5),
        closing(kinds[0]()) as source,
        closing(kinds[1]()) as target,
        hf.SyncCheckpointer(source) as cp,
    ):
        for _ in range(5):
            act("save")
        if copied:
            cp.copy_to(target)
        for what in since:
            act(what)
        source.acts = {number: partial(act, what) for number, what in meanwhile.items()}
        cp.copy_to(target)
        source.acts = {}
        found = {seq: state for seq, state, *_ in everything(target)["run"][0]}
        assert found.items() <= states.items()
        cp.copy_to(target)
        assert everything(target) == everything(source)


class Weighed(MemoryStore):
    """Knows how much it was given, or gave, at once."""

    most = 0

    def weigh(self, entries: Sequence[Entry]) -> None:
        self.most = max(self.most, sum(len(entry.body) for entry in entries))

    def read(self, run: str, **options: Any) -> list[Entry]:
        found = super().read(run, **options)
        self.weigh(found)
        return found

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self.weigh(entries)
        return super().append(entries, behind)


class WeighedReadable(Weighed):
    form = "readable"


def test_large_states_are_carried_few_at_a_time(tmp_path: Path) -> None:
    noise = [f"{random.Random(n).randbytes(200_000).hex()}" for n in range(3)]
    with closing(Weighed()) as source, hf.SyncCheckpointer(source) as cp:
        for n in range(30):
            cp.save("small", {"n": n, "noise": noise[0], "last": noise[n % 3]})
        for n in range(30):
            cp.save("large", random.Random(n).randbytes(900_000))
        cp.export_run("small", tmp_path / "run.jsonl")
        source.most = 0
        for kind in (Weighed, WeighedReadable):
            with closing(kind()) as target, hf.SyncCheckpointer(target) as there:
                cp.copy_to(target)
                assert target.most < 20_000_000
                assert there.clear("small") == 30
        assert source.most < 20_000_000
    with closing(WeighedReadable()) as target, hf.SyncCheckpointer(target) as there:
        there.import_run(tmp_path / "run.jsonl")
        assert target.most < 20_000_000


@pytest.mark.parametrize("what", ["gone", "another"])
def test_a_copy_whose_states_do_not_fit_together_is_found_by_the_next(
    what: str, source: Store
) -> None:
    with closing(MemoryStore()) as target, hf.SyncCheckpointer(source) as cp:
        for n in range(3):
            cp.save("run", {"n": n, "log": [f"line {i:05}" for i in range(900 + n)]})
        if what == "gone":
            cp.save("run", "whole")  # the current one, which builds on none
        entries = source.read("run")
        first = entries[1]
        whole = envelope.keyframe(b"other")
        other = envelope.seal(first[:6], first[7:18], entries[0].digest, whole)
        other = other._replace(digest=first.digest)
        entries[1] = stub(first) if what == "gone" else other
        target.append(entries)
        with pytest.raises(hf.CheckpointCorruptedError, match=r"run@\d.*in memory://"):
            cp.copy_to(target)


@pytest.mark.parametrize(
    "damage", ["body = zeroblob(20)", "step = 'forged'", "digest = zeroblob(32)"]
)
def test_a_target_that_was_altered_underneath_is_found_by_the_next_copy(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "copy.db"
    with hf.SyncCheckpointer("memory://") as cp:
        for n in range(3):
            cp.save("run", {"n": n})
        cp.copy_to(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE holdfast_entries SET {damage} WHERE seq = 2")
        with pytest.raises(hf.CheckpointCorruptedError, match=r"run@2.*copy\.db"):
            cp.copy_to(path)
