"""What an engine runs: a workflow, a graph or a pipeline, and how an engine finds it again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from holdfast.engine.options import Strategy
from holdfast.errors import UnknownFlowError
from holdfast.migrations import Migrations, Place

if TYPE_CHECKING:
    from holdfast.engine.program import Program
    from holdfast.evidence import EvidenceVerifier
    from holdfast.kernel.core import Core, Op

R_co = TypeVar("R_co", covariant=True)


class Wanted(NamedTuple):
    """Where a run is to continue, and with what state."""

    from_step: str | None = None
    after_step: str | None = None
    override: Any = None
    validate: Callable[[Any], object] | None = None
    replay: bool = False

    @property
    def elsewhere(self) -> bool:
        """Whether the run is to continue from another point than its current one."""
        return bool(self.from_step or self.after_step or self.replay)

    def check(self) -> None:
        """Raise `ValueError` if it names several points."""
        if sum(map(bool, (self.from_step, self.after_step, self.replay))) > 1:
            raise ValueError("give at most one of from_step, after_step and replay")


class Flow(ABC, Generic[R_co]):
    """A workflow, a graph or a pipeline. Calling it gives a `Call`, which an engine runs."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The flow's name."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The flow's version."""

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its steps, if not the engine's verifier."""
        return None

    @property
    def strategy(self) -> Strategy:
        """After which steps its runs are saved unless the caller says otherwise."""
        return Strategy.EVERY_STEP

    @property
    @abstractmethod
    def definition(self) -> Hashable:
        """Equal for one definition that was executed twice, such as a notebook's cell."""

    @property
    def newest(self) -> Flow[R_co]:
        """The flow itself, or what was defined in its place since."""
        return self

    @abstractmethod
    def program(self) -> Program:
        """One execution of this flow."""

    @property
    def migrations(self) -> Migrations | None:
        """What turns the states of older versions into those of this one."""
        return None

    def admits(self, version: str) -> bool:
        """Whether it can continue a run that this version of it recorded."""
        known = self.migrations
        return version == self.version or (known is not None and known.admits(version))

    def inputs_from(self, data: Any) -> Any:
        """The inputs of a run from plain data, such as JSON. Raises `ReviveError`, `TypeError`."""
        return data

    def pack(self, result: Any) -> Any:
        """A result, as the parent of a child run records it."""
        return result

    def unpack(self, recorded: Any) -> R_co:
        """The result that `pack` was given."""
        result: R_co = recorded
        return result

    @abstractmethod
    def go_back(
        self, core: Core, run_id: str, wanted: Wanted, *, take_over: bool = False
    ) -> Op[None]:
        """Append what makes a run continue elsewhere, or with another state.

        Raises `RunActiveError` if a living process executes it, unless it is taken over.
        """


class Registry:
    """The flows that one engine knows, by name and version."""

    def __init__(self, flows: Iterable[Flow[Any]] = ()) -> None:
        self._lock = threading.Lock()
        self._flows: dict[str, dict[str, Flow[Any]]] = {}
        if isinstance(flows, Flow):
            raise TypeError(f"flows is a list: flows=[{flows.name}]")
        for flow in flows:
            self.add(flow)

    def add(self, flow: Flow[Any]) -> None:
        """Make a flow known. Raises `ValueError` if another has its name and version."""
        as_flow(flow)
        with self._lock:
            versions = self._flows.get(flow.name, {})
            known = versions.get(flow.version)
            if known is flow:
                return
            if known is not None and known.definition != flow.definition:
                raise ValueError(
                    f"two flows are called {flow.name!r} version {flow.version}: {known!r} and "
                    f"{flow!r}; give one of them another name or version"
                )
            changed = {**versions, flow.version: flow}
            self._flows = {**self._flows, flow.name: changed}  # readers keep what they have

    def find(self, run_id: str, name: str, version: str) -> Flow[Any]:
        """The flow that continues a run: of its own version, or one that admits it.

        Raises `UnknownFlowError`, and `MigrationError` if migrations do not lead to a version
        that is known.
        """
        versions = self._flows.get(name, {})
        if version in versions:
            return versions[version].newest
        for flow in reversed(versions.values()):
            if flow.admits(version):
                return flow.newest
        for flow in reversed(versions.values()):
            if flow.migrations is not None:
                flow.migrations.check(version, Place(run_id))
        known = tuple(f"{name!r} ({', '.join(made)})" for name, made in self._flows.items())
        raise UnknownFlowError(run_id, name, version, known)

    @property
    def names(self) -> list[str]:
        """The names of the flows."""
        return list(self._flows)


def as_flow(flow: object) -> Flow[Any]:
    """The flow itself. Raises `TypeError` for anything else."""
    if isinstance(flow, Flow):
        return flow
    advice = "compile() it first" if hasattr(flow, "compile") else "decorate it with @workflow"
    raise TypeError(f"{flow!r} is no workflow, compiled graph or pipeline; {advice}")
