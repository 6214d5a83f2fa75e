"""Agents whose model requests and tool calls are steps."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import subprocess
import sys
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import AgentStreamEvent, ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator

import holdfast as hf
from holdfast.integrations.pydantic_ai import HoldfastAgent
from holdfast.workflow import workflow
from tests.integrations.pydantic_ai.scripted import FORECAST, Log, Script, forecaster, model_of
from tests.waiting import wait_until


def names(engine: hf.Engine, run_id: str) -> list[str]:
    with hf.SyncCheckpointer(engine.checkpointer.store) as checkpointer:
        return [info.step or "" for info in reversed(checkpointer.list_checkpoints(run_id))]


def without_times(messages: list[ModelMessage]) -> Any:
    """The messages as data, without what differs between any two runs."""

    def stripped(data: Any) -> Any:
        if isinstance(data, list):
            return [stripped(item) for item in data]
        if isinstance(data, dict):
            left_out = ("timestamp", "run_id", "conversation_id")
            return {key: stripped(item) for key, item in data.items() if key not in left_out}
        return data

    return stripped(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


def test_a_durable_agent_gives_what_the_plain_agent_gives(engine: hf.Engine, log: Log) -> None:
    plain = forecaster(log)
    expected = asyncio.run(plain.run("How is it?"))
    log.take()
    agent = HoldfastAgent(plain)
    result = engine.run_sync(agent.flow("How is it?"), run_id="chat")
    assert result.output == expected.output == "sunny everywhere"
    assert result.usage == expected.usage
    assert without_times(result.all_messages()) == without_times(expected.all_messages())
    steps = ("model", "model#2", "model#3", "tool.tide", "tool.weather", "tool.weather#2")
    assert sorted(names(engine, "chat")) == [
        *(f"forecaster/{step}" for step in steps), "forecaster/tool.weather#3",
    ]  # fmt: skip
    assert len(log.take()) == 7

    again = engine.run_sync(agent.flow("How is it?"), run_id="chat", resume=True)
    assert log.take() == []
    assert again == result
    assert again.all_messages() == result.all_messages()
    with pytest.raises(hf.InputMismatchError):
        engine.run_sync(agent.flow("And there?"), run_id="chat", resume=True)


def test_a_conversation_continues_with_the_messages_so_far(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(Agent(model_of(["one", "two"], log), name="chatty"))
    first = engine.run_sync(agent.flow("1?"), run_id="turn-1")
    call = agent.flow("2?", message_history=first.all_messages())
    second = engine.run_sync(call, run_id="turn-2")
    assert second.output == "two"
    assert second.all_messages()[:2] == first.all_messages()
    assert len(second.new_messages()) == 2


def test_an_agent_runs_in_workflows_of_every_form(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(forecaster(log))

    @workflow
    async def several() -> list[str]:
        first = await agent.run("one")
        rest = await hf.durable(both(), name="both")
        child = await agent.flow("four")
        return [first.output, *rest, child.output]

    async def both() -> list[str]:
        results = await asyncio.gather(agent.run("two"), agent.run("three"))
        return [result.output for result in results]

    @workflow
    def plain() -> str:
        return agent.run_sync("one").output

    assert engine.run_sync(several(), run_id="several") == ["sunny everywhere"] * 4
    assert log.take().count("model 3") == 4
    assert engine.run_sync(plain(), run_id="plain") == "sunny everywhere"
    assert len(log.take()) == 7


def test_a_failed_tool_is_tried_again_and_the_rest_is_not(engine: hf.Engine, log: Log) -> None:
    plain = Agent(model_of([[("flaky", {}), ("sure", {})], "done"], log), name="worker")
    fails = True

    @plain.tool_plain
    def flaky() -> str:
        log("flaky")
        if fails:
            wait_until(lambda: "worker/tool.sure" in names(engine, "r"))
            raise OSError("not yet")
        return "ok"

    @plain.tool_plain
    def sure() -> str:
        log("sure")
        return "ok"

    agent = HoldfastAgent(plain)
    with pytest.raises(hf.StepFailedError, match="not yet"):
        engine.run_sync(agent.flow("go"), run_id="r")
    log.take()
    fails = False
    assert engine.run_sync(agent.flow("go"), run_id="r", resume=True).output == "done"
    assert log.take() == ["flaky", "model 2"]


def test_steps_have_the_options_of_their_role_and_of_their_tool(
    engine: hf.Engine, log: Log, tmp_path: Path
) -> None:
    plain = Agent(model_of([[("write", {"name": "a"}), ("peek", {})], "done"], log), name="writer")
    attempts = 0

    def written(result: str, name: str) -> Path:
        assert result == "wrote"
        return tmp_path / f"{name}.txt"

    @plain.tool_plain(metadata={"holdfast": {"retry": hf_retry(2), "outputs": written}})
    def write(name: str) -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("disk on fire")
        (tmp_path / f"{name}.txt").write_text("text")
        log("write")
        return "wrote"

    @plain.tool_plain(metadata={"holdfast": False})
    def peek() -> str:
        log("peek")
        return "peeked"

    agent = HoldfastAgent(plain, model_step={"retry": 2, "timeout": 60}, tool_step={"timeout": 60})
    assert engine.run_sync(agent.flow("go"), run_id="r").output == "done"
    assert names(engine, "r") == ["writer/model", "writer/tool.write", "writer/model#2"]
    log.take()
    (tmp_path / "a.txt").unlink()
    engine.run_sync(agent.flow("go"), run_id="r", resume=True)
    assert "write" in log.take()  # its file was gone

    with pytest.raises(TypeError, match="run_on"):
        HoldfastAgent(plain, tool_step={"run_on": None})  # type: ignore[arg-type]


def hf_retry(attempts: int) -> Any:
    from holdfast.engine.retry import Retry

    return Retry(attempts, backoff=0)


def test_what_a_tool_turns_down_is_recorded_and_told_to_the_model(
    engine: hf.Engine, log: Log, tmp_path: Path
) -> None:
    script: Script = [
        [("guess", {"n": 1})],
        [("guess", {"n": "x"})],
        [("guess", {"n": 2})],
        "right",
    ]
    plain = Agent(model_of(script, log), name="guesser", retries=3)

    @plain.tool_plain(metadata={"holdfast": {"outputs": str(tmp_path / "never")}})
    def guess(n: int) -> str:
        log(f"guess {n}")
        if n != 2:
            raise ModelRetry("try 2")
        (tmp_path / "never").touch()
        return "yes"

    expected = without_times(asyncio.run(plain.run("go")).all_messages())
    log.take()
    agent = HoldfastAgent(plain)
    result = engine.run_sync(agent.flow("go"), run_id="r")
    assert result.output == "right"
    assert without_times(result.all_messages()) == expected
    assert log.take().count("guess 1") == 1


class Report(BaseModel):
    city: str
    degrees: float


def test_an_agent_called_by_a_tool_may_have_steps_of_its_own(engine: hf.Engine, log: Log) -> None:
    inner = HoldfastAgent(forecaster(log), name="inner")
    plain = Agent(model_of([[("ask", {}), ("ask", {})], "done"], log), name="outer")

    @plain.tool(metadata={"holdfast": False})
    async def ask(ctx: RunContext[object]) -> str:
        return (await inner.run("go", usage=ctx.usage)).output

    result = engine.run_sync(HoldfastAgent(plain).flow("go"), run_id="r")
    assert result.usage.requests == 8
    assert {"outer/model", "outer/inner/model#3", "outer/inner#2/model#3"} <= set(
        names(engine, "r")
    )


class Lamps(AbstractToolset[None]):
    """A toolset that is none of pydantic-ai's own."""

    def __init__(self, log: Log, identity: str | None) -> None:
        self._log = log
        self._identity = identity

    @property
    def id(self) -> str | None:
        return self._identity

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        schema = {"type": "object", "properties": {}}
        tool = ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(name="light", parameters_json_schema=schema),
            max_retries=0,
            args_validator=SchemaValidator({"type": "any"}),
        )
        return {"light": tool}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        self._log(name)
        return "on"


def test_the_calls_of_any_toolset_are_steps(engine: hf.Engine, log: Log) -> None:
    model = model_of([[("light", {})], "done"], log)
    agent = HoldfastAgent(Agent(model, name="house", toolsets=[Lamps(log, "lamps")]))
    assert engine.run_sync(agent.flow("go"), run_id="r").output == "done"
    assert names(engine, "r") == ["house/model", "house/tool.light", "house/model#2"]
    unnamed = HoldfastAgent(Agent(model, name="house", toolsets=[Lamps(log, None)]))
    with pytest.raises(UserError, match="id"):
        engine.run_sync(unnamed.flow("go"), run_id="unnamed")


def test_another_model_may_be_given_or_take_over_in_tests(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(forecaster(log), models={"brief": model_of(["fine"], log)})

    @workflow
    async def others() -> list[str]:
        named = await agent.run("go", model="brief")
        given = await agent.run("go", model=TestModel(call_tools=[], custom_output_text="given"))
        return [named.output, given.output]

    assert engine.run_sync(others(), run_id="others") == ["fine", "given"]
    with agent.override(model=TestModel(call_tools=[], custom_output_text="tested")):
        assert engine.run_sync(agent.flow("go"), run_id="test").output == "tested"


def test_outputs_are_validated_and_come_back_as_their_type(engine: hf.Engine, log: Log) -> None:
    script = [
        [("final_result", {"city": "Brest", "degrees": 99})],
        [("final_result", {"city": "Brest", "degrees": 21.5})],
    ]
    plain = Agent(model_of(script, log), name="reporter", output_type=Report)

    @plain.output_validator
    def plausible(report: Report) -> Report:
        if report.degrees > 50:
            raise ModelRetry("too hot")
        return report

    agent = HoldfastAgent(plain)
    for _ in range(2):
        result = engine.run_sync(agent.flow("go"), run_id="r", resume=True)
        assert result.output == Report(city="Brest", degrees=21.5)
    assert log.take() == ["model 1", "model 2"]


@dataclasses.dataclass
class Secrets:
    token: str


def test_dependencies_are_made_anew_and_never_recorded(
    engine: hf.Engine, log: Log, tmp_path: Path
) -> None:
    plain = Agent(model_of([[("who", {})], "done"], log), name="asker", deps_type=Secrets)

    @plain.tool
    def who(ctx: RunContext[Secrets]) -> int:
        return len(ctx.deps.token)

    agent = HoldfastAgent(plain, deps=lambda: Secrets("sesame-open-up"))
    assert engine.run_sync(agent.flow("go"), run_id="r").output == "done"
    assert not stored(b"sesame", tmp_path)


def stored(text: bytes, directory: Path) -> bool:
    return any(text in file.read_bytes() for file in directory.glob("runs.db*"))


def test_keys_of_model_clients_are_never_recorded(engine: hf.Engine, tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["authorization"])
        message = {"role": "assistant", "content": "hello there"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-5"}
        return httpx.Response(200, json={**answer, "choices": [choice]})

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as http:
            client = AsyncOpenAI(api_key="sk-sesame", http_client=http)
            model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))
            settings = ModelSettings(extra_headers={"x-more": "sesame"})
            agent = HoldfastAgent(Agent(model, name="greeter", model_settings=settings))
            result = await engine.run(agent.flow("hello?"), run_id="r")
            assert result.output == "hello there"

    asyncio.run(main())
    assert asked == ["Bearer sk-sesame"]
    assert stored(b"hello there", tmp_path)
    assert not stored(b"sesame", tmp_path)


# --- people


def approving(log: Log) -> Agent[None, str]:
    script: Script = [[("pay", {"euros": 5}), ("pay", {"euros": 500}), ("weigh", {})], "done"]
    plain = Agent(model_of(script, log), name="cashier")

    @plain.tool_plain(requires_approval=True)
    def pay(euros: int) -> str:
        log(f"pay {euros}")
        return "paid"

    @plain.tool_plain
    def weigh() -> str:
        from pydantic_ai import CallDeferred

        log("weigh")
        raise CallDeferred(metadata={"scale": "B"})

    return plain


def test_people_are_asked_for_approvals_and_for_results(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(approving(log), questions={"assignees": ["ann"]})
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(agent.flow("go"), run_id="r")
    asked = {question.key: question for question in engine.questions_sync("r")}
    assert sorted(asked) == [
        "cashier/approve.pay", "cashier/approve.pay#2", "cashier/result.weigh",
    ]  # fmt: skip
    small = asked["cashier/approve.pay"]
    assert small.prompt == "May cashier call pay?"
    assert small.shown == {"tool": "pay", "arguments": {"euros": 5}}
    assert asked["cashier/result.weigh"].shown["metadata"] == {"scale": "B"}
    assert log.take() == ["model 1", "weigh"]

    def answer(key: str, value: Any) -> None:
        engine.answer_sync("r", value, question=key, by="ann")

    answer("cashier/approve.pay", {"approved": True})
    answer("cashier/approve.pay#2", {"approved": False, "comment": "too much"})
    answer("cashier/result.weigh", {"kilos": 3})
    result = engine.resume_sync("r")
    assert log.take() == ["pay 5", "model 2"]
    returned = [part for part in result.all_messages()[2].parts if part.part_kind == "tool-return"]
    assert [part.content for part in returned] == ["paid", "too much", {"kilos": 3}]


def test_an_agent_that_returns_deferred_calls_is_left_to_do_so(engine: hf.Engine, log: Log) -> None:
    from pydantic_ai import DeferredToolRequests

    plain = approving(log)

    @workflow
    async def cashier_flow() -> int:
        result: AgentRunResult[Any] = await agent.run("go", output_type=[str, DeferredToolRequests])
        assert isinstance(result.output, DeferredToolRequests)
        return len(result.output.approvals)

    agent = HoldfastAgent(plain)
    assert engine.run_sync(cashier_flow(), run_id="r") == 2


# --- streams


def test_a_handler_is_given_events_while_the_model_streams(engine: hf.Engine, log: Log) -> None:
    seen: list[str] = []

    async def handler(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            seen.append(event.event_kind)

    plain = forecaster(log)
    agent = HoldfastAgent(plain, event_stream_handler=handler)
    result = engine.run_sync(agent.flow("go"), run_id="r")
    assert result.output.split() == ["sunny", "everywhere"]
    assert seen.count("function_tool_result") == 4
    assert "part_delta" in seen
    calls = len(seen)
    assert engine.run_sync(agent.flow("go"), run_id="r", resume=True) == result
    assert len(seen) == calls
    outside = asyncio.run(agent.run("go"))
    assert outside.output == result.output
    assert len(seen) > calls


def test_what_can_not_be_replayed_is_refused_in_a_flow(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(forecaster(log))

    @workflow
    async def streams() -> None:
        async with agent.run_stream("go"):
            pass

    @workflow
    async def events() -> None:
        async with agent.run_stream_events("go"):
            pass

    @workflow
    async def iterates() -> None:
        async with agent.iter("go"):
            pass

    @workflow
    async def brings_tools() -> None:
        from pydantic_ai import FunctionToolset

        await agent.run("go", toolsets=[FunctionToolset(id="late")])

    for flow in (streams, events):
        with pytest.raises(UserError, match="event_stream_handler"):
            engine.run_sync(flow(), run_id=flow.name)
    with pytest.raises(UserError, match=re.escape("hf.durable")):
        engine.run_sync(iterates(), run_id="iterates")
    with pytest.raises(UserError, match="toolset"):
        engine.run_sync(brings_tools(), run_id="brings_tools")
    with pytest.raises(UserError, match="name"):
        HoldfastAgent(Agent("test"))
    with pytest.raises(UserError, match="keeps its name"):
        agent.name = "other"
    assert log.take() == []


def test_nodes_can_be_gone_through_in_a_durable_coroutine(engine: hf.Engine, log: Log) -> None:
    agent = HoldfastAgent(forecaster(log))

    async def nodes() -> list[str]:
        async with agent.iter("go") as run:
            return [type(node).__name__ async for node in run]

    @workflow
    async def walk() -> list[str]:
        return await hf.durable(nodes())

    seen = engine.run_sync(walk(), run_id="r")
    assert seen.count("ModelRequestNode") == 3
    assert {"nodes/model", "nodes/model#2", "nodes/model#3"} <= set(names(engine, "r"))


def test_the_agent_is_as_before_outside_of_flows(log: Log) -> None:
    agent = HoldfastAgent(forecaster(log), name="other")
    assert agent.name == "other"
    assert asyncio.run(agent.run("go")).output == FORECAST[-1]

    async def streamed() -> str:
        async with agent.run_stream("go") as stream:
            return await stream.get_output()

    assert asyncio.run(streamed()).split() == ["sunny", "everywhere"]


def test_a_missing_package_says_what_to_install() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None\nimport holdfast.integrations.pydantic_ai"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[pydantic-ai]'" in done.stderr
