"""Executes a run and prints its events."""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn, Unpack

import click

from holdfast.checkpoint import RunInfo
from holdfast.cli import _flows, _show
from holdfast.cli._claims import Allowed
from holdfast.cli._drawing import LiveLine
from holdfast.cli._exits import Exit
from holdfast.cli._session import Session
from holdfast.cli._stdout import own_stdout
from holdfast.codec.summaries import for_people
from holdfast.engine import events as ev
from holdfast.engine.engine import Engine
from holdfast.engine.events import Event, RunFailed
from holdfast.engine.options import Resume
from holdfast.engine.people.inbox import questions
from holdfast.engine.run.failures import describe
from holdfast.engine.stream import Stream
from holdfast.errors import StepFailedError
from holdfast.kernel.core import Core
from holdfast.logs import logger
from holdfast.urls import masked
from holdfast.views import words
from holdfast.views.asking import asked_by_child, otherwise
from holdfast.views.commands import other_answers
from holdfast.views.errors import as_options
from holdfast.views.outcome import failure_from
from holdfast.views.values import plain

_TRACE: Final = 24  # lines of a traceback: the last ones
_PATIENCE: Final = 0.5  # seconds after Ctrl-C
_WAITS: Final = "waiting up to 10 s for the step under way; Ctrl-C again ends it at once"

Streaming = Callable[[Engine], Stream]


def execute(
    session: Session, streaming: Streaming, run_id: str, again: Callable[..., str], allowed: Allowed
) -> None:
    """Execute a run. Its result goes to standard output; events and prints to standard error.

    `again` is the command that continues it, by `name`: resume or retry; `allowed` is what its
    claims may be about. With `--json`, events and result are JSON lines on standard output. Exits
    with 1 if the run fails or is cancelled, and with 5 if it pauses. Ctrl-C waits a while for a
    step that can't be stopped, and ends it with the process then, or when it comes again.
    """
    printer = EventPrinter(session, run_id, again)
    try:
        with own_stdout() as printer.out:
            asyncio.run(_stream(session, streaming, printer, allowed))
    except KeyboardInterrupt:
        _show.say(f"interrupted; continue with: {again()}", err=True)
        _exit_at_once(Exit.INTERRUPTED)
    raise SystemExit(printer.exit)


def _exit_at_once(code: Exit) -> NoReturn:
    """Exit, without waiting for threads: a step that can't be stopped may be in one."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    if all(thread.daemon for thread in others):
        raise SystemExit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read it is gone
            stream.flush()
    os._exit(code)


def follow(
    session: Session,
    info: RunInfo,
    source: str | None,
    flows: Sequence[str],
    allowed: Allowed,
    **options: Unpack[Resume],
) -> None:
    """Continue a run with one of these flows, or of those in pyproject.toml, as `execute` does."""
    flow = _flows.find(flows, info.flow, source)
    execute(
        session,
        lambda engine: engine.resume_stream(info.run_id, flow=flow.flow, **options),
        info.run_id,
        partial(session.commands.resume, info.run_id, flows, source),
        allowed,
    )


async def _stream(
    session: Session, streaming: Streaming, printer: "EventPrinter", allowed: Allowed
) -> None:
    if not session.json:
        _show.say(f"store: {_show.clean(masked(session.url))}", "dim", err=True)
    session.warn_if_new()
    failed = False
    log = logger("holdfast.evidence")
    if not session.json:
        log.addFilter(_is_no_rejection)
    try:
        async with (
            Engine(
                session.place,
                owner=session.owner,
                verifier=allowed.verifier(),
                **session.engine(),
            ) as engine,
            streaming(engine) as stream,
        ):
            core = engine.checkpointer.core
            try:
                async for event in stream:
                    failed |= isinstance(event, RunFailed) and event.run_id == printer.run_id
                    printer.print(event, core)
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(
                    _PATIENCE, partial(_show.say, _WAITS, err=True)
                )
                raise
    except Exception:
        if not failed or click.get_current_context().meta.get("holdfast.debug"):
            raise
    finally:
        log.removeFilter(_is_no_rejection)
        printer.close()


def _is_no_rejection(record: logging.LogRecord) -> bool:
    """Whether the log says what no event says, too."""
    return not hasattr(record, "rejected")


class EventPrinter:
    """Prints the events of a run and of its child runs as they come.

    The result goes to `out`: what is standard output when this is made, unless that is changed.
    """

    def __init__(self, session: Session, run_id: str, again: Callable[..., str]) -> None:
        self.exit = Exit.OK
        self.run_id = run_id
        self._session = session
        self._again = again
        self.out = sys.stdout
        self._form = session.interactive
        self._running_step = LiveLine()
        self._failed_step: str | None = None
        self._asked: set[str] = set()
        self._rejected: list[ev.CheckpointRejected] = []  # for one reason, and not printed yet

    def print(self, event: Event, core: Core) -> None:
        """Print one event. Only the run's own events decide the exit code."""
        own = event.run_id == self.run_id
        if own and isinstance(event, ev.RunFailed | ev.RunCancelled):
            self.exit = Exit.FAILED
        elif own and isinstance(event, ev.RunPaused):
            self.exit = Exit.PAUSED
        if self._session.json:
            click.echo(_show.to_json(event.to_dict()), file=self.out)
            self.out.flush()
            return
        if isinstance(event, ev.CheckpointRejected):
            if any(one.reason != event.reason for one in self._rejected[-1:]):
                self._say_rejected()
            self._rejected.append(event)
            return
        self._say_rejected()
        line, style = in_a_line(event)
        note = ""
        if own and isinstance(event, ev.QuestionAsked):
            self._asked.add(event.question)
        if isinstance(event, ev.StepFailed):
            self._failed_step = event.step
        elif own and isinstance(event, ev.RunFailed) and self._failed_step in _steps_of(event):
            line = f"failed in {self._failed_step}"  # whose error is in the line before
        if own and isinstance(event, ev.RunPaused):
            below = asked_by_child(core, self.run_id) if not event.questions else []
            asked = questions(core, self.run_id) if event.questions else below
            commands = self._session.commands
            whose = below[0].run_id if below else self.run_id
            way = commands.answer(whose, asked, form=self._form) if asked else self._again()
            line += f"; continue with: {way}"
            note = other_answers(asked[0], way) if asked and not self._form else ""
            for one in asked:  # a run that is resumed does not ask again
                if one.key not in self._asked:
                    self._say(f"? {one.key}: {one.prompt}", "yellow")
                if one.deadline is not None:
                    until = words.moment(one.deadline)
                    self._say(f"  {one.key}: until {until} (then: {otherwise(one)})", "dim")
        if line:
            self._say(line if own else f"  {line}", style)
        if note:
            self._say(note, "dim")
        if isinstance(event, ev.StepStarted):
            self._running_step.draw(f"… {_show.clean(event.name)}", now=True)
        if own and isinstance(event, ev.RunFailed):
            self._explain(event.error)
        if own and isinstance(event, ev.RunCompleted):
            _show.print_pretty(plain(event.result), self.out)

    def _say(self, line: str, style: str) -> None:
        self._running_step.clear()
        _show.show(_show.cell(as_options(line), style), err=True)

    def _explain(self, error: BaseException) -> None:
        """Where it failed, in the user's own code, and how to look at it and continue it."""
        found = failure_from(describe(error))
        for text in [] if found is None else found.lines()[-_TRACE:]:
            _show.say(text, "dim", err=True)
        show = self._session.commands.line("show", self.run_id)
        _show.say(f"look at it with: {show}", err=True)
        retry = self._again(name="retry")
        _show.say(f"when the cause is fixed, continue it with: {retry}", err=True)

    def _say_rejected(self) -> None:
        """The checkpoints that were rejected for one reason, in one line."""
        found, self._rejected = self._rejected, []
        if not found:
            return
        newest, oldest = found[0], found[-1]
        line, style = in_a_line(newest)
        if newest is not oldest:
            places = f"{oldest.checkpoint_id} to {newest.checkpoint_id}"
            line = f"! {len(found):,} steps ({places}) run again: {newest.reason}"
        self._say(line if newest.run_id == self.run_id else f"  {line}", style)

    def close(self) -> None:
        """Remove the line of the running step."""
        if not self._session.json:
            self._say_rejected()
            self._running_step.clear()


def _steps_of(event: RunFailed) -> list[str]:
    """The step that failed the run; none if the flow itself did."""
    return [event.error.step] if isinstance(event.error, StepFailedError) else []


def in_a_line(event: Event) -> tuple[str, str]:
    """An event in one line, and its style; an empty line for events that are not shown."""
    match event:
        case ev.RunStarted(run_id=run_id, flow=flow, resumed=resumed, restored=restored):
            after = f", {words.plural(restored, 'step')} restored" if resumed else ""
            return f"{'resumed' if resumed else 'started'}: {run_id}, flow {flow}{after}", "bold"
        case ev.StepCompleted(name=name, duration=duration):
            return f"✓ {name}  {words.span(duration)}", "green"
        case ev.StepProgress(name=name, fraction=fraction, message=message):
            share = "" if fraction is None else f" {100 * fraction:.0f} %"
            return f"  {name}{share} {message}", "dim"
        case ev.StepOutput(name=name):
            told = for_people(event.to_dict()["value"])
            return f"  {name}: {told if isinstance(told, str) else json.dumps(told)}", "dim"
        case ev.StepRetrying(name=name, attempt=attempt, error=error, delay=delay):
            return (
                f"↻ {name}  attempt {attempt} failed, again in {words.span(delay)}: {error}",
                "yellow",
            )
        case ev.StepFailed(name=name, error=error):
            return f"✗ {name}  {error.removeprefix(f'step {event.step!r} ')}", "red"
        case ev.StepSkipped(name=name, reason=reason):
            return f"- {name}  {reason}", "dim"
        case ev.CheckpointFailed(step=step, error=error):
            return f"! {step} was not saved: {error}", "yellow"
        case ev.CheckpointRejected(checkpoint_id=place, step=step, reason=reason):
            return f"! {step} ({place}) runs again: {reason}", "yellow"
        case ev.RollbackStarted(steps=steps):
            return f"undoing {', '.join(steps)}", "yellow"
        case ev.RollbackCompleted(errors=errors):
            wrong = "; ".join(f"{step}: {error}" for step, error in errors.items())
            return (f"not undone: {wrong}", "red") if wrong else ("undone", "yellow")
        case ev.QuestionAsked(question=question, prompt=prompt):
            return f"? {question}: {prompt}", "yellow"
        case ev.RunPaused():
            return "paused", "yellow"
        case ev.RunCompleted(duration=duration, saved=saved):
            took = f"completed in {words.span(duration)}"
            return (took, "green") if saved else (f"{took}, but that is not saved", "yellow")
        case ev.RunFailed(error=error):
            found = failure_from(describe(error))
            return f"failed {found.where}: {found}" if found else "failed", "red"
        case ev.RunCancelled():
            return "cancelled", "magenta"
    return "", ""
