"""An agent of pydantic-ai that does what it does in steps, where it runs in a flow."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import DeferredToolRequests
from pydantic_ai._output import types_from_output_spec
from pydantic_ai._utils import disable_threads
from pydantic_ai.agent import AbstractAgent, EventStreamHandler, WrapperAgent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.output import OutputDataT
from pydantic_ai.tools import AgentDepsT

from holdfast.engine.context import DECIDING
from holdfast.integrations.pydantic_ai.agent_flow import AgentFlow
from holdfast.integrations.pydantic_ai.durability import Durability, in_flow
from holdfast.integrations.pydantic_ai.steps import AgentStep, check_step
from holdfast.model import check_id
from holdfast.workflow.combinators import AskOptions
from holdfast.workflow.durable import Durable, durable
from holdfast.workflow.durable_body import Body

_NO_STREAM: Final = (
    "{}() can't be used in a flow: what it streams would not be the same after a resume. Use run() "
    "with an event_stream_handler, which is called in steps while the model streams"
)


class HoldfastAgent(WrapperAgent[AgentDepsT, OutputDataT]):
    """An agent whose model requests and tool calls are steps of the flow that it runs in.

    `agent.flow("question")` is a flow of its own. In an async workflow, `await agent.run(...)`
    takes what the wrapped agent takes and returns what it returns; in a plain `def`, use
    `run_sync`. Outside of flows it is the wrapped agent.
    """

    def __init__(
        self,
        wrapped: AbstractAgent[AgentDepsT, OutputDataT],
        *,
        name: str | None = None,
        deps: Callable[[], AgentDepsT] | None = None,
        model_step: AgentStep | None = None,
        tool_step: AgentStep | None = None,
        event_step: AgentStep | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        questions: AskOptions | None = None,
        models: Mapping[str, Model] | None = None,
        version: str | int = "1",
    ) -> None:
        """Make an agent durable.

        `name` is the flow's and the first part of its steps' names; by default it is the wrapped
        agent's. Runs that are under way need it to stay the same. `deps` makes the dependencies of
        `flow`, again for each resume: they are never recorded.

        `model_step`, `tool_step` and `event_step` are the options of steps: of model requests, of
        tool calls and of calls of the `event_stream_handler`. One tool's own are in its metadata:
        `@agent.tool(metadata={"holdfast": {"retry": 3}})`. There, `False` says that it is no step:
        it is called again by each resume, in the flow's own code.

        Where the agent does not return `DeferredToolRequests`, people are asked for approvals and
        for the results of calls that are made elsewhere; `questions` are the options of `ask`.
        `models` are further ones that a run may name. `version` is the flow's.
        """
        super().__init__(wrapped)
        called = name or wrapped.name
        if called is None:
            raise UserError("a HoldfastAgent needs a name: it names the agent's flow and its steps")
        self._name = check_id("agent", called)
        self._handler = event_stream_handler or wrapped.event_stream_handler
        self._options: dict[str, Any] = {
            "name": self._name,
            "model_step": check_step("model_step", model_step or {}),
            "tool_step": check_step("tool_step", tool_step or {}),
            "event_step": check_step("event_step", event_step or {}),
            "questions": questions or {},
            "models": models,
        }
        caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - see AgentFlow
        self.flow: AgentFlow[OutputDataT] = AgentFlow(self, str(version), deps, caller)

    @property
    def name(self) -> str | None:
        """The name of the agent, its flow and its steps."""
        return self._name

    @name.setter
    def name(self, value: str | None) -> None:
        raise UserError("a HoldfastAgent keeps its name: runs that are under way depend on it")

    @property
    def event_stream_handler(self) -> EventStreamHandler[AgentDepsT] | None:
        """What is given the events of a run outside of flows. In a flow, steps do that."""
        return None if in_flow() else self._handler

    def _durability(
        self, output_type: Any, handler: EventStreamHandler[AgentDepsT] | None
    ) -> Durability[AgentDepsT]:
        kinds = types_from_output_spec(output_type or self.output_type)
        asks = DeferredToolRequests not in kinds
        return Durability(**self._options, asks=asks, event_stream_handler=handler)

    if not TYPE_CHECKING:  # type checkers know the signatures of AbstractAgent

        async def run(self, *args: Any, **options: Any) -> Any:
            """Run the agent; in a flow, each model request and tool call as a step."""
            if not in_flow():
                return await super().run(*args, **options)
            return await self._in_flow(args, options)

        def run_sync(self, *args: Any, **options: Any) -> Any:
            """The same in a workflow that is a plain `def`, and outside of flows."""
            if not in_flow():
                return super().run_sync(*args, **options)
            effect = self._in_flow(args, options)
            try:
                return effect.result()
            finally:
                effect.coroutine.close()  # it was not awaited in an `async def`

        def _in_flow(self, args: Sequence[Any], options: dict[str, Any]) -> Durable[Any]:
            handler = options.pop("event_stream_handler", None) or self._handler
            durability = self._durability(options.get("output_type"), handler)
            options["capabilities"] = [*(options.get("capabilities") or ()), durability]
            options["infer_name"] = False
            return durable(super().run(*args, **options), name=self._name)

        @asynccontextmanager
        async def iter(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            """Go through a run node by node; in a flow, in a coroutine given to `hf.durable`."""
            flow = DECIDING.get()
            if flow is None:
                async with super().iter(*args, **options) as agent_run:
                    yield agent_run
                return
            if not isinstance(flow, Body):
                raise UserError(
                    "iter() makes tasks: in a flow, use it in a coroutine that you give to "
                    "hf.durable(...)"
                )
            given = options.get("capabilities") or ()
            if not any(isinstance(one, Durability) for one in given):
                durability = self._durability(options.get("output_type"), self._handler)
                options["capabilities"] = [*given, durability]
            with disable_threads():  # the flow's own code has none; its steps do
                async with super().iter(*args, **options) as agent_run:
                    yield agent_run

        def run_stream(self, *args: Any, **options: Any) -> Any:
            """Refused in a flow."""
            _refuse("run_stream")
            return super().run_stream(*args, **options)

        def run_stream_events(self, *args: Any, **options: Any) -> Any:
            """Refused in a flow."""
            _refuse("run_stream_events")
            return super().run_stream_events(*args, **options)

        def run_stream_sync(self, *args: Any, **options: Any) -> Any:
            """Refused in a flow."""
            _refuse("run_stream_sync")
            return super().run_stream_sync(*args, **options)

        def realtime_session(self, *args: Any, **options: Any) -> Any:
            """Refused in a flow."""
            _refuse("realtime_session")
            return super().realtime_session(*args, **options)


def _refuse(method: str) -> None:
    if in_flow():
        raise UserError(_NO_STREAM.format(method))
