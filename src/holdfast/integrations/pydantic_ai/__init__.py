"""Durable agents of pydantic-ai: the extra `pydantic-ai`.

    from holdfast.integrations.pydantic_ai import HoldfastAgent

    agent = HoldfastAgent(Agent("openai:gpt-5", tools=[weather]), name="forecaster")
    result = await engine.run(agent.flow("Will it rain in Brest?"), run_id="chat-1", resume=True)

Every model request and every tool call is a step: recorded, and never repeated by a resume. The
agent's own flow is `agent.flow(...)`; in a workflow of yours, `await agent.run(...)`. Here: what of
an agent is a step, and how it is recorded. Not here: how its tasks are replayed
(`holdfast.workflow.durable`).
"""

try:
    from pydantic_ai.durable_exec import JSON_CODEC as _NEEDED
except ImportError as error:
    from holdfast.extras import missing_extra

    raise missing_extra("pydantic-ai", error, needs="pydantic-ai 2.66 or newer") from error

from holdfast.integrations.pydantic_ai.agent import HoldfastAgent
from holdfast.integrations.pydantic_ai.agent_flow import AgentFlow
from holdfast.integrations.pydantic_ai.steps import AgentStep

__all__ = ["AgentFlow", "AgentStep", "HoldfastAgent"]

del _NEEDED
