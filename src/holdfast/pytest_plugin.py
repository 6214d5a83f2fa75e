"""The pytest plugin: the fixtures `holdfast_store` and `crash_at_every_step`.

pytest loads it in every project that has holdfast installed, so it imports the rest of holdfast
only when a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from holdfast.store import Store
    from holdfast.testing import CrashReport

_OPTION: Final = "holdfast_store"
_KINDS: Final = {
    "sqlite": "sqlite:///{directory}/runs.db",
    "file": "file://{directory}/runs",
    "duckdb": "duckdb:///{directory}/runs.duckdb",
    "memory": "memory://",
}
_HELP: Final = (
    "what the fixture holdfast_store opens: sqlite (the default), file, duckdb, memory, or the URL "
    "of a server in which {name} stands for a name that is new in each test"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, and the setting of the same meaning."""
    group = parser.getgroup("holdfast")
    group.addoption("--holdfast-store", dest=_OPTION, metavar="STORE", help=_HELP)
    parser.addini(_OPTION, _HELP, default="sqlite")


@pytest.fixture
def holdfast_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A new, empty store of this test's own, which is closed after it.

    Give it to an engine or a checkpointer; `holdfast_store.url` opens it in another process.
    """
    from holdfast.seams import new_id
    from holdfast.urls import open_store

    chosen = _chosen(request.config)
    if chosen not in _KINDS and "{name}" not in chosen:
        raise pytest.UsageError(
            f"{_OPTION} is one of {', '.join(_KINDS)}, or a URL with {{name}} in it, which stands "
            "for the test: postgresql://localhost/test?schema={name}"
        )
    directory = tmp_path_factory.mktemp("holdfast") if chosen in _KINDS else Path()
    url = _KINDS.get(chosen, chosen).format(directory=directory, name=f"test_{new_id()}")
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def crash_at_every_step(tmp_path: Path) -> Callable[..., CrashReport]:
    """Kills a flow at every step, resumes it, and compares: see `holdfast.testing`.

    The files in the test's `tmp_path` are compared, too, and put back before each run.
    """
    from holdfast import testing

    return partial(testing.crash_at_every_step, directory=tmp_path)


def _chosen(config: pytest.Config) -> str:
    chosen: Any = config.getoption(_OPTION) or config.getini(_OPTION)
    return str(chosen)
