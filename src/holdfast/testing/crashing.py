"""Kill a flow at every step, resume it, and compare: a test of your own flows.

    from holdfast.testing import crash_at_every_step

    def test_the_report_survives_every_crash():
        crash_at_every_step(report("Brest"))

In pytest, the fixture of the same name also watches the test's `tmp_path`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final

from holdfast.engine.blocking import check_options
from holdfast.engine.effects import Call
from holdfast.engine.engine import OPTIONS
from holdfast.engine.flow import Flow
from holdfast.model import OF_CHILD
from holdfast.seams import new_id
from holdfast.testing._crash_report import (
    Crash,
    CrashProblem,
    CrashReport,
    CrashTestError,
    difference,
    step_name,
)
from holdfast.testing._directories import WatchedDirectory
from holdfast.testing._victims import Job, Notes, Step, execute, read_notes, resume

__all__ = ["Crash", "CrashProblem", "CrashReport", "CrashTestError", "crash_at_every_step"]

_RUN: Final = "run"
_LINES: Final = 15  # of the output of a process that failed


def crash_at_every_step(
    flow: Call[Any] | Flow[Any],
    *,
    answers: Mapping[str, Any] | None = None,
    directory: str | os.PathLike[str] | None = None,
    ignore: Iterable[str] = (),
    prepare: Callable[[], object] | None = None,
    observe: Callable[[], object] | None = None,
    view: Callable[[Any], Any] | None = None,
    varying: Iterable[str] = (),
    store: str = "sqlite",
    limit: int = 200,
    timeout: float = 60.0,
    check: bool = True,
    **options: Any,
) -> CrashReport:
    """Kill a flow before, in and after every step, resume it each time, and compare the outcomes.

    `flow` is what to run, `report("Brest")`, or a flow without inputs. Every run is executed by a
    new process, which ends with SIGKILL at one point: before a step, when the step has returned and
    is not recorded yet, when it is recorded, and around every other entry. Another process resumes
    it. Compared with an undisturbed run are its result or error, the recorded results of its steps,
    the files in `directory` (except those that match `ignore`) and what `observe` returns. Files
    and `observe` are compared only if no step was in flight at the crash: such a step may run
    twice, and `repeated` of the report counts that.

    `answers` has by key what the questions of the flow are answered. `directory` is put back to
    what it is now before each run. `prepare` is called before each run, in its process. `view`
    returns what of the flow's result is compared. `varying` has the names of steps whose results
    differ from run to run, such as times and ids, and are not compared: `["stamp", "agent/*"]`.
    `store` is `sqlite`, `file`, or the URL of a server: there each run has an id of its own, and
    stays. Of more than `limit` points, so many are tried. A process may take `timeout` seconds.
    Other options are those of `hf.Engine`.

    Raises `CrashTestError`, an `AssertionError` that says what differs, unless `check` is False,
    and `RuntimeError` if the flow can't be executed undisturbed. Processes are made by fork():
    threads and connections that the test has opened don't work in them.
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not ours
    if not hasattr(os, "fork"):
        raise RuntimeError("crash_at_every_step needs os.fork, which this system does not have")
    call = flow() if isinstance(flow, Flow) else flow  # type: ignore[operator]
    if not isinstance(call, Call):
        raise TypeError(f"{flow!r} is no flow and no call of one; give report('Brest')")
    call.use()
    _check(options)
    if isinstance(varying, str):
        raise TypeError(f"varying is a list: varying=[{varying!r}]")
    if limit < 1:
        raise ValueError(f"limit={limit} would try nothing; give 1 or more")
    job = Job(call, options, answers or {}, view, prepare, observe, timeout)
    place = Path(tempfile.mkdtemp(prefix="holdfast-crash-"))
    watched = None
    try:
        if directory is not None:
            watched = WatchedDirectory(Path(directory), place / "before", ignore)
        report = _Trials(job, place, store, watched, tuple(varying)).report(limit)
    finally:
        if watched is not None:
            watched.put_back_at_the_end()
        shutil.rmtree(place)
    if check and not report.ok:
        raise CrashTestError(report)
    return report


def _check(options: Mapping[str, Any]) -> None:
    """Raise `TypeError` for a keyword that neither the kit nor an engine has."""
    __tracebackhide__ = True
    own = inspect.signature(crash_at_every_step).parameters
    names = [name for name, one in own.items() if one.kind is one.KEYWORD_ONLY]
    check_options("crash_at_every_step", options, (*names, *OPTIONS))


class _Trials:
    """The runs of one flow, undisturbed and killed."""

    def __init__(
        self,
        job: Job,
        place: Path,
        store: str,
        watched: WatchedDirectory | None,
        varying: tuple[str, ...],
    ) -> None:
        self._job = job
        self._place = place
        self._store = store
        self._watched = watched
        self._varying = varying
        self._count = 0
        if store.startswith("memory"):
            raise ValueError("memory:// outlives no process; give 'sqlite', 'file' or a URL")

    def report(self, limit: int) -> CrashReport:
        __tracebackhide__ = True
        name = self._job.call.flow.name
        first, files = self._undisturbed()
        for module in first.imported:  # once, rather than in every process
            importlib.import_module(module)
        second, files_again = self._undisturbed()
        unlike = tuple(_compared(first, second, files, files_again, every_value=True))
        if unlike:
            return CrashReport(name, first.points, (), unlike)
        crashes = [self._crash(point, first, files) for point in _spread(first.points, limit)]
        return CrashReport(name, first.points, tuple(one for one in crashes if one is not None))

    def _undisturbed(self) -> tuple[Notes, Any]:
        __tracebackhide__ = True
        place, url, run_id = self._new()
        code = execute(self._job, url, run_id, place)
        notes = self._read(place, run_id)
        if code or not notes.ended:
            name = self._job.call.flow.name
            raise RuntimeError(f"{name} can't be executed: {_why(self._job, code, place)}")
        return notes, self._files()

    def _crash(self, point: int, first: Notes, files: Any) -> Crash | None:
        """Kill a run at this point and resume it; None if it ended before."""
        place, url, run_id = self._new()
        code = execute(self._job, url, run_id, place, kill_at=point)
        killed = self._read(place, run_id)
        if not killed.killed and code == 0:
            return None
        problems: list[CrashProblem] = []
        if killed.killed:
            code = resume(self._job, url, run_id, place)
        notes = self._read(place, run_id)
        if code or not notes.ended:
            why = _why(self._job, code, place)
            problems.append(CrashProblem("resume", "resuming it failed", tuple(why.splitlines())))
        else:
            problems += _compared(first, notes, files, self._files())
        repeated = tuple(sorted(_named(step) for step in notes.repeated))
        where = notes.killed or "never"
        return Crash(point, where, repeated, tuple(problems))

    def _new(self) -> tuple[Path, str, str]:
        """A place, a store and a run for the next trial."""
        self._count += 1
        place = self._place / str(self._count)
        place.mkdir()
        if self._watched is not None:
            self._watched.put_back()
        if self._store == "sqlite":
            return place, f"sqlite:///{place}/runs.db?survives=process-crash", _RUN
        if self._store == "file":
            return place, f"file://{place}/runs", _RUN
        return place, self._store, f"{_RUN}-{new_id()}"

    def _read(self, place: Path, run_id: str) -> Notes:
        """What the processes of a trial did, without the values that are not compared."""
        notes = read_notes(place, run_id)
        notes.values = {
            step: value
            for step, value in notes.values.items()
            if not _is_one_of(step, self._varying)
        }
        return notes

    def _files(self) -> Any:
        return None if self._watched is None else self._watched.look()


def _compared(
    first: Notes, other: Notes, files: Any, other_files: Any, *, every_value: bool = False
) -> Iterator[CrashProblem]:
    """How a run differs from the undisturbed one. After the first value, the others follow."""
    if other.again:
        names = ", ".join(sorted(repr(_named(step)) for step in other.again))
        yield CrashProblem("again", f"{names} was recorded, and was executed again")
    unlike = list(islice(_unlike_values(first, other), None if every_value else 1))
    for key, old, new in unlike:
        what = f"step {key!r} returned something else"
        yield CrashProblem("value", what, difference(old, new), key)
    if first.outcome != other.outcome and (every_value or not unlike):
        yield CrashProblem(
            "outcome", "the outcome differs", difference(_shown(first), _shown(other))
        )
    if other.in_flight:
        return
    if files != other_files:
        yield CrashProblem("world", "the files differ", difference(files, other_files))
    if first.observed != other.observed:
        yield CrashProblem(
            "world", "what is observed differs", difference(first.observed, other.observed)
        )


def _unlike_values(first: Notes, other: Notes) -> Iterator[tuple[str, Any, Any]]:
    """The steps whose results are not those of the undisturbed run."""
    for step, value in other.values.items():
        if step in first.values and first.values[step] != value:
            yield _named(step), first.values[step], value


def _is_one_of(step: Step, patterns: Iterable[str]) -> bool:
    """Whether a pattern is the name of a step: also of its later calls, and in a child run."""
    names = {_named(step), step[1]}
    names |= {step_name(name) for name in names}
    literal = (pattern.replace("[", "[[]") for pattern in patterns)  # in a key it is an index
    return any(fnmatchcase(name, pattern) for pattern in literal for name in names)


def _shown(notes: Notes) -> Any:
    return notes.outcome.get("returned", notes.outcome)


def _named(step: Step) -> str:
    """A step as people know it: of a child run with the name of that."""
    run, key = step
    return key if not run else f"{run.removeprefix(OF_CHILD)}{OF_CHILD}{key}"


def _why(job: Job, code: int, place: Path) -> str:
    """Why a process did not finish: one line, and then what it wrote."""
    output = place / "output"
    said = output.read_text(errors="replace").split("\n") if output.exists() else []
    lines = _last_lines([line for line in said if line.strip()])
    if code == -signal.SIGALRM:
        why = f"it took longer than {job.timeout:g} seconds (timeout=)"
    elif code > 0 and lines:  # the last line of a traceback
        why = lines.pop()
    else:
        why = f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    return "\n".join([why, *lines])


def _last_lines(lines: list[str]) -> list[str]:
    """The end of an output, beginning with a whole frame of its traceback if it has one."""
    last = lines[-_LINES:]
    frames = [n for n, line in enumerate(last) if line.startswith('  File "')]
    cut = len(lines) > len(last) and frames and last[0].startswith(" ")
    return ["...", *last[frames[0] :]] if cut else last


def _spread(points: int, limit: int) -> Iterator[int]:
    """All points, or so many of them, evenly."""
    if points <= limit:
        yield from range(1, points + 1)
    else:
        yield from sorted({1 + n * (points - 1) // max(limit - 1, 1) for n in range(limit)})
