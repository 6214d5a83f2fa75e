"""Agents whose models follow a script, and keep a log on disk of what was really called."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

_THEN = datetime(2026, 11, 1, tzinfo=UTC)  # the same in each run, so that they can be compared

Script = Sequence[str | list[tuple[str, dict[str, Any]]]]
"""For each model request: a text, or the tool calls that the model makes at once."""


class Log:
    """Lines on disk. A line that is to be deadly kills the process before it is written."""

    def __init__(self, path: Path, deadly: str | None = None) -> None:
        self.path = path
        self.deadly = deadly

    def __call__(self, line: str) -> None:
        if line == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.path.open("a") as file:
            file.write(line + "\n")

    def take(self) -> list[str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        return lines


def model_of(script: Script, log: Log) -> FunctionModel:
    """A model that says what the script says, however often it is asked."""

    def next_of(messages: list[ModelMessage]) -> tuple[int, Any]:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        log(f"model {turn + 1}")
        return turn, script[turn]

    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn, said = next_of(messages)
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)], timestamp=_THEN)
        calls = [
            ToolCallPart(name, arguments, tool_call_id=f"call-{turn}-{n}")
            for n, (name, arguments) in enumerate(said)
        ]
        return ModelResponse(parts=calls, timestamp=_THEN)

    async def stream(
        messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        turn, said = next_of(messages)
        if isinstance(said, str):
            for word in said.split():
                yield f"{word} "
            return
        for n, (name, arguments) in enumerate(said):
            call = DeltaToolCall(name, json.dumps(arguments), tool_call_id=f"call-{turn}-{n}")
            yield {n: call}

    return FunctionModel(reply, stream_function=stream)


FORECAST: Script = [
    [("weather", {"city": "Brest"}), ("weather", {"city": "Oslo"}), ("tide", {"city": "Brest"})],
    [("weather", {"city": "Rome"})],
    "sunny everywhere",
]


def forecaster(log: Log) -> Agent[None, str]:
    """An agent that calls three tools at once, then one, and then answers."""
    agent = Agent(model_of(FORECAST, log), name="forecaster")

    @agent.tool_plain
    async def weather(city: str) -> str:
        log(f"weather {city}")
        return f"{city}: sunny"

    @agent.tool_plain
    def tide(city: str) -> dict[str, float]:
        log(f"tide {city}")
        return {"level": 1.5}

    @agent.instructions
    def instructions() -> str:
        return "Be brief."

    return agent
