"""What every operation of a checkpointer works with, and how it is driven, sync and async."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from holdfast.errors import HoldfastError, StoreClosedError
from holdfast.kernel.draft import Draft
from holdfast.kernel.journal import Journals
from holdfast.kernel.observing import Observer, tell
from holdfast.kernel.ticket import Ticket, running_loop
from holdfast.kernel.withholding import Hidden, Withholding
from holdfast.retention import Retention
from holdfast.seams import on_fork

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from holdfast.kernel.events import Event

T = TypeVar("T")

Op = Generator[Callable[[], Any] | Ticket, Any, T]
"""An operation, written once for sync and async callers. It yields a callable to have it called
where blocking is allowed, or a submitted ticket to have it waited for, and returns its result."""


class Done(Generator[Any, Any, T]):
    """An operation that did not have to wait for anything, and this is its result."""

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result

    def send(self, _: object) -> Any:
        """End at once."""
        raise StopIteration(self.result)

    def throw(self, *_: Any) -> Any:
        """End at once: it has returned already."""
        raise StopIteration(self.result)


Pages = Iterator[list[T]]
"""What an operation gives one by one, as pages. To make the next one may block; none is empty."""

Durability = Literal["sync", "async", "exit"]
OnSaveFailure = Literal["raise", "warn"]

DEADLINE: Final = 30.0
WARN_STATE_BYTES: Final = 1 << 20
MAX_STATE_BYTES: Final = 64 << 20
_READERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a checkpointer saves. `Checkpointer` documents each."""

    durability: Durability = "sync"
    on_save_failure: OnSaveFailure = "raise"
    deadline: float = DEADLINE
    max_state_bytes: int = MAX_STATE_BYTES
    retention: tuple[Retention, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (("deadline", int | float), ("max_state_bytes", int)):
            given = getattr(self, name)
            if not isinstance(given, kind) or given <= 0:
                raise ValueError(f"{name} must be a number above 0, not {given!r}")
        for name, known in (("durability", Durability), ("on_save_failure", OnSaveFailure)):
            if getattr(self, name) not in get_args(known):
                given = getattr(self, name)
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(known))}, not {given!r}"
                )


unsettled: set[Core] = set()
"""Checkpointers with saves that are not durable yet; kept alive, and flushed at exit."""


class Core:
    """The journals of a store, the settings, and what is not durable yet."""

    def __init__(
        self,
        journals: Journals,
        settings: Settings,
        hidden: Hidden | None = None,
    ) -> None:
        self.journals = journals
        self.settings = settings
        self.withholding = Withholding(journals, hidden or Hidden())  # what is not stored as it is
        self.degraded: HoldfastError | None = None
        self.closed = False
        self.at_close: list[Callable[[Core], None]] = []  # may block; called before it is closed
        self.watching: weakref.WeakSet[Any] = weakref.WeakSet()  # what `watch` returned
        self.watcher: Any = None  # what they wait for, if there were any
        self._observing: list[Observer] = []
        self._told: dict[Observer, Observer] = {}  # for each of them, the one that is told
        self.observers: tuple[Observer, ...] = ()  # each once
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self.backlog: deque[Ticket] = deque()  # durability="async": submitted, not yet seen done
        self.out_of_order = False  # some in the backlog lost their place and are submitted anew
        self.held_back: dict[str, Draft] = {}  # durability="exit": the newest state of each run
        self.lock = threading.Lock()
        self.warned: set[str] = set()  # runs whose state was called large already
        self.saves_since_sweep = 0
        self.swept_to = ""  # how far the last bite of retention got among the runs
        self._pool: ThreadPoolExecutor | None = None

    def observe(self, observers: Iterable[Observer]) -> None:
        """Tell these, too, what happens from now on."""
        with self.lock:
            self._observing += observers
            self._set_observers()

    def stop_observing(self, observers: Iterable[Observer]) -> None:
        """Tell these no more, unless others asked for it, too."""
        with self.lock:
            for one in observers:
                if one in self._observing:
                    self._observing.remove(one)
            self._set_observers()

    def _set_observers(self) -> None:
        self._told = {one: self._told.get(one) or one.of_checkpointer() for one in self._observing}
        self.observers = tuple(self._told.values())
        self.journals.told = self._saved if self.observers else None

    def tell(self, event: Event) -> None:
        """Tell the observers of an event. Raises nothing but Ctrl-C."""
        tell(self.observers, event)

    def _saved(self, ticket: Ticket) -> None:
        from holdfast.kernel.events import save_event

        event = save_event(ticket, perf_counter() - ticket.began)
        if event is not None:
            tell(self.observers, event)

    @property
    def unsettled(self) -> bool:
        """Whether there are saves that are not durable yet."""
        return bool(self.backlog or self.held_back)

    def ready(self) -> Core:
        """This, unless it was closed."""
        if self.closed:
            raise StoreClosedError(self.journals.store.url)
        return self

    def take_from_backlog(self, first: Ticket, put: Ticket | None = None) -> bool:
        """Take or replace the backlog's first save, if it still is this one."""
        with self.lock:
            if not self.backlog or self.backlog[0] is not first:
                return False
            if put is None:
                self.backlog.popleft()
            else:
                self.backlog[0] = put
            return True

    def drive(self, op: Op[T]) -> T:
        """Run an operation to its end, blocking."""
        if type(op) is Done:
            done: T = op.result
            return done
        writer = self.journals.writer
        try:
            request = next(op)
            while True:
                try:
                    result = None
                    if callable(request):
                        result = request()
                    else:
                        writer.wait(request)
                except BaseException as error:  # noqa: BLE001 - the operation decides
                    request = op.throw(error)
                else:
                    request = op.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def drive_async(self, op: Op[T]) -> T:
        """Run an operation to its end, awaiting."""
        if type(op) is Done:
            done: T = op.result
            return done
        writer = self.journals.writer
        try:
            request = next(op)
            while True:
                try:
                    result = None
                    if callable(request):
                        result = await self.off_loop(request)
                    else:
                        await writer.future(request)
                except BaseException as error:  # noqa: BLE001 - the operation decides
                    request = op.throw(error)
                else:
                    request = op.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def off_loop(self, call: Callable[[], T]) -> T:
        """Call something that blocks in a thread, without blocking the event loop."""
        if self.journals.store.inline:
            return call()
        with self.lock:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                # Our own: the loop's default pool may be full of the user's long-running steps.
                self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="holdfast-reader")
            pool = self._pool
        return await running_loop().run_in_executor(pool, call)

    def release(self) -> None:
        """Stop the reading threads."""
        with self.lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
