"""Single steps on Dask workers, while this process executes the run.

If a worker is lost, Dask repeats its tasks on others, and the run does not notice. What Dask
gives up is handed back as a broken executor, which is no failed attempt of the step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from distributed import CancelledError, Client, KilledWorker, get_client
from distributed import Future as DaskFuture
from distributed.protocol import pickle

from holdfast.engine.context import StepInfo
from holdfast.engine.executors import WorkLostError
from holdfast.errors import ExecutorBrokenError
from holdfast.integrations.dask.travel import ON_WORKER, portable_error, this_worker
from holdfast.seams import new_id

T = TypeVar("T")

AT_ONCE: Final = 256
"""How many calls Dask is given at once, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class OnDask:
    """Makes executors that call functions on the workers of a client: see `run_on`."""

    client: Client | None
    at_once: int
    workers: tuple[str, ...]
    resources: tuple[tuple[str, float], ...]
    priority: int

    def __call__(self) -> DaskExecutor:
        """An executor. Raises `ValueError` if Dask has no current client.

        Raises `RuntimeError` in a run that a worker executes, unless the steps are given workers
        of their own.
        """
        if ON_WORKER.get() and not (self.workers or self.resources):
            raise RuntimeError(
                "a Dask worker executes this run, and its steps could wait for ever for threads "
                "that such runs occupy; leave run_on out, or give the steps workers of their own: "
                "run_on(resources={'steps': 1})"
            )
        client = get_client() if self.client is None else self.client
        options = {
            "workers": self.workers or None,
            "resources": dict(self.resources) or None,
            "priority": self.priority,
        }
        return DaskExecutor(client, self.at_once, options)


def run_on(
    client: Client | None = None,
    *,
    at_once: int = AT_ONCE,
    workers: Iterable[str] = (),
    resources: Mapping[str, float] | None = None,
    priority: int = 0,
) -> OnDask:
    """Where steps run: `@step(run_on=run_on(client))`, `for_each(..., run_on=run_on(client))`.

    At most `at_once` of them are with Dask at a time; others wait here. Functions, arguments and
    results travel as Dask serialises them. Without a client, it is Dask's current one when the
    first step begins. `workers`, `resources` and `priority` are those of `Client.submit`.
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, not {at_once}")
    named = (workers,) if isinstance(workers, str) else tuple(workers)
    return OnDask(client, at_once, named, tuple((resources or {}).items()), priority)


class DaskExecutor(Executor):
    """Calls functions on the workers of a Dask client, so many at a time.

    A call that is cancelled before a worker has begun it is never made. One that has begun is
    given up: a worker's thread can't be stopped.
    """

    def __init__(
        self, client: Client, at_once: int = AT_ONCE, options: Mapping[str, Any] | None = None
    ) -> None:
        self._client = client
        self._at_once = at_once
        self._options = dict(options or {})
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._sent: set[_Call] = set()
        self._shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function on a worker. Raises `WorkLostError` if the client is closed."""
        call = _Call(_name_of(fn), pickle.dumps(partial(fn, *args, **kwargs)))
        if self._client.status != "running":
            raise WorkLostError(f"the Dask client is {self._client.status}")
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append(call)
        call.future.add_done_callback(lambda _: self._done(call))
        self._send()
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With `cancel_futures`, give up those that are not finished."""
        with self._lock:
            self._shut = True
            calls = [*self._sent, *self._waiting]
        for call in calls:
            if cancel_futures:
                _settle(call.future, None, WorkLostError("the executor was shut down"))
            elif wait:
                with suppress(BaseException):
                    call.future.exception()

    def _send(self) -> None:
        """Give Dask as many calls as it may have."""
        while True:
            with self._lock:
                if len(self._sent) >= self._at_once or not self._waiting:
                    return
                call = self._waiting.popleft()
                if call.future.done():
                    continue
                self._sent.add(call)
            if not self._on_loop(self._follow, call):
                _settle(call.future, None, WorkLostError("the Dask client's event loop has ended"))

    async def _follow(self, call: _Call) -> None:
        """One call, from Dask's queue to its outcome. On the client's event loop."""
        if call.future.done():
            return
        key = (f"holdfast:{call.name}", new_id())
        try:
            call.task = self._client.submit(_call, call.pickled, key=key, **self._options)
            if call.future.done():  # meanwhile, in another thread
                self._give_up(call)
                return
            result = await call.task
        except KilledWorker as error:
            _settle(call.future, None, ExecutorBrokenError(str(error)))
        except CancelledError as error:
            _settle(call.future, None, WorkLostError(f"Dask lost the task: {error}"))
        except BaseException as error:  # noqa: BLE001 - whatever the function raised
            _settle(call.future, None, error)
        else:
            call.task = None
            _settle(call.future, result, None)

    def _done(self, call: _Call) -> None:
        with self._lock:
            self._sent.discard(call)
            if call in self._waiting:
                self._waiting.remove(call)
        if call.future.cancelled() or call.future.exception() is not None:
            self._on_loop(self._give_up, call)
        self._send()

    def _give_up(self, call: _Call) -> None:
        """Nobody waits for it any more. On the client's event loop."""
        task, call.task = call.task, None
        if task is not None and not task.done():
            self._on_loop(task.cancel)

    def _on_loop(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call a function on the client's event loop; False if that has ended."""
        loop = self._client.loop
        if loop is None:
            return False
        try:
            loop.add_callback(fn, *args)
        except RuntimeError:
            return False
        return True


class _Call:
    """A function to be called, and who waits for what it returns."""

    def __init__(self, name: str, pickled: bytes) -> None:
        self.name = name
        self.pickled = pickled
        self.future: Future[Any] = Future()
        self.task: DaskFuture[Any] | None = None


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    with suppress(Exception):  # it was cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _name_of(fn: Any) -> str:
    """What the dashboard shows."""
    if isinstance(fn, partial):
        for given in fn.args:
            if isinstance(given, StepInfo):
                return given.name
        return _name_of(fn.func)
    return getattr(fn, "__name__", "call")


# --- on the worker


def _call(pickled: bytes) -> Any:
    try:
        fn = pickle.loads(pickled)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"{this_worker()} can't import what the step needs: {error}; install the same code on "
            "all machines"
        ) from error
    try:
        return fn()
    except Exception as error:  # noqa: BLE001 - it is raised below
        failed = portable_error(error)
    raise failed
