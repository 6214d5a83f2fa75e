"""What users see of a walking flow, whichever front door made it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, TypeVar

from holdfast import markup
from holdfast.engine.flow import Flow
from holdfast.engine.walking.drawing import Picture, mermaid
from holdfast.engine.walking.plan import Plan
from holdfast.engine.walking.svg import svg
from holdfast.migrations import Migrations

R_co = TypeVar("R_co", covariant=True)


class WalkingFlow(Flow[R_co]):
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

    @property
    def definition(self) -> Hashable:
        """Its nodes with their functions, and what connects them."""
        functions = [getattr(n.fn, "__qualname__", "") for n in self._plan.nodes.values()]
        return type(self), self._plan.shape, *functions

    @property
    def migrations(self) -> Migrations | None:
        """What `migrate` says becomes of the runs of older versions."""
        return self._plan.migrate

    @abstractmethod
    def _picture(self) -> Picture:
        """What is drawn of it."""

    def mermaid(self) -> str:
        """The flow as Mermaid text, which Markdown viewers draw."""
        return mermaid(self._picture())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/html": self._repr_html_(),
            "text/vnd.mermaid": self.mermaid(),
            "text/plain": repr(self),
        }

    def _repr_html_(self) -> str:
        facts = {"version": self.version, "nodes": len(self._plan.nodes)}
        return markup.box(f"{self._plan.flow_word} {self.name}", facts, svg(self._picture()))

    def __repr__(self) -> str:
        nodes = ", ".join(self._plan.nodes)
        return f"<{self._plan.flow_word} {self.name!r} version {self.version}: {nodes}>"
