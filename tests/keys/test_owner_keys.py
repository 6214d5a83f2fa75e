"""Every owner has a data key: made once, wrapped anew, and destroyed with the owner's runs."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence.trust.checking import Checker
from holdfast.kernel.keyed import destroy
from holdfast.keys.data_keys import DataKeys, KeyRow
from holdfast.keys.sealing import Sealer
from holdfast.model import Entry, Kind, key_journal, verdict_journal
from holdfast.seams import SYSTEM_CLOCK, SYSTEM_ENTROPY
from holdfast.stores import MemoryStore
from holdfast.workflow import step, workflow
from tests import faults
from tests.keys.forging import NEW, OLD, RING, keyed
from tests.keys.test_keyrings import BOTH, state_of


def sealer_of(cp: hf.SyncCheckpointer) -> Sealer:
    sealer = cp.core.journals.sealer
    assert sealer is not None
    return sealer


def test_a_forgotten_owner_can_be_read_by_nobody_not_even_in_a_backup(tmp_path: Path) -> None:
    url, backup = f"sqlite:///{tmp_path}/runs.db", tmp_path / "backup"
    with keyed(url) as cp:
        cp.save("ann's", {"secret": 1}, owner="ann")
        cp.save("ben's", 2, owner="ben")
    backup.mkdir()
    for file in tmp_path.glob("runs.db*"):
        shutil.copy(file, backup)
    with keyed(url) as cp:
        cp.forget(owner="ann")
        assert cp.load("ann's") is None
        assert state_of(cp, "ben's") == 2
    with keyed(url, BOTH) as cp:
        cp.rekey()
    # The old key was destroyed: the data key in the backup can't be unwrapped any more.
    with (
        keyed(f"sqlite:///{backup}/runs.db", hf.Keyring({"2026": NEW})) as cp,
        pytest.raises(hf.KeyMissingError, match="2025"),
    ):
        cp.load("ann's")


def test_a_run_whose_key_was_destroyed_is_unreadable_and_can_be_deleted() -> None:
    store = MemoryStore()
    with keyed(store) as cp:
        cp.save("ann's", 1, owner="ann")
        assert destroy(cp.core.journals, "ann")
        with pytest.raises(hf.KeyDestroyedError):
            cp.load("ann's")
    with keyed(store) as cp:
        with pytest.raises(hf.KeyDestroyedError):
            cp.load("ann's")
        cp.save("new", 2, owner="ann")
        assert state_of(cp, "new") == 2
        cp.clear("ann's", force=True)
        cp.save("ann's", 3, owner="ann")
        assert state_of(cp, "ann's") == 3


def test_an_owner_without_runs_is_forgotten_too() -> None:
    """Its runs were deleted before, and are in backups."""
    store = MemoryStore()
    with keyed(store) as cp:
        cp.save("ann's", 1, owner="ann")
        copy = store.read("ann's")
        cp.clear("ann's")
        cp.forget(owner="ann")
        store._journals["ann's"] = copy
    with keyed(store) as cp, pytest.raises(hf.KeyDestroyedError):
        cp.load("ann's")


def test_a_run_that_is_opened_while_its_owner_is_forgotten_is_refused_and_the_next_works() -> None:
    store = MemoryStore()
    with keyed(store) as other, keyed(store) as cp:
        cp.save("first", 1, owner="ann")
        append = store.append

        def forgets(*args: object, **options: object) -> list[bool]:
            store.append = append  # type: ignore[method-assign]
            destroy(other.core.journals, "ann")
            return append(*args, **options)  # type: ignore[arg-type]

        store.append = forgets  # type: ignore[method-assign]
        with pytest.raises(hf.KeyDestroyedError):
            cp.save("second", 2, owner="ann")
        cp.save("third", 3, owner="ann")
        assert state_of(cp, "third") == 3


def test_a_reply_that_was_lost_makes_no_second_data_key() -> None:
    class LosesReplies(MemoryStore):
        def erase(self, tombstone):  # type: ignore[no-untyped-def]
            super().erase(tombstone)
            raise hf.OutcomeUnknownError(tombstone.run, "the connection broke")

    store = LosesReplies()
    with keyed(store) as cp:
        cp.save("run", 1, owner="ann")
        assert state_of(cp, "run") == 1
    assert [entry.seq for entry in store.read(key_journal("ann"))] == [0]


def test_two_who_make_the_first_key_of_an_owner_end_up_with_one() -> None:
    store = MemoryStore()
    with keyed(store) as one, keyed(store) as other:

        def they() -> None:
            other.save("theirs", 2, owner="ann")

        with faults.at("keys.replace", they, nth=2):  # behind the key of runs without an owner
            one.save("ours", 1, owner="ann")
        for cp in (one, other):
            assert (state_of(cp, "ours"), state_of(cp, "theirs")) == (1, 2)
    with keyed(store) as cp:
        assert (state_of(cp, "ours"), state_of(cp, "theirs")) == (1, 2)


def test_data_keys_that_the_ring_cant_open_are_not_imported(tmp_path: Path) -> None:
    """With one such key in an owner's row, nothing of the owner could be read."""
    file = tmp_path / "run.jsonl"
    theirs = hf.Keyring({"2025": NEW})
    with keyed(MemoryStore(), theirs) as cp:
        cp.save("theirs", 1)
        cp.export_run("theirs", file)
    with keyed(MemoryStore()) as cp:
        cp.save("ours", 2)
        with pytest.raises((hf.WrongKeyError, ValueError)):
            cp.import_run(file)
        assert state_of(cp, "ours") == 2
        cp.save("more", 3)
    with (
        keyed(MemoryStore(), hf.Keyring({"2025": OLD, "theirs": NEW})) as cp,
        pytest.raises(hf.WrongKeyError),
    ):
        cp.import_run(file)


def test_a_bound_checkpointer_saves_after_another_process_forgot_its_owner() -> None:
    store = MemoryStore()
    with keyed(store) as other, hf.SyncCheckpointer(store, key=RING, owner="ann") as cp:
        cp.save("first", 1)
        other.forget(owner="ann")
        cp.save("second", 2)
        assert state_of(other, "second") == 2


def test_a_data_key_opens_nothing_for_an_owner_with_the_end_of_its_owners_name() -> None:
    store = MemoryStore()
    with keyed(store) as cp:
        cp.save("ann's", 1, owner="ann")
    keys = DataKeys(store, None, SYSTEM_CLOCK, SYSTEM_ENTROPY)
    identity, ring_key, wrapped = keys.row("ann").wrapped[0]
    keys.take_over(KeyRow("nn", None, ((identity + b"a".hex(), ring_key, wrapped),)))
    with keyed(store) as cp, pytest.raises(hf.CheckpointCorruptedError, match="no data keys"):
        cp.save("nn's", 2, owner="nn")


def test_what_was_found_about_evidence_is_encrypted_with_the_key_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @step(outputs=["report.txt"])
    def write() -> None:
        Path("report.txt").write_text("x")

    @workflow
    async def reporting() -> None:
        await write()

    store = MemoryStore()
    with hf.Engine(store, key=hf.Keyring({"2025": OLD})) as engine:
        engine.run_sync(reporting(), run_id="run", owner="ann")
        core = engine.checkpointer.core
        (head,) = [e for e in core.journals.entries("run", bodies=True) if e.kind == Kind.RESULT]
        Checker(core, hf.EvidenceVerifier()).check(head)
        (verdict,) = core.journals.entries(verdict_journal("run"))
        assert verdict.owner == "ann"


def test_the_chain_of_a_whole_store_is_proved_with_its_key_and_without(tmp_path: Path) -> None:
    ring = hf.Keyring({"2026": bytes(range(32))})
    with hf.SyncCheckpointer(tmp_path / "runs.db", key=ring) as cp:
        for owner in ("ann", "bob", None):
            cp.save(f"run of {owner}", {"n": 1}, owner=owner, thread_id="mail")
        cp.rekey(new_data_keys=True)
        cp.forget(owner="bob")
        assert not cp.verify_chain().problems
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        assert not cp.verify_chain().problems


def test_a_key_that_the_ring_lacks_hides_only_what_it_encrypted() -> None:
    store = MemoryStore()
    with keyed(store, hf.Keyring({"2025": OLD})) as cp:
        cp.save("old", 1, owner="ann")
        cp.save("empty", 2)
    with keyed(store, BOTH) as cp:
        keys = sealer_of(cp).keys
        assert keys is not None
        keys.add(keys.row("ann"))  # wrapped by the newer key, and the older one as it was
        keys.add(keys.row(None))
        keys.rewrap(keys.row(None))
        cp.save("new", 3, owner="ann")
    with keyed(store, hf.Keyring({"2026": NEW})) as cp:
        assert state_of(cp, "new") == 3
        cp.save("newer", 4, owner="ann")
        with pytest.raises(hf.KeyMissingError, match="2025"):
            cp.load("old")


def test_a_key_that_is_no_longer_in_memory_is_read_outside_of_the_event_loop(
    tmp_path: Path,
) -> None:
    store, loop = hf.open_store(f"sqlite:///{tmp_path}/runs.db"), threading.get_ident()
    blocked = []
    read = store.read

    def noted(*args: object, **options: object) -> list[Entry]:
        blocked.append(threading.get_ident() == loop)
        return read(*args, **options)  # type: ignore[arg-type]

    async def forgets() -> None:
        async with hf.Checkpointer(store, key=BOTH) as cp:
            await cp.save("r", 1, owner="ann")
            sealer = cp.core.journals.sealer
            assert sealer is not None
            sealer.forget("ann")
            store.read = noted  # type: ignore[method-assign]
            await cp.save("r", 2)

    asyncio.run(forgets())
    store.close()
    assert blocked
    assert not any(blocked)
