"""Commands as steps: executed, with the exit code recorded as evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engine.context import current_step
from holdfast.errors import CommandFailedError

if TYPE_CHECKING:
    from holdfast.evidence import CommandResult

Argv = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a step runs, without a shell. Its exit code is claimed with the step."""

    argv: Argv | Callable[..., Argv]  # or a function of what the step is given
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    timeout: float | None = None
    exit_codes: Collection[int] = (0,)
    tail: int = 65_536  # bytes to keep of each output

    def __post_init__(self) -> None:
        if isinstance(self.argv, str | bytes) or not (callable(self.argv) or len(self.argv)):
            raise TypeError("a command is a list of words, such as ['make', 'report']")

    @property
    def name(self) -> str:
        """What a step that runs it is called, unless it is given a name."""
        return "command" if callable(self.argv) else os.path.basename(os.fspath(self.argv[0]))  # noqa: PTH119 - of text

    def run(self, *given: Any) -> CommandResult:
        """Run it in the current step. Raises `CommandFailedError` for any other exit code. Blocks.

        If the run is cancelled meanwhile, or it takes too long, it is killed with all it started.
        """
        from holdfast.evidence import command_evidence, run_command

        step = current_step()
        argv = self.argv(*given) if callable(self.argv) else self.argv
        result = run_command(
            argv, cwd=self.cwd, env=self.env, timeout=self.timeout, tail=self.tail,
            stop=lambda: step.cancelled,
        )  # fmt: skip
        if result.exit_code is None or result.exit_code not in self.exit_codes:
            raise CommandFailedError(result.argv, result.exit_code, result.stderr)
        step.claim(command_evidence(result, exit_code=result.exit_code))
        return result
