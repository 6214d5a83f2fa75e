"""The capability of pydantic-ai that has an agent's requests and calls executed as steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    RoleBasedOperationConfig,
    ToolsetKind,
    conversation_id_from_run_id,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset, WrapperToolset
from pydantic_core import to_jsonable_python

from holdfast.engine.context import DECIDING, now, uuid
from holdfast.errors import SerializeError
from holdfast.integrations.pydantic_ai.steps import AgentStep, Steps, check_step
from holdfast.workflow.combinators import AskOptions, approve, ask

TOOL_OPTIONS = "holdfast"
"""The key of a tool's metadata with the options of its steps."""


def in_flow() -> bool:
    """Whether this is a flow's own code, rather than a step's or code outside of any run."""
    return DECIDING.get() is not None


@dataclass(init=False, kw_only=True)
class Durability(BaseDurabilityCapability[AgentDepsT]):
    """Makes steps of an agent's model requests, tool calls and event handlers in a flow."""

    engine_spec = DurabilityEngineSpec(
        engine_name="holdfast",
        durable_unit_noun="step",
        durable_container_noun="flow",
        codec=JSON_CODEC,
        serialization_failure=lambda error: SerializeError("result", str(error)),
        # A server is reached by steps alone: nothing in the flow's own code opens a connection.
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-outside-durable",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key=TOOL_OPTIONS,
    )

    def __init__(
        self,
        *,
        name: str,
        model_step: AgentStep,
        tool_step: AgentStep,
        event_step: AgentStep,
        questions: AskOptions,
        asks: bool,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
    ) -> None:
        super().__init__(name=name, models=models, event_stream_handler=event_stream_handler)
        self._model_step = model_step
        self._tool_step = tool_step
        self._event_step = event_step
        self._questions = questions
        self._asks = asks

    @property
    def in_durable_context(self) -> bool:
        """Whether what the agent does now is to be steps."""
        return in_flow()

    def get_durable_operation_backend(self) -> Steps:
        """What executes the steps."""
        config = RoleBasedOperationConfig[AgentStep](
            model=self._model_step,
            event=self._event_step,
            capability={},
            tool=self._tool_step,
            resolve_tool=self._options_of_tool,
        )
        return Steps(self.name, config)

    def _options_of_tool(
        self, _: DurableOperationId, tool: Any, name: str
    ) -> AgentStep | Literal[False]:
        found = self._build_resolve_tool_config(self._tool_step)(tool, name)
        return found if found is False else check_step(f"tool {name!r}", found)

    def _toolset_base_config(self, kind: ToolsetKind) -> AgentStep:
        return self._tool_step

    def _wrap_leaf_toolset(
        self, ts: AbstractToolset[AgentDepsT]
    ) -> WrapperToolset[AgentDepsT] | None:
        """The calls of a toolset of the user's own are steps, too."""
        made = super()._wrap_leaf_toolset(ts)
        if made is not None or isinstance(ts, ExternalToolset):  # that one calls nothing
            return made
        toolset: Any = ts
        return self._build_function_toolset(toolset)

    def _find_model_id(self, model: Model) -> str | None:
        """The name under which steps find a model. Any will do: they run in the same process."""
        try:
            return super()._find_model_id(model)
        except UserError:
            name = f"given-{len(self._models_by_id)}"
            self._models_by_id[name] = model
            return name

    # --- what an agent run draws from the world, recorded

    def get_default_run_id(self) -> str | None:
        """An id that is the same after a resume."""
        return str(uuid()) if in_flow() else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """An id that follows from the run's."""
        return conversation_id_from_run_id(run_id) if in_flow() else None

    def get_run_clock(self) -> Callable[[], datetime] | None:
        """The clock that a run's `timeout=` is measured with."""
        return now if in_flow() else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        """When the run first began."""
        return now() if in_flow() else None

    # --- people

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people for approvals, and for the results of calls that are made elsewhere."""
        if not (self._asks and in_flow()):
            return None
        asked = [
            *(self._approved(call, requests) for call in requests.approvals),
            *(self._done_elsewhere(call, requests) for call in requests.calls),
        ]
        answers = dict(await asyncio.gather(*asked))
        return requests.build_results(
            approvals={
                call.tool_call_id: answers[call.tool_call_id] for call in requests.approvals
            },
            calls={call.tool_call_id: answers[call.tool_call_id] for call in requests.calls},
        )

    async def _approved(self, call: ToolCallPart, requests: DeferredToolRequests) -> Any:
        verdict = await approve(
            f"May {self.name} call {call.tool_name}?", **self._asking("approve", call, requests)
        )
        if verdict.approved:
            return call.tool_call_id, True
        denied = ToolDenied(verdict.comment) if verdict.comment else ToolDenied()
        return call.tool_call_id, denied

    async def _done_elsewhere(self, call: ToolCallPart, requests: DeferredToolRequests) -> Any:
        options: Any = self._asking("result", call, requests)
        answer = await ask(f"What is the result of {call.tool_name}?", **options)
        return call.tool_call_id, answer

    def _asking(self, what: str, call: ToolCallPart, requests: DeferredToolRequests) -> AskOptions:
        show: dict[str, Any] = {"tool": call.tool_name, "arguments": call.args_as_dict()}
        metadata = requests.metadata.get(call.tool_call_id)
        if metadata:
            show["metadata"] = to_jsonable_python(metadata)
        return {"show": show, "name": f"{what}.{call.tool_name}", **self._questions}
