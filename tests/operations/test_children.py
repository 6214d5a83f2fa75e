"""Child runs belong to the run that began them: they are found and deleted by what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.checkpoint import to_micros
from holdfast.codec.meta import dump_meta
from holdfast.engine.child_runs import child_id
from holdfast.kernel.draft import Draft
from holdfast.model import MAX_ID_BYTES, Entry, Kind, check_id, child_prefixes
from holdfast.operations.children import family, parent_run
from holdfast.operations.deleting import clear_if
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import ask, parallel, step, workflow
from tests.faults import FakeClock

DAY = 86_400.0


@step
def count() -> int:
    return 1


@workflow
async def inner() -> int:
    return await count()


@workflow
async def sub() -> int:
    return await inner() + await count()


@workflow
async def whole() -> int:
    return await sub() + await count()


@workflow
async def asks() -> bool:
    return await ask("Well?", returns=bool)


@workflow
async def waits() -> object:
    return await parallel(sub(), asks())


def run(cp: hf.SyncCheckpointer, run_id: str, owner: str | None = None) -> None:
    assert hf.Engine(cp).run_sync(whole(), run_id=run_id, owner=owner) == 3


def run_ids(cp: hf.SyncCheckpointer) -> list[str]:
    return sorted(found.run_id for found in cp.runs())


def family_of(name: str) -> list[str]:
    return [name, f"{name}//sub", f"{name}//sub//inner"]


def bring(cp: hf.SyncCheckpointer, run_id: str, name: str) -> None:
    """A run of the same id as a child of `run_id`, brought from another store without its parent."""
    with hf.SyncCheckpointer("memory://") as elsewhere:
        run(elsewhere, run_id, owner="bob")
        elsewhere.copy_to(cp.store, [name])


# --- deleting


def test_clearing_a_run_deletes_its_child_runs_and_theirs(cp: hf.SyncCheckpointer) -> None:
    run(cp, "x")
    assert run_ids(cp) == family_of("x")
    assert cp.clear("x") == 5
    assert run_ids(cp) == []
    assert cp.children("x") == []
    assert cp.clear("x") == 0


DELETE: list[Callable[[hf.SyncCheckpointer], object]] = [
    lambda cp: cp.clear("x"),
    lambda cp: cp.prune("x", keep_latest=0),
    lambda cp: cp.forget(run_id="x"),
    lambda cp: cp.forget(owner="ann"),
    lambda cp: cp.forget(thread_id="t"),
    lambda cp: cp.delete_thread("t"),
]


@pytest.mark.parametrize("delete", DELETE)
def test_what_only_shares_the_beginning_of_an_id_stays(
    cp: hf.SyncCheckpointer, delete: Callable[[hf.SyncCheckpointer], object]
) -> None:
    bring(cp, "x", "x//sub")
    bring(cp, "x", "x//sub//inner")
    theirs = run_ids(cp)
    hf.Engine(cp).run_sync(whole(), run_id="x", owner="ann", thread_id="t")
    assert [child.run_id for child in cp.children("x")] == ["x//sub~~2", "x//sub~~2//inner"]
    for other in ("x-2", "x/y", "xx"):
        run(cp, other, owner="bob")
    delete(cp)
    others = {name for other in ("x-2", "x/y", "xx") for name in family_of(other)}
    assert set(run_ids(cp)) == {*theirs, *others}


@pytest.mark.parametrize("delete", DELETE)
def test_an_active_child_run_keeps_everything_from_being_deleted(
    cp: hf.SyncCheckpointer, delete: Callable[[hf.SyncCheckpointer], object]
) -> None:
    hf.Engine(cp).run_sync(whole(), run_id="x", owner="ann", thread_id="t")
    cp.save("x//sub//inner", "waits", status="paused")
    before = [(found.run_id, found.seq) for found in cp.runs()]
    with pytest.raises(hf.RunActiveError, match=r"x//sub//inner.*force=True"):
        delete(cp)
    assert [(found.run_id, found.seq) for found in cp.runs()] == before
    cp.clear("x", force=True)
    assert run_ids(cp) == []


class Failing(MemoryStore):
    """Fails at one of the calls that delete something."""

    at = -1

    def erase(self, tombstone: Entry) -> bool:
        self.at -= 1
        if self.at == -1:
            raise hf.StoreError("killed")
        return super().erase(tombstone)


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("delete", DELETE)
def test_what_interrupts_a_deletion_leaves_the_run_and_the_next_one_finishes_it(
    delete: Callable[[hf.SyncCheckpointer], object], at: int
) -> None:
    store = Failing()
    with hf.SyncCheckpointer(store) as cp:
        hf.Engine(cp).run_sync(whole(), run_id="x", owner="ann", thread_id="t")
        store.at = at
        with pytest.raises(hf.StoreError):
            delete(cp)
        assert run_ids(cp) == family_of("x")[: 3 - at], "children go first"
        delete(cp)
        assert run_ids(cp) == []


def test_a_child_that_begins_while_its_parent_is_cleared_goes_with_it() -> None:
    class Racing(MemoryStore):
        race = False

        def erase(self, tombstone: Entry) -> bool:
            if self.race and tombstone.run == "x":
                self.race = False
                record(cp, "x", ("late", "x//late"))
                begin(cp, "x//late", parent="x@late", parent_birth="b")
            return super().erase(tombstone)

    store = Racing()
    with hf.SyncCheckpointer(store) as cp:
        begin(cp, "x", birth="b")
        store.race = True
        cp.clear("x")
        assert run_ids(cp) == []


def test_a_child_run_can_be_deleted_alone(cp: hf.SyncCheckpointer) -> None:
    run(cp, "x")
    cp.clear("x//sub")
    assert run_ids(cp) == ["x"]
    run(cp, "y")
    assert [one.run_id for one in cp.forget(run_id="y//sub//inner").runs] == ["y//sub//inner"]
    assert run_ids(cp) == ["x", "y", "y//sub"]


def test_a_fork_has_its_own_child_runs_and_none_of_the_originals(cp: hf.SyncCheckpointer) -> None:
    run(cp, "x")
    cp.fork("x", run_id="f")
    assert all(moment.kind != "child" for moment in cp.timeline("f"))
    assert cp.children("f") == []
    cp.clear("f")
    assert run_ids(cp) == family_of("x")


# --- retention


def test_retention_deletes_a_run_with_its_child_runs_and_not_before_it(
    url: str, tmp_path: Path
) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    policy = hf.Retention(run_ttl=timedelta(days=7), archive=tmp_path / "archive")
    with hf.SyncCheckpointer(url, clock=clock, retention=policy) as cp:
        run(cp, "x")
        bring(cp, "o", "o//sub")
        clock.advance(6 * DAY)
        cp.save("x", "it lives on")
        clock.advance(2 * DAY)
        orphan = cp.run("o//sub")
        assert orphan is not None
        assert cp.retain("x//sub").checkpoints == 0, "its parent may still need it"
        assert cp.apply_retention() == 0
        clock.advance(6 * DAY)
        assert cp.retain("x", dry_run=True) == ("x", 6, True, "")
        assert cp.apply_retention() == 6
        assert run_ids(cp) == ["o//sub"], "its clock is another"
    kept = sorted(path.name for path in (tmp_path / "archive").iterdir())
    assert {name.partition("@")[0] for name in kept} == {"x", "x%2F%2Fsub", "x%2F%2Fsub%2F%2Finner"}
    with hf.SyncCheckpointer("memory://") as other:
        for name in kept:
            other.import_run(tmp_path / "archive" / name)
        assert [child.run_id for child in other.children("x")] == family_of("x")[1:]


def test_retention_keeps_a_run_as_long_as_its_child_run_is_active(url: str) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    policy = hf.Retention(run_ttl=timedelta(days=7))
    with hf.SyncCheckpointer(url, clock=clock, retention=policy) as cp:
        with pytest.raises(hf.RunPausedError):
            hf.Engine(cp).run_sync(waits(), run_id="x")
        cp.save("x", "taken from its engine")
        clock.advance(30 * DAY)
        before = run_ids(cp)
        assert cp.retain("x", dry_run=True).checkpoints == 0
        assert cp.apply_retention() == 0
        assert run_ids(cp) == before


def test_retention_deletes_a_child_run_whose_parent_is_gone(url: str) -> None:
    clock = FakeClock(to_micros(datetime(2026, 1, 1, tzinfo=UTC)))
    with hf.SyncCheckpointer(
        url, clock=clock, retention=hf.Retention(run_ttl=timedelta(days=7))
    ) as cp:
        run(cp, "x")
        lose(cp, "x")
        clock.advance(30 * DAY)
        cp.apply_retention()
        assert run_ids(cp) == []


# --- ids


BEGIN: list[Callable[[hf.SyncCheckpointer], object]] = [
    lambda cp: cp.save("x//y", 1, thread_id="t"),
    lambda cp: cp.save_many([{"run_id": "x//y", "state": 1}]),
    lambda cp: cp.fork("origin", run_id="x//y"),
    lambda cp: hf.Engine(cp).run_sync(whole(), run_id="x//y"),
    lambda cp: hf.Engine(cp).run_sync(whole(), run_id="x//y", thread_id="t", resume=True),
    lambda cp: hf.Engine(cp).start_sync(whole(), run_id="x//y"),
    lambda cp: hf.CheckpointManager(cp).begin_step("x//y", "manual_checkpoint", {}),
]


@pytest.mark.parametrize("begin", BEGIN)
def test_no_new_run_may_have_an_id_like_that_of_a_child_run(
    cp: hf.SyncCheckpointer, begin: Callable[[hf.SyncCheckpointer], object]
) -> None:
    cp.save("origin", 1)
    with pytest.raises(hf.InvalidIdError, match=r"'x//y' holds '//'.*'/'"):
        begin(cp)
    assert run_ids(cp) == ["origin"]
    assert cp.thread("t") == []
    assert cp.store.read("x//y") == []


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_it_is_refused_at_once_also_where_saves_do_not_wait(durability: hf.Durability) -> None:
    with hf.SyncCheckpointer("memory://", durability=durability) as cp:
        with pytest.raises(hf.InvalidIdError):
            cp.save("x//y", 1)
        cp.save("x/y", 1)
        cp.flush()
        assert run_ids(cp) == ["x/y"]


def test_a_child_run_is_used_by_its_id_like_any_other_run(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    engine = hf.Engine(cp)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(waits(), run_id="x")
    engine.answer_sync("x//asks", True)
    assert engine.resume_sync("x//asks", flow=asks) is True
    cp.export_run("x//asks", tmp_path / "asks.jsonl")
    with hf.SyncCheckpointer("memory://") as other:
        assert other.import_run(tmp_path / "asks.jsonl") == "x//asks"
        other.save("x//asks", "by hand")
        other.rollback("x//asks", checkpoint_id=other.list_checkpoints("x//asks")[0].checkpoint_id)
        assert other.fork("x//asks", run_id="f").origin is not None
        other.complete("x//asks")
        assert other.verify("x//asks").ok
        other.clear("x//asks")
        with pytest.raises(hf.InvalidIdError):
            other.save("x//asks", "a new run")


def test_a_save_by_hand_takes_a_child_run_from_its_engine_as_it_takes_any_run(
    cp: hf.SyncCheckpointer,
) -> None:
    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(waits(), run_id="x")
    for name in ("x", "x//asks"):
        cp.save(name, "by hand")
        found = cp.run(name)
        assert found is not None
        assert found.status == "open"


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=300),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=300),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
)
def test_the_id_of_a_child_run_is_valid_and_begins_with_its_parents(
    parent: str, key: str, epoch: int, number: int
) -> None:
    parent = parent.encode()[:MAX_ID_BYTES].decode(errors="ignore") or "x"
    made = child_id(parent, key, epoch, number)
    check_id("run_id", made)
    assert "//" in made
    assert made.startswith(child_prefixes(parent))
    deeper = child_id(made, key, 0)
    assert deeper.startswith(child_prefixes(parent)), "so that one search finds them"


# --- a new run under an old id


def lose(cp: hf.SyncCheckpointer, run_id: str) -> None:
    """Delete a run alone, as something that knows nothing of child runs does it."""
    clear_if(cp.core, run_id, lambda head: True)


@pytest.mark.parametrize("delete", [lambda cp: cp.clear("x"), lambda cp: lose(cp, "x")])
def test_a_new_run_under_an_old_id_never_sees_the_child_runs_of_the_old_one(
    delete: Callable[[hf.SyncCheckpointer], object],
) -> None:
    calls: list[str] = []

    @step
    def pay() -> int:
        calls.append(hf.current_step().idempotency_key)
        return len(calls)

    @workflow
    async def part() -> int:
        return await pay()

    @workflow
    async def job() -> int:
        return await part()

    with hf.SyncCheckpointer("memory://") as cp:
        engine = hf.Engine(cp)
        assert engine.run_sync(job(), run_id="x") == 1
        delete(cp)
        old = set(run_ids(cp))
        assert engine.run_sync(job(), run_id="x") == 2
        assert len(set(calls)) == 2
        (child,) = cp.children("x")
        assert child.run_id not in old
        cp.clear("x")
        assert set(run_ids(cp)) == old


def test_child_runs_without_a_parent_are_deleted_by_their_own_ids(cp: hf.SyncCheckpointer) -> None:
    run(cp, "x")
    lose(cp, "x")
    assert cp.clear("x") == 0
    assert cp.forget(run_id="x").runs == ()
    assert run_ids(cp) == family_of("x")[1:]
    cp.clear("x//sub")
    assert run_ids(cp) == []


# --- damage


def damage(cp: hf.SyncCheckpointer, run_id: str, seq: int, meta: str) -> None:
    """Change an entry's metadata in place, in memory."""
    assert isinstance(cp.store, MemoryStore)
    entries = cp.store._journals[run_id]
    entries[seq] = entries[seq]._replace(meta=meta)
    cp.core.journals.forget(run_id)


def test_child_runs_of_a_run_whose_opening_is_damaged_are_found() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        run(cp, "x")
        damage(cp, "x", 0, '{"birth":"forged"}')
        assert [child.run_id for child in cp.children("x")] == family_of("x")[1:]
        cp.clear("x")
        assert run_ids(cp) == []


@pytest.mark.parametrize("meta", ["", "{", '{"run":"y"}', '{"run":"\\u001fstore"}', '{"run":7}'])
def test_an_altered_record_of_a_child_run_hides_nothing_and_hits_nobody(meta: str) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        run(cp, "x")
        run(cp, "y")
        (at,) = [moment.seq for moment in cp.timeline("x") if moment.kind == "child"]
        damage(cp, "x", at, meta)
        assert [child.run_id for child in cp.children("x")] == family_of("x")[1:]
        cp.clear("x")
        assert run_ids(cp) == family_of("y")


def test_child_runs_behind_an_entry_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"file://{tmp_path}") as cp:
        run(cp, "x")
        (at,) = [moment.seq for moment in cp.timeline("x") if moment.kind == "child"]
        (tmp_path / "x" / f"{at:010}.json").write_text("torn")
        assert [child.run_id for child in cp.children("x")] == family_of("x")[1:]
        assert len(cp.forget(run_id="x").runs) == 3
        assert run_ids(cp) == []


# --- what records may say


def begin(
    cp: hf.SyncCheckpointer,
    run_id: str,
    *,
    birth: str = "birth",
    parent: str | None = None,
    parent_birth: str | None = None,
) -> None:
    """Open a run as the engine, or whoever writes to the store, might have."""
    facts = {"birth": birth, "parent": parent, "parent_birth": parent_birth}
    opening = Draft(
        "open", "completed", parent=None, flow="f",
        meta=dump_meta({name: fact for name, fact in facts.items() if fact is not None}),
    )  # fmt: skip
    _append(cp, run_id, [opening])


def record(cp: hf.SyncCheckpointer, run_id: str, *begun: tuple[str, str]) -> None:
    """Record the beginning of child runs, by step and id."""
    kind = Kind.CHILD.value
    _append(
        cp,
        run_id,
        [Draft(kind, "completed", step=key, meta=json.dumps({"run": run})) for key, run in begun],
    )


def _append(cp: hf.SyncCheckpointer, run_id: str, drafts: list[Draft]) -> None:
    journals = cp.core.journals
    ticket = journals.extend(journals.fetch_tip(run_id, with_state=False), drafts, 60.0)
    assert ticket is not None
    journals.writer.wait(ticket)
    assert ticket.error is None


@pytest.mark.parametrize(
    ("parent", "birth"),
    [("x@s", "old"), ("x@t", "old"), ("y@s", "now"), (None, "now"), ("x", "now")],
)
def test_a_run_that_a_journal_names_is_no_child_unless_it_says_so_itself(
    parent: str | None, birth: str
) -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        begin(cp, "x", birth="now")
        record(cp, "x", ("s", "x//s"))
        begin(cp, "x//s", parent=parent, parent_birth=birth)
        assert cp.children("x") == []
        cp.clear("x")
        assert run_ids(cp) == ["x//s"]


NAMES = ["a", "a//b", "a//b//c", "a//d", "a@s", "a@s//b", "a/b", "b//a"]
names = st.sampled_from(NAMES)
births = st.sampled_from(["1", "1", "2"])
keys = st.sampled_from(["s", "s", "s@s"])


@given(
    st.dictionaries(names, st.tuples(births, names, keys, births), min_size=2),
    st.sets(names, min_size=2),
    st.lists(st.tuples(names, names, keys), max_size=5),
    names,
)
def test_whatever_is_recorded_only_what_both_sides_say_is_deleted_together(
    opened: dict[str, tuple[str, str, str, str]],
    recorded: set[str],
    lies: list[tuple[str, str, str]],
    root: str,
) -> None:
    """Lies, cycles, foreign births and ids that hold an @ included."""
    says = {
        name: (f"{parent}@{key}", parent_birth)
        for name, (_, parent, key, parent_birth) in opened.items()
        if "//" in name
    }
    begun = [*lies, *((opened[name][1], name, opened[name][2]) for name in recorded & says.keys())]

    def together(is_recorded: Callable[[str, str, str], bool]) -> set[str]:
        """The root, and what says so itself and is recorded."""
        found = {root} & opened.keys()
        while (
            more := {
                name
                for name, (said, birth) in says.items()
                for parent in found - {name}
                if said.startswith(f"{parent}@") and opened[parent][0] == birth
                if is_recorded(parent, name, said.removeprefix(f"{parent}@"))
            }
            - found
        ):
            found |= more
        return found

    with hf.SyncCheckpointer("memory://") as cp:
        for name, (birth, *_) in opened.items():
            said, parent_birth = says.get(name, (None, None))
            begin(cp, name, birth=birth, parent=said, parent_birth=parent_birth)
        for name, child, key in begun:
            if name in opened:
                record(cp, name, (key, child))
        least = together(lambda parent, name, key: (parent, name, key) in begun)
        found = {head.run for head in family(cp.core, root)}
        assert least <= found <= together(lambda parent, name, key: True)
        cp.clear(root)
        assert set(run_ids(cp)) == opened.keys() - found


def test_the_parent_of_a_child_run_is_the_very_run_that_began_it(cp: hf.SyncCheckpointer) -> None:
    run(cp, "x@y")
    assert parent_run(cp.core, "x@y//sub") == "x@y"
    assert parent_run(cp.core, "x@y") is None
    bring(cp, "z", "z//sub")
    assert cp.parent_of("z//sub") == "z@sub"
    assert parent_run(cp.core, "z//sub") is None
    run(cp, "z")
    assert parent_run(cp.core, "z//sub") is None
