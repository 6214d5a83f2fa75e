"""`holdfast worker`: execute the runs that nobody executes."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

import click

from holdfast.cli import _flows, _options, _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._drawing import is_live
from holdfast.cli._exits import Exit
from holdfast.cli._flows import Named
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.cli._working import Lines, Plan, Progress, Table
from holdfast.engine.engine import Engine
from holdfast.engine.working.permits import MOST as MOST_PER_FLOW
from holdfast.engine.working.worker import MOST_AT_ONCE, WorkerEvent
from holdfast.urls import masked

_GRACE: Final = 3.0  # seconds, after the second signal, to leave the runs to others


@as_command(
    "holdfast worker --flow jobs:digest",
    "holdfast worker --flow jobs:digest --flow jobs:report --at-once 20 --per-flow digest=2",
    "holdfast worker --drain 5m --json | jq 'select(.event == \"failed\")'",
    "holdfast worker --until-idle",
    "holdfast worker --verify --root /srv/models",
)
@_options.flows
@allowing
@option(
    "--at-once N",
    "How many runs this worker executes at a time.",
    default=10,
    type=click.IntRange(1, MOST_AT_ONCE),
)
@option(
    "--per-flow FLOW=N",
    "How many runs of a flow all workers together execute at a time.",
    multiple=True,
)
@option(
    "--drain TIME",
    "How long runs may finish when the worker is told to stop: 30, 90s, 5m.",
    default="30",
    type=_options.duration,
)
@option("--owner ID", "Execute only runs of this owner.")
@option("--until-idle", "Stop when there is nothing left to do.")
@_options.ask_workers
@option("--verify", "Check claims for others, too: see `holdfast verify --worker`.")
def command(
    session: Session,
    flows: tuple[str, ...],
    allowed: Allowed,
    at_once: int,
    per_flow: tuple[str, ...],
    drain: timedelta,
    owner: str | None,
    until_idle: bool,
    ask_workers: timedelta | None,
    verify: bool,
) -> None:
    """Execute runs that nobody executes, until told to stop.

    Those are runs that were submitted, whose sleep, retry delay or deadline is over, that were
    answered, and whose process died or left them. Any number of workers share the runs of a store.
    Only runs of the given flows are executed, or of those in pyproject.toml; others stay as they
    are. What steps claim is checked as by `holdfast run` and `holdfast resume`. The retention
    policies in pyproject.toml are applied meanwhile, a few runs at a time. On a terminal a table
    shows what is executed; elsewhere, or with --json, each event is a JSON line on standard output,
    and what steps print goes to standard error.

    With --verify it also answers `holdfast verify --worker`, and it needs no flows: it checks what
    its machine can see, within the current directory and what you allow, whoever asks.

    SIGTERM or Ctrl-C drains: nothing more is begun, runs may finish for --drain, and what is left
    then is left to other workers. Exits with 0 after that, whatever became of the runs. A second
    signal ends it at once, with 143 or 130. With --until-idle, exits with 1 if a run failed or
    could not be executed.
    """
    session.bind(owner)
    known = _flows.load_all(flows, strict=True)
    if not known and not verify:
        raise click.UsageError(f"a worker needs flows: {_flows.NAME_IT}")
    if not known and until_idle:
        raise click.UsageError(
            "--until-idle needs flows: a worker that only verifies is never idle"
        )
    names = tuple(dict.fromkeys(one.flow.name for one in known))
    limits = _limits(per_flow, names)
    _adopt(session, known)
    session.require_shared()
    session.warn_if_new()
    asking = None if ask_workers is None else ask_workers.total_seconds()
    plan = Plan(masked(session.url), names, at_once, limits, drain.total_seconds(), verify)
    code, left = asyncio.run(_work(session, known, allowed, plan, until_idle, asking))
    if left:
        # Steps in threads can't be stopped. Their process has to end, so that others may execute
        # them: at its usual end, Python would wait for them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def _limits(given: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """What `--per-flow` says, by flow."""
    found: dict[str, int] = {}
    for pair in given:
        flow, _, text = pair.rpartition("=")
        if not flow or not (text.isascii() and text.isdigit()) or len(text) > 9:
            raise click.UsageError(f"--per-flow takes FLOW=N, such as digest=2, not {pair!r}")
        if not 1 <= int(text) <= MOST_PER_FLOW:
            raise click.UsageError(
                f"--per-flow {pair}: the limit must be between 1 and {MOST_PER_FLOW:,}"
            )
        if flow not in names:
            known = ", ".join(names)
            raise click.UsageError(
                _show.clean(f"--per-flow {pair}: this worker has no flow {flow!r}, only {known}")
            )
        if flow in found:
            raise click.UsageError(_show.clean(f"--per-flow: {flow!r} has two limits"))
        found[flow] = int(text)
    return found


def _adopt(session: Session, flows: Sequence[Named]) -> None:
    """Use the store that the flows bring along, unless another was named."""
    if session.where is not None:
        return
    stores = {repr(one.store): one.store for one in flows}
    if len(stores) > 1:
        raise click.UsageError(
            "these flows are kept in different stores; name one with --store, or start a worker "
            "for each"
        )
    session.adopt(next(iter(stores.values()), None))


async def _work(
    session: Session,
    flows: Sequence[Named],
    allowed: Allowed,
    plan: Plan,
    until_idle: bool,
    ask_workers: float | None,
) -> tuple[Exit, int]:
    """Work until told to stop; returns the exit code, and how many runs were left."""
    stop, progress = asyncio.Event(), Progress()
    live = not session.json and is_live(sys.stdout)
    display = Table(progress) if live else Lines(progress, stop.set)

    def listen(event: WorkerEvent) -> None:
        progress.note(event)
        display.tell(event)

    def drain(number: int) -> None:
        stop.set()
        display.drain(signal.Signals(number).name, plan.drain)

    try:
        engine = Engine(
            session.place,
            owner=session.owner,
            **session.engine(),
            flows=[one.flow for one in flows],
            verifier=allowed.verifier(),
            ask_workers=ask_workers,
        )
    except ValueError as error:
        raise click.UsageError(_show.clean(str(error))) from error
    core = engine.checkpointer.core
    if not core.settings.retention:
        core.settings = replace(core.settings, retention=tuple(_options.configured_retention()))
    async with engine:
        working = asyncio.ensure_future(
            engine.work(
                at_once=plan.at_once,
                per_flow=plan.per_flow,
                drain=plan.drain,
                until_idle=until_idle,
                stop=stop,
                listener=listen,
                verify=allowed.verifier() if plan.verifies else None,
            )
        )
        code = Exit.OK
        with _signals(drain, working.cancel) as second, display.shown(engine.checkpointer.core):
            display.begin(plan)
            try:
                await working
            except asyncio.CancelledError:
                if not second:
                    raise
                code = Exit.INTERRUPTED if second[0] == signal.SIGINT else Exit.TERMINATED
        display.end()
    if until_idle and progress.failed and code == Exit.OK and not stop.is_set():
        code = Exit.FAILED
    return code, progress.counts["left"]


@contextmanager
def _signals(drain: Callable[[int], object], end: Callable[[], object]) -> Iterator[list[int]]:
    """Call `drain` at the first SIGTERM or Ctrl-C, and `end` at the second, on the event loop.

    Gives a list that holds the second signal, once it has come. If the process has not ended by
    itself soon after that, because its loop is blocked or its store does not answer, it is ended.
    """
    loop, came = asyncio.get_running_loop(), list[int]()
    second: list[int] = []

    def on_signal(number: int, _: object) -> None:
        came.append(number)
        if len(came) == 1:
            loop.call_soon_threadsafe(drain, number)
        elif not second:
            second.append(number)
            code = Exit.INTERRUPTED if number == signal.SIGINT else Exit.TERMINATED
            timer = threading.Timer(_GRACE, os._exit, [int(code)])
            timer.daemon = True
            timer.start()
            loop.call_soon_threadsafe(end)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield second
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
