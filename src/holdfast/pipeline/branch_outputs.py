"""Outputs of branches that are under way: beside the state, and of older versions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from holdfast.engine.program import Stored
from holdfast.engine.resume.history import History
from holdfast.engine.walking import versions
from holdfast.migrations import Place, whole
from holdfast.model import Entry, checkpoint_id
from holdfast.pipeline.outputs import INPUT, STEPS, Outputs, Seen, looked_at
from holdfast.pipeline.pipeline_plan import PipelinePlan


class With(Stored):
    """A state, and the outputs since."""

    __slots__ = ("base", "outputs")

    def __init__(self, base: Stored, outputs: Mapping[str, Stored]) -> None:
        self.base = base
        self.outputs = outputs

    @classmethod
    def of(cls, state: Stored, more: Mapping[str, Stored]) -> With:
        """The state with more outputs."""
        if isinstance(state, With):
            return cls(state.base, {**state.outputs, **more})
        return cls(state, dict(more))

    @property
    def seen(self) -> Mapping[str, Any]:
        """The state, of which only that is decoded which is looked at; a new copy each time."""
        if not isinstance(self.base, Outputs):
            return dict(self.value())
        before, made = self.base.seen, self.outputs

        def output(name: str) -> Any:
            return made[name].value() if name in made else before[STEPS][name]

        names = ChainMap(dict(made), before[STEPS])
        return looked_at(lambda: before[INPUT], Seen(names, output, lambda: self.value()[STEPS]))

    def value(self) -> Any:
        """The state as plain data."""
        state = self.base.value()
        for name, output in self.outputs.items():
            state["steps"].pop(name, None)
            state["steps"][name] = output.value()
        return state


def outputs_of(
    plan: PipelinePlan, history: History, base: Entry | None, results: Sequence[Entry]
) -> list[Stored]:
    """The outputs that branches recorded since a whole state; None is the run's beginning.

    An output of an older version is migrated as a part of the state, as it was then: functions are
    given whole states only. Raises `MigrationError`.
    """
    made_by = [history.meta(entry).flow_version or plan.version for entry in results]
    if plan.migrate is None or all(version == plan.version for version in made_by):
        return [history.stored(entry) for entry in results]
    begun = history.opening if base is None else base
    state = history.stored(begun).value()
    had = whole(history.meta(begun).flow_version or plan.version)
    found: list[Stored] = []
    for entry, version in zip(results, made_by, strict=True):
        if version == plan.version:
            found.append(history.stored(entry))
            continue
        state = versions.partly(plan, history, entry, state, had, whole(version))
        had = whole(version)
        name = str(history.meta(entry).step_name or entry.step)
        state["steps"][name] = history.stored(entry).value()
        made = versions.migrated(plan, history, entry, deepcopy(state))
        found.append(_output(plan, history, entry, made))
    return found


def _output(plan: PipelinePlan, history: History, entry: Entry, state: Stored) -> Stored:
    """What a migrated state has for the step that an entry was recorded after."""
    assert plan.migrate is not None, "the state was migrated"
    name, steps = versions.node_of(plan, entry), state.value()["steps"]
    if name not in steps:
        raise plan.migrate.error(
            history.meta(entry).flow_version,
            f"what it became has no output of {name!r}, which a branch has finished",
            "Let the migration keep it, under its new name if it has one.",
            Place(history.run, checkpoint_id(history.run, entry.seq)),
        )
    journals = history.core.journals
    return Stored(journals.encode(steps[name]), journals.decode)
