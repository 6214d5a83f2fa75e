"""Executes a run and prints its events."""

import asyncio
import json
import sys
from collections.abc import Callable

import click

from holdfast.cli import _show
from holdfast.cli._claims import Allowed
from holdfast.cli._drawing import LiveLine
from holdfast.cli._exits import Exit
from holdfast.cli._session import Session
from holdfast.codec.summaries import for_people
from holdfast.engine import events as ev
from holdfast.engine.engine import Engine
from holdfast.engine.events import Event, RunFailed
from holdfast.engine.people.requests import questions
from holdfast.engine.stream import Stream
from holdfast.kernel.core import Core
from holdfast.urls import masked
from holdfast.views import words
from holdfast.views.errors import as_options
from holdfast.views.values import plain

Streaming = Callable[[Engine], Stream]


def execute(
    session: Session, streaming: Streaming, run_id: str, resume: str, allowed: Allowed
) -> None:
    """Execute a run; its events go to standard error, its result to standard output.

    `resume` is the command that continues it; `allowed` is what its claims may be about. With `--json`, both are JSON lines on standard
    output. Exits with 1 if the run fails or is cancelled, and with 5 if it pauses.
    """
    printer = EventPrinter(session, run_id, resume)
    try:
        asyncio.run(_stream(session, streaming, printer, allowed))
    except KeyboardInterrupt:
        _show.say(f"interrupted; continue with: {resume}", err=True)
        raise SystemExit(Exit.INTERRUPTED) from None
    raise SystemExit(printer.exit)


async def _stream(
    session: Session, streaming: Streaming, printer: "EventPrinter", allowed: Allowed
) -> None:
    if not session.json:
        _show.say(f"store: {_show.clean(masked(session.url))}", "dim", err=True)
    failed = False
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
            async for event in stream:
                failed |= isinstance(event, RunFailed) and event.run_id == printer.run_id
                printer.print(event, core)
    except Exception:
        if not failed or click.get_current_context().meta.get("holdfast.debug"):
            raise
    finally:
        printer.close()


class EventPrinter:
    """Prints the events of a run and of its child runs as they come."""

    def __init__(self, session: Session, run_id: str, resume: str) -> None:
        self.exit = Exit.OK
        self.run_id = run_id
        self._session = session
        self._resume = resume
        self._running_step = LiveLine()

    def print(self, event: Event, core: Core) -> None:
        """Print one event. Only the run's own events decide the exit code."""
        own = event.run_id == self.run_id
        if own and isinstance(event, ev.RunFailed | ev.RunCancelled):
            self.exit = Exit.FAILED
        elif own and isinstance(event, ev.RunPaused):
            self.exit = Exit.PAUSED
        if self._session.json:
            click.echo(_show.to_json(event.to_dict()))
            sys.stdout.flush()
            return
        line, style = in_a_line(event)
        if own and isinstance(event, ev.RunPaused):
            asked = questions(core, self.run_id) if event.questions else []
            commands = self._session.commands
            form = self._session.interactive
            way = commands.answer(self.run_id, asked, form=form) if asked else self._resume
            line += f"; continue with: {way}"
        if line:
            self._running_step.clear()
            _show.show(_show.cell(as_options(line if own else f"  {line}"), style), err=True)
        if isinstance(event, ev.StepStarted):
            self._running_step.draw(f"… {_show.clean(event.name)}", now=True)
        if own and isinstance(event, ev.RunCompleted):
            _show.print_pretty(plain(event.result))

    def close(self) -> None:
        """Remove the line of the running step."""
        if not self._session.json:
            self._running_step.clear()


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
            return f"✗ {name}  {error}", "red"
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
            return f"failed: {plain(error)}", "red"
        case ev.RunCancelled():
            return "cancelled", "magenta"
    return "", ""
