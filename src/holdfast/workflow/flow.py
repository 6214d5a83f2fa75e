"""What `@workflow` makes of a function."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, get_args, get_origin, overload

from holdfast.codec.revive import revive
from holdfast.engine.functions import hints_of
from holdfast.engine.program import FlowInfo
from holdfast.model import check_id

P = ParamSpec("P")
R = TypeVar("R")

Migration = Callable[[dict[str, Any]], dict[str, Any]]

Flow = Generator[Any, Any, R]
"""The return annotation of a workflow that is a generator: `-> Flow[Report]`. Its result is a
`Report` then, also when it comes from the store."""


class Workflow(Generic[P, R]):
    """A generator or `async def` that yields or awaits steps, with a name and a version."""

    def __init__(
        self,
        fn: Callable[P, R],
        name: str,
        version: str,
        migrate: Mapping[str, Migration | None],
    ) -> None:
        if not inspect.isgeneratorfunction(fn) and not inspect.iscoroutinefunction(fn):
            raise TypeError(
                f"workflow {name!r} must be a generator (with `yield step(...)`) "
                "or an `async def` (with `await step(...)`)"
            )
        self.fn = fn
        self.name = check_id("flow", name)
        self.version = str(version)
        self.migrate = {str(old): change for old, change in migrate.items()}
        self.signature = inspect.signature(fn)
        structure = {"parameters": list(self.signature.parameters), "code": _hash_of_code(fn)}
        stamp = {"flow_version": self.version}
        self.info = FlowInfo(self.name, self.version, structure, stamp, True, {})
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What the function itself makes: for `yield from flow(x)` and `await flow(x)` within
        another workflow, as a part of that one's run."""
        return self.fn(*args, **kwargs)

    @property
    def result_type(self) -> Any:
        """What its annotation says that it returns; None if that is nothing or anything."""
        hint = hints_of(self.fn).get("return")
        if not inspect.isgeneratorfunction(self.fn):
            return hint
        parts = get_args(hint) if get_origin(hint) is Generator else ()
        return None if len(parts) < 3 or parts[2] is Any else parts[2]

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raise `TypeError` unless the function can be called with these."""
        try:
            self.signature.bind(**inputs)
        except TypeError as error:
            raise TypeError(f"workflow {self.name!r}: {error}; it takes {self.signature}") from None

    def start(self, inputs: Mapping[str, Any]) -> Any:
        """A generator or coroutine at its beginning. The inputs get the types of the signature."""
        hints = hints_of(self.fn)
        typed = {
            name: revive(value, hints[name], root=f"inputs.{name}") if name in hints else value
            for name, value in inputs.items()
        }
        return self.fn(**typed)  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} version {self.version}>"


@overload
def workflow(name: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    name: str | None = None,
    /,
    *,
    version: str | int = "1",
    migrate: Mapping[Any, Migration | None] | None = None,
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(
    name: Any = None,
    /,
    *,
    version: str | int = "1",
    migrate: Mapping[Any, Migration | None] | None = None,
) -> Any:
    """Make a workflow of a generator or an `async def`; by default it has the function's name.

    Give it another `version` when a change would confuse runs that are under way, and say in
    `migrate` what becomes of theirs: `{"1": change}`, where `change` is given the recorded
    results by step and returns those of the new version. None takes them as they are.
    """
    if callable(name):
        return Workflow(name, name.__name__, "1", {})
    return lambda fn: Workflow(fn, name or fn.__name__, str(version), migrate or {})


def _hash_of_code(fn: Callable[..., Any]) -> str:
    """Changes when the flow's own code does, and not when a comment or a step's function does."""

    def parts(code: types.CodeType) -> str:
        constants = [parts(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
        return repr((code.co_code, code.co_names, code.co_varnames, constants))

    return hashlib.sha256(parts(inspect.unwrap(fn).__code__).encode()).hexdigest()[:16]
