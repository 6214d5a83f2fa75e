"""Plain states of older versions: loaded, forked, rolled back to, and looked at in a dry run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.stores import MemoryStore


@dataclass
class Cart:
    items: list[str]
    currency: str


carts = hf.Migrations(version=3)


@carts.state(from_version=1)
def several(state: dict[str, Any]) -> dict[str, Any]:
    return {"items": [state["item"]]}


@carts.state(from_version=2)
def with_currency(state: dict[str, Any]) -> dict[str, Any]:
    state["currency"] = "EUR"  # it may change what it is given
    return state


@pytest.fixture
def cp() -> hf.SyncCheckpointer:
    made = hf.SyncCheckpointer(MemoryStore())
    made.save("cart", {"item": "kelp"})  # without a version: it is the first
    made.save("cart", {"items": ["kelp", "dulse"]}, schema_version=2)
    return made


def test_load_migrates_and_leaves_what_is_recorded(cp: hf.SyncCheckpointer) -> None:
    loaded = cp.load("cart", as_type=Cart, migrate=carts)
    assert loaded is not None
    assert loaded.state == Cart(["kelp", "dulse"], "EUR")
    assert loaded.schema_version == 2, "as it is recorded"
    first = cp.load("cart", seq=1, migrate=carts)
    assert first is not None
    assert first.state == {"items": ["kelp"], "currency": "EUR"}
    raw = cp.load("cart", seq=1)
    assert raw is not None
    assert raw.state == {"item": "kelp"}
    assert cp.verify("cart").ok


def test_the_next_save_has_the_new_version(cp: hf.SyncCheckpointer) -> None:
    loaded = cp.load("cart", migrate=carts)
    assert loaded is not None
    cp.save("cart", loaded.state, schema_version=carts.version)
    found = [c.state for c in cp.iter_states("cart", migrate=carts)]
    assert found == [
        {"items": ["kelp"], "currency": "EUR"},
        {"items": ["kelp", "dulse"], "currency": "EUR"},
        {"items": ["kelp", "dulse"], "currency": "EUR"},
    ]
    cp.rollback("cart", seq=1)
    back = cp.load("cart", migrate=carts)
    assert back is not None
    assert back.state == {"items": ["kelp"], "currency": "EUR"}


def test_a_fork_keeps_the_version_unless_its_state_has_another(cp: hf.SyncCheckpointer) -> None:
    cp.fork("cart", seq=1, run_id="same")
    edited = {"items": [], "currency": "SEK"}
    cp.fork("cart", seq=1, run_id="edited", state=edited, schema_version=3)
    for run, state in (("same", {"items": ["kelp"], "currency": "EUR"}), ("edited", edited)):
        found = cp.load(run, migrate=carts)
        assert found is not None
        assert found.state == state


def test_a_state_that_can_not_be_migrated_names_its_checkpoint(cp: hf.SyncCheckpointer) -> None:
    cp.save("cart", {"broken": True}, schema_version=1)
    with pytest.raises(hf.MigrationError, match=r"cart@3 .*several\(\) raised KeyError") as told:
        cp.load("cart", migrate=carts)
    assert told.value.checkpoint_id == "cart@3"
    cp.save("cart", {}, schema_version=9)
    with pytest.raises(hf.MigrationError, match="of version 9"):
        cp.load("cart", migrate=carts)
    cp.save("cart", {"items": 7}, schema_version=2)
    with pytest.raises(hf.MigrationError, match=r"cart@5 .*does not have its type: .*items"):
        cp.load("cart", as_type=Cart, migrate=carts)
    with pytest.raises(TypeError, match=r"hf\.Migrations"):
        cp.load("cart", migrate={1: several})  # type: ignore[call-overload]


def test_a_dry_run_says_what_would_become_of_each_unfinished_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with hf.SyncCheckpointer(path) as cp:
        cp.save("a", {"item": "kelp"})
        cp.save("b", {"broken": True})
        cp.save("c", {"items": []}, schema_version=3)
        cp.save("done", {"broken": True})
        cp.complete("done")
        before = cp.stats()
        found = {run.run_id: run for run in cp.dry_run(carts, as_type=Cart)}
        assert cp.stats() == before
    assert set(found) == {"a", "b", "c"}
    a, b, c = (found[name] for name in "abc")
    assert (a.ok, a.from_version, a.to_version, a.checkpoint_id) == (True, "1", "3", "a@1")
    assert a.keys == ["- item", "+ items", "+ currency"]
    assert not b.ok
    assert "several() raised KeyError: 'item'" in str(b.error)
    assert "currency" in str(c.error), "it is no Cart"

    async def look() -> list[str]:
        async with hf.Checkpointer(path) as cp:
            return [run.run_id async for run in cp.dry_run(carts, prefix="a")]

    assert asyncio.run(look()) == ["a"]
