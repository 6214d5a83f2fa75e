"""Saving and loading, side by side with SQLite's own floors and LangGraph's savers.

python -m bench.kernel [--quick] [--only WORD] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bench import workloads
from bench.inputs import KB, MB
from bench.once import syncs_per_save
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    minus,
    over,
    print_goals,
    print_measured,
    print_syncs,
    scratch,
    write,
)
from bench.systems import (
    HAS_LANGGRAPH,
    NO_LANGGRAPH,
    SYSTEMS,
    Holdfast,
    default_synchronous,
)

OURS, AWAITED, FLOOR = "holdfast", "holdfast, awaited", "floor"
PUT, CHAT, TINY, CONCURRENT = "put 2 KB", "chat of 1,000 turns", "1 MB, tiny change", "100 runs"


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", default="", help="only workloads whose name holds this")
    options = parser.parse_args()
    if not HAS_LANGGRAPH:
        print(NO_LANGGRAPH)
    results: dict[str, Measured] = {}
    with scratch(options.dir) as directory:
        survives = _survives(directory)
        syncs = {name: syncs_per_save(name, _made(directory / name)) for name in SYSTEMS}
        _print_durability(survives, syncs)
        for name, (repetitions, trials) in _workloads(options.quick).items():
            if options.only in name:
                results[name] = interleave(directory, repetitions, trials)
                print_measured(name, results[name])
    goals = _goals(results)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": environment(),
            "survives": survives,
            "syncs_per_save": syncs,
            "synchronous_before_we_set_full": default_synchronous(),
            "results": results,
            "goals": as_json(goals),
        },
    )


def _workloads(quick: bool) -> dict[str, tuple[int, dict[str, Trial]]]:
    """Every workload by name, with the number of its repetitions."""
    few, many = (3, 15) if quick else (7, 25)
    return {
        PUT: (many, workloads.put(2 * KB, 20)),
        "put 100 KB": (few, workloads.put(100 * KB, 20)),
        "put 1 MB": (few, workloads.put(MB, 10)),
        CHAT: (few, workloads.conversation()),
        TINY: (few, workloads.tiny_change(MB, 50)),
        CONCURRENT: (few, workloads.concurrent(100, 20 if quick else 50, 2 * KB)),
        "memory, 1 KB": (many, workloads.in_memory(KB, 500)),
    }


def _goals(results: dict[str, Measured]) -> list[Goal]:
    """The goals of DESIGN, section 10, that these workloads can show."""
    put, chat, tiny, concurrent = (
        results.get(name, Measured()) for name in (PUT, CHAT, TINY, CONCURRENT)
    )
    ms, mb, x = "ms", "MB", "x"
    return [
        Goal("durable step, blocking, beyond one commit", ms, 0.1,
             put.paired(OURS, FLOOR, "save_ms", minus)),
        Goal("durable step, awaited, beyond one commit", ms, 0.2,
             put.paired(AWAITED, FLOOR, "save_ms", minus)),
        Goal("chat, bytes on disk", mb, 1.0, chat.median(OURS, "disk_mb")),
        Goal("chat, save time without encoding, over the floor", x, 1.5,
             _without_encoding(chat).paired(OURS, FLOOR, "total_s", over)),
        Goal("chat, encoding of 1 KB", "us", 0.6, chat.median("encoding", "us_per_kb")),
        Goal("chat, load hot, over SqliteSaver", x, 1.0,
             chat.paired(OURS, "SqliteSaver", "load_hot_ms", over)),
        Goal("chat, load cold", ms, 2.0, chat.median(OURS, "load_cold_ms")),
        Goal("1 MB, tiny change, beyond one commit", ms, 0.8,
             tiny.paired(OURS, FLOOR, "save_ms", minus)),
        Goal("1 MB, 50 tiny changes, bytes on disk", mb, 1.1, tiny.median(OURS, "disk_mb")),
        Goal("100 runs at once, over AsyncSqliteSaver", x, 10,
             concurrent.paired(AWAITED, "AsyncSqliteSaver", "saves_per_s", over), at_least=True),
        Goal("100 runs at once, over group commit", x, 0.6,
             concurrent.paired(AWAITED, "group commit", "saves_per_s", over), at_least=True),
    ]  # fmt: skip


def _without_encoding(chat: Measured) -> Measured:
    """The chat as if states came encoded, as they do for the floor."""
    if OURS not in chat:
        return chat
    ours = map(minus, chat[OURS]["total_s"], chat["encoding"]["total_s"])
    return Measured({OURS: {"total_s": list(ours)}, FLOOR: chat[FLOOR]})


def _survives(directory: Path) -> str:
    with closing(Holdfast(directory / "survives.db")) as system:
        return system.checkpointer.store.survives()


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _print_durability(survives: str, syncs: dict[str, float | None]) -> None:
    """Durable means that the fsync was seen."""
    print(
        f"\ndurability: what is saved here survives {survives.replace('-', ' ')}; "
        f"SqliteSaver's connections came with synchronous={default_synchronous()}, "
        "all are set to FULL (2)"
    )
    print_syncs("save", syncs)


if __name__ == "__main__":
    main()
