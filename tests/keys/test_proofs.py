"""Encrypted stores are proved, anchored and remembered as others are, with their key."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import holdfast as hf
from tests.keys.forging import keyed
from tests.keys.test_keyrings import BOTH, state_of


def test_a_new_encrypted_store_remembers_its_heads(tmp_path: Path) -> None:
    url, heads = f"sqlite:///{tmp_path}/runs.db", tmp_path / "heads"
    for n in range(2):
        with hf.SyncCheckpointer(url, key=BOTH, remember=heads) as cp:
            cp.save("run", n)
            assert state_of(cp, "run") == n


def test_with_the_key_nothing_is_wrong_after_new_keys_and_forgotten_owners(tmp_path: Path) -> None:
    with keyed(f"sqlite:///{tmp_path}/runs.db", BOTH) as cp:
        cp.save("run", 1)
        cp.save("ann's", 2, owner="ann")
        cp.anchor(tmp_path / "anchor")
        assert cp.verify_chain().problems == ()
        cp.rekey(new_data_keys=True)
        cp.forget(owner="ann")
        assert cp.verify_chain().problems == ()
        assert cp.verify_anchor(tmp_path / "anchor").problems == ()


@pytest.mark.parametrize("ring", [None, BOTH], ids=["plain", "encrypted"])
def test_a_checkpoint_can_be_copied_and_pickled(ring: hf.Keyring | None, tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db", key=ring) as cp:
        saved, loaded = cp.save("run", [1], metadata={"n": 2}), cp.load("run")
    for checkpoint in (saved, loaded):
        for again in (copy.deepcopy(checkpoint), pickle.loads(pickle.dumps(checkpoint))):
            assert again is not None
            assert (again.state, again.metadata) == ([1], {"n": 2})
