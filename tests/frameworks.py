"""The programs of the guide to other frameworks, with a flow that is killed in its second step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.test_docs import ROOT, blocks

_FLOW = """
import os
import signal
from pathlib import Path

from holdfast.workflow import ask, step, workflow

HERE = Path(__file__).parent


def note(what: str) -> None:
    with (HERE / "effects").open("a") as file:
        file.write(what + "\\n")


@step
def fetch(place: str) -> list[float]:
    note("fetch")
    return [1.5, 3.5, 2.5]


@step
def average(levels: list[float]) -> float:
    note("average")
    how = HERE / "next-time"
    if how.exists():
        told = how.read_text()
        how.unlink()
        if told == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("told to fail")
    return sum(levels) / len(levels)


@workflow
async def report(place: str) -> str:
    levels = await fetch(place)
    return f"{place}: {await average(levels)} m"


@workflow
async def publication(place: str) -> str:
    text = await report(place)
    return text if await ask("Publish it?", returns=bool, name="publish") else "kept"
"""


def install(place: Path) -> None:
    """Write the programs of the guide, and a flow of the same names that notes what it does."""
    for block in blocks((ROOT / "docs/guides/frameworks.md").read_text()):
        if block.mark is not None and block.mark[0] == "file":
            (place / block.mark[1]).write_text(block.text)
    (place / "tides.py").write_text(_FLOW)


def next_time(place: Path, what: str) -> None:
    """The next time, the second step is to `die` with its process, or to `fail`."""
    (place / "next-time").write_text(what)


def effects(place: Path) -> Counter[str]:
    """How often each step was executed."""
    file = place / "effects"
    return Counter(file.read_text().split()) if file.exists() else Counter()
