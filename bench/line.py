"""One goal: what is expected of a quantity that a workload measures, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from bench.report import Measured, minus, over

OURS: Final = "holdfast"
FLOORS: Final = (
    "floor", "group commit", "plain calls", "python itself", "memory alone", "plain", "hashlib",
)  # fmt: skip
"""What is no peer: the least that the work takes."""


def is_peer(name: str) -> bool:
    """Whether it is somebody else's system that does the same."""
    return name not in FLOORS and not name.startswith(OURS)


@dataclass(frozen=True, slots=True)
class Line:
    """What is expected of one quantity. `quantity` and `against` name what a workload measures."""

    section: str
    name: str
    workload: str
    quantity: str
    unit: str
    limit: float
    how: Literal["itself", "beyond", "over", "times", "growth"] = "itself"
    """What is judged: the quantity itself; what it takes beyond a floor; over a peer's; a peer's
    over ours, or ours over a peer's if more is better; over the same of a smaller size."""
    against: str = ""
    ours: str = OURS
    peers: tuple[str, ...] = ()
    more: bool = False
    """Whether more is better."""
    takes: str = ""
    """What it would take; shown only if it is missed."""

    @property
    def at_least(self) -> bool:
        """Whether the limit is a lower one."""
        return self.how == "times" or (self.more and self.how == "itself")

    def judged(self, found: Measured) -> float | None:
        """The value that is compared with the limit; None if it was not measured."""
        if self.how == "beyond":
            return found.paired(self.ours, self.against, self.quantity, minus)
        if self.how == "over" or (self.how == "times" and self.more):
            return found.paired(self.ours, self.against, self.quantity, over)
        if self.how == "times":
            return found.paired(self.against, self.ours, self.quantity, over)
        value = found.median(self.ours, self.quantity)
        if self.how == "growth" and value is not None:
            base = found.median(self.ours, self.against)
            return None if base is None else value / base
        return value

    def goal(self) -> str:
        """The limit in words."""
        limit = f"{'≥' if self.at_least else '≤'} {self.limit:,g}"
        times = f"{limit} × that of" if self.more else f"≤ 1/{self.limit:g} of that of"
        return {
            "itself": limit + (self.unit if self.unit == "/s" else f" {self.unit}"),
            "beyond": f"{limit} {self.unit} beyond {self.against}",
            "over": f"{limit} × that of {self.against}",
            "times": f"{times} {self.against}",
            "growth": f"{limit} × that of {self.against.partition('@')[2]}",
        }[self.how]

    def outcome(self, found: Measured) -> dict[str, Any]:
        """What was measured, for the JSON: ours, those beside it, and whether the goal is met."""
        judged = self.judged(found)
        beside = (*self.peers, *([self.against] if self.against in found else []))
        return {
            "section": self.section,
            "name": self.name,
            "unit": self.unit,
            "goal": self.goal(),
            "how": self.how,
            "limit": self.limit,
            "at_least": self.at_least,
            "more": self.more,
            "takes": self.takes,
            "holdfast": found.median(self.ours, self.quantity),
            "judged": judged,
            "met": None if judged is None else self._meets(judged),
            "others": {
                name: {"value": value, "times": self._ahead(found, name)}
                for name in dict.fromkeys(beside)
                if (value := found.median(name, self.quantity)) is not None
            },
        }

    def _meets(self, judged: float) -> bool:
        return judged >= self.limit if self.at_least else judged <= self.limit

    def _ahead(self, found: Measured, other: str) -> float | None:
        """How many times better than another system, repetition by repetition."""
        ours, theirs = (self.ours, other) if self.more else (other, self.ours)
        return found.paired(ours, theirs, self.quantity, over)
