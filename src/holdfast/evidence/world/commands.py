"""Runs a command and records how it ended."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final

_CHUNK: Final = 1 << 16
_POLL_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended, and the end of what it wrote."""

    argv: tuple[str, ...]
    exit_code: int | None  # None if it timed out or was stopped; negative: ended by that signal
    duration: float
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False  # one of them lost its beginning

    @property
    def timed_out(self) -> bool:
        """Whether it was killed at its timeout, or stopped."""
        return self.exit_code is None

    def recorded(self) -> dict[str, Any]:
        """What a claim keeps of it: how it ended, not its output."""
        return {"exit_code": self.exit_code, "duration": round(self.duration, 6)}


def run_command(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    tail: int = 65_536,
    stop: Callable[[], bool] | None = None,
) -> CommandResult:
    """Run a command, without a shell and without input, and say how it ended.

    After `timeout` seconds, or once `stop` says so, the command and all that it started are
    killed; `exit_code` is None then. Processes it leaves in the background are not waited for. Keeps the last `tail` bytes of each output, in whole lines unless one is longer than that;
    `truncated` says whether anything was lost. Raises `OSError` if the command can't be started,
    `TypeError` for a string, which would need a shell.
    """
    if isinstance(argv, str | bytes):
        raise TypeError("argv is a list of words, such as ['make', 'report']; no shell is used")
    words = tuple(os.fspath(word) for word in argv)
    if not words:
        raise ValueError("argv is empty")
    if tail < 0:
        raise ValueError(f"tail is a number of bytes to keep, not {tail}")
    start = time.monotonic()
    end = None if timeout is None else start + timeout
    process = subprocess.Popen(  # noqa: S603 - running the caller's command is what it is for
        words,
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            out, err, late = _follow(process, end, tail, stop)
        except BaseException:
            _kill(process)
            raise
        if late:
            _kill(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        code = process.wait()
    return CommandResult(
        words,
        None if late else code,
        time.monotonic() - start,
        _whole_lines(out, tail),
        _whole_lines(err, tail),
        max(len(out), len(err)) > tail,
    )


def _follow(
    process: subprocess.Popen[bytes],
    end: float | None,
    tail: int,
    stop: Callable[[], bool] | None,
) -> tuple[bytes, bytes, bool]:
    """The ends of both outputs, with a byte more than `tail` where there was more, and whether the
    command was still running at the end."""
    kept: dict[int, bytearray] = {}
    ended: float | None = None
    with selectors.DefaultSelector() as selector:
        pipes: list[IO[bytes]] = [pipe for pipe in (process.stdout, process.stderr) if pipe]
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
            kept[pipe.fileno()] = bytearray()
        numbers = [pipe.fileno() for pipe in pipes]
        while True:
            now = time.monotonic()
            if ended is None and process.poll() is not None:
                ended = now
            open_pipes = selector.get_map()
            if ended is not None and (not open_pipes or now > ended + _GRACE_SECONDS):
                break
            if ended is None and ((end is not None and now >= end) or (stop and stop())):
                break
            wait = _POLL_SECONDS if end is None else min(_POLL_SECONDS, max(0.0, end - now))
            if not open_pipes:
                time.sleep(wait)
                continue
            for key, _ in selector.select(wait):
                part = os.read(key.fd, _CHUNK)
                if not part:
                    selector.unregister(key.fileobj)
                kept[key.fd] += part
                del kept[key.fd][: max(0, len(kept[key.fd]) - tail - 1)]
    return bytes(kept[numbers[0]]), bytes(kept[numbers[1]]), ended is None


def _whole_lines(kept: bytes, tail: int) -> str:
    """The text, from the beginning of a line if it lost its own."""
    if len(kept) > tail:
        begins = kept.find(b"\n", 0, -1) + 1  # 0: it is the end of one long line
        kept = kept[begins or 1 :]
    return kept.decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
