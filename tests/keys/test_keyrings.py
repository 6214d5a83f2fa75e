"""Keyrings: where keys come from, which of them is used, and what is said when one lacks."""

from __future__ import annotations

import base64
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.stores import MemoryStore
from tests.keys.forging import NEW, OLD, RING, keyed

BOTH = hf.Keyring({"2025": OLD, "2026": NEW})


def state_of(cp: hf.SyncCheckpointer, run: str) -> object:
    found = cp.load(run)
    assert found is not None
    return found.state


def test_a_key_is_given_as_bytes_text_file_variable_or_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, text = MemoryStore(), base64.b64encode(OLD).decode()
    file = tmp_path / "ring.keys"
    file.touch(0o600)
    file.write_text(f"# the first one\n2025: {text}\n")
    monkeypatch.setenv("HOLDFAST_KEYS", f"2024={base64.b64encode(NEW).decode()}, 2025={text}")
    asked: list[str] = []

    def fetch(key_id: str) -> bytes:
        asked.append(key_id)
        return {"2025": OLD}[key_id]

    with keyed(store) as cp:
        cp.save("run", {"n": 1})
    for ring in (
        hf.Keyring({"2025": text}),
        hf.Keyring.from_file(file),
        hf.Keyring.from_environment(),
        hf.Keyring.from_callback(fetch, newest="2025"),
    ):
        assert ring.newest == "2025"
        with keyed(store, ring) as cp:
            assert state_of(cp, "run") == {"n": 1}
    assert asked == ["2025"]


def test_keys_that_are_none_are_refused_without_showing_them(tmp_path: Path) -> None:
    for given in (b"short", "c2hvcnQ=", "no base64!", 7, None):
        with pytest.raises(ValueError, match="the key 'a'") as refused:
            hf.Keyring({"a": given})  # type: ignore[dict-item]
        assert "short" not in str(refused.value)
    with pytest.raises(ValueError, match="at least one key"):
        hf.Keyring({})
    assert OLD.hex() not in repr(RING)
    file = tmp_path / "ring.keys"
    file.write_text(f"2025: {base64.b64encode(OLD).decode()}\n")
    file.chmod(0o644)
    with pytest.raises(hf.KeyFileError, match="chmod"):
        hf.Keyring.from_file(file)


def test_no_key_a_missing_key_a_wrong_key_and_damage_are_different_errors(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with keyed(url) as cp:
        cp.save("run", {"n": 1})
    with (
        hf.SyncCheckpointer(url) as cp,
        pytest.raises(hf.KeyMissingError, match="no key was given"),
    ):
        cp.load("run")
    with keyed(url, hf.Keyring({"2026": NEW})) as cp:
        with pytest.raises(hf.KeyMissingError, match="needs the key '2025'"):
            cp.load("run")
        with pytest.raises(hf.KeyMissingError, match="needs the key '2025'"):
            cp.save("run", {"n": 2})
    with keyed(url, hf.Keyring({"2025": NEW})) as cp:
        with pytest.raises(hf.WrongKeyError, match="2025"):
            cp.load("run")
        with pytest.raises(hf.WrongKeyError, match="2025"):
            cp.save("another", {"n": 2})
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = zeroblob(90) WHERE run = 'run' AND seq = 1")
    with keyed(url) as cp, pytest.raises(hf.CheckpointCorruptedError) as damage:
        cp.load("run")
    assert not isinstance(damage.value, hf.KeyMissingError | hf.WrongKeyError | hf.PlaintextError)


def test_the_last_key_encrypts_and_all_of_them_decrypt() -> None:
    store = MemoryStore()
    with keyed(store) as cp:
        cp.save("old", 1, owner="ann")
    with keyed(store, BOTH) as cp:
        assert state_of(cp, "old") == 1
        cp.save("new", 2, owner="ben")
    with (
        keyed(store, hf.Keyring({"2026": NEW})) as cp,
        pytest.raises(hf.KeyMissingError, match="2025"),
    ):
        cp.load("old")
    with keyed(store) as cp:
        assert state_of(cp, "old") == 1
        with pytest.raises(hf.KeyMissingError, match="2026"):
            cp.load("new")


def test_after_a_rekey_the_old_key_is_not_needed() -> None:
    store = MemoryStore()
    with keyed(store) as cp:
        cp.save("run", 1)
        cp.save("ann's", 2, owner="ann")
    with keyed(store, BOTH) as cp:
        assert cp.rekey() == (2, 2)
        assert cp.rekey() == (2, 0)
    with keyed(store, hf.Keyring({"2026": NEW})) as cp:
        assert (state_of(cp, "run"), state_of(cp, "ann's")) == (1, 2)
        cp.save("run", 3)
        assert cp.rekey(new_data_keys=True) == (2, 0)
        cp.save("later", 4)
    with keyed(store, hf.Keyring({"2026": NEW})) as cp:
        assert [state_of(cp, run) for run in ("run", "ann's", "later")] == [3, 2, 4]
        assert all(cp.verify(run.run_id).ok for run in cp.runs())
    with keyed(store) as cp, pytest.raises(hf.KeyMissingError, match="2026"):
        cp.load("run")


def test_rekey_and_cut_over_need_a_key() -> None:
    with hf.SyncCheckpointer(MemoryStore()) as cp:
        with pytest.raises(hf.KeyMissingError):
            cp.rekey()
        with pytest.raises(hf.KeyMissingError):
            cp.cut_over()


def test_without_the_package_an_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        __import__("sys").modules, "cryptography.hazmat.primitives.ciphers.aead", None
    )
    ring = hf.Keyring({"a": os.urandom(32)})
    with (
        hf.SyncCheckpointer(MemoryStore(), key=ring) as cp,
        pytest.raises(ImportError, match=r"encryption needs cryptography.*\[crypto\]"),
    ):
        cp.save("run", 1)


def test_rekey_fails_with_another_key_of_the_same_id_and_without_the_store_of_data_keys() -> None:
    runs, data_keys = MemoryStore(), MemoryStore()
    with keyed(runs, hf.Keyring({"2025": OLD}, data_keys=data_keys)) as cp:
        cp.save("run", 1)
    with (
        keyed(runs, hf.Keyring({"2025": NEW}, data_keys=data_keys)) as cp,
        pytest.raises(hf.WrongKeyError),
    ):
        cp.rekey()
    with (
        keyed(runs, hf.Keyring({"2025": OLD, "2026": NEW})) as cp,
        pytest.raises(hf.CheckpointCorruptedError, match="--key-store"),
    ):
        cp.rekey()


@pytest.mark.parametrize("given", ["", "{}", "2026={},{}", "2026={}x", "{}=2026"])
def test_a_malformed_variable_is_refused_without_quoting_its_key(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    monkeypatch.setenv("HOLDFAST_KEYS", given.replace("{}", key))
    with pytest.raises(hf.KeyFileError, match="ID=KEY") as refused:
        hf.Keyring.from_environment()
    assert key[:12] not in str(refused.value)
