"""An agent as a flow of its own: a prompt in, the result of the agent's run out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Never, TypeVar, Union

from pydantic import TypeAdapter
from pydantic_ai._output import types_from_output_spec
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, UserContent
from pydantic_ai.run import AgentRunResult

from holdfast.engine.effects import CALL, Call, mark
from holdfast.workflow.flow import Workflow

if TYPE_CHECKING:
    from holdfast.integrations.pydantic_ai.agent import HoldfastAgent

OutputT = TypeVar("OutputT")

_PROMPT: Final = TypeAdapter[Any](str | list[UserContent] | None)


class AgentFlow(Workflow[..., AgentRunResult[OutputT]], Generic[OutputT]):
    """A flow that is one run of an agent. Calling it says what to run: `agent.flow("Will it rain?")`.

    The prompt and the messages so far are recorded, as data. The result is an `AgentRunResult`,
    with `output`, `all_messages()` and `usage`, also when it comes from the store.
    """

    def __init__(
        self,
        agent: HoldfastAgent[Any, OutputT],
        version: str,
        deps: Callable[[], Any] | None,
        defined_in: str,
    ) -> None:
        async def run(prompt: Any = None, message_history: Any = None) -> Any:
            result = await agent.run(
                _PROMPT.validate_python(prompt),
                message_history=_messages(message_history),
                deps=None if deps is None else deps(),
            )
            return self.pack(result)

        assert agent.name is not None
        super().__init__(run, agent.name, version)
        self._agent = agent
        self._defined_in = defined_in

    def __call__(
        self,
        prompt: str | Sequence[UserContent] | None = None,
        *,
        message_history: Sequence[ModelMessage] | None = None,
        **others: Never,
    ) -> Call[AgentRunResult[OutputT]]:
        """What to run: `engine.run(agent.flow("Will it rain?"), run_id="chat-1", resume=True)`."""
        for name in others:
            raise TypeError(f"{self.name}.flow has no option {name!r}; {_advice(name)}")
        given = prompt if prompt is None or isinstance(prompt, str) else list(prompt)
        inputs = {"prompt": _PROMPT.dump_python(given, mode="json")}
        if message_history is not None:
            inputs["message_history"] = ModelMessagesTypeAdapter.dump_python(
                list(message_history), mode="json"
            )
        return Call(self, inputs, mark(CALL, self.name))

    @property
    def definition(self) -> Hashable:
        """Where the agent was made, and its name: a notebook's cell may run again."""
        return self._defined_in, self.name

    @property
    def result_type(self) -> Any:
        """None: `unpack` knows."""
        return None

    def pack(self, result: Any) -> Any:
        """A result as data."""
        return self._adapter.dump_python(result, mode="json")

    def unpack(self, recorded: Any) -> AgentRunResult[OutputT]:
        """The result that `pack` was given."""
        result: AgentRunResult[OutputT] = self._adapter.validate_python(recorded)
        return result

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        kinds = tuple(types_from_output_spec(self._agent.output_type))
        return TypeAdapter(AgentRunResult[Union[kinds]])  # type: ignore[valid-type] # noqa: UP007


def _advice(name: str) -> str:
    if name == "deps":
        return (
            "dependencies are not recorded: give the agent a function that makes them, "
            "HoldfastAgent(agent, deps=lambda: ...)"
        )
    return "it takes a prompt and message_history; in a workflow, agent.run(...) takes more"


def _messages(recorded: Any) -> list[ModelMessage] | None:
    return None if recorded is None else ModelMessagesTypeAdapter.validate_python(recorded)
