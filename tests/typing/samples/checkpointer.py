"""What type checkers know about the results of checkpointers. Checked, never run."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import holdfast as hf


@dataclass
class Chat:
    messages: list[str]


class Tide(TypedDict):
    level: float


async def awaited(cp: hf.Checkpointer) -> None:
    assert_type(await cp.load("run", as_type=Chat), hf.Checkpoint[Chat] | None)
    assert_type(await cp.load("run", seq=1, as_type=Tide), hf.Checkpoint[Tide] | None)
    assert_type(await cp.load(checkpoint_id="run@1", as_type=int), hf.Checkpoint[int] | None)
    assert_type(
        await cp.load("run", step="a", as_type=list[Chat]), hf.Checkpoint[list[Chat]] | None
    )
    assert_type(await cp.load("run"), hf.Checkpoint[Any] | None)
    assert_type(await cp.save("run", Chat([]), step="fetch"), hf.Checkpoint[Any])
    assert_type(await cp.runs(), list[hf.RunInfo])
    assert_type(await cp.run("run"), hf.RunInfo | None)
    assert_type(await cp.list_checkpoints("run"), list[hf.CheckpointInfo])
    assert_type(cp.iter_runs(owner="ann"), AsyncIterator[hf.RunInfo])
    assert_type(cp.iter_checkpoints("run"), AsyncIterator[hf.CheckpointInfo])
    assert_type(cp.iter_states("run"), AsyncIterator[hf.Checkpoint[Any]])
    async for checkpoint in cp.iter_states("run", as_type=Chat):
        assert_type(checkpoint.state, Chat)


def blocking(cp: hf.SyncCheckpointer) -> None:
    assert_type(cp.load("run", as_type=Chat), hf.Checkpoint[Chat] | None)
    assert_type(cp.load("run", seq=1, as_type=Tide), hf.Checkpoint[Tide] | None)
    assert_type(cp.load(checkpoint_id="run@1", as_type=int), hf.Checkpoint[int] | None)
    assert_type(cp.load("run", step="a", as_type=list[Chat]), hf.Checkpoint[list[Chat]] | None)
    assert_type(cp.load("run"), hf.Checkpoint[Any] | None)
    assert_type(cp.save("run", Chat([]), step="fetch"), hf.Checkpoint[Any])
    assert_type(cp.runs(), list[hf.RunInfo])
    assert_type(cp.run("run"), hf.RunInfo | None)
    assert_type(cp.list_checkpoints("run"), list[hf.CheckpointInfo])
    assert_type(cp.iter_runs(owner="ann"), Iterator[hf.RunInfo])
    assert_type(cp.iter_checkpoints("run"), Iterator[hf.CheckpointInfo])
    assert_type(cp.iter_states("run"), Iterator[hf.Checkpoint[Any]])
    for checkpoint in cp.iter_states("run", as_type=Chat):
        assert_type(checkpoint.state, Chat)


def typed_state(cp: hf.SyncCheckpointer) -> None:
    loaded = cp.load("run", as_type=Chat)
    assert loaded is not None
    assert_type(loaded.state, Chat)
    assert_type(loaded.state.messages, list[str])
    untyped: hf.Checkpoint = loaded  # a plain `Checkpoint` is one of anything
    wider: hf.Checkpoint[object] = loaded
    assert_type((untyped.seq, wider.seq), tuple[int, int])


def mistakes(cp: hf.SyncCheckpointer) -> None:
    """Each of these is an error to a type checker: an ignore that ignores nothing is one, too."""
    _ = cp.load("run", as_type=Chat).state  # type: ignore[union-attr]
    cp.save("run", {}, stpe="fetch")  # type: ignore[call-arg]
    cp.save("run", {}, status="done")  # type: ignore[arg-type]
    cp.runs(limit="20")  # type: ignore[arg-type]
    cp.load("run", sequence=1)  # type: ignore[call-overload]
