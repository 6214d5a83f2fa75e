"""What was anchored or remembered before is missed on every store, whoever took it away."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.operations.anchor_checks import AnchorReport
from tests.damage.servers import VAULTS
from tests.damage.vaults import Vault


@pytest.fixture(params=VAULTS)
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Vault:
    return VAULTS[request.param](tmp_path)


def save(vault: Vault, *runs: str) -> None:
    with vault.opened() as store, hf.SyncCheckpointer(store) as cp:
        for run in runs:
            cp.save(run, {"log": [run] * 9}, thread_id="t")


def compared(vault: Vault, anchors: Path) -> AnchorReport:
    with vault.opened() as store, hf.SyncCheckpointer(store) as cp:
        return cp.verify_anchor(anchors)


def test_an_anchor_finds_an_older_copy_a_cut_tail_and_another_history(
    vault: Vault, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors.jsonl"
    save(vault, "run", "run", "other", "gone")
    with vault.opened() as store, hf.SyncCheckpointer(store) as cp:
        cp.anchor(anchors)
    vault.keep()
    save(vault, "run", "new")
    with vault.opened() as store, hf.SyncCheckpointer(store) as cp:
        cp.clear("gone")
        cp.prune("other", keep_latest=1)
        cp.anchor(anchors)
        found = cp.verify_anchor(anchors, every=True)
        assert (found.problems, found.deleted) == ((), 1)
    vault.restore()
    found = compared(vault, anchors)
    assert found.older
    assert {problem.run_id: problem.what for problem in found.problems} == {
        "run": "cut off",
        "new": "removed",
        "gone": "cut off",
        "\x1fthread\x1ft": "cut off",
    }

    anchors.unlink()
    with vault.opened() as store, hf.SyncCheckpointer(store) as cp:
        cp.anchor(anchors)
        newest = store.read("run", newest_first=True, limit=1)[0]
    vault.put(newest._replace(digest=bytes(32)))
    (problem,) = compared(vault, anchors).problems
    assert problem.run_id == "run"
    assert problem.what in ("altered", "damaged")
    vault.restore()
    vault.remove("run", newest.seq)
    (problem,) = compared(vault, anchors).problems
    assert problem.run_id == "run"
    assert problem.what in ("cut off", "damaged"), "a document knows how many entries it had"


def test_a_program_notices_an_older_copy_by_what_it_remembers(vault: Vault, tmp_path: Path) -> None:
    heads = tmp_path / "heads.db"
    with vault.opened() as store:
        if store.inline:
            return  # in memory: there is nothing to remember
        with hf.SyncCheckpointer(store, remember=heads) as cp:
            cp.save("run", {"n": 1})
    vault.keep()
    with vault.opened() as store, hf.SyncCheckpointer(store, remember=heads) as cp:
        cp.save("run", {"n": 2})
        cp.save("new", {"n": 1})
    vault.restore()
    with vault.opened() as store, hf.SyncCheckpointer(store, remember=heads) as cp:
        for run in ("run", "new"):
            with pytest.raises(hf.HistoryRewoundError):
                cp.load(run)
        assert cp.accept_history() == 2
        assert cp.load("run").state == {"n": 1}  # type: ignore[union-attr]
        assert cp.load("new") is None
