"""Everything that can be done to a run can be done to one that is encrypted, signed, or both."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.keys.signing import SigningKey, TrustedKeys
from holdfast.stores import MemoryStore
from tests.keys.forging import RING, large
from tests.keys.test_keyrings import state_of

ANN = SigningKey.ed25519("ann", bytes(range(32)))
BEN = SigningKey.ed25519("ben", bytes(range(1, 33)))
SECRET = SigningKey.hmac("ann", bytes(range(32)))

KEYS: dict[str, dict[str, Any]] = {
    "encrypted": {"key": RING},
    "signed": {"sign": ANN},
    "hmac": {"sign": SECRET},
    "both": {"key": RING, "sign": ANN},
}


@pytest.fixture(params=KEYS)
def keys(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KEYS[request.param]


def grown(store: Any, keys: dict[str, Any]) -> hf.SyncCheckpointer:
    """A run with large states, some of which were deleted and others rewritten for that."""
    cp = hf.SyncCheckpointer(store, **keys)
    for n in range(1, 9):
        cp.save("run", large(n), step=f"s{n}", owner="ann", thread_id="talk", metadata={"n": n})
    cp.prune("run", keep_latest=4)
    return cp


def is_whole(cp: hf.SyncCheckpointer, run: str = "run") -> bool:
    assert [found.state for found in cp.iter_states(run)] == [large(n) for n in range(5, 9)]
    assert [found.metadata for found in cp.iter_states(run)] == [{"n": n} for n in range(5, 9)]
    return cp.verify(run).ok


def test_deleting_rewrites_states_that_are_still_proved(url: str, keys: dict[str, Any]) -> None:
    with closing(hf.open_store(url)) as store:
        grown(store, keys).close()
        with hf.SyncCheckpointer(store, **keys) as cp:
            assert is_whole(cp)
            cp.rollback("run", seq=6)
            assert state_of(cp, "run") == large(6)
        with hf.SyncCheckpointer(store) as cp:
            assert cp.verify("run").ok, "the chain is proved without a key"
        bodies = [envelope.glance(entry) for entry in store.read("run") if entry.body]
        assert all(stored.trailer for stored in bodies)
        in_json = store.form == "readable" and "key" not in keys  # where all states are whole
        assert any(stored.is_rewritten for stored in bodies) or in_json


def test_a_copy_and_a_copy_of_that_need_the_same_keys(keys: dict[str, Any]) -> None:
    first, second, third = MemoryStore(), MemoryStore(), MemoryStore()
    with grown(first, keys) as cp:
        assert cp.copy_to(second) == 1
    with hf.SyncCheckpointer(second, **keys) as cp:
        assert is_whole(cp)
        assert cp.copy_to(third) == 1
        assert cp.copy_to(third) == 1
    with hf.SyncCheckpointer(third, **keys) as cp:
        assert is_whole(cp)
        cp.save("run", large(9))
        assert state_of(cp, "run") == large(9)
        assert [run.run_id for run in cp.thread("talk")] == ["run"]


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_an_export_is_as_secret_as_the_run_and_comes_back(
    form: Any, keys: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "runs"
    with grown(MemoryStore(), keys) as cp:
        cp.export_runs(["run"], file, form=form)
    assert (b"line 7 of" in file.read_bytes()) == ("key" not in keys)
    with hf.SyncCheckpointer(MemoryStore(), **keys) as cp:
        cp.save("another", 1, owner="ann")  # with a data key of its own
        assert cp.import_run(file) == "run"
        assert is_whole(cp)
        cp.save("run", large(9))
        assert state_of(cp, "run") == large(9)


def test_an_export_of_a_run_with_a_lost_end_comes_back(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    store = MemoryStore()
    with grown(store, keys) as cp:
        cp.save("run", {"n": 9})
    journal = store._journals["run"]
    journal[-1] = journal[-1]._replace(step="forged")
    file = tmp_path / "run.jsonl"
    with hf.SyncCheckpointer(store, **keys) as cp, pytest.raises(hf.CheckpointCorruptedError):
        cp.export_run("run", file)
    with hf.SyncCheckpointer(MemoryStore(), **keys) as cp:
        with pytest.raises(hf.CheckpointCorruptedError, match="lost before the export"):
            cp.import_run(file)
        assert state_of(cp, "run") == large(8)


def test_a_fork_is_encrypted_for_its_own_owner(keys: dict[str, Any]) -> None:
    store = MemoryStore()
    with grown(store, keys) as cp:
        cp.fork("run", seq=6, run_id="theirs", owner="ben")
        cp.save("theirs", large(7))
        cp.forget(owner="ann")
    with hf.SyncCheckpointer(store, **keys) as cp:
        assert state_of(cp, "theirs") == large(7)
        assert cp.load("run") is None


def test_signatures_of_others_count_if_they_are_trusted() -> None:
    store = MemoryStore()
    with hf.SyncCheckpointer(store, sign=ANN) as cp:
        cp.save("run", 1)
    both = TrustedKeys({"ann": ANN.public or b"", "ben": BEN.public or b""})
    with hf.SyncCheckpointer(store, sign=BEN) as cp, pytest.raises(hf.SignatureError, match="ann"):
        cp.load("run")
    with hf.SyncCheckpointer(store, sign=BEN, trusted=both) as cp:
        assert state_of(cp, "run") == 1
        cp.save("run", 2)
    with hf.SyncCheckpointer(store, sign=ANN) as cp, pytest.raises(hf.SignatureError, match="ben"):
        cp.load("run")
    with hf.SyncCheckpointer(store, sign=ANN, trusted=both) as cp:
        assert state_of(cp, "run") == 2
    with hf.SyncCheckpointer(store) as cp:
        assert state_of(cp, "run") == 2, "what is only signed can be read by all"
        with pytest.raises(hf.KeyMissingError):
            cp.save("run", 3)
    with hf.SyncCheckpointer(store, trusted=both) as cp:
        assert state_of(cp, "run") == 2
        with pytest.raises(hf.KeyMissingError):
            cp.save("run", 3)


def test_an_encrypted_file_store_holds_no_readable_state(tmp_path: Path) -> None:
    for name, keys in KEYS.items():
        with hf.SyncCheckpointer(f"file://{tmp_path}/{name}", **keys) as cp:
            cp.save("run", {"note": "for people"})
            assert state_of(cp, "run") == {"note": "for people"}
        text = (tmp_path / name / "run" / "0000000001.json").read_text()
        assert ("for people" in text) == ("key" not in keys)
