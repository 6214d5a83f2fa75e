"""What a graph's history says, without what differs from run to run: ids and times."""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


class View:
    """Numbers ids in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        """The value with numbers instead of ids, as plain data."""
        if isinstance(value, str):
            return _ID.sub(
                lambda m: self._numbers.setdefault(m[0], f"#{len(self._numbers)}"), value
            )
        if isinstance(value, BaseMessage):
            return type(value).__name__, self.of(value.model_dump())
        if isinstance(value, dict):
            return {self.of(key): self.of(each) for key, each in sorted(value.items(), key=str)}
        if isinstance(value, tuple | list):
            return [self.of(each) for each in value]
        if hasattr(value, "_asdict"):
            return self.of(value._asdict())
        return value if value is None or isinstance(value, int | float) else self.of(repr(value))

    def history(self, graph: Any, config: RunnableConfig) -> list[Any]:
        """The history of a thread, oldest first."""
        return [self.snapshot(each) for each in reversed([*graph.get_state_history(config)])]

    def snapshot(self, state: Any) -> Any:
        """What a state says."""
        return self.of(
            {
                "config": _ids(state.config),
                "parent": _ids(state.parent_config),
                "values": state.values,
                "next": state.next,
                "metadata": state.metadata,
                "tasks": [
                    (
                        t.name,
                        t.id,
                        t.error and repr(t.error),
                        t.interrupts and [i.value for i in t.interrupts],
                        t.result,
                    )
                    for t in state.tasks
                ],
                "interrupts": [i.value for i in state.interrupts],
            }
        )


def _ids(config: RunnableConfig | None) -> Any:
    if config is None:
        return None
    wanted = config["configurable"]
    return wanted["checkpoint_ns"], wanted["checkpoint_id"]
