"""Steps that belong together, folded into one row: rounds of a loop, items of a `for_each`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.views.steps import PROBLEMS, Execution, Steps

_ITEM: Final = re.compile(r"\[(\d+)\]")
_WORST: Final = (
    *PROBLEMS,
    *("asks", "running", "begun", "waits", "cancelled", "not started"),
)


class Group(NamedTuple):
    """The executions of one step, or of the parts of one."""

    name: str
    kind: str  # "one", "rounds", "items" or "parts"
    members: tuple[Execution, ...]  # in the order of their entries
    items: int = 0  # of a `for_each`: how many of them have recorded something
    total: int | None = None  # how many there are, if that is known
    unbegun: str = ""  # the status of the items that have recorded nothing, if there are any

    @property
    def only(self) -> Execution:
        """The execution that stands for all: the last one."""
        return self.members[-1]

    @property
    def status(self) -> str:
        """That of the last round, or of the item or part that matters most, as it ended last."""
        last = {
            one.key if self.kind != "rounds" else "": one for one in self.members if one.current
        }
        found = {self.unbegun, *(one.status for one in last.values())}
        return next((word for word in _WORST if word in found), self.only.status)

    @property
    def current(self) -> bool:
        """Whether something of it led to where the run is now."""
        return any(one.current for one in self.members)

    @property
    def problems(self) -> int:
        """How many members somebody should look at."""
        return sum(1 for one in self.members if one.is_problem)

    @property
    def took(self) -> float | None:
        """Seconds: of items, which may run side by side, from first to last; else all together."""
        if self.kind == "items":
            starts = [one.start or one.end for one in self.members if one.start or one.end]
            ends = [one.end for one in self.members if one.end]
            return (max(ends) - min(filter(None, starts))) / 1e6 if starts and ends else None
        took = [one.took for one in self.members if one.took is not None]
        return sum(took) if took else None

    @property
    def tries(self) -> int:
        """How often its members were tried, beyond the first time of each."""
        return sum(max(0, len(one.tried) - 1) for one in self.members)


def groups_of(steps: Steps) -> list[Group]:
    """The groups of a run, in the order in which they first appear."""
    found: dict[str, list[Execution]] = {}
    for one in steps.executions:
        found.setdefault(one.group, []).append(one)
    return [_group(name, members) for name, members in found.items()]


def _group(name: str, members: list[Execution]) -> Group:
    if len(members) == 1 and members[0].name == name:
        return Group(name, "one", tuple(members))
    numbers = [_ITEM.search(one.key[: len(name) + 12]) for one in members]
    items = {found[1] for found in numbers if found}
    if items:
        return Group(name, "items", tuple(members), len(items))
    if any("/" in one.key for one in members):
        return Group(name, "parts", tuple(members))
    return Group(name, "rounds", tuple(members))
