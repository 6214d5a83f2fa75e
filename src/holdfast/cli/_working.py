"""What a worker does, as it happens: a table on a terminal, JSON lines elsewhere."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from holdfast.cli import _show
from holdfast.cli._drawing import LiveBlock, Text, one_line_each, wants_color
from holdfast.cli._stdout import own_stdout
from holdfast.engine.holding.here import running_here
from holdfast.engine.holding.process import this_process
from holdfast.engine.working.worker import WorkerEvent
from holdfast.kernel.core import Core
from holdfast.views import words
from holdfast.views.errors import as_options

_STOPPED: Final = ("completed", "failed", "cancelled", "paused", "left")
_FASTEST: Final = 0.1  # seconds between two drawings
_USUAL: Final = 0.5
_FEWEST: Final = 5  # rows, however small the terminal is


class Plan(NamedTuple):
    """What a worker works on."""

    store: str
    flows: tuple[str, ...]
    at_once: int
    per_flow: Mapping[str, int]
    drain: float
    verifies: bool = False  # it checks claims for others


class Progress:
    """What a worker does and has done."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # runs that stopped, by how
        self.under_way: dict[str, tuple[str, float]] = {}  # by run: its flow, and since when
        self.refused: set[str] = set()  # runs that could not be claimed or saved

    def note(self, event: WorkerEvent) -> None:
        """A run began or stopped."""
        if event.event == "began":
            self.under_way[event.run_id] = event.flow, time.monotonic()
            self.refused.discard(event.run_id)
            return
        self.under_way.pop(event.run_id, None)
        if event.event in _STOPPED:
            self.counts[event.event] += 1
        else:
            self.refused.add(event.run_id)

    @property
    def failed(self) -> bool:
        """Whether a run failed, or could not be executed."""
        return bool(self.counts["failed"] or self.refused)


class Lines:
    """JSON lines on standard output, one for each event, with its time."""

    def __init__(self, progress: Progress, stop: Callable[[], object]) -> None:
        self._progress = progress
        self._stop = stop
        self._out = sys.stdout

    @contextmanager
    def shown(self, _: Core) -> Iterator[None]:
        """Standard output belongs to the lines: what steps print goes to standard error."""
        with own_stdout() as self._out:
            yield
        self._out = sys.stdout

    def begin(self, plan: Plan) -> None:
        """The worker begins to work."""
        process = this_process()
        self._print("working", {"host": process.host, "pid": process.pid, **plan._asdict()})

    def tell(self, event: WorkerEvent) -> None:
        """A run began or stopped."""
        detail = as_options(event.detail)
        facts = event._asdict() | {"detail": detail, "seconds": round(event.seconds, 3)}
        self._print(facts.pop("event"), facts)

    def drain(self, signal: str, seconds: float) -> None:
        """The worker was told to stop, and lets its runs finish."""
        runs = sorted(self._progress.under_way)
        self._print("draining", {"signal": signal, "seconds": seconds, "runs": runs})

    def end(self) -> None:
        """The worker has stopped."""
        counts = {name: self._progress.counts[name] for name in _STOPPED}
        self._print("stopped", {**counts, "refused": len(self._progress.refused)})

    def _print(self, event: str, facts: Mapping[str, Any]) -> None:
        try:
            line = {"event": event, "at": datetime.now(UTC), **facts}
            click.echo(_show.to_json(line), file=self._out)
        except BrokenPipeError:  # nobody reads any more what it does: it stops
            self._stop()


class Table:
    """A table on a terminal of the runs that are executed, and how many were."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._out = sys.stdout
        self._block = LiveBlock(self._out)
        self._news = asyncio.Event()
        self._drain_until: float | None = None

    @contextmanager
    def shown(self, core: Core) -> Iterator[None]:
        """Draw it while the block runs. What steps print, and what is logged, goes above it."""
        above = self._block.above()
        with ExitStack() as meanwhile:
            meanwhile.enter_context(redirect_stdout(above))
            if sys.stderr.isatty():
                meanwhile.enter_context(redirect_stderr(above))
            drawing = asyncio.create_task(self._draw_again(core))
            try:
                yield
            finally:
                drawing.cancel()
                self._block.clear()

    def begin(self, plan: Plan) -> None:
        """The worker begins to work."""
        limits = "".join(f", {flow} {most}" for flow, most in plan.per_flow.items())
        line = _show.cell(f"worker {this_process().name}", "bold")
        line.add(f"  {_show.clean(plan.store)}", "dim")
        self._say(line)
        if plan.flows:
            flows = ", ".join(plan.flows)
            self._say(_show.cell(f"executes {flows}: {plan.at_once} at once{limits}"))
        if plan.verifies:
            self._say(_show.cell("verifies claims for others"))

    def tell(self, event: WorkerEvent) -> None:
        """A run began or stopped."""
        if event.event == "failed":
            self._say(_show.cell(f"✗ {event.run_id}  {as_options(event.detail)}", "red"))
        self._news.set()

    def drain(self, signal: str, seconds: float) -> None:
        """The worker was told to stop, and lets its runs finish."""
        self._drain_until = time.monotonic() + seconds
        self._say(_show.cell(f"{signal}: draining, again to end at once", "yellow"))
        self._news.set()

    def end(self) -> None:
        """The worker has stopped."""
        self._say(Text("stopped: ").add(self._counts()))

    def _say(self, line: Text) -> None:
        self._block.print(f"{line.painted(wants_color(self._out))}\n")

    async def _draw_again(self, core: Core) -> None:
        while True:
            self._news.clear()
            self._block.draw(self._lines(core))
            await asyncio.sleep(_FASTEST)
            busy = self._progress.under_way or self._drain_until is not None
            with suppress(TimeoutError):
                async with asyncio.timeout(_USUAL if busy else None):
                    await self._news.wait()

    def _lines(self, core: Core) -> list[Text]:
        runs = self._progress.under_way
        most = max(self._block.room - 4, _FEWEST)
        names = ("RUN", "FLOW", "STEP", "SINCE")
        rows = [
            [
                _show.cell(run),
                _show.cell(flow),
                _show.cell(_step_of(core, run)),
                _show.cell(words.span(time.monotonic() - since)),
            ]
            for run, (flow, since) in list(runs.items())[:most]
        ]
        lines = [Text()]
        if rows:
            head = [Text(name, "bold") for name in names]
            lines += one_line_each([head, *rows], self._block.width)
        if len(runs) > most:
            lines.append(Text(f"… and {len(runs) - most:,} more", "dim"))
        lines.append(Text(f"{len(runs):,} running, ").add(self._counts()))
        if self._drain_until is not None:
            left = max(0.0, self._drain_until - time.monotonic())
            lines[-1].add(f"; draining, {words.span(left)} left", "yellow")
        return lines

    def _counts(self) -> Text:
        counts = self._progress.counts
        line = Text(f"{counts['completed']:,} completed", "green" if counts["completed"] else "")
        line.add(", ").add(f"{counts['failed']:,} failed", "red" if counts["failed"] else "")
        for name in ("cancelled", "left"):
            if counts[name]:
                line.add(f", {counts[name]:,} {name}")
        if counts["paused"]:  # a run may pause many times
            line.add(f", {words.plural(counts['paused'], 'pause')}")
        if self._progress.refused:
            line.add(f", {len(self._progress.refused):,} refused", "yellow")
        return line


def _step_of(core: Core, run_id: str) -> str:
    """The steps of a run that are under way in this process, or that it waits for."""
    run = running_here(core, run_id)
    if run is None:
        return ""
    return ", ".join(sorted({*run.steps.attempts.under_way, *run.steps.resting.until}))
