"""A graph is resumed from its newest state: how long its run is does not matter."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import holdfast as hf
from holdfast.graph import END, Graph


class Loop:
    """A graph that stops after so many steps until it is told to go on."""

    def __init__(self, steps: int, file: Path | None = None) -> None:
        """The first step writes the file, and claims it."""
        self.open = False

        async def add(state: dict[str, int]) -> dict[str, int]:
            if file is not None and not state["n"]:
                file.write_text("made")
            if state["n"] == steps and not self.open:
                raise RuntimeError("closed")
            return {"n": state["n"] + 1}

        def next_of(state: dict[str, int]) -> str:
            return "add" if state["n"] < steps + 3 else END

        def outputs(state: dict[str, int]) -> Any:
            return [file] if file is not None and state["n"] == 1 else []

        graph = Graph(dict).add_node("add", add, outputs=outputs if file else ())
        self.app = (
            graph.add_conditional_edge("add", next_of, ["add", END]).set_entry("add").compile()
        )

    def stopped(self, store: hf.Store) -> None:
        with pytest.raises(hf.StepFailedError):
            self.app.run_sync({"n": 0}, store=store, run_id="r", durability="async")
        self.open = True


def _entries_read(steps: int) -> int:
    """How many entries a resume reads with their bodies."""
    loop = Loop(steps)
    with closing(hf.open_store("memory://")) as store:
        loop.stopped(store)
        count = 0
        plain = store.read

        def reading(run: str, **how: Any) -> Any:
            nonlocal count
            found = plain(run, **how)
            count += len(found) if run == "r" and how.get("bodies", True) else 0
            return found

        with patch.object(store, "read", reading):
            assert loop.app.resume_sync("r", store=hf.SyncCheckpointer(store)) == {"n": steps + 3}
    return count


def test_a_resume_reads_as_many_states_of_a_long_run_as_of_a_short_one() -> None:
    assert _entries_read(1600) <= _entries_read(200) <= 200


def test_a_claim_far_back_in_a_long_run_is_checked_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "made"
    loop = Loop(150, file)
    with closing(hf.open_store("memory://")) as store:
        loop.stopped(store)
        file.unlink()
        assert loop.app.resume_sync("r", store=store) == {"n": 153}
        assert file.exists()
        with hf.SyncCheckpointer(store) as cp:
            assert "rollback" in [entry.kind for entry in cp.core.journals.entries("r")]
