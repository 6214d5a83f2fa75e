"""An agent of the SDK whose model follows a script, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

set_tracing_disabled(True)


class Scripted(Model):
    """Calls a tool first, and then says what the tool returned, with the number of input items."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the SDK's name
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        items: list[Any] = list(input)
        last = items[-1]
        output: Any
        if last.get("type") == "function_call_output":
            said = f"{last['output']} ({len(items)} items)"
            text = ResponseOutputText(annotations=[], text=said, type="output_text")
            output = ResponseOutputMessage(
                id=f"message-{len(items)}",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        else:
            output = ResponseFunctionToolCall(
                arguments='{"city": "Brest"}',
                call_id=f"call-{len(items)}",
                name="weather",
                type="function_call",
            )
        return ModelResponse([output], Usage(), None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
def weather(city: str) -> str:
    return f"{city}: sunny"


def forecaster() -> Agent[None]:
    return Agent("forecaster", model=Scripted(), tools=[weather])
