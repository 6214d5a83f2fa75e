"""The pytest plugin, as a project that has holdfast installed sees it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "holdfast.pytest_plugin"
STORE_TESTS = """
import holdfast as hf
from holdfast.workflow import step, workflow

@step
def one() -> int:
    return 1

@workflow
async def flow() -> int:
    return await one()

def test_first(holdfast_store):
    with hf.Engine(holdfast_store) as engine:
        assert engine.run_sync(flow(), run_id="r") == 1

def test_second(holdfast_store, request):
    assert holdfast_store.url.startswith(request.config.getini("expected"))
    with hf.SyncCheckpointer(holdfast_store) as cp:
        assert cp.runs() == []
"""
FLOW_TESTS = """
from holdfast.workflow import step, workflow

@step
def write(path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)

@workflow
async def good(path: str) -> str:
    await write(path, "a")
    return "done"

@workflow
async def wrong(path: str) -> None:
    with open(path, "a") as file:
        file.write("began ")
    await write(path, "a")

def test_good(crash_at_every_step, tmp_path):
    report = crash_at_every_step(good(str(tmp_path / "log")))
    assert report.repeated == {"write": 1}

def test_wrong(crash_at_every_step, tmp_path):
    crash_at_every_step(wrong(str(tmp_path / "log")))
"""


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other packages take a second or two to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    strict = ("-p", PLUGIN, "-W", "error", "-p", "no:cacheprovider", "--assert=plain")
    return pytester.runpytest_subprocess(*strict, *options)


@pytest.mark.parametrize(
    ("options", "ini", "expected"),
    [
        ((), "", "sqlite:"),
        (("--holdfast-store", "file"), "", "file:"),
        ((), "holdfast_store = memory", "memory:"),
        (("--holdfast-store=sqlite:///{name}.db",), "", "sqlite:"),
    ],
    ids=["default", "option", "setting", "url"],
)
def test_each_test_has_a_store_of_its_own(
    pytester: pytest.Pytester, options: tuple[str, ...], ini: str, expected: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\nexpected = {expected}\n")
    pytester.makeconftest("def pytest_addoption(parser): parser.addini('expected', '')")
    pytester.makepyfile(STORE_TESTS)
    run(pytester, *options).assert_outcomes(passed=2)


def test_a_store_that_tests_would_share_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(holdfast_store): pass")
    result = run(pytester, "--holdfast-store", "postgresql://localhost/test")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a URL with {name} in it*"])


def test_the_fixture_kills_a_flow_and_says_what_differs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FLOW_TESTS)
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*wrong: * crashes changed what it does*",
            '*~ log: "began a" → "began began a"*',
            "*killed before 'write'*",
            "*put its effects into steps*",
        ]
    )


def test_pytest_starts_without_the_engine(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            loaded = [name for name in sys.modules if name.startswith("holdfast.")]
            assert not {"holdfast.engine", "holdfast.testing", "holdfast.kernel"} & set(loaded)
            assert "holdfast.pytest_plugin" in loaded
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_it_is_an_entry_point_named_like_its_module() -> None:
    """So that `-p` with its name, as above, loads it once, whether it is installed or not."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_a_failure_shows_the_line_of_the_test_and_not_the_source_of_the_kit(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(FLOW_TESTS)
    result = run(pytester, "-k", "wrong")
    result.stdout.fnmatch_lines([">   *crash_at_every_step(wrong(*", "*CrashTestError: *"])
    result.stdout.no_fnmatch_line("*crashing.py*")
    result.stdout.no_fnmatch_line("*mkdtemp*")
