"""Sessions of the OpenAI Agents SDK in any store: the extra `openai-agents`.

    from holdfast.integrations.openai_agents import HoldfastSession

    session = HoldfastSession("chat-1", "sqlite:///agents.db")
    result = await Runner.run(agent, "Will it rain in Brest?", session=session)

A session is a run whose entries are the items that were added, and what was taken back. Here: what
these entries say. Not here: how they are written and proved (`holdfast.kernel`).
"""

try:
    from agents.memory import SessionSettings as _Needed
except ImportError as error:
    from holdfast.extras import missing_extra

    raise missing_extra("openai-agents", error) from error

from holdfast.integrations.openai_agents.session import HoldfastSession

__all__ = ["HoldfastSession"]

del _Needed
