"""The web UI: how soon it answers, with many runs and with a long one, and what watching costs.

python -m bench.ui [--runs 100000] [--steps 10000] [--json FILE] [--dir DIRECTORY]

`holdfast ui` is a process of its own, asked over HTTP by one client. The floor is a file that it
serves, and `holdfast --version` for its start. A tenth of the runs are those of a workflow, the
newest; the others are saved directly.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final
from urllib.parse import urlsplit

from tests.web.serving import Served, serve

import holdfast as hf
from bench.report import (
    Goal,
    arguments,
    as_json,
    environment,
    print_goals,
    print_table,
    quantile,
    scratch,
    show,
    write,
)
from holdfast.workflow import for_each, step, workflow

START_SECONDS: Final = 0.5
FIRST_BYTE_MS: Final = 150.0
LISTENERS: Final = 20
_REPETITIONS: Final = 15
_STARTS: Final = 5
_BATCH: Final = 1000
_WATCHED_SECONDS: Final = 5
_FLOOR: Final = "a file"
_TICK: Final = os.sysconf("SC_CLK_TCK")
_SAVES: Final = """
import sys, time, holdfast
until, number = time.monotonic() + float(sys.argv[2]), 0
with holdfast.SyncCheckpointer(sys.argv[1]) as cp:
    while time.monotonic() < until:
        cp.save(f"busy-{number % 50}", {"n": number}, step="work")
        number += 1
        time.sleep(0.01)
"""


@step(inline=True)
def reserve(number: int) -> dict[str, Any]:
    return {"order": number, "shelf": f"B{number % 40}"}


@step(inline=True)
def charge(number: int) -> dict[str, Any]:
    if number % 25 == 0:
        raise ValueError("insufficient funds")
    return {"order": number, "amount": number % 300}


@workflow
async def order(number: int) -> dict[str, Any]:
    await reserve(number)
    return await charge(number)


@step(inline=True)
def fetch(number: int) -> dict[str, Any]:
    return {"url": f"https://kelp.example/{number}", "words": number % 900}


@workflow
async def crawl(pages: int) -> int:
    for number in range(pages // 2):
        await fetch(number)
    return len(await for_each(list(range(pages // 2)), fetch, concurrency=50))


def main() -> None:
    """Fill a store, ask for each page in turn, print, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=100_000, help="how many runs there are")
    parser.add_argument("--steps", type=int, default=10_000, help="how many the long one has")
    options = parser.parse_args()
    before = environment()
    with scratch(options.dir) as directory:
        store = directory / "runs.db"
        began = perf_counter()
        asyncio.run(_fill(store, options.runs, options.steps))
        print(f"{options.runs:,} runs, one of {options.steps:,} steps: ", end="")
        print(f"filled in {perf_counter() - began:.0f} s", flush=True)
        starts = _starts(store)
        print_table(["", "seconds"], [[name, show(value)] for name, value in starts.items()])
        with serve(store) as served:
            pages = _first_bytes(served)
            watching = _watching(served, store)
    rows = [
        [name, *(show(each[quantity]) for quantity in ("p50_ms", "max_ms", "cpu_ms", "kb"))]
        for name, each in pages.items()
    ]
    print_table(["page", "p50 ms", "max ms", "CPU ms", "KB"], rows)
    print_table(["watching", ""], [[name, show(value)] for name, value in watching.items()])
    goals = _goals(starts, pages, watching)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": before,
            "runs": options.runs,
            "steps": options.steps,
            "start_seconds": starts,
            "first_byte": pages,
            "watching": watching,
            "goals": as_json(goals),
        },
    )


async def _fill(store: Path, runs: int, steps: int) -> None:
    async with hf.Checkpointer(store) as cp:
        for first in range(0, runs - runs // 10, _BATCH):
            numbers = range(first, min(first + _BATCH, runs - runs // 10))
            await cp.save_many(
                [
                    {
                        "run_id": f"import-{number}",
                        "state": {"n": number},
                        "step": "load",
                        "owner": f"owner-{number % 50}",
                    }
                    for number in numbers
                ]
            )
        engine = hf.Engine(cp, flows=[order, crawl])
        await engine.run(crawl(steps), run_id="crawl-kelp")
        for first in range(0, runs // 10, _BATCH):
            numbers = range(first, min(first + _BATCH, runs // 10))
            orders = (engine.run(order(n), run_id=f"order-{n}", owner="ann") for n in numbers)
            await asyncio.gather(*orders, return_exceptions=True)


def _starts(store: Path) -> dict[str, float]:
    """Seconds until the first answer, beside those of a command that only says its version."""
    ours, floor = [], []
    for _ in range(_STARTS):
        began = perf_counter()
        with serve(store) as served:
            assert _ask(served, "/runs")[0] == 200
            ours.append(perf_counter() - began)
        began = perf_counter()
        command = [sys.executable, "-m", "holdfast", "--version"]
        subprocess.run(command, check=True, capture_output=True)
        floor.append(perf_counter() - began)
    return {"holdfast ui, its first page": median(ours), "holdfast --version": median(floor)}


def _pages() -> dict[str, str]:
    tabs = ("timeline", "graph", "state", "evidence", "journal", "forks")
    return {
        _FLOOR: "/static/style.css",
        "runs": "/runs",
        "runs, failed": "/runs?status=failed",
        "runs, of a flow": "/runs?flow=order",
        "runs, of an owner": "/runs?owner=owner-7",
        "runs, searched": "/runs?q=order-77",
        **{f"a small run, {tab}": f"/runs/order-77?tab={tab}" for tab in tabs},
        **{f"the long run, {tab}": f"/runs/crawl-kelp?tab={tab}" for tab in tabs},
        "a step of the long run": "/runs/crawl-kelp?step=fetch%23700",
        "compare": "/compare?a=crawl-kelp@9000&b=crawl-kelp@9001",
        "inbox": "/inbox",
        "overview": "/overview",
        "API: runs": "/api/v1/runs",
        "API: a small run": "/api/v1/runs/order-77",
        "API: the long run": "/api/v1/runs/crawl-kelp",
        "metrics": "/metrics",
    }


def _first_bytes(served: Served) -> dict[str, dict[str, float]]:
    """Milliseconds until the first byte of each page's body is there, and of the server's CPU."""
    pages = _pages()
    times: dict[str, list[float]] = {name: [] for name in pages}
    sizes: dict[str, float] = {}
    spent = dict.fromkeys(pages, 0.0)
    for _ in range(_REPETITIONS):
        for name, path in pages.items():
            before = _cpu_seconds(served.pid)
            status, taken, size = _ask(served, path)
            assert status == 200, f"{path}: {status}"
            spent[name] += _cpu_seconds(served.pid) - before
            times[name].append(taken * 1000)
            sizes[name] = size / 1000
    return {
        name: {
            "p50_ms": median(taken),
            "max_ms": max(taken),
            "p95_ms": quantile(taken, 0.95),
            "first_ms": taken[0],
            "cpu_ms": 1000 * spent[name] / _REPETITIONS,
            "kb": sizes[name],
        }
        for name, taken in times.items()
    }


def _ask(served: Served, path: str) -> tuple[int, float, int]:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=120)
    try:
        began = perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        first = answer.read(1)
        taken = perf_counter() - began
        return answer.status, taken, len(first) + len(answer.read())
    finally:
        connection.close()


def _watching(served: Served, store: Path) -> dict[str, float]:
    """Per cent of a core that the server uses while browsers look on, and nothing happens or much."""
    found = {"nobody, % of a core": _busy(served)}
    with ExitStack() as stack:
        for _ in range(LISTENERS):
            stack.enter_context(_listening(served))
        sleep(1)
        found[f"{LISTENERS} pages, nothing happens, % of a core"] = _busy(served)
        saver = [sys.executable, "-c", _SAVES, str(store), str(_WATCHED_SECONDS + 2)]
        with subprocess.Popen(saver) as saving:
            sleep(1)
            found[f"{LISTENERS} pages, 100 saves/s, % of a core"] = _busy(served)
            saving.wait()
    return found


@contextmanager
def _listening(served: Served) -> Iterator[None]:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=120)
    connection.request("GET", "/events")
    assert connection.getresponse().status == 200
    try:
        yield
    finally:
        with suppress(OSError):
            connection.close()


def _busy(served: Served) -> float:
    before = _cpu_seconds(served.pid)
    sleep(_WATCHED_SECONDS)
    return 100 * (_cpu_seconds(served.pid) - before) / _WATCHED_SECONDS


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _goals(
    starts: Mapping[str, float],
    pages: Mapping[str, Mapping[str, float]],
    watching: Mapping[str, float],
) -> list[Goal]:
    started = next(iter(starts.values()))
    idle = watching.get(f"{LISTENERS} pages, nothing happens, % of a core")
    return [
        Goal("holdfast ui answers after its start", "s", START_SECONDS, started),
        *(
            Goal(f"first byte: {name}", "ms", FIRST_BYTE_MS, pages.get(name, {}).get("p50_ms"))
            for name in _pages()
            if name != _FLOOR
        ),
        Goal(f"{LISTENERS} pages that watch nothing happen", "% of a core", 5.0, idle),
    ]


if __name__ == "__main__":
    main()
