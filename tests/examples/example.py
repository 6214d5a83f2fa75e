"""An example that is killed again and again, and what must be true of it each time."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Final

import holdfast as hf
from tests.crash.harness import fork_server

ROOT: Final = Path(__file__).parents[2]
MOST_KILLS: Final = 60


class Example:
    """One program with its arguments, in a directory of its own."""

    def __init__(self, directory: Path, name: str, *arguments: str, store: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.store = store if "://" in store else str(directory / store)
        self._notes = directory / "notes"
        self._command = [str(ROOT / "examples" / name), *arguments]

    def run(self, *more: str, kill_at: int = 0) -> str | None:
        """The last line that it prints; None if it was killed."""
        server = fork_server("tests.examples.launcher")
        output, errors = self.directory / "output", self.directory / "errors"
        pid = server.start(
            command=[*self._command, *more], directory=str(self.directory), output=str(output),
            errors=str(errors), notes=str(self._notes), kill_at=kill_at,
        )  # fmt: skip
        status = server.wait(pid)
        if kill_at and status == -signal.SIGKILL:
            return None
        assert status == 0, errors.read_text()
        return output.read_text().strip().rpartition("\n")[2]

    def run_to_the_end(self, kill_at: int) -> str:
        """Kill it in every process at that moment, until it comes to its end before it.

        What was recorded when it was killed must not begin again.
        """
        for _ in range(MOST_KILLS):
            recorded, before = self.recorded(), self.begun()
            last = self.run(kill_at=kill_at)
            again = {step for step in recorded if self.begun()[step] > before[step]}
            assert not again, "finished steps were run again"
            if last is not None:
                assert before, "it was never killed"
                return last
        raise AssertionError("it does not come to its end")

    def recorded(self) -> set[str]:
        """The steps whose outcome is in the store."""
        if "://" not in self.store and not Path(self.store).exists():
            return set()
        steps: Counter[str] = Counter()
        with hf.SyncCheckpointer(self.store) as cp:
            for run in cp.runs():
                assert cp.verify(run.run_id).ok
                infos = cp.list_checkpoints(run.run_id)
                steps.update(
                    info.step for info in infos if info.step and info.status == "completed"
                )
        # A node of a graph is saved under its name each time that it runs.
        return {
            step if number == 1 else f"{step}#{number}"
            for step, times in steps.items()
            for number in range(1, times + 1)
        }

    def begun(self) -> Counter[str]:
        """How often each step began."""
        return self._noted("began") - self._noted("chose")

    def _noted(self, what: str) -> Counter[str]:
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return Counter(line.partition(" ")[2] for line in lines if line.startswith(what))
