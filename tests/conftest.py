from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from tests.effort import examples

pytest.register_assert_rewrite("holdfast.testing")
settings.register_profile(  # no test is timed, and a loaded machine is no failure
    "holdfast",
    deadline=None,
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("holdfast")

STORES = ("memory", "sqlite", "file")

HERE = Path(__file__).parent
SLOW = (
    "crash/", "examples/", "servers/", "stores/", "test_demo.py", "test_docs.py",
    "cli/test_guide.py", "cli/test_terminal.py", "engine/test_recovering.py",
    "graph/test_interrupted.py", "manager/test_processes.py", "pipeline/test_interrupted.py",
    "workflow/test_kills.py", "workflow/test_people_interrupted.py",
)  # fmt: skip
"""What `--quick` skips: servers, and tests that start processes and kill them."""

QUICK = ("stores/test_memory.py", "stores/test_sqlite.py")
OTHER_STORES = frozenset(
    ["file", "postgres", "postgresql", "mysql", "redis", "duckdb", "mongodb", "dynamodb"]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only fast tests, on memory and SQLite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = filter(_is_quick, items)


def _is_quick(item: pytest.Item) -> bool:
    path = item.path.relative_to(HERE).as_posix()
    if path.startswith(SLOW) and path not in QUICK:
        return False
    spec = getattr(item, "callspec", None)
    given = spec.params.values() if spec is not None else ()
    return not any(isinstance(value, str) and value in OTHER_STORES for value in given)


def pytest_collection_finish() -> None:
    """Tests that ask the collector for leaks should not have it look at thousands of tests each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter free everything at exit: duckdb reports what is frozen as leaked."""
    gc.unfreeze()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of every kind."""
    return {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/runs.db",
        "file": f"file://{tmp_path}/runs",
    }[request.param]


@pytest.fixture(params=STORES[1:])
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
        for run in checkpointer.runs(limit=500):
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
