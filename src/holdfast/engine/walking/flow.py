"""What users see of a walking flow, whichever front door made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from holdfast.engine.walking.plan import Plan


class WalkingFlow(ABC):
    """A flow that goes from node to node: its name and version, and how it is shown."""

    _plan: Plan

    @property
    def name(self) -> str:
        """The flow's name."""
        return self._plan.flow

    @property
    def version(self) -> str:
        """The flow's version."""
        return self._plan.version

    @abstractmethod
    def mermaid(self) -> str:
        """The flow as Mermaid text, which Markdown viewers draw."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/vnd.mermaid": self.mermaid(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        nodes = ", ".join(self._plan.nodes)
        return f"<{self._plan.flow_word} {self.name!r} version {self.version}: {nodes}>"
