"""Saving to servers, side by side with their own drivers and LangGraph's savers.

python -m bench.servers [--quick] [--only WORD] [--json FILE]

What is compared stands in `server_systems`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from time import process_time

from tests.servers import postgres

from bench.clock import US
from bench.inputs import KB, MB, fresh_steps
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    over,
    print_goals,
    print_measured,
    scratch,
    write,
)
from bench.saves import chat_on
from bench.server_systems import (
    HAS_LANGGRAPH,
    HAS_REDIS_SAVER,
    NO_LANGGRAPH,
    NO_REDIS_SAVER,
    SERVERS,
    Batches,
    Connected,
    PostgresDriver,
    Saver,
    postgres_bytes,
    postgres_log_position,
)
from bench.systems import Blocking, HoldfastAwaited, Together, cycle

CHAT = "PostgreSQL, chat of 1,000 turns"
SAVERS = (1, 100)
SIZES = (2, 100)  # KB


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", default="", help="only workloads whose name holds this")
    options = parser.parse_args()
    if not HAS_LANGGRAPH:
        print(NO_LANGGRAPH)
    if not HAS_REDIS_SAVER:
        print(NO_REDIS_SAVER)
    before = environment()
    results: dict[str, Measured] = {}
    with scratch(options.dir) as directory:
        for name, trials in _workloads().items():
            if options.only in name:
                results[name] = interleave(directory, 3 if options.quick else 7, trials)
                print_measured(name, results[name])
    goals = _goals(results)
    print()
    print_goals(goals)
    write(options.json, {"environment": before, "results": results, "goals": as_json(goals)})


def _workloads() -> dict[str, dict[str, Trial]]:
    saving = {
        _name(server, savers, size): _saving(server, savers, size * KB)
        for server in SERVERS
        for savers in SAVERS
        for size in SIZES
    }
    return saving | {CHAT: _chats()}


def _name(server: str, savers: int, size: int) -> str:
    return f"{server}, {savers} at once, {size} KB"


def _saving(server: str, savers: int, size: int) -> dict[str, Trial]:
    """Runs saved to at the same time, each one step after the other; opening them is not counted."""
    names = [f"run-{number}" for number in range(savers)]
    saves = max(5, 6_000_000 // (size * savers)) if savers > 1 else 50
    new_url, driver, others = SERVERS[server]

    def trial(kind: Callable[[str], Together]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            with closing(kind(new_url(path))) as system:
                system.together(names, fresh_steps(size)[:1])
                cpu = process_time()
                seconds = system.together(names, list(cycle(fresh_steps(size), saves)))
                cpu = process_time() - cpu
            count = savers * saves
            return {"saves_per_s": count / seconds, "cpu_us": cpu / count * US}

        return measure

    kinds = {"driver": driver, "store": Batches, "holdfast": HoldfastAwaited, **others}
    return {name: trial(kind) for name, kind in kinds.items()}


def _chats() -> dict[str, Trial]:
    def trial(kind: Callable[[str], Blocking]) -> Trial:
        def measure(_: Path) -> dict[str, float]:
            url = postgres.new_database()
            logged = -postgres_log_position(url)

            def size() -> int:
                nonlocal logged
                logged += postgres_log_position(url)
                return postgres_bytes(url)

            return {**chat_on(partial(kind, url), size), "log_mb": logged / MB}

        return measure

    kinds = {"driver": PostgresDriver, "holdfast": Connected}
    return {
        name: trial(kind)
        for name, kind in (kinds | ({"PostgresSaver": Saver} if HAS_LANGGRAPH else {})).items()
    }


def _goals(results: dict[str, Measured]) -> list[Goal]:
    many, chat = (results.get(name, Measured()) for name in (_name("PostgreSQL", 100, 2), CHAT))
    rate, x = "saves_per_s", "x"
    return [
        Goal("PostgreSQL, 100 at once, 2 KB, over AsyncPostgresSaver", x, 10,
             many.paired("holdfast", "AsyncPostgresSaver", rate, over), at_least=True),
        *(Goal(f"{server}, batches of 100, {size} KB, over the driver's", x, 0.6,
               results.get(_name(server, 100, size), Measured())
               .paired("store", "driver", rate, over), at_least=True)
          for server in SERVERS for size in SIZES),
        Goal("PostgreSQL, chat, bytes on disk", "MB", 1.0, chat.median("holdfast", "disk_mb")),
        Goal("PostgreSQL, chat, load cold", "ms", 2.0, chat.median("holdfast", "load_cold_ms")),
        Goal("PostgreSQL, chat, load cold, over PostgresSaver", x, 0.6,
             chat.paired("holdfast", "PostgresSaver", "load_cold_ms", over)),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
