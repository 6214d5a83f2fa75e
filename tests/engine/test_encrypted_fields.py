"""Selected fields are stored encrypted, while the rest of a state stays readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.secrets import Secret
from holdfast.workflow import ask, step, workflow

pytest.importorskip("cryptography")

VALUE = "078-05-1120"
RING = hf.Keyring({"2026": bytes(range(32))})


def files_of(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file())


@pytest.fixture(params=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "store").mkdir()
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store/runs.db"
    return f"file://{tmp_path}/store"


def state(name: str = "ann") -> dict[str, Any]:
    return {"user": {"name": name, "ssn": VALUE}, "rows": [f"row {n}" for n in range(1000)]}


def opened(url: str, ring: hf.Keyring = RING) -> hf.SyncCheckpointer:
    return hf.SyncCheckpointer(url, key=ring, encrypt=["user.ssn"])


def state_of(cp: hf.SyncCheckpointer, run: str) -> Any:
    found = cp.load(run)
    assert found is not None
    return found.state


def test_a_field_is_encrypted_and_the_rest_can_be_read(url: str, tmp_path: Path) -> None:
    with opened(url) as cp:
        cp.save("r", state())
        assert cp.save("r", state("eve")).state == state("eve")
    with opened(url) as cp:
        found = cp.load("r")
        assert found is not None
        assert found.state == state("eve")
    stored = files_of(tmp_path / "store")
    assert VALUE.encode() not in stored
    if url.startswith("file"):
        assert b'"name": "eve"' in stored
        [first] = (tmp_path / "store").glob("r/*1.json")
        body = json.loads(first.read_text())["body"]["state"]
        assert body["user"]["ssn"]["$encrypted"]["path"] == "user.ssn"


def test_the_same_value_is_the_same_ciphertext_and_deltas_stay_small(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/runs.db") as cp:
        cp.save("r", state())
        second = cp.save("r", state("eve"))
        entry = cp.core.journals.entry("r", second.seq)
        assert entry is not None
        assert len(entry.body) < 150
        assert [change.path for change in cp.diff("r", 1, 2).changes] == [("user", "name")]


def test_without_a_key_the_state_loads_and_the_field_is_locked(url: str) -> None:
    with opened(url) as cp:
        cp.save("r", state())
    with hf.SyncCheckpointer(url) as cp:
        found = cp.load("r")
        assert found is not None
        assert found.state["user"]["name"] == "ann"
        locked = found.state["user"]["ssn"]
        assert isinstance(locked, Secret)
        with pytest.raises(hf.KeyMissingError):
            locked.reveal()
        cp.save("r", {**found.state, "rows": []})  # keeps what is stored
        cp.fork("r", run_id="fork")
    with opened(url) as cp:
        for run in ("r", "fork"):
            found = cp.load(run)
            assert found is not None
            assert found.state["user"]["ssn"] == VALUE


def test_a_missing_key_a_wrong_key_and_damage_are_different_errors(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    with opened(url) as cp:
        cp.save("r", state())
    with opened(url, hf.Keyring({"2025": bytes(32)})) as cp:
        found = cp.load("r")
        assert found is not None
        with pytest.raises(hf.KeyMissingError, match="2026"):
            found.state["user"]["ssn"].reveal()
    with opened(url, hf.Keyring({"2026": bytes(32)})) as cp, pytest.raises(hf.WrongKeyError):
        cp.load("r")
    other = {"user": {"ssn": "another"}, "other": {"ssn": "moved"}}
    with hf.SyncCheckpointer(url, key=RING, encrypt=["**.ssn"]) as cp:
        cp.save("s", other)
        data = cp.core.journals.value("s", 1, as_data=True)
        data["user"]["ssn"].data = data["other"]["ssn"].data
        cp.save("s", {"user": {"ssn": data["user"]["ssn"]}})
        with pytest.raises(hf.CheckpointCorruptedError, match=r"field user\.ssn was altered"):
            cp.load("s")


def test_a_run_with_an_encrypted_field_is_resumed_and_copied(url: str, tmp_path: Path) -> None:
    @step
    def check(user: dict[str, Any]) -> dict[str, Any]:
        return {"user": user, "ok": True}

    @workflow
    async def flow(user: dict[str, Any]) -> str:
        checked = await check(user)
        await ask("Go on?", returns=bool)
        return str(checked["user"]["ssn"])

    options: dict[str, Any] = {"key": RING, "encrypt": ["user.ssn"], "flows": [flow]}
    with hf.Engine(url, **options) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow({"ssn": VALUE}), run_id="r", owner="ann")
        engine.answer_sync("r", True)
    assert VALUE.encode() not in files_of(tmp_path / "store")
    there = f"sqlite:///{tmp_path}/there.db"
    with hf.SyncCheckpointer(url) as cp:
        cp.copy_to(there)
        cp.export_run("r", tmp_path / "r.jsonl")
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/imported.db") as cp:
        cp.import_run(tmp_path / "r.jsonl")
    for place in (url, there, f"sqlite:///{tmp_path}/imported.db"):
        with hf.Engine(place, **options) as engine:
            assert engine.resume_sync("r") == VALUE


def test_encrypted_fields_need_a_key() -> None:
    with pytest.raises(ValueError, match="encrypt= needs key="):
        hf.SyncCheckpointer("memory://", encrypt=["a"])


def test_forgetting_an_owner_destroys_the_key_of_its_fields(url: str) -> None:
    with opened(url) as cp:
        cp.save("hers", state(), owner="ann")
        receipt = cp.forget(owner="ann")
        assert len(receipt.keys) == 1
        assert cp.verify_receipt(receipt).ok
        cp.save("hers", state(), owner="ann")
        assert state_of(cp, "hers") == state()


def test_an_owner_is_forgotten_without_the_key_of_its_fields(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with opened(url) as cp:
        cp.save("hers", state(), owner="ann")
        with hf.SyncCheckpointer(url) as other:
            assert len(other.forget(owner="ann").keys) == 1
        with pytest.raises(hf.KeyDestroyedError):  # it did not know, and its key is gone
            cp.save("new", state(), owner="ann")
        cp.save("newer", state(), owner="ann")
        assert state_of(cp, "newer") == state()


def test_the_keys_of_fields_are_wrapped_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with opened(url) as cp:
        cp.save("r", state())
    with opened(url, hf.Keyring({"2026": bytes(range(32)), "2027": bytes(32)})) as cp:
        assert cp.rekey() == (1, 1)
    with opened(url, hf.Keyring({"2027": bytes(32)})) as cp:
        assert state_of(cp, "r") == state()


def test_a_field_has_the_key_of_its_own_owner(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(store, key=RING, encrypt=["user.ssn"], owner="ann") as cp:
        cp.save("hers", state())
    with opened(store) as cp:
        cp.save("r", state(), owner="ann")
        cp.clear("r")
        cp.save("r", state(), owner="ben")
        assert cp.forget(owner="ann").keys
        assert state_of(cp, "r") == state()
        assert len(cp.forget(owner="ben").keys) == 1
