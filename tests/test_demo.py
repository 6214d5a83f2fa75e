from __future__ import annotations

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import demo
from holdfast.cli._exits import Exit
from holdfast.cli.main import holdfast
from holdfast.errors import HoldfastError
from tests import terminal
from tests.waiting import run_process


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where it was shown, and what was said; it fails if a step ran that should not have."""
    directory = tmp_path_factory.mktemp("demo") / "new"
    done = CliRunner().invoke(holdfast, ["demo", str(directory)])
    assert done.exit_code == 0, done.output
    return directory, done.stdout


def test_the_demo_kills_resumes_and_repairs_for_real(shown: tuple[Path, str]) -> None:
    directory, said = shown
    assert "Its exit code: -9." in said
    steps = re.findall(r"tides@\d  (\w+)", said)
    assert steps == ["measure", "find_high_water", "draw", "summarise"]
    assert "index.html does not exist" in said
    assert (directory / "index.html").exists(), "a directory that was named is kept"


def test_the_demo_leaves_nothing_behind_and_needs_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-W", "error", "-m", "holdfast", "demo"]
    done = run_process(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done: high water") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_demo_does_not_touch_a_directory_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        demo.main(tmp_path, StringIO())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_demo_that_goes_wrong_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_LAST_FILE", "chart.txt")  # more than one step will run again
    with pytest.raises(HoldfastError, match="please report it"):
        demo.main(tmp_path, StringIO())


def test_the_picture_in_the_readme_shows_what_the_demo_really_says(shown: tuple[Path, str]) -> None:
    assert "docs/images/demo.svg" in (Path(__file__).parents[1] / "README.md").read_text()
    drawn = terminal.picture("make demo", terminal.shown(shown[1].partition("\nWhat next:")[0]))
    assert without_times(terminal.PICTURE.read_text()) == without_times(drawn)


def test_the_demo_as_json_is_what_happened() -> None:
    done = CliRunner().invoke(holdfast, ["demo", "--json"])
    shown = json.loads(done.stdout)
    assert [len(steps) for steps in shown["began"]] == [5, 2, 1]
    assert shown["resumed_after"] > 0
    assert shown["proved"] == 13


def test_the_demo_shows_nothing_if_its_end_in_a_browser_can_not_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.web.server", None)
    done = CliRunner().invoke(holdfast, ["demo", "--ui"])
    assert done.exit_code == Exit.USAGE
    assert done.stdout == ""
    assert "[ui]'" in done.stderr


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("installed", [True, False])
def test_the_demo_ends_with_hints_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, installed: bool
) -> None:
    monkeypatch.setattr("holdfast.cli.demo.main", lambda directory: None)
    if not installed:
        monkeypatch.setitem(sys.modules, "holdfast.web.server", None)
    done = CliRunner().invoke(holdfast, ["demo", str(tmp_path)] if named else ["demo"])
    assert ("in a browser" in done.stdout) == installed
    assert ("verify" if named else "--help") in done.stdout


def without_times(text: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d\.\d+|\d+\.\d+ s", "TIME", text)


def test_what_the_demo_says_to_do_next_works_from_elsewhere(
    shown: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (hint,) = re.findall(r"holdfast (verify .*?)  ", shown[1])
    found = CliRunner().invoke(holdfast, hint.split())
    assert (found.exit_code, found.output) == (0, "1 run: 1 verified\n")
