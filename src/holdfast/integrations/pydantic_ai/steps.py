"""How an agent's model requests and tool calls are executed as steps, and what they are called."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from pydantic_ai._utils import _disable_threads
from pydantic_ai.durable_exec import (
    CallableOperationBackend,
    CapabilityOperationId,
    DurableOperationId,
    EventStreamHandlerId,
    JournalOperationNamer,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
)

from holdfast.engine.blocking import check_options
from holdfast.engine.claims import Paths
from holdfast.engine.effects import mark
from holdfast.engine.policy import StepPolicy, policy_of
from holdfast.engine.retry import Retry
from holdfast.workflow.step import Step

_RETURNED: Final = ("tool_return", "tool_content_result")
_CLAIMS: Final = ("outputs", "evidence", "removes")


class AgentStep(TypedDict, total=False):
    """Options of an agent's steps: those of `@step` that fit.

    `retry` is how often it may be tried in all, or a `Retry`; `timeout` is in seconds per attempt.
    `outputs`, `reads`, `removes` and `evidence` are claims about the world, for tools: functions
    are given what the tool returned, as data, and its arguments by name. Nothing is claimed by a
    call that the tool turned down (`ModelRetry`, `ApprovalRequired` ...).
    """

    retry: int | Retry | None
    timeout: float | None
    outputs: Paths
    reads: Paths
    evidence: Any
    removes: Paths


@dataclass  # which makes it unhashable: no cache of functions keeps it, and the messages with it
class _Unit:
    """What one step calls."""

    body: Callable[[], Awaitable[object]]

    async def __call__(self, /, **_: Any) -> Any:
        token = _disable_threads.set(False)  # only the flow's own code has none
        try:
            return await self.body()
        finally:
            _disable_threads.reset(token)


class Names(JournalOperationNamer):
    """What steps are called, within the agent's name. Runs under way need them: do not change them."""

    def invocation_name(self, operation_id: DurableOperationId, *, label: str | None) -> Any:
        """The name of one step, with the tool's name if it is about one."""
        made = super().invocation_name(operation_id, label=label)
        return replace(made, operation_name=_called(operation_id, label))


def _called(operation_id: DurableOperationId, tool: str | None) -> str:
    match operation_id:
        case ModelRequestId():
            return "model"
        case ToolsetCallToolId():
            return f"tool.{tool}"
        case ToolsetValidateToolArgumentsId():
            return f"check.{tool}"
        case ToolsetGetToolsId(toolset_id=toolset):
            return f"tools_of.{toolset}"
        case ToolsetGetInstructionsId(toolset):
            return f"instructions_of.{toolset}"
        case EventStreamHandlerId():
            return "event"
        case CapabilityOperationId(capability, operation=operation):
            return f"capability.{capability}.{operation}"
    return type(operation_id).__name__.removesuffix("Id")


class Steps(CallableOperationBackend[AgentStep]):
    """Executes what an agent does as steps of the flow that it runs in."""

    def __init__(self, agent: str, config: RoleBasedOperationConfig[AgentStep]) -> None:
        super().__init__(namer=Names(agent), config=config)

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: AgentStep,
    ) -> object:
        """Await one step. Its result is the body's, which is plain data."""
        is_tool = isinstance(operation_id, ToolsetCallToolId)
        arguments: Any = cache_key[1] if is_tool else {}
        made: Step[object] = Step(
            name,
            _Unit(body),
            kwargs=arguments,
            policy=_policy(name, config, is_tool=is_tool),
            result_type=None,
            mark=mark("step", name),
        )
        return await made


def check_step(verb: str, options: Any) -> AgentStep:
    """The options, if they can be had. Raises `TypeError` or `ValueError`."""
    if not isinstance(options, Mapping):
        raise TypeError(f"{verb} takes options such as {{'retry': 3}}, not {options!r}")
    check_options(verb, options, AgentStep.__annotations__)
    policy_of(verb, {**options})  # type: ignore[typeddict-item]
    made: AgentStep = {**options}  # type: ignore[typeddict-item]
    return made


def _policy(name: str, options: AgentStep, *, is_tool: bool) -> StepPolicy:
    if not options:
        return _PLAIN
    made: dict[str, Any] = dict(check_step(name, options))
    if is_tool:
        for claim in _CLAIMS:
            if claim in made:
                made[claim] = _of_result(made[claim])
    return policy_of(name, made)  # type: ignore[arg-type]


_PLAIN: Final = StepPolicy()


def _of_result(claimed: Any) -> Callable[..., Any]:
    """A claim about what the tool returned, made of what is recorded of the call."""
    if not callable(claimed):
        return lambda payload: claimed if payload["kind"] in _RETURNED else ()

    @functools.wraps(claimed)  # its signature says whether it is given the arguments, too
    def of_payload(payload: Any, /, *args: Any, **arguments: Any) -> Any:
        if payload["kind"] not in _RETURNED:
            return ()
        return claimed(payload["result"], *args, **arguments)

    return of_payload
