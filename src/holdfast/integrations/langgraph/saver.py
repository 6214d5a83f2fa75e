"""LangGraph's interface to holdfast."""

from __future__ import annotations

from langgraph.checkpoint.base import BaseCheckpointSaver


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Keeps LangGraph's checkpoints in any holdfast store."""
