"""How a step is executed: its policy, and what users may say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from holdfast.engine.blocking import check_options
from holdfast.engine.claims import Claiming, Paths
from holdfast.engine.executors import RunOn, check_executor
from holdfast.engine.functions import is_async
from holdfast.engine.retry import Retry

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StepPolicy:
    """How a step is executed."""

    retry: Retry | None = None
    timeout: float | None = None
    executor: RunOn | None = None  # for a sync function; a thread of ours unless given
    inline: bool = False  # call a sync function right on the event loop: it is quick
    commit: Callable[[Any, Any], object] | None = None  # (cursor, result), with the checkpoint
    marked: bool = False  # saved even if only marked steps are
    claims: Claiming | None = None  # about the world, checked when it is finished

    def __post_init__(self) -> None:
        if self.commit is not None and is_async(self.commit):
            raise TypeError("commit= runs in a transaction and can't be async: use a plain def")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise ValueError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")

    def but(self, **changes: Any) -> StepPolicy:
        """The policy with other values of these fields. Raises as the constructor does."""
        made = altered(self, changes)
        made.__post_init__()
        return made


PLAIN = StepPolicy()


def altered(value: T, changes: Mapping[str, Any]) -> T:
    """What `dataclasses.replace` makes of a frozen one without slots; nothing is checked again.

    Steps are built by it, several times each: it is ten times as fast.
    """
    made: T = object.__new__(type(value))
    made.__dict__.update(value.__dict__, **changes)
    return made


class StepOptions(TypedDict, total=False):
    """What users may say about any step or node.

    - `retry`: how often it may be tried in all, or a `Retry`; `timeout`: seconds per attempt.
    - `run_on`: the executor that a sync function runs on instead of a thread, or a function that
      makes it, once per engine and again if it breaks; `inline`: right on the event loop.
    - `outputs`, `reads`, `removes`: files that it writes, reads, and removes; `evidence`: other
      claims about the world. The step fails if they do not verify when it is finished, and a
      resume runs it again if they do not verify any more.
    """

    retry: int | Retry | None
    timeout: float | None
    run_on: RunOn | None
    inline: bool
    outputs: Paths
    reads: Paths
    evidence: Any
    removes: Paths


def policy_of(verb: str, options: StepOptions, **more: Any) -> StepPolicy:
    """The policy that these options of `verb` make. Raises `TypeError` for unknown ones."""
    check_options(verb, options, StepOptions.__annotations__)
    retry = options.get("retry")
    if not isinstance(retry, int | Retry | None):
        raise TypeError(f"{verb}: retry must be a number of attempts or a Retry, not {retry!r}")
    claims = Claiming().and_also(
        outputs=options.get("outputs", ()),
        reads=options.get("reads", ()),
        evidence=options.get("evidence", ()),
        removes=options.get("removes", ()),
    )
    return StepPolicy(
        retry=Retry(retry) if isinstance(retry, int) else retry,
        timeout=options.get("timeout"),
        executor=check_executor(verb, options.get("run_on")),
        inline=options.get("inline", False),
        claims=claims.or_none(),
        **more,
    )
