"""Short calls of a saver, for tests."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint

from holdfast.integrations.langgraph import HoldfastSaver


def thread(name: str = "t", ns: str = "", at: str | None = None) -> RunnableConfig:
    config = {"thread_id": name, "checkpoint_ns": ns}
    return {"configurable": config if at is None else {**config, "checkpoint_id": at}}


def checkpoint(number: int = 0, /, **values: Any) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = f"{number:08}-0000-0000-0000-000000000000"
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, number + 1)
    return made


def put(
    saver: HoldfastSaver, config: RunnableConfig, number: int, /, **values: Any
) -> RunnableConfig:
    metadata: Any = {"source": "loop", "step": number}
    return saver.put(config, checkpoint(number, **values), metadata, {})


def got(found: CheckpointTuple | None) -> CheckpointTuple:
    assert found is not None
    return found


def values_of(found: CheckpointTuple | None) -> dict[str, Any]:
    return got(found).checkpoint["channel_values"]
