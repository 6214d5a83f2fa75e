"""Selected fields are stored encrypted, while the rest of a state stays readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.secrets import Secret
from holdfast.workflow import ask, step, workflow

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
        cp.save("new", state(), owner="ann")  # it has the old key in memory
    with opened(url) as cp:
        assert state_of(cp, "new") == state()


def test_the_keys_of_fields_are_wrapped_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with opened(url) as cp:
        cp.save("r", state())
    with opened(url, hf.Keyring({"2026": bytes(range(32)), "2027": bytes(32)})) as cp:
        assert cp.rekey() == (1, 1)
    with opened(url, hf.Keyring({"2027": bytes(32)})) as cp:
        assert state_of(cp, "r") == state()


def test_a_run_that_another_owner_begins_anew_is_encrypted_with_their_key(url: str) -> None:
    with opened(url) as cp:
        cp.save("r", state(), owner="ann")
        cp.clear("r")
        cp.save("r", state(), owner="bob")
        assert len(cp.forget(owner="ann").keys) == 1
    with opened(url) as cp:
        assert state_of(cp, "r") == state()


def test_a_run_that_is_begun_anew_does_not_repeat_an_old_ciphertext(url: str) -> None:
    def stored() -> bytes:
        head = cp.core.journals.head("r")
        assert head is not None
        return bytes(cp.core.journals.value("r", head.seq, as_data=True)["user"]["ssn"].data)

    with opened(url) as cp:
        cp.save("r", state())
        before = stored()
        cp.clear("r")
        cp.save("r", state())
        assert stored() != before


def test_the_fields_of_a_bound_owner_have_the_owners_key(url: str) -> None:
    with hf.SyncCheckpointer(url, owner="ann", key=RING, encrypt=["user.ssn"]) as cp:
        cp.save("r", state())
        field = cp.core.journals.value("r", 1, as_data=True)["user"]["ssn"]
        assert field.owner == "ann"
        assert state_of(cp, "r") == state()


@pytest.mark.parametrize("edited", [False, True])
def test_a_fork_for_another_owner_has_their_key(edited: bool, url: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"state": state("eve")} if edited else {}
    with opened(url) as cp:
        cp.save("hers", state(), owner="ann")
        cp.fork("hers", run_id="his", owner="bob", **given)
        there = f"sqlite:///{tmp_path}/there.db"
        cp.copy_to(there, ["his"])
        cp.forget(owner="ann")
    for place in (url, there):
        with opened(place) as cp:
            assert state_of(cp, "his") == state("eve" if edited else "ann")


def test_a_forked_flow_for_another_owner_has_their_key_in_all_that_is_copied(url: str) -> None:
    @step
    def check(user: dict[str, Any]) -> dict[str, Any]:
        return {"user": user, "ok": True}

    @workflow
    async def flow(user: dict[str, Any]) -> str:
        checked = await check(user)
        await ask("Go on?", returns=bool)
        return str(checked["user"]["ssn"])

    options: dict[str, Any] = {"key": RING, "encrypt": ["user.ssn"], "flows": [flow]}
    with hf.Engine(url, **options) as engine, pytest.raises(hf.RunPausedError):
        engine.run_sync(flow({"ssn": VALUE}), run_id="hers", owner="ann")
    with opened(url) as cp:
        cp.fork("hers", run_id="his", owner="bob")
        cp.forget(owner="ann", force=True)
    with hf.Engine(url, **options) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.resume_sync("his")
        engine.answer_sync("his", True)
        assert engine.resume_sync("his") == VALUE


def test_without_the_key_no_fork_for_another_owner_is_made(url: str) -> None:
    with opened(url) as cp:
        cp.save("hers", state(), owner="ann")
    with hf.SyncCheckpointer(url) as cp:
        with pytest.raises(hf.KeyMissingError):
            cp.fork("hers", run_id="his", owner="bob")
        assert cp.load("his") is None


def test_a_second_run_is_copied_to_a_store_with_other_keys_of_its_owner(tmp_path: Path) -> None:
    there = f"sqlite:///{tmp_path}/there.db"
    with opened(there) as cp:
        cp.save("other", state(), owner="ann")
    with opened(f"sqlite:///{tmp_path}/here.db") as cp:
        cp.save("copied", state(), owner="ann")
        cp.copy_to(there)
        cp.save("imported", state(), owner="ann")
        cp.export_run("imported", tmp_path / "one.jsonl")
    with opened(there) as cp:
        cp.import_run(tmp_path / "one.jsonl")
        for run in ("other", "copied", "imported"):
            assert state_of(cp, run) == state()


@pytest.mark.parametrize("owner", [None, "ann", "bob"])
def test_a_save_that_begins_a_run_anew_after_others_forgot_it_can_be_read(
    owner: str | None, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with opened(url) as cp:
        cp.save("r", state(), owner="ann")
        with hf.SyncCheckpointer(url) as other:
            other.forget(owner="ann")
            if owner == "bob":
                other.save("r", {}, owner="bob")
        cp.save("r", state("eve"), owner=owner)
    with opened(url) as cp:
        assert state_of(cp, "r") == state("eve")
