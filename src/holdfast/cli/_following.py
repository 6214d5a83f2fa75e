"""Carrying a run out while showing what happens."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import _show
from holdfast.cli._drawing import LiveLine
from holdfast.cli._exits import Exit
from holdfast.cli._flows import Planning
from holdfast.cli._session import Session

if TYPE_CHECKING:
    from holdfast.engine.events import Event


def carry_out(session: Session, plan: Planning, run_id: str, way_on: str) -> None:
    """Carry a run out; its events go to standard error, its result to standard output.

    `way_on` is the command that goes on with it. With `--json`, both are JSON lines on standard output. Exits with 1 if the run fails or is
    cancelled, and with 5 if it pauses.
    """
    import asyncio

    follower = Follower(run_id, session.json, (session.command("answer", run_id), way_on))
    try:
        asyncio.run(_follow(session, plan, follower))
    except KeyboardInterrupt:
        _show.say(f"interrupted; go on with: {way_on}", err=True)
        raise SystemExit(Exit.INTERRUPTED) from None
    raise SystemExit(follower.exit)


async def _follow(session: Session, plan: Planning, follower: Follower) -> None:
    from holdfast.engine import launch
    from holdfast.engine.door import open_checkpointer
    from holdfast.engine.events import RunFailed
    from holdfast.urls import masked

    place = open_checkpointer(session.url if session.own is None else session.own)
    if not session.json:
        _show.say(f"store: {_show.clean(masked(session.url))}", "dim", err=True)
    stream = launch.stream(lambda: plan(place.checkpointer.core), place.close)
    failed = False
    try:
        async with stream:
            with follower:
                async for event in stream:
                    failed |= isinstance(event, RunFailed) and event.run_id == follower.run_id
                    follower.show(event)
    except Exception:
        if not failed or click.get_current_context().meta.get("holdfast.debug"):
            raise


class Follower:
    """Shows the events of a run, and of the runs within it, as they come."""

    def __init__(self, run_id: str, as_json: bool, ways_on: tuple[str, str]) -> None:
        """`ways_on` are the commands that go on with the run if it asks, and if it does not."""
        self.exit = Exit.OK
        self._answer, self._resume = ways_on
        self.run_id = run_id
        self._json = as_json
        self._under_way = LiveLine()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._json:
            self._under_way.clear()

    def show(self, event: Event) -> None:
        """Tell of one event. What becomes of a run within the run is the run's own matter."""
        from holdfast.engine import events as ev

        within = event.run_id != self.run_id
        if isinstance(event, ev.RunFailed | ev.RunCancelled) and not within:
            self.exit = Exit.FAILED
        elif isinstance(event, ev.RunPaused) and not within:
            self.exit = Exit.PAUSED
        if self._json:
            click.echo(_show.to_json(document(event)))
            sys.stdout.flush()
            return
        line, style = told(event)
        if isinstance(event, ev.RunPaused) and not within:
            line += f"; go on with: {self._answer if event.questions else self._resume}"
        if line:
            self._under_way.clear()
            _show.show(_show.cell(f"{'  ' * within}{line}", style), err=True)
        if isinstance(event, ev.StepStarted):
            self._under_way.draw(f"… {_show.clean(event.name)}", now=True)
        if isinstance(event, ev.RunCompleted) and not within:
            _show.print_pretty(plain(event.result))


def document(event: Event) -> dict[str, Any]:
    """An event as JSON has it."""
    names = [field.name for field in dataclasses.fields(event) if not field.name.startswith("_")]
    names += ["value"] if hasattr(event, "value") else []
    return {"event": type(event).__name__} | {name: plain(getattr(event, name)) for name in names}


def plain(value: Any) -> Any:
    """A value as JSON has it, in the form that stores for people have."""
    from holdfast.codec import readable, values

    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return readable.to_json(values.decode(values.encode(value)))


def told(event: Event) -> tuple[str, str]:
    """An event in a line, and its style; nothing for those that go without saying."""
    from holdfast.engine import events as ev

    match event:
        case ev.RunStarted(run_id=run_id, flow=flow, resumed=resumed, restored=restored):
            after = f", {_show.plural(restored, 'step')} restored" if resumed else ""
            return f"{'goes on' if resumed else 'begins'}: {run_id}, flow {flow}{after}", "bold"
        case ev.StepCompleted(name=name, duration=duration):
            return f"✓ {name}  {_show.span(duration)}", "green"
        case ev.StepProgress(name=name, fraction=fraction, message=message):
            share = "" if fraction is None else f" {100 * fraction:.0f} %"
            return f"  {name}{share} {message}", "dim"
        case ev.StepRetrying(name=name, attempt=attempt, error=error, delay=delay):
            return (
                f"↻ {name}  attempt {attempt} failed, again in {_show.span(delay)}: {error}",
                "yellow",
            )
        case ev.StepFailed(name=name, error=error):
            return f"✗ {name}  {error}", "red"
        case ev.StepSkipped(name=name, reason=reason):
            return f"- {name}  {reason}", "dim"
        case ev.CheckpointFailed(step=step, error=error):
            return f"! {step} was not saved: {error}", "yellow"
        case ev.CheckpointRejected(checkpoint_id=place, step=step, reason=reason):
            return f"! {step} ({place}) is done again: {reason}", "yellow"
        case ev.RollbackStarted(steps=steps):
            return f"undoing {', '.join(steps)}", "yellow"
        case ev.RollbackCompleted(errors=errors):
            wrong = "; ".join(f"{step}: {error}" for step, error in errors.items())
            return (f"not undone: {wrong}", "red") if wrong else ("undone", "yellow")
        case ev.QuestionAsked(question=question, prompt=prompt):
            return f"? {question}: {prompt}", "yellow"
        case ev.RunPaused():
            return "paused", "yellow"
        case ev.RunCompleted(duration=duration):
            return f"completed in {_show.span(duration)}", "green"
        case ev.RunFailed(error=error):
            return f"failed: {plain(error)}", "red"
        case ev.RunCancelled():
            return "cancelled", "magenta"
    return "", ""
