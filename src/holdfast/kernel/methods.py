"""Operations as methods of two classes: one awaits them, the other blocks."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from holdfast.kernel import backlog
from holdfast.kernel.core import Core, Op, Pages

P = ParamSpec("P")
T = TypeVar("T")

_ORDINARY: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD


class HasOperations:
    """Lists each operation once. Its two subclasses get functions in their place.

    These have the operation's own signature and docstring.
    """

    _core: Core

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Awaits not in cls.__bases__ and Blocks not in cls.__bases__:
            return
        for listed in cls.__mro__:
            for name, found in vars(listed).items():
                if isinstance(found, _Method):
                    setattr(cls, name, found.method_of(cls, name))


class Awaits:
    """A class whose operations are awaited."""


class Blocks:
    """A class whose operations block."""


class _Method(ABC):
    """An operation that becomes a method."""

    op: Callable[..., Any]

    def method_of(self, cls: type, name: str) -> Callable[..., Any]:
        """The method of a class that awaits, or of one that blocks."""
        awaits = issubclass(cls, Awaits)
        method = self._awaited() if awaits else self._blocking()
        functools.update_wrapper(method, self.op)
        method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
        signature = inspect.signature(self.op)
        _, *rest = signature.parameters.values()
        kind = rest[0].kind if rest and rest[0].kind == rest[0].POSITIONAL_ONLY else _ORDINARY
        vars(method)["__signature__"] = inspect.Signature(
            [inspect.Parameter("self", kind), *rest],
            return_annotation=self._result(str(signature.return_annotation), awaits),
        )
        del vars(method)["__wrapped__"]  # else tools show the signature of the operation
        return method

    @abstractmethod
    def _awaited(self) -> Callable[..., Any]:
        """The method of the class that awaits."""

    @abstractmethod
    def _blocking(self) -> Callable[..., Any]:
        """The method of the class that blocks."""

    def _result(self, annotation: str, awaits: bool) -> str:
        """What a caller of the method gets, as its signature says."""
        return annotation


class Operation(_Method, Generic[P, T]):
    """An operation that returns its result."""

    def __init__(self, op: Callable[Concatenate[Core, P], Op[T]]) -> None:
        self.op = op

    if TYPE_CHECKING:  # what the functions that take its place are to callers

        @overload
        def __get__(self, face: Awaits, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(self, face: Blocks, kind: type) -> Callable[P, T]: ...
        @overload
        def __get__(self, face: None, kind: type) -> Callable[..., Any]: ...
        def __get__(self, face: Any, kind: Any) -> Any: ...

    def _awaited(self) -> Callable[Concatenate[HasOperations, P], Coroutine[Any, Any, T]]:
        op = self.op

        async def method(self: HasOperations, /, *args: P.args, **kwargs: P.kwargs) -> T:
            core = self._core
            if core.closed:
                core.ready()
            result: T = await core.drive_async(op(core, *args, **kwargs))
            return result

        return method

    def _blocking(self) -> Callable[Concatenate[HasOperations, P], T]:
        op = self.op

        def method(self: HasOperations, /, *args: P.args, **kwargs: P.kwargs) -> T:
            core = self._core
            if core.closed:
                core.ready()
            result: T = core.drive(op(core, *args, **kwargs))
            return result

        return method

    def _result(self, annotation: str, awaits: bool) -> str:
        return annotation.removeprefix("Op[")[:-1] if annotation.startswith("Op[") else annotation


def reads(call: Callable[Concatenate[Core, P], T]) -> Operation[P, T]:
    """An operation that blocks, and first waits for what was saved before."""

    @functools.wraps(call)
    def op(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> Op[T]:
        if core.unsettled:
            yield from backlog.flush(core)
        result: T = yield functools.partial(call, core, *args, **kwargs)
        return result

    return Operation(op)


class Iteration(_Method, Generic[P, T]):
    """An operation that returns an iterator, which reads a page at a time.

    Its arguments are checked at once. The first page waits for what was saved before.
    """

    def __init__(self, op: Callable[Concatenate[Core, P], Pages[T]]) -> None:
        self.op = op

    if TYPE_CHECKING:

        @overload
        def __get__(self, face: Awaits, kind: type) -> Callable[P, AsyncIterator[T]]: ...
        @overload
        def __get__(self, face: Blocks, kind: type) -> Callable[P, Iterator[T]]: ...
        @overload
        def __get__(self, face: None, kind: type) -> Callable[..., Any]: ...
        def __get__(self, face: Any, kind: Any) -> Any: ...

    def _awaited(self) -> Callable[Concatenate[HasOperations, P], AsyncIterator[T]]:
        op = self.op

        def method(self: HasOperations, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            core = self._core.ready()
            return _read_async(core, op(core, *args, **kwargs))

        return method

    def _blocking(self) -> Callable[Concatenate[HasOperations, P], Iterator[T]]:
        op = self.op

        def method(self: HasOperations, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            core = self._core.ready()
            return _read(core, op(core, *args, **kwargs))

        return method

    def _result(self, annotation: str, awaits: bool) -> str:
        return annotation.replace("Pages[", "AsyncIterator[" if awaits else "Iterator[")


async def _read_async(core: Core, pages: Pages[T]) -> AsyncIterator[T]:
    if core.unsettled:
        await core.drive_async(backlog.flush(core))
    while page := await core.off_loop(lambda: next(pages, None)):
        for found in page:
            yield found


def _read(core: Core, pages: Pages[T]) -> Iterator[T]:
    if core.unsettled:
        core.drive(backlog.flush(core))
    for page in pages:
        yield from page
