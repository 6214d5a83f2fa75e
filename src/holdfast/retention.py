"""Retention policies: how long checkpoints and runs are kept, and which runs that applies to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final

from holdfast.model import Entry, Status, check_id
from holdfast.project import project_settings

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGES: Final = ("max_age", "run_ttl")
_ENDED: Final = (Status.OPEN, Status.FAILED, Status.CANCELLED, Status.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long checkpoints are kept. Off unless given; a live or paused run is never touched.

    A checkpoint goes when it is beyond the newest `keep_latest` of its run *and* older than
    `max_age`, as far as each is given; a run's current checkpoint always stays. A whole run goes
    once nothing was saved to it for `run_ttl`. With `keep_all` nothing goes. With `archive`, what
    goes is first written to files in that directory: a whole run as an export, which `import_run`
    reads, single checkpoints as lines that `Checkpoint.from_dict` reads.

    `owner`, `thread_id`, `flow` and `status` say which runs it applies to: those that match all
    that is given. `status` is one of "open", "failed", "cancelled" and "completed", or several.
    Of several policies, the first that matches a run applies to it, and no other; a run that none
    matches is kept. Child runs follow the policy of the run that they belong to.
    """

    keep_latest: int | None = None
    max_age: timedelta | None = None
    run_ttl: timedelta | None = None
    archive: str | os.PathLike[str] | None = None
    keep_all: bool = False
    owner: str | None = None
    thread_id: str | None = None
    flow: str | None = None
    status: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.keep_latest is not None and self.keep_latest < 1:
            raise ValueError(f"keep_latest must be at least 1, not {self.keep_latest}")
        for name in _AGES:
            age = getattr(self, name)
            if age is not None and age <= timedelta(0):
                raise ValueError(f"{name} must be positive, not {age}")
        limited = self.thins_runs or self.run_ttl is not None
        if not limited and not self.keep_all:
            raise ValueError("a Retention needs keep_latest, max_age or run_ttl; or keep_all=True")
        if limited and self.keep_all:
            raise ValueError("keep_all=True keeps everything: leave keep_latest and the ages out")
        for name in ("owner", "thread_id", "flow"):
            if getattr(self, name) is not None:
                check_id(name, getattr(self, name))
        if self.status is not None:
            object.__setattr__(self, "status", _statuses(self.status))

    @staticmethod
    def configured() -> list[Retention]:
        """The policies under `[[tool.holdfast.retention]]` in the project's pyproject.toml.

        Commands use them. A program that wants them says so:
        `Checkpointer(retention=Retention.configured())`. Raises `ValueError`.
        """
        project, settings = project_settings()
        tables = settings.get("retention", [])
        try:
            if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
                raise ValueError("it must be an array of tables, [[tool.holdfast.retention]]")
            return list(in_order([_from_table(table) for table in tables]))
        except ValueError as error:
            raise ValueError(f"{project}: retention: {error}") from None

    @property
    def thins_runs(self) -> bool:
        """Whether it deletes single checkpoints, rather than only whole runs."""
        return self.keep_latest is not None or self.max_age is not None

    @property
    def matches_all(self) -> bool:
        """Whether it applies to every run."""
        return self.owner is self.thread_id is self.flow is self.status is None

    def matches(self, head: Entry) -> bool:
        """Whether it applies to the run with this head."""
        return (
            (self.owner is None or head.owner == self.owner)
            and (self.thread_id is None or head.thread == self.thread_id)
            and (self.flow is None or head.flow == self.flow)
            and (self.status is None or head.status in self.status)
        )


def in_order(given: object) -> tuple[Retention, ...]:
    """The policies as they were given, one or several. Raises if one of them can never apply."""
    if given is None:
        return ()
    policies = (given,) if isinstance(given, Retention) else given
    if not isinstance(policies, list | tuple):
        raise TypeError(f"retention must be a Retention, or a list of them, not {given!r}")
    for place, policy in enumerate(policies):
        if not isinstance(policy, Retention):
            raise TypeError(f"retention must be a Retention, or a list of them, not {policy!r}")
        if policy.matches_all and place + 1 < len(policies):
            raise ValueError(
                "a Retention without owner, thread_id, flow and status matches every run, so those "
                "after it never apply: put it last"
            )
    return tuple(policies)


def _from_table(table: Mapping[str, Any]) -> Retention:
    """A policy from a configuration file, with ages such as "30d". Raises `ValueError`."""
    known = [field.name for field in fields(Retention)]
    for name in table:
        if name not in known:
            raise ValueError(f"a retention policy has no {name!r}; known are {', '.join(known)}")
    wanted = {"keep_latest": int, "keep_all": bool, "status": str | list}
    for name, value in table.items():
        if type(value) is bool and name != "keep_all":
            raise ValueError(f"{name} can't be {value!r}")
        if not isinstance(value, wanted.get(name, str)):
            raise ValueError(f"{name} can't be {value!r}")
    given = {name: parse_age(table[name]) for name in _AGES if name in table}
    return Retention(**{**table, **given})


def parse_age(text: str) -> timedelta:
    """A length of time such as 90s, 12h, 30d or 8w. Raises `ValueError`."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is not a length of time; give one such as 90s, 12h, 30d or 8w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _statuses(given: str | Iterable[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in _ENDED:
            raise ValueError(
                f"status can't be {str(name)!r}: retention deletes only runs that are "
                f"{', '.join(_ENDED[:-1])} or {_ENDED[-1]}"
            )
    if not names:
        raise ValueError("status is empty: name one, or leave it out")
    return tuple(str(name) for name in names)
