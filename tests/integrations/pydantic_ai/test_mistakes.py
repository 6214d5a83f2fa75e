"""What people try first with a durable agent, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.integrations.pydantic_ai import HoldfastAgent
from tests.integrations.pydantic_ai.scripted import Log, forecaster

BOT = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from holdfast.integrations.pydantic_ai import HoldfastAgent

agent = HoldfastAgent(Agent(TestModel()), name="bot")
"""


def test_an_engine_given_an_agent_names_its_flow(engine: hf.Engine, log: Log) -> None:
    with pytest.raises(TypeError, match=r"HoldfastAgent is no flow.*engine\.run\(NAME\.flow"):
        engine.run_sync(HoldfastAgent(forecaster(log)))  # type: ignore[arg-type]


def test_the_dependencies_of_a_flow_are_the_agents(log: Log) -> None:
    agent = HoldfastAgent(forecaster(log))
    with pytest.raises(TypeError, match=r"no option 'deps'.*HoldfastAgent\(agent, deps="):
        agent.flow("How is it?", deps=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option 'model'; it takes a prompt"):
        agent.flow("How is it?", model="x")  # type: ignore[arg-type]


def test_commands_given_an_agent_name_its_flow_and_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "durable_bot.py").write_text(BOT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    store = ["--store", "sqlite:///runs.db"]
    refused = CliRunner().invoke(holdfast, ["submit", "durable_bot:agent", *store])
    assert "use durable_bot:agent.flow" in refused.output
    taken = CliRunner().invoke(
        holdfast,
        ["submit", "durable_bot:agent.flow", "--run-id", "r", "--input", "prompt=hi", *store],
    )
    assert taken.exit_code == 0, taken.output
