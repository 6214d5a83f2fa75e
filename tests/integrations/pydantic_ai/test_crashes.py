"""An agent that is killed before, in and after every step."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent

from holdfast.integrations.pydantic_ai import HoldfastAgent
from holdfast.testing import crash_at_every_step
from tests.effort import EFFORT
from tests.integrations.pydantic_ai.scripted import Log, Script, model_of


def test_an_agent_killed_anywhere_comes_to_the_same_end(log: Log) -> None:
    script: Script = [
        [("weigh", {"kilos": 1}), ("pay", {"euros": 5}), ("weigh", {"kilos": 2})],
        "done",
    ]
    plain = Agent(model_of(script, log), name="cashier")

    @plain.tool_plain
    def weigh(kilos: int) -> str:
        return f"{kilos} kg"

    @plain.tool_plain(requires_approval=True)
    def pay(euros: int) -> str:
        return f"paid {euros}"

    def view(result: Any) -> Any:
        parts = [part for message in result.all_messages() for part in message.parts]
        return result.output, result.usage.requests, [getattr(p, "content", None) for p in parts]

    report = crash_at_every_step(
        HoldfastAgent(plain).flow("go"),
        answers={"cashier/approve.pay": {"approved": True}},
        view=view,
        limit=3 if EFFORT == 1 else 60,
    )
    assert report.points >= 12
