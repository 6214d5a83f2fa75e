"""The goals for speed and size, each measured beside floors and peers, in one run.

python -m bench.goals [--quick] [--only WORD] [--json FILE] [--dir DIRECTORY]

`bench.page` writes the page from the JSON. How each is measured stands in `bench.workloads`.
"""

from __future__ import annotations

import os
import pstats
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.clock import PROFILE
from bench.fresh import syncs_per_save, syncs_per_step
from bench.inputs import KB, MB
from bench.line import OURS, Line
from bench.peers import ENGINES, installed, left_out
from bench.report import (
    Measured,
    arguments,
    environment,
    print_measured,
    print_syncs,
    print_table,
    scratch,
    show,
    write,
)
from bench.systems import HAS_LANGGRAPH, NO_LANGGRAPH, SYSTEMS
from bench.workloads import FULL, QUICK, Sizes, Workload, workloads

AWAITED: Final = "holdfast, awaited"
SAVER, MEMORY_SAVER, LANGGRAPH, DBOS = "SqliteSaver", "InMemorySaver", "LangGraph", "DBOS"
ENGINE_PEERS: Final = ("LangGraph, sync", DBOS, "DBOS, WAL")
DESIGNED: Final = FULL  # the sizes that the limits below are for
_TOP: Final = 12  # functions of a profile
_ALL_NEW: Final = (
    "LangGraph's saver neither compares, compresses nor hashes what it stores. Half of ours is zstd; "
    "but to leave it out would gain a tenth, for hashing and writing twice the bytes takes the rest."
)
_CALLS: Final = (
    "No function takes 5 % of it: it is about a hundred calls for each step, and five hundred for the "
    "start and the end of a run. Fewer layers between a step and the journal, or compiled ones."
)
_TO_THE_WRITER: Final = (
    "Beyond the commit, half of it is the step's own Python, and half is handing its entry to the "
    "writer and being told. A commit in the caller's thread, when nobody else saves."
)
_REPLAY: Final = (
    "A third reads and proves entries; the rest executes the workflow function and makes its steps "
    "again, to find the place where it goes on. A workflow that says where it is needs no replay."
)
_COMPARED: Final = (
    "A node may have changed anything, so the state is encoded again and compared, and what is "
    "handed to the next node is a copy. Fields that can't change would need neither."
)
_OF_LANGGRAPH: Final = "Most of a turn is LangGraph itself, whatever the saver does."


def lines(sizes: Sizes) -> list[Line]:
    """Every goal, at the sizes that are measured; limits that grow with them are scaled."""
    return [
        *_steps(sizes),
        *_saves(sizes),
        *_long(sizes),
        *_large(sizes),
        *_many(sizes),
        *_agents(sizes),
        *_trust(sizes),
    ]


def _steps(sizes: Sizes) -> list[Line]:
    section = "Steps"
    return [
        Line(section, "step of a graph in memory, CPU", "graph", "cpu_us", "µs", 30,
             peers=(LANGGRAPH,), takes=_CALLS),
        Line(section, "step of a graph in memory, CPU, beside LangGraph", "graph", "cpu_us", "µs", 12, "times", LANGGRAPH,
             takes=_CALLS),
        Line(section, "step of a graph in memory, events followed, CPU", "graph", "cpu_us", "µs", 60,
             ours="holdfast, events", peers=("LangGraph, events",),
             takes=f"{_CALLS} A step that is followed also has a task of its own."),
        Line(section, "100 runs at once, durable steps a second", "runs at once", "steps_per_s",
             "/s", 9000, ours=AWAITED, peers=(*ENGINE_PEERS, "group commit"), more=True, takes=_CALLS),
        Line(section, "durable step, blocking", "workflow", "step_ms", "ms", 0.15, "beyond",
             "floor", peers=ENGINE_PEERS, takes=_TO_THE_WRITER),
        Line(section, "durable step, awaited", "workflow", "step_ms", "ms", 0.25, "beyond",
             "floor", ours=AWAITED, peers=ENGINE_PEERS, takes=_TO_THE_WRITER),
        Line(section, "step of a workflow, builder alone, CPU", "builder", "cpu_us", "µs", 5),
        Line(section, "killed by `kill -9`, from a new process's start to done", "kill -9",
             "done_s", "s", 0.25, ours=AWAITED, peers=(*ENGINE_PEERS, "python itself"),
             takes="Most of it is starting Python and importing modules: fewer and smaller ones."),
    ]  # fmt: skip


def _saves(sizes: Sizes) -> list[Line]:
    section, turns = "Saves and loads", sizes.turns[-1]
    at_once = min(100, sizes.at_once[-1])
    chat = f"chat of {turns:,} turns"
    return [
        Line(section, f"{at_once} runs at once, 2 KB saves a second", "saves at once",
             f"saves_per_s@{at_once}", "/s", 12, "times", "AsyncSqliteSaver", ours=AWAITED,
             peers=("group commit",), more=True, takes=_CALLS),
        Line(section, "save of 1 KB in memory, CPU", "save in memory", "cpu_us", "µs", 10,
             peers=(MEMORY_SAVER,),
             takes="Half of it encodes the state, proves it and makes its entry; the rest is some "
             "fifty calls between `save` and the store."),
        Line(section, f"{chat}: load, hot, CPU", "chat", "load_hot_cpu_ms", "ms", 0.5, peers=(SAVER, "floor")),
        Line(section, f"{chat}: load, cold, CPU", "chat", "load_cold_cpu_ms", "ms", 1.2,
             peers=(SAVER, "floor"),
             takes="A cold load reads the changes since the last whole state, decompresses, proves and "
             "applies each. About 0.8 ms is the least that proofs and compression leave; LangGraph "
             "reads one row, checks nothing, and stores some 280 times as many bytes."),
        Line(section, f"{chat}: bytes", "chat", f"disk_mb@{turns}", "MB",
             0.7 * turns / DESIGNED.turns[-1], peers=(SAVER, "floor")),
    ]  # fmt: skip


def _long(sizes: Sizes) -> list[Line]:
    section = "Long histories"
    steps, long = sizes.resumed[-1], sizes.long_resume
    share = long / DESIGNED.long_resume
    few, checkpoints = sizes.forked[0], sizes.forked[-1]
    least, most = sizes.verified[0], sizes.verified[-1]
    short, length = sizes.pipeline[0], sizes.pipeline[-1]
    return [
        Line(section, f"resume by replay, {steps:,} steps, for each, CPU", "resume",
             f"cpu_us@{steps}", "µs", 25, ours=AWAITED, peers=("DBOS, WAL",), takes=_REPLAY),
        Line(section, f"resume by replay, {long:,} steps", "long resume", f"resume_s@{long}", "s",
             4 * share, ours=AWAITED, takes=_REPLAY),
        Line(section, f"resume by replay, {long:,} steps, memory", "long resume", f"peak_mb@{long}",
             "MB", 170, ours=AWAITED),
        Line(section, f"fork of {checkpoints:,} checkpoints, CPU", "fork", f"cpu_ms@{checkpoints}", "ms", 2,
             peers=(LANGGRAPH, DBOS)),
        Line(section, f"fork of {checkpoints:,}, beside one of {few}, CPU", "fork", f"cpu_ms@{checkpoints}", "ms",
             1.5, "growth", f"cpu_ms@{few}"),
        Line(section, f"`get_last_verified_checkpoint`, {most:,} checkpoints, CPU",
             "last verified", f"cpu_ms@{most}", "ms", 1.5, "growth", f"cpu_ms@{least}",
             takes="Ten claims are in force, however many checkpoints there are: more is read or "
             "checked than those."),
        Line(section, "pipeline of 10 durable steps that take their time", "slow pipeline", "run_ms",
             "ms", 50, "beyond", "plain calls"),
        Line(section, f"pipeline of {length} steps, for each, CPU", "pipeline", f"cpu_us@{length}",
             "µs", 80),
        Line(section, f"pipeline of {length} steps, beside one of {short}, CPU", "pipeline", f"cpu_us@{length}", "µs", 1.2,
             "growth", f"cpu_us@{short}"),
    ]  # fmt: skip


def _large(sizes: Sizes) -> list[Line]:
    section, size = "Large states", sizes.sizes[-1]
    shown = f"{size / MB:g} MB" if size >= MB else f"{size / KB:g} KB"
    return [
        Line(section, f"step of a graph with {shown} of unchanged state, CPU", "graph state",
             f"cpu_us@{size}", "µs", 700 * size / DESIGNED.sizes[-1], peers=(LANGGRAPH,),
             takes=f"{_COMPARED} The start of the run, a third of it, stores and hashes the inputs."),
        Line(section, "save of 1 MB, all new, CPU", "save 1 MB", "cpu_ms", "ms", 1.2, "over", SAVER,
             takes=_ALL_NEW),
        Line(section, "save of 100 KB, all new, CPU", "save 100 KB", "cpu_ms", "ms", 1.2, "over",
             SAVER, takes=_ALL_NEW),
        Line(section, "save of 1 MB, one message changed", "tiny change", "save_ms", "ms", 0.8,
             "beyond", "floor", peers=(SAVER,), takes=_COMPARED),
        Line(section, "1 MB and 50 saves with one message changed: bytes", "tiny change", "disk_mb", "MB", 1.1,
             peers=(SAVER,)),
    ]  # fmt: skip


def _many(sizes: Sizes) -> list[Line]:
    section, runs = "Many runs", sizes.runs[-1]
    commanded = sizes.commanded
    share = commanded / DESIGNED.commanded
    asked = {
        "newest": "the 50 newest",
        "failed": "the 50 newest that failed",
        "counts": "how many have each status",
        "questions": "open questions",
    }
    return [
        *(Line(section, f"{runs:,} runs: {words}, CPU", "lists", f"cpu_{name}_ms@{runs}", "ms", 20,
               peers=(LANGGRAPH, DBOS)) for name, words in asked.items()),
        *(Line(section, f"{commanded:,} runs: `holdfast {name}`", "commands", "seconds", "s",
               limit * share, ours=f"holdfast {name}", takes=takes)
          for name, limit, takes in (
              ("doctor", 5, "It proves the newest entry of every run and compares the index with it: "
               "in one query of the database, if that could compute digests."),
              ("verify", 20, "It reads and proves every byte, on all cores."),
              ("prune", 20, "Half of it is SQLite's own work on the pages of deleted entries."),
          )),
    ]  # fmt: skip


def _agents(sizes: Sizes) -> list[Line]:
    turns, threads = sizes.agent_turns, sizes.agent_threads
    share = turns / DESIGNED.agent_turns
    made = []
    for place, saver, fewer, faster in (
        ("SQLite", SAVER, 240, 4), ("PostgreSQL", "PostgresSaver", 34, 7),
    ):  # fmt: skip
        section, workload = "LangGraph agents on our saver", f"agents {place}"
        made += [
            Line(section, f"{place}, {turns:,} turns", workload, "all_s", "s", 1, "over", saver),
            Line(section, f"{place}, the slowest tenth of them, over {saver}", workload, "slowest",
                 "×", 1, takes=_OF_LANGGRAPH),
            Line(section, f"{place}, `get_state` after them, cold", workload, "get_state_cold_ms",
                 "ms", 1, "over", saver),
            Line(section, f"{place}, the last 20 of `get_state_history`, cold", workload,
                 "history_20_cold_ms", "ms", 1, "over", saver),
            Line(section, f"{place}, {turns:,} turns: bytes", workload, "disk_mb", "MB",
                 fewer * share, "times", saver),
            Line(section, f"{place}, {threads} threads at once, turns a second", workload,
                 "turns_per_s", "/s", faster, "times", f"Async{saver}", peers=("memory alone",),
                 more=True, takes=_OF_LANGGRAPH),
        ]  # fmt: skip
    return made


def _trust(sizes: Sizes) -> list[Line]:
    section = "Trust"
    return [
        *(Line(section, f"encrypted save of {size} KB, CPU", "keys", f"cpu_us@{size * KB}", "µs",
               1.15, "over", "plain", ours="encrypted",
               takes="The calls around the cipher, not the cipher: one for all entries of a commit.")
          for size in (1, 100)),
        Line(section, f"{sizes.files:,} files of 250 KB, verified", "files", "seconds", "s", 0.6,
             "over", "hashlib",
             takes="Two cores hash side by side, so 0.5 is the least; more cores take less."),
        Line(section, f"{sizes.files:,} files that were verified before", "files", "seconds", "s",
             0.3, "over", "holdfast", ours="holdfast, cached"),
    ]  # fmt: skip


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument("--only", default="", help="only goals or workloads whose name holds this")
    options = parser.parse_args()
    found = measure(QUICK if options.quick else FULL, options.dir, options.only)
    found["sizes"] = "quick" if options.quick else "full"
    write(options.json, found)


def measure(sizes: Sizes, parent: Path, only: str = "") -> dict[str, Any]:
    """Everything whose name holds `only`, as JSON."""
    began = perf_counter()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # children import from compiled bytecode
    wanted = [line for line in lines(sizes) if only in line.name or only in line.workload]
    chosen = {
        name: work
        for name, work in workloads(sizes).items()
        if only in name or any(line.workload == name for line in wanted)
    }
    missing = [*left_out(), *([] if HAS_LANGGRAPH else [NO_LANGGRAPH])]
    before = environment()
    results: dict[str, Measured] = {}
    profiles: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with scratch(parent) as directory:
        durable = {} if only else _durability(directory)
        for number, (name, work) in enumerate(chosen.items(), 1):
            print(f"\n[{number}/{len(chosen)}, {perf_counter() - began:.0f} s] {name}", flush=True)
            own = directory / name
            own.mkdir()
            try:
                results[name] = work.measured(own, sizes)
            except Exception as error:  # noqa: BLE001 - whatever a peer or a server raises: named
                missing.append(f"{name} was not measured: {type(error).__name__}: {error}")
                print(missing[-1])
                continue
            print_measured(name, results[name])
            missed = [line for line in wanted if line.workload == name]
            missed = [line for line in missed if line.outcome(results[name])["met"] is False]
            for ours in {line.ours for line in missed}:
                profiles[name, ours] = _profile(name, ours, sizes, directory)
    outcomes = [line.outcome(results.get(line.workload, Measured())) for line in wanted]
    for line, outcome in zip(wanted, outcomes, strict=True):
        if outcome["met"] is False:
            outcome["profile"] = profiles[line.workload, line.ours]
    print()
    print_lines(outcomes)
    for reason in missing:
        print(reason)
    return {
        "environment": before,
        "seconds": perf_counter() - began,
        "left_out": missing,
        "durability": durable,
        "lines": outcomes,
        "workloads": results,
    }


def print_lines(outcomes: list[dict[str, Any]]) -> None:
    """The table of goals."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    rows = []
    for line in outcomes:
        others = ", ".join(f"{name} {show(each['value'])}" for name, each in line["others"].items())
        ours = "-" if line["holdfast"] is None else f"{show(line['holdfast'])} {line['unit']}"
        judged = "" if line["judged"] is None or line["how"] == "itself" else show(line["judged"])
        rows.append([line["name"], ours, others, line["goal"], judged, words[line["met"]]])
    print_table(["", OURS, "others", "goal", "", ""], rows)


def _durability(directory: Path) -> dict[str, dict[str, float | None]]:
    """Durable means that the fsync was seen."""
    engines = [name for name, kind in ENGINES.items() if installed(kind)]
    found = {
        "save": {name: syncs_per_save(name, directory / "syncs") for name in SYSTEMS},
        "step": {name: syncs_per_step(name, directory / "syncs") for name in engines},
    }
    for what, syncs in found.items():
        print_syncs(what, syncs)
    return found


def _profile(name: str, ours: str, sizes: Sizes, directory: Path) -> list[dict[str, Any]]:
    """The functions that take longest, of one more trial: what was timed last in it."""
    work = workloads(QUICK if sizes is FULL else sizes)[name]
    if not isinstance(work, Workload):
        return []
    with tempfile.TemporaryDirectory(dir=directory) as fresh:
        file, own = Path(fresh) / "profile", Path(fresh) / "own"
        own.mkdir()
        os.environ[PROFILE] = str(file)
        try:
            work.trials(own)[ours](Path(fresh) / "store.db")
        finally:
            del os.environ[PROFILE]
        if not file.exists():
            return []
        stats: Any = pstats.Stats(str(file))
    total = sum(own for _, _, own, _, _ in stats.stats.values())
    top = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:_TOP]
    return [
        {"function": _named(*function), "calls": calls, "share": own / total}
        for function, (calls, _, own, _, _) in top
    ]


def _named(file: str, line: int, function: str) -> str:
    if file == "~":
        return function.strip("<>")
    parts = Path(file).parts
    return f"{'/'.join(parts[-2:])}: {function}"


if __name__ == "__main__":
    main()
