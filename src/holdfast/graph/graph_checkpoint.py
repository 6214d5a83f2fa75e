"""Checkpoints of graphs, in the words of graphs."""

from __future__ import annotations

from datetime import datetime

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec.meta import plain_step


class GraphCheckpoint(CheckpointInfo):
    """A checkpoint without its state, with the node it was saved after."""

    __slots__ = ()

    @property
    def node_id(self) -> str | None:
        """The node that had just run; in a parallel branch, `step` says which of its visits."""
        return plain_step(self._entry)

    @property
    def next_node(self) -> str | None:
        """The node that runs next; the first of them where the graph forks."""
        return next(iter(self.next_steps), None)

    @property
    def sequence(self) -> int:
        """Its position in the run."""
        return self.seq

    @property
    def timestamp(self) -> datetime:
        """When it was saved."""
        return self.created_at

    @property
    def version(self) -> str | None:
        """The version of the graph."""
        return self.flow_version
