"""What `@workflow` makes of a function."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Hashable, Mapping, Sequence
from functools import partial
from typing import (
    Any,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from holdfast.codec import values
from holdfast.codec.revive import revive, unwrapped
from holdfast.codec.secrets import Carrying, Secret
from holdfast.engine import flow as engine_flow
from holdfast.engine.effects import CALL, Call, mark
from holdfast.engine.flow import Wanted
from holdfast.engine.functions import hints_of
from holdfast.engine.program import FlowInfo, Program
from holdfast.errors import ReviveError, SerializeError
from holdfast.kernel.core import Core, Op
from holdfast.migrations import Migrations, version_of
from holdfast.model import check_id
from holdfast.workflow.plain import PlainBody

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Flow = Generator[Any, Any, R]
"""The return annotation of a workflow that is a generator: `-> Flow[Report]`. The result is then a
`Report`, also when it comes from the store."""


_PASSED: Final = "pass what the type hint asks for, or correct the hint"
_RETURNED: Final = "correct the type that the workflow says it returns, or what it returns"
_SEVERAL: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Workflow(engine_flow.Flow[R_co], Generic[P, R_co]):
    """A function that awaits, yields or calls steps, with a name and a version."""

    def __init__(
        self,
        fn: Callable[P, Any],
        name: str,
        version: str,
        migrate: Migrations | None = None,
    ) -> None:
        self.fn = fn
        self._migrate = migrate
        self.signature = inspect.signature(fn)
        structure = {"parameters": list(self.signature.parameters), "code": _hash_of_code(fn)}
        stamp = {"flow_version": str(version)}
        self.info = FlowInfo(check_id("flow", name), str(version), structure, stamp, True, {})
        functools.update_wrapper(self, fn)

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.info.name

    @property
    def version(self) -> str:
        """The flow's version."""
        return self.info.version

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """What to run: `engine.run(report("Brest"))`. Awaited in a workflow, it is a child run."""
        return Call(self, self._bound(args, kwargs), mark(CALL, self.name))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            others = [repr(name) for name in kwargs if name not in self.signature.parameters]
            why = f"it has no input {', '.join(others)}" if others else error
            raise TypeError(f"workflow {self.name!r}: {why}; it takes {self.signature}") from None
        return {name: self._hidden(name, value) for name, value in bound.items()}

    def _hidden(self, name: str, value: Any) -> Any:
        """The input, as a `Secret` if it is declared as one: JSON and callers may give its value."""
        if self.signature.parameters[name].kind in _SEVERAL or isinstance(value, Secret | None):
            return value
        return Secret(value) if _takes_secret(hints_of(self.fn).get(name)) else value

    def __set_name__(self, owner: type, name: str) -> None:
        if next(iter(self.signature.parameters), "") in ("self", "cls"):
            raise TypeError(
                f"workflow {name!r} of {owner.__name__} can't be a method, because its inputs are "
                "recorded and an object is none: make it a function; its steps may be methods"
            )

    @property
    def definition(self) -> Hashable:
        """The function's place, by module and name."""
        return self.fn.__module__, self.fn.__qualname__

    @property
    def result_type(self) -> Any:
        """What its annotation says that it returns; None if that is nothing or anything."""
        hint = hints_of(self.fn).get("return")
        if not inspect.isgeneratorfunction(self.fn):
            return hint
        parts = get_args(hint) if get_origin(hint) is Generator else ()
        return None if len(parts) < 3 or parts[2] is Any else parts[2]

    @property
    def newest(self) -> Workflow[P, R_co]:
        """What its function's name stands for now: a notebook's cell may have run again."""
        found: Any = sys.modules.get(self.fn.__module__)
        for part in self.fn.__qualname__.split("."):
            found = getattr(found, part, None)
        same = isinstance(found, Workflow) and found.info[:2] == self.info[:2]
        return found if same else self

    @property
    def migrations(self) -> Migrations | None:
        """What `migrate` says becomes of the runs of older versions."""
        return self._migrate

    def program(self) -> Program:
        """One execution of this workflow, for the engine."""
        from holdfast.workflow.workflow_program import WorkflowProgram

        return WorkflowProgram(self)

    def inputs_from(self, data: Any) -> dict[str, Any]:
        """The inputs, by name. Raises `TypeError` unless the function can be called with them."""
        bound, hints = self._bound((), data), hints_of(self.fn)
        return {name: _with_secrets(value, hints.get(name)) for name, value in bound.items()}

    def unpack(self, recorded: Any) -> R_co:
        """A recorded result with the declared type."""
        kind = self.result_type
        result: R_co = (
            recorded if kind is None else revive(recorded, kind, root="result", advice=_RETURNED)
        )
        return result

    def go_back(
        self, core: Core, run_id: str, wanted: Wanted, *, take_over: bool = False
    ) -> Op[None]:
        """Go back to before or after a step."""
        from holdfast.workflow.going_back import go_back

        return go_back(core, self, run_id, wanted, take_over=take_over)

    def misfit(self, inputs: Mapping[str, Any]) -> str:
        """Why the function can't be called with recorded inputs; empty if it can."""
        known = self.signature.parameters
        gone = [name for name in inputs if name not in known]
        if gone:
            return f"it was started with {gone[0]!r}, and the workflow takes {self.signature}"
        missing = [
            name
            for name, each in known.items()
            if name not in inputs and each.default is each.empty and each.kind not in _SEVERAL
        ]
        return f"it was started without {missing[0]!r}, which has no default" if missing else ""

    def ready(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        """What starts the function: a generator, coroutine or body at its beginning.

        The inputs get the declared types. Raises `ReviveError` if they do not fit.
        """
        hints = hints_of(self.fn)
        bound = self.signature.bind_partial()
        for name, value in inputs.items():
            several = self.signature.parameters[name].kind in _SEVERAL
            plain = several or name not in hints
            bound.arguments[name] = (
                value
                if plain
                else revive(value, hints[name], root=f"inputs.{name}", advice=_PASSED)
            )
        call = partial(self.fn, *bound.args, **bound.kwargs)
        if inspect.isgeneratorfunction(self.fn) or inspect.iscoroutinefunction(self.fn):
            return call
        return partial(PlainBody, call)

    def __repr__(self) -> str:
        place = f"{self.fn.__module__}.{self.fn.__qualname__}"
        return f"<workflow {self.name!r} version {self.version}, {place}>"


class WorkflowDecorator(Protocol):
    """Makes a workflow of a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Generator[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Workflow[P, R]: ...


@overload
def workflow(name: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(name: Callable[P, Generator[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    name: str | None = None,
    *,
    version: str | int | None = None,
    migrate: Migrations | None = None,
) -> WorkflowDecorator: ...
@overload
def workflow(name: Callable[P, R], /) -> Workflow[P, R]: ...
def workflow(
    name: Any = None,
    *,
    version: str | int | None = None,
    migrate: Migrations | None = None,
) -> Any:
    """Make an `async def`, a generator or a plain `def` a workflow, by default with its name.

    A plain `def` runs in a thread of its own, and waits for its steps with `.result()`.

    Give it a higher version when a change would confuse unfinished runs, and convert what they
    recorded: `migrate=hf.Migrations(version=2)` has the version, and functions that turn recorded
    results by step, and inputs by name, into those of the new version. Without `migrate`, the
    `version` is any text or number, 1 by default.
    """
    if callable(name):
        return Workflow(name, name.__name__, version_of(None, None))
    if not isinstance(name, str | None):
        raise TypeError(f"workflow needs a name or a function, not {name!r}")
    number = version_of(version, migrate)
    return lambda fn: Workflow(fn, name or fn.__name__, number, migrate)


def _with_secrets(value: Any, hint: Any) -> Any:
    """Plain data, or what its type makes of it if that has fields that are secrets."""
    if hint is None or not isinstance(value, dict | list):
        return value
    try:
        made = revive(value, hint)
        return made if isinstance(values.encode(made), Carrying) else value
    except (ReviveError, SerializeError):  # which the run reports when it begins
        return value


def _takes_secret(hint: Any) -> bool:
    hint = unwrapped(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_takes_secret(member) for member in get_args(hint))
    return Secret in (hint, get_origin(hint))


def _hash_of_code(fn: Callable[..., Any]) -> str:
    """Changes when the flow's own code does, and not when a comment or a step's function does."""

    def parts(code: types.CodeType) -> str:
        constants = [parts(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
        return repr((code.co_code, code.co_names, code.co_varnames, constants))

    return hashlib.sha256(parts(inspect.unwrap(fn).__code__).encode()).hexdigest()[:16]
