"""The front door: one engine runs workflows, graphs and pipelines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack, overload

from holdfast.codec.secrets import Provider
from holdfast.engine import launch
from holdfast.engine.blocking import (
    BackgroundLoop,
    blocking,
    blocking_iterator,
    check_options,
)
from holdfast.engine.controls import Controls
from holdfast.engine.door import OpenedCheckpointer, StoreLike, check_store, open_checkpointer
from holdfast.engine.effects import Call
from holdfast.engine.flow import Flow, Registry, as_flow
from holdfast.engine.handle import EventLog, RunHandle, Started
from holdfast.engine.holding.slots import DEAD_AFTER
from holdfast.engine.launcher import Launcher, check_names, take, take_call
from holdfast.engine.options import NewRun, Resume, RunNames, RunOptions
from holdfast.engine.resume import recovery
from holdfast.engine.run.loop import Run
from holdfast.engine.signatures import shows
from holdfast.engine.stream import Stream
from holdfast.engine.timers import pause_before
from holdfast.engine.working.signals import stopping
from holdfast.engine.working.worker import Listener, Worker, WorkOptions, flows_of
from holdfast.kernel.observing import Listener as EventListener
from holdfast.kernel.observing import flush_async, observers_of
from holdfast.kernel.withholding import Hidden
from holdfast.model import check_id
from holdfast.urls import masked

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier
    from holdfast.keys.keyring import Keyring
    from holdfast.keys.signing import SigningKey, TrustedKeys

R = TypeVar("R")

_LOOK_EVERY: Final = 0.5  # seconds between two looks at a run that others execute

OPTIONS: Final = (
    *RunOptions.__annotations__,
    "owner",
    "flows",
    "verifier",
    "dead_after",
    "listeners",
    "key",
    "sign",
    "trusted",
    "secrets_from",
    "secrets",
    "remember",
    "encrypt",
)
"""The names of everything that an engine may be given besides its store."""


class Engine(Controls):
    """Executes flows, records every step, and resumes runs wherever they stopped.

    `store` is a URL, a path, a `Store` or a `Checkpointer`; None is the default store, and with
    False nothing outlives the engine. With an `owner`, it sees, executes and opens the runs of that
    owner only. `resume` and `recover` find these `flows` by name, and flows that were run here.
    `verifier` checks what steps claim about the world. After `dead_after` seconds without a sign of
    life, processes on other machines may declare this one dead and resume its runs. `listeners`
    (functions, called in threads of their own, a `Metrics` or a `Tracing`) get every event of its
    runs and its checkpointer; a slow or failing listener does not disturb the runs: see
    docs/operate/observability.md. `key`, `sign`, `trusted`, `secrets_from`, `secrets`,
    `encrypt` and `remember` are those of a `Checkpointer`. All other options are defaults for its
    runs: see `RunOptions`.

    One engine may execute many runs at once, in several threads and event loops. Every async
    method has a twin for programs without an event loop: `run_sync` and so on.
    """

    @shows(RunOptions)
    def __init__(
        self,
        store: StoreLike | Literal[False] = None,
        *,
        owner: str | None = None,
        flows: Iterable[Flow[Any]] = (),
        verifier: EvidenceVerifier | None = None,
        dead_after: float = DEAD_AFTER,
        listeners: Iterable[EventListener] = (),
        key: Keyring | None = None,
        sign: SigningKey | None = None,
        trusted: TrustedKeys | None = None,
        secrets_from: Provider | None = None,
        secrets: Iterable[str] = (),
        encrypt: Iterable[str] = (),
        remember: str | os.PathLike[str] | None = None,
        **defaults: Unpack[RunOptions],
    ) -> None:
        check_options("Engine", defaults, OPTIONS)
        self._hiding = Hidden(secrets_from, secrets, encrypt).options
        keys = {"key": key, "sign": sign, "trusted": trusted, "remember": remember}
        super().__init__(store, owner=owner, **keys, **self._hiding)
        self._observers = observers_of(listeners)
        self._launcher = Launcher(
            Registry(flows),
            defaults,
            verifier,
            keeps=store is not False,
            executors=self._executors,
            dead_after=dead_after,
        )
        if store is not False:
            check_store(store)
        self._started: dict[str, Started] = {}
        self._background = BackgroundLoop()

    def __repr__(self) -> str:
        where = "" if self._where is None else repr(masked(str(self._where)))
        return f"{type(self).__name__}({where})"

    # --- executing

    @shows(NewRun)
    async def run(
        self, call: Call[R], *inputs: Any, resume: bool = False, **options: Unpack[NewRun]
    ) -> R:
        """Execute a run to its end and return its result: `await engine.run(report("Brest"))`.

        With `resume`, the run of this `run_id`, or the newest one of this `thread_id`, is resumed
        if there is one, and started otherwise. A completed run's recorded result is returned. The
        inputs must be those that the run began with.

        Raises `StepFailedError`, `RunPausedError` if the run waits for people or is paused,
        `RunCancelledError`, `RunExistsError` for an id that is taken, `InputMismatchError`,
        `FlowChangedError`, and `VerificationError` if a check is inconclusive.
        """
        take("run", call, inputs, options)
        with self._opened.use() as core:
            ready = await self._launcher.begin(core, call, options, resume=resume)
            result: R = await launch.execute(ready)
            return result

    @shows(NewRun)
    async def start(
        self, call: Call[R], *inputs: Any, resume: bool = False, **options: Unpack[NewRun]
    ) -> RunHandle[R]:
        """Begin a run, durably, and return its handle; it is executed in the background.

        `close` stops runs that are still under way, and leaves them to be resumed.
        """
        take("start", call, inputs, options)
        use, started = self._opened.use(), Started(EventLog())
        try:
            aside = partial(Run, hands_over=False)
            ready = await self._launcher.begin(
                use.core, call, options, resume=resume, listening=True, make_run=aside
            )
        except BaseException:
            use.end()
            raise
        run_id = ready.run_id

        def at_end() -> None:
            if self._started.get(run_id) is started:
                del self._started[run_id]
            use.end()

        self._started[run_id] = started
        started.execute(ready, at_end)
        return RunHandle(self, run_id, call.flow.name, started)

    @shows(NewRun)
    def stream(
        self, call: Call[Any], *inputs: Any, resume: bool = False, **options: Unpack[NewRun]
    ) -> Stream:
        """Like `run`, but iterate over the returned stream to execute it and see its events."""
        take("stream", call, inputs, options)
        begin = partial(
            self._launcher.begin, call=call, given=options, resume=resume, listening=True
        )
        return launch.stream(self._opened, begin)

    @overload
    async def resume(self, run_id: str, *, flow: Flow[R], **options: Unpack[Resume]) -> R: ...
    @overload
    async def resume(self, run_id: str, *, flow: None = None, **options: Unpack[Resume]) -> Any: ...
    @shows(Resume, wait=False)
    async def resume(
        self, run_id: str, *, flow: Flow[Any] | None = None, **options: Unpack[Resume]
    ) -> Any:
        """Resume a run where it stopped, and return its result.

        What its steps claimed about the world is checked first: the run resumes from the newest
        checkpoint that still verifies. The flow is found by the recorded name and version, unless
        it is given. Going back with `from_step` and the like keeps the history.

        Raises `CheckpointNotFoundError`, `UnknownFlowError`, `FlowChangedError`,
        `VerificationError` if a check is inconclusive, `RunFinishedError`, and `RunActiveError` if
        another living process executes the run, unless `take_over` or `wait` is given.
        """
        check_options("resume", options, (*Resume.__annotations__, "flow"))
        with self._opened.use() as core:
            ready = await self._launcher.resume(core, run_id, flow, options)
            return await launch.execute(ready)

    @shows(Resume, wait=False)
    def resume_stream(
        self, run_id: str, *, flow: Flow[Any] | None = None, **options: Unpack[Resume]
    ) -> Stream:
        """Like `resume`, but iterate over the returned stream to execute it and see its events."""
        check_options("resume_stream", options, (*Resume.__annotations__, "flow"))
        resume = partial(
            self._launcher.resume, run_id=run_id, flow=flow, given=options, listening=True
        )
        return launch.stream(self._opened, resume)

    async def recover(
        self,
        *flows: Flow[Any],
        wait: bool = True,
        at_once: int = 10,
        progress: Callable[[str], object] | None = None,
    ) -> dict[str, Any]:
        """Resume every orphaned run of these flows, or of all that this engine knows.

        A run is orphaned when the process that executed it is dead or has left it. A process on
        another machine counts as dead after its `dead_after` seconds without a sign of life;
        `recover` waits that long unless `wait` is False. Returns results or errors by run id.
        `progress` is called with the id of each run that has stopped.
        """
        for flow in flows:
            self._launcher.flows.add(flow)
        with self._opened.use() as core:
            return await recovery.recover(
                core,
                [flow.name for flow in flows] or self._launcher.flows.names,
                partial(
                    self._launcher.resume, core, flow=None, given={"wait": False}, heeds_pause=True
                ),
                wait=wait,
                at_once=at_once,
                progress=progress,
            )

    # --- workers

    @shows(RunNames)
    async def submit(
        self,
        call: Call[R],
        *inputs: Any,
        delay: timedelta | float | None = None,
        at: datetime | None = None,
        **options: Unpack[RunNames],
    ) -> RunHandle[R]:
        """Record a run for a worker to execute: now, after a `delay` (seconds), or `at` a moment.

        Returns when that is durable. Awaiting the handle waits until a worker has executed the run,
        with the options of the worker's engine. Submitting the same call under the same `run_id`
        again changes nothing; the handle's `new` is then False. Raises `RunExistsError` if the id
        is taken by a run of another flow, and `InputMismatchError` if by one with other inputs.
        """
        take_call("submit", call, inputs)
        check_names("submit", options)
        first = pause_before(delay, at)
        with self._opened.use() as core:
            run_id, new = await self._launcher.submit(core, call, options, first)
        return RunHandle(self, run_id, call.flow.name, None, new=new)

    async def work(
        self,
        *flows: Flow[Any],
        at_once: int = 10,
        per_flow: Mapping[str, int] | None = None,
        drain: float = 30.0,
        until_idle: bool = False,
        stop: asyncio.Event | None = None,
        listener: Listener | None = None,
        verify: EvidenceVerifier | None = None,
    ) -> int:
        """Be a worker: execute the runs of these flows, or of all known ones, that nobody executes.

        Those are runs that were submitted, answered or asked to resume, whose sleep, retry delay or
        deadline is over, and whose process died or left them. `at_once` is how many runs it
        executes at a time; `per_flow` limits by flow how many all workers of the store together
        execute.

        It works until `stop` is set, or until SIGTERM or Ctrl-C if there is no `stop` and this is
        the main thread; with `until_idle`, at most until nothing is left to do. Runs then under way
        have `drain` seconds to finish; those that don't are left to other workers.

        With `verify`, it also checks claims for others (`verify_with_workers`), with this verifier
        and within its policy, which must not take claims at their own word (`own_word=False`, with
        `hosts`). It needs no flows then.

        Returns how many runs it executed. `listener` is called with a `WorkerEvent` whenever
        it begins, stops executing or refuses a run.
        """
        limits = WorkOptions(at_once, per_flow or {}, drain, until_idle).check()
        for flow in flows:
            self._launcher.flows.add(as_flow(flow))
        if verify is not None:
            from holdfast.engine.voting.answering import check_verifier

            check_verifier(verify)
        names = tuple(flow.name for flow in flows) or flows_of(self._launcher, verify)
        limits.check_flows(names)
        with self._opened.use() as core, stopping(stop) as told:
            worker = Worker(core, self._launcher, names, limits, listener, verify)
            await worker.run(told)
            return worker.done

    # --- runs by their ids

    @overload
    def get(self, run_id: str, flow: Flow[R]) -> RunHandle[R]: ...
    @overload
    def get(self, run_id: str, flow: None = None) -> RunHandle[Any]: ...
    def get(self, run_id: str, flow: Flow[Any] | None = None) -> RunHandle[Any]:
        """The handle of a run, whichever process executes it. Awaiting it executes nothing."""
        check_id("run_id", run_id)
        if flow is not None:
            self._launcher.flows.add(flow)
        return RunHandle(self, run_id, "" if flow is None else flow.name, self._started.get(run_id))

    # --- closing

    async def close(self) -> None:
        """Stop the runs that `start` began, make everything durable and close the store.

        Runs under way in other threads and tasks are finished first: the last one closes it.
        """
        self._refuse_work()
        for started in tuple(self._started.values()):
            await started.stop()
        self._background.stop()
        await super().close()
        if self._observers:
            if self._place is not None:
                self._place.stop_observing(self._observers)
            await flush_async(self._observers)

    def _open(self) -> OpenedCheckpointer:
        if self._where is not False:
            place = super()._open()
        else:
            place = open_checkpointer("memory://", owner=self._owner, **self._hiding)
            place.checkpointer.core.journals.keep_live()
        if self._observers:
            place.checkpointer.core.observe(self._observers)
        return place

    # --- without an event loop

    run_sync = blocking(run)
    resume_sync = blocking(resume)
    stream_sync = blocking_iterator(stream)
    resume_stream_sync = blocking_iterator(resume_stream)
    recover_sync = blocking(recover)
    submit_sync = blocking(submit)
    work_sync = blocking(work)

    @shows(NewRun)
    def start_sync(
        self, call: Call[R], *inputs: Any, resume: bool = False, **options: Unpack[NewRun]
    ) -> RunHandle[R]:
        """`start`, for programs without an event loop: the run is executed in another thread."""
        take("start", call, inputs, options)
        advice = "`await start(...)` instead of start_sync"
        return self._background.run(lambda: self.start(call, resume=resume, **options), advice)
