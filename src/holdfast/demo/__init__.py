"""What `holdfast demo` shows: a program killed halfway, resumed, and verified before it is trusted.

Nothing is staged. `tides.py`, beside this file, is copied and run as a process of its own, which
is killed with SIGKILL; what is printed is what it and the store say.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import HoldfastError

_PROGRAM: Final = "tides.py"
_RUN: Final = "tides"
_STEPS: Final = ["measure", "find_high_water", "draw", "summarise", "typeset", "publish"]
_LAST_FILE: Final = "index.html"


class Shown(NamedTuple):
    """What happened."""

    began: list[list[str]]  # the steps that each of the three processes began
    resumed_after: float  # seconds from the second one's start to its first step
    proved: int  # journal entries, by their digests


def main(
    directory: Path | None = None,
    out: TextIO | None = None,
    then: Callable[[Path], object] | None = None,
) -> Shown:
    """Show it in this directory, which is kept, or in a temporary one.

    At the end `then` is called with the directory, before that is deleted.

    Raises `FileExistsError` if there is something in the directory, `HoldfastError` if anything
    goes wrong.
    """
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as temporary:
            shown = _show(Path(temporary), out or sys.stdout)
            if then is not None:
                then(Path(temporary))
            return shown
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty; name a directory for the demo alone")
    shown = _show(directory, out or sys.stdout)
    if then is not None:
        then(directory)
    return shown


def _show(directory: Path, out: TextIO) -> Shown:
    def say(text: str = "") -> None:
        print(text, file=out, flush=True)

    source = resources.files(__name__).joinpath(_PROGRAM).read_text()
    (directory / _PROGRAM).write_text(source)
    say(f"1. {_PROGRAM} has six steps like this one, each of which says what it writes:\n")
    for line in [*_part(source, '@step(outputs="summary.txt")'), "", *_part(source, "@workflow")]:
        say(f"   {line}".rstrip())
    say("\n   Run it, and kill it with SIGKILL in step 5:\n")
    first = _run(directory, say, kill_in=_STEPS[4])
    say(f"   Its exit code: {first.exit_code}.")

    say("\n2. What survived:\n")
    with SyncCheckpointer(directory / "runs.db") as checkpointer:
        survived = checkpointer.list_checkpoints(_RUN, oldest_first=True)
    for info in survived:
        say(f"   {info.checkpoint_id}  {info.step:15}  {info.created_at:%H:%M:%S.%f}")

    say("\n3. Run the same program again:\n")
    second = _run(directory, say)
    say(f"   It was back at work {second.waited:.2f} s after its process began.")

    say(f"\n4. Delete {_LAST_FILE}, which the last step wrote, and run it once more:\n")
    (directory / _LAST_FILE).unlink()
    third = _run(directory, say)

    with SyncCheckpointer(directory / "runs.db") as checkpointer:
        report = checkpointer.verify(_RUN)
    shown = Shown([first.steps, second.steps, third.steps], second.waited, report.proved)
    as_told = shown.began[1:] == [_STEPS[len(survived) :], _STEPS[5:]]
    if not as_told or first.exit_code != -signal.SIGKILL or not report.ok:
        raise HoldfastError(f"that is not what should have happened, please report it: {shown}")
    say("\nNo finished step ran twice, but for the one whose file was gone.")
    say(f"{report.proved} journal entries, each proved by its digest.")
    return shown


class _Began(NamedTuple):
    """The steps that a process began, after how many seconds, and how it ended."""

    steps: list[str]
    waited: float
    exit_code: int


def _run(directory: Path, say: Callable[[str], None], kill_in: str | None = None) -> _Began:
    """Run the program; kill it in that step."""
    steps: list[str] = []
    waited, started = 0.0, time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - this interpreter, our program
        [sys.executable, _PROGRAM],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            say(f"   {line.rstrip()}")
            if not line.endswith(" ...\n"):
                continue
            waited = waited or time.perf_counter() - started
            steps.append(line.split()[0])
            if steps[-1] == kill_in:
                process.kill()
    return _Began(steps, waited, process.returncode)


def _part(source: str, beginning: str) -> list[str]:
    """The lines of the program from this one on, up to the next empty one."""
    rest = source[source.index(beginning) :]
    return rest.split("\n\n")[0].splitlines()
