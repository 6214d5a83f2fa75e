from __future__ import annotations

import atexit
import gc
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from tests.effort import EFFORT, examples
from tests.servers.directories import roomy_place

pytest_plugins = ["tests.watchdog"]
pytest.register_assert_rewrite("holdfast.testing")
settings.register_profile(  # no test is timed, and a loaded machine is no failure
    "holdfast",
    deadline=None,
    derandomize=EFFORT == 1,  # `make test` says the same each time, `make crash` tries others
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("holdfast")

STORES = ("memory", "sqlite", "file")
FOR_FLOWS = STORES if EFFORT > 1 else STORES[:2]
"""What flows are tried on. A store of files passes the same contract as SQLite's and is written to
in the same way: `make test` tries operations and crashes on it, and flows only `make crash`."""

Survived = Callable[[str, int], None]

HERE = Path(__file__).parent
HEAVY = ("celery", "pandas", "polars", "prefect", "pyarrow", "torch")
collect_ignore = [] if all(map(find_spec, HEAVY)) else ["extras"]  # `make test-extras` has them
SLOW = (
    "advice/",
    "bench/test_goals.py",
    "cli/",
    "crash/",
    "documents/",
    "examples/",
    "extras/",
    "servers/",
    "stores/",
    "test_demo.py",
    "test_docs.py",
    "test_watchdog.py",
    "testing/",
    "engine/test_executors.py",
    "engine/test_holding.py",
    "engine/test_recovering.py",
    "engine/test_schema.py",
    "graph/test_interrupted.py",
    "integrations/",
    "graph/test_questions.py",
    "keys/test_killed.py",
    "manager/test_processes.py",
    "pipeline/test_interrupted.py",
    "web/api/test_openapi.py",
    "web/api/test_threads.py",
    "web/browser/",
    "website/test_site.py",
    "workflow/test_kills.py",
    "workflow/test_people_interrupted.py",
)
"""What `--quick` skips: the command line, servers, and tests that start processes and kill them."""

LONG = (
    "crash/",
    "examples/",
    "integrations/",
    "servers/",
    "simulation/",
    "typing/",
    "web/api/test_openapi.py",
    "web/browser/",
    "cli/test_guide.py",
    "cli/test_workers.py",
    "test_demo.py",
    "test_docs.py",
    "test_watchdog.py",
)
"""What has tests of several seconds, which begin first: nobody then waits for one at the end."""

SHARING = ("web/browser/", "integrations/dask/")
"""Folders whose tests share what takes long to start: one worker begins with all of them."""

QUICK = ("stores/test_memory.py", "stores/test_sqlite.py")
VARIANTS = (
    "TestDynamoDBStore",
    "TestInTheFileOfAProgram",
    "TestRedisStoreOnACluster",
    "TestThroughPgBouncer",
    "TestWithAPoolOfTheUsers",
)
"""Other ways to a store that passes its whole contract, and a slow emulator: `make test` tries one
test in three of it there, `make crash` all."""

ON_SQLITE = ("kernel/", "operations/", "stores/")
OTHER_STORES = frozenset(
    ["file", "postgres", "postgresql", "mysql", "redis", "duckdb", "mongodb", "dynamodb"]
)


def pytest_configure() -> None:
    for name in ("CI", "BUILD_NUMBER"):  # pytest would show the whole difference of megabytes
        os.environ.pop(name, None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt what they start
    multiprocessing.set_forkserver_preload(["tests.servers.children", "holdfast.testing.contract"])
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(roomy_place()))  # of every `tmp_path`
    gc.disable()  # until everything is collected: it would look at all of it, again and again


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only fast tests, on memory and SQLite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = items if EFFORT > 1 else _one_in_three_of_variants(items)
    if config.getoption("--quick"):
        in_memory = {_base(item) for item in items if "memory" in _parameters(item)}
        chosen = [item for item in chosen if _is_quick(item, in_memory)]
    if EFFORT == 1:
        chosen = _each_value(chosen)
    if left_out := set(items) - set(chosen):
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = chosen
    if hasattr(config, "workerinput"):  # of xdist
        items[:] = _long_first(items, config.workerinput["workercount"])


def _one_in_three_of_variants(items: list[pytest.Item]) -> list[pytest.Item]:
    of_variants = [item for item in items if item.parent and item.parent.name in VARIANTS]
    left_out = set(of_variants) - set(of_variants[::3])
    return [item for item in items if item not in left_out]


def _each_value(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of a test with several parameters, as many combinations as it takes to try each value once.

    `make crash` tries all combinations.
    """
    tried: dict[str, set[tuple[int, str]]] = {}
    chosen: set[pytest.Item] = set()
    for at_once in (True, False):  # first those of which all values are new
        for item in items:
            values, known = _values(item), tried.setdefault(_base(item), set())
            if not values or (values.isdisjoint(known) if at_once else not values <= known):
                chosen.add(item)
                known |= values
    return [item for item in items if item in chosen]


def _values(item: pytest.Item) -> set[tuple[int, str]]:
    """What it is called with: the id of each parameter, or of those that are given together."""
    spec = getattr(item, "callspec", None)
    return set() if spec is None else set(enumerate(spec._idlist))


def _long_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Each worker is given a slice of what is returned: the long files, in turn, and then others."""
    files = itertools.groupby(items, key=_together)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    turns, others = itertools.cycle(shares), list[pytest.Item]()
    for path, tests in files:
        (next(turns) if path.startswith(LONG) else others).extend(tests)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        size = (len(items) - len(ordered)) // (workers - number)
        filled = max(0, size - len(share))
        ordered += share + others[:filled]
        del others[:filled]
    return ordered + others


def _together(item: pytest.Item) -> str:
    """Its file, or the folder whose tests share a browser or a cluster."""
    path = item.path.relative_to(HERE).as_posix()
    return next((folder for folder in SHARING if path.startswith(folder)), path)


def _is_quick(item: pytest.Item, in_memory: set[str]) -> bool:
    """Whether it starts no process or server; what also runs in memory runs only there,
    except for the tests of what stores are used for."""
    path = item.path.relative_to(HERE).as_posix()
    if path.startswith(SLOW) and path not in QUICK:
        return False
    given = _parameters(item)
    if "sqlite" in given and _base(item) in in_memory and not path.startswith(ON_SQLITE):
        return False
    return OTHER_STORES.isdisjoint(given)


def _base(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _parameters(item: pytest.Item) -> set[str]:
    spec = getattr(item, "callspec", None)
    given = spec.params.values() if spec is not None else ()
    return {value for value in given if isinstance(value, str)}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """On a disk for tests marked `on_disk`: nothing survives a power loss in memory."""
    if request.node.get_closest_marker("on_disk") is None:
        yield tmp_path
    else:
        with TemporaryDirectory(dir="/var/tmp") as directory:
            yield Path(directory)


@pytest.fixture
def survived(record_property: Survived) -> Survived:
    """Say how many faults of a kind were survived (tests/proof adds them up for RELIABILITY.md)."""
    return record_property


def pytest_collection_finish() -> None:
    """Tests that ask the collector for leaks should not have it look at thousands of tests each time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # duckdb reports what is frozen as leaked


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show what long tests counted, which they record as `counts`."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "counts":
                    terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")


@pytest.fixture(params=FOR_FLOWS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of every kind."""
    return {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/runs.db",
        "file": f"file://{tmp_path}/runs",
    }[request.param]


@pytest.fixture(params=FOR_FLOWS[1:])
def kept_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of every kind that outlives its process."""
    return {
        "sqlite": f"sqlite:///{tmp_path}/runs.db",
        "file": f"file://{tmp_path}/runs",
    }[request.param]


@pytest.fixture
def cp(url: str) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(url) as checkpointer:
        yield checkpointer
        for run in checkpointer.runs():
            assert checkpointer.verify(run.run_id).ok, "the whole store is checked after every test"


Grow = Callable[[str, int], list[hf.Checkpoint]]


@pytest.fixture
def grow(cp: hf.SyncCheckpointer) -> Grow:
    """Save so many states, each large enough to be stored as a change to the one before."""

    def grow(run_id: str, count: int) -> list[hf.Checkpoint]:
        return [
            cp.save(run_id, {"n": n, "log": [f"line {i:06}" for i in range(800 + n)]}, step=f"s{n}")
            for n in range(count)
        ]

    return grow
