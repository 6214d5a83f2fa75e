"""A program that runs an agent. It prints what came of it."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai.messages import ModelMessagesTypeAdapter

import holdfast as hf
from holdfast.integrations.pydantic_ai import HoldfastAgent
from tests.integrations.pydantic_ai.scripted import Log, forecaster
from tests.waiting import wait_until


class Patient(Log):
    """It lets the other two calls that are made at once be recorded before it is deadly."""

    def __init__(self, url: str, path: Path, deadly: str | None) -> None:
        super().__init__(path, deadly)
        self.url = url

    def __call__(self, line: str) -> None:
        if line == self.deadly == "tide Brest":
            with hf.SyncCheckpointer(self.url) as checkpointer:
                wait_until(lambda: len(checkpointer.list_checkpoints("chat")) == 3)
        super().__call__(line)


def main(url: str, log: str, deadly: str | None = None) -> None:
    agent = HoldfastAgent(forecaster(Patient(url, Path(log), deadly)))
    with hf.Engine(url) as engine:
        result = engine.run_sync(agent.flow("How is it?"), run_id="chat", resume=True)
    parts = [part for message in result.all_messages() for part in message.parts]
    print(result.output, result.usage, [part.part_kind for part in parts])
    print(ModelMessagesTypeAdapter.dump_json(result.all_messages()[1:3]).decode())
