"""What the workers of the tests execute."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.integrations.dask import run_on
from holdfast.workflow import ask, for_each, step, workflow
from tests.waiting import wait_until


@dataclass
class Port:
    name: str
    depth: float = 0.0


@step
def note(path: str, line: str) -> str:
    """Write down that this was executed."""
    with Path(path).open("a") as file:
        file.write(line + "\n")
    return line


@step
def wait_for(path: str) -> int:
    began = Path(f"{path}.new")
    began.write_text(str(os.getpid()))
    began.rename(f"{path}.pid")
    wait_until(Path(path).exists)
    return os.getpid()


@step
def deepen(port: Port) -> Port:
    return Port(port.name, port.depth + 1.5)


@workflow
async def survey(port: Port, times: int = 2) -> Port:
    for _ in range(times):
        port = await deepen(port)
    return port


@workflow
async def killed_between(notes: str, gate: str) -> tuple[str, int]:
    """Two steps that are noted, and one in between that lasts until a file is there."""
    first = await note(notes, "first")
    pid = await wait_for(gate)
    await note(notes, "last")
    return first, pid


@workflow
async def spreading(resources: dict[str, float]) -> list[int]:
    return await for_each([2, 3], square, run_on=run_on(resources=resources))


class OddError(Exception):
    """Can't be pickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one} {two}")
        self.lock = threading.Lock()


@step
def fail_oddly() -> None:
    raise OddError(1, 2)


@workflow
async def failing() -> None:
    await fail_oddly()


@workflow
async def failing_itself() -> None:
    raise OddError(3, 4)


@step
def once_only(mark: str) -> str:
    if not Path(mark).exists():
        Path(mark).touch()
        raise ValueError("not yet")
    return "done"


@workflow
async def fails_at_first(mark: str) -> str:
    return await once_only(mark)


@workflow
async def approved() -> bool:
    return await ask("May we?", returns=bool)


@dataclass
class Tally:
    count: int = 0


def add(state: Tally) -> dict[str, Any]:
    return {"count": state.count + 1}


counting = Graph(Tally).add_node("add", add).set_entry("add").add_edge("add", END).compile()

# --- steps that run on workers by themselves


def square(n: int) -> int:
    return n * n


def pid(_: object = None) -> int:
    return os.getpid()


def raise_oddly() -> None:
    raise OddError(5, 6)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def mark_and_wait(directory: str, item: int) -> tuple[int, int]:
    """Note that it began, and wait until it may end."""
    (Path(directory) / f"began-{item}-{os.getpid()}").touch()
    wait_there(directory)
    return item, hf.current_step().attempt


def wait_there(directory: str) -> str:
    """Until the test says "go", or is over: nobody can stop a worker's thread."""
    place = Path(directory)
    wait_until(lambda: (place / "go").exists() or not place.exists())
    return "waited"


def hold(directory: str, item: int) -> int:
    """Note how many of these run at once."""
    place = Path(directory) / f"running-{item}"
    place.touch()
    running = len(list(Path(directory).glob("running-*")))
    time.sleep(0.01)
    place.unlink()
    return running
