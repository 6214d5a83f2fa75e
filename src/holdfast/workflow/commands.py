"""Steps that run a command."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from holdfast.engine.claims import PathLike, Paths
from holdfast.engine.command import Argv, Command
from holdfast.workflow.decorator import step
from holdfast.workflow.step import Step

if TYPE_CHECKING:
    from holdfast.evidence import CommandResult


def command(
    argv: Argv,
    *,
    name: str | None = None,
    outputs: Paths = (),
    reads: Paths = (),
    removes: Paths = (),
    cwd: PathLike | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    exit_codes: Collection[int] = (0,),
    tail: int = 65_536,
) -> Step[CommandResult]:
    """A step that runs a command, `command(["make", "report"], outputs=["report.md"])`.

    Returns a `CommandResult`: exit code, duration, and the last `tail` bytes of each output, in
    whole lines; `truncated` says whether there was more. The exit code is recorded as evidence;
    one that is not in `exit_codes` fails the step. No shell is used. The paths claimed are relative
    to the program, as everywhere, and not to the command's `cwd`.
    """
    from holdfast.evidence import CommandResult

    named = Command(argv, cwd, env, timeout, exit_codes, tail).name
    words = tuple(os.fspath(word) for word in argv)
    runs = Command(lambda *words: words, cwd, env, timeout, exit_codes, tail)
    made = step(name or named).python(runs.run, args=words, outputs=outputs)
    return made.reads(reads).removes(removes).returns(CommandResult)
