"""A store that was used before it got a key: what was there is accepted, and nothing more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.codec import values
from holdfast.keys.signing import SigningKey, TrustedKeys
from holdfast.model import CUT_OVER
from holdfast.stores import MemoryStore
from tests.damage.servers import VAULTS
from tests.damage.vaults import Vault
from tests.keys.forging import RING, Parts, journal_of, keyed, large, rechained
from tests.keys.test_keyrings import state_of

WORKER = SigningKey.ed25519("worker", bytes(range(32)))


def grow(cp: hf.SyncCheckpointer, run: str, first: int, last: int) -> None:
    for n in range(first, last + 1):
        cp.save(run, large(n), step=f"s{n}")


def test_a_store_with_runs_takes_a_key_only_after_a_cut_over(kept_url: str) -> None:
    with hf.SyncCheckpointer(kept_url) as cp:
        grow(cp, "old", 1, 4)
    with keyed(kept_url) as cp:
        with pytest.raises(hf.CutOverError, match="cut-over"):
            cp.save("new", 1)
        with pytest.raises(hf.PlaintextError):
            cp.load("old")
        assert cp.cut_over() >= 1
        assert state_of(cp, "old") == large(4)
        cp.save("old", large(5))
        cp.save("new", {"n": 1})
    with keyed(kept_url) as cp:
        assert [found.state["n"] for found in cp.iter_states("old")] == [1, 2, 3, 4, 5]
        assert state_of(cp, "new") == {"n": 1}
        assert cp.verify("old").ok
        cp.rollback("old", seq=2)
        assert state_of(cp, "old") == large(2)


def test_who_has_no_key_can_neither_save_nor_delete_after_it(url: str) -> None:
    store = MemoryStore() if url.startswith("memory") else hf.open_store(url)
    with keyed(store) as cp:
        cp.save("run", 1)
    with hf.SyncCheckpointer(store) as cp:
        for forbidden in (
            lambda: cp.save("run", 2),
            lambda: cp.save("another", 2),
            lambda: cp.clear("run"),
            lambda: cp.rollback("run", seq=1),
            lambda: cp.fork("run", run_id="copy"),
            lambda: cp.prune("run", keep_latest=0),
        ):
            with pytest.raises(hf.KeyMissingError):
                forbidden()
        assert [run.run_id for run in cp.runs()] == ["run"]
        assert cp.verify("run").ok
    with keyed(store) as cp:
        assert state_of(cp, "run") == 1
    store.close()


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """A store whose run `old` was there before the key, and grew since."""
    vault = VAULTS["sqlite"](tmp_path)
    with vault.opened() as store:
        with hf.SyncCheckpointer(store) as cp:
            grow(cp, "old", 1, 8)
        with keyed(store) as cp:
            cp.cut_over()
            grow(cp, "old", 9, 10)
    vault.keep()
    return vault


def altered(vault: Vault, seq: int, upto: int) -> None:
    """Put another state at a seq, with all digests up to another right."""
    with vault.opened() as store:
        journal = journal_of(store, "old")
    state = values.encode({"forged": True})
    journal[seq] = journal[seq].having(size=len(state))._replace(flags=0, content=state)
    for entry in rechained(journal)[seq : upto + 1]:
        vault.put(entry)


def test_what_was_there_before_the_key_cant_be_changed_any_more(vault: Vault) -> None:
    for seq in range(1, 9):
        for upto in {seq, max(seq, 7), 8, 10}:
            vault.restore()
            altered(vault, seq, upto)
            with vault.opened() as store, keyed(store) as cp:
                with pytest.raises(hf.CheckpointCorruptedError):
                    cp.load("old", seq=seq)
                assert not cp.verify("old").ok


def test_older_entries_are_still_proved_when_others_between_them_were_deleted(vault: Vault) -> None:
    with vault.opened() as store, keyed(store) as cp:
        cp.delete("old", seq=4)
        cp.delete("old", seq=5)
        cp.delete("old", seq=8)
    with vault.opened() as store, keyed(store) as cp:
        assert cp.verify("old").ok
        for n in (1, 2, 3, 6, 7, 9, 10):
            found = cp.load("old", seq=n)
            assert found is not None
            assert found.state == large(n)
    vault.keep()
    altered(vault, 3, 3)
    with vault.opened() as store, keyed(store) as cp, pytest.raises(hf.CheckpointCorruptedError):
        cp.load("old", seq=3)


def test_a_deletion_does_not_vouch_for_an_older_entry_that_was_changed(vault: Vault) -> None:
    altered(vault, 3, 3)
    with vault.opened() as store, keyed(store) as cp:
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.delete("old", seq=4)
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.load("old", seq=3)


def test_a_plain_entry_behind_the_cut_over_is_refused(vault: Vault) -> None:
    with vault.opened() as store:
        journal = journal_of(store, "old")
        last = journal[-1]
        state = values.encode({"forged": True})
        plain = Parts(last.entry, 0, state, b"", b"", 0).having(
            seq=last.entry.seq + 1, parent=last.entry.seq, size=len(state), meta=""
        )
        assert store.append(rechained([*journal, plain])[-1:]) == [True]
        with hf.SyncCheckpointer(store) as cp:
            assert cp.verify("old").ok
        with keyed(store) as cp:
            with pytest.raises(hf.PlaintextError):
                cp.load("old")
            saved = cp.save("old", large(12))  # a whole state may follow it
            assert cp.load("old") == saved


def test_who_only_trusts_keys_reads_and_can_write_nothing() -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store, sign=WORKER) as cp:
        cp.save("run", {"n": 1})
    public = TrustedKeys({"worker": WORKER.public or b""})
    with hf.SyncCheckpointer(store, trusted=public) as cp:
        assert state_of(cp, "run") == {"n": 1}
        for forbidden in (lambda: cp.save("run", 2), lambda: cp.clear("run")):
            with pytest.raises(hf.KeyMissingError):
                forbidden()
    with hf.SyncCheckpointer(store, sign=WORKER) as cp:
        assert state_of(cp, "run") == {"n": 1}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"sign": WORKER}, {"sign": WORKER, "key": RING}),
        ({"key": RING}, {"sign": WORKER, "key": RING}),
    ],
    ids=["signed first", "encrypted first"],
)
def test_a_store_may_be_encrypted_first_and_signed_later_or_the_other_way_round(
    first: dict[str, object], then: dict[str, object]
) -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store, **first) as cp:  # type: ignore[arg-type]
        cp.save("run", {"n": 1})
    with hf.SyncCheckpointer(store, **then) as cp:  # type: ignore[arg-type]
        with pytest.raises(hf.CutOverError):
            cp.save("new", 1)
        cp.cut_over()
        assert state_of(cp, "run") == {"n": 1}
        cp.save("run", {"n": 2})
    with hf.SyncCheckpointer(store, **then) as cp:  # type: ignore[arg-type]
        assert state_of(cp, "run") == {"n": 2}
        cp.save("new", 1)


def test_older_entries_are_proved_with_few_reads() -> None:
    class Counts(MemoryStore):
        reads = 0

        def read(self, *args, **options):  # type: ignore[no-untyped-def]
            self.reads += 1
            return super().read(*args, **options)

    store = Counts()
    with hf.SyncCheckpointer(store) as cp:
        for n in range(100):
            cp.save("old", n)
    with keyed(store) as cp:
        cp.cut_over()
    with keyed(store) as cp:
        store.reads = 0
        assert cp.verify("old").ok
        assert store.reads < 30


def test_what_is_written_without_the_key_after_the_cut_over_is_not_accepted_by_another() -> None:
    store, elsewhere = MemoryStore(), MemoryStore()
    with keyed(store) as cp:
        cp.cut_over()
        cp.save("ours", 1)
    with hf.SyncCheckpointer(elsewhere) as cp:
        cp.save("theirs", 2)
    store.append(elsewhere.read("theirs"))
    with keyed(store) as cp:
        assert cp.cut_over() == 0
        with pytest.raises(hf.PlaintextError):
            cp.load("theirs")
        assert cp.cut_over(again=True) > 0
        assert state_of(cp, "theirs") == 2


def test_a_record_that_was_removed_is_damage_and_nobody_is_told_to_accept_what_is_there(
    tmp_path: Path,
) -> None:
    file = tmp_path / "runs.db"
    with keyed(f"sqlite:///{file}") as cp:
        cp.save("ours", 1)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM holdfast_entries WHERE run = ?", (CUT_OVER,))
    with keyed(f"sqlite:///{file}") as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="it is gone"):
            cp.save("new", 1)
        with pytest.raises(hf.CheckpointCorruptedError, match="it is gone"):
            cp.cut_over()
        assert cp.cut_over(again=True) > 0
        assert state_of(cp, "ours") == 1
