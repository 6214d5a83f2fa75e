from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from holdfast import demo


def test_the_demo_kills_resumes_and_repairs_for_real_and_says_what_happened(tmp_path: Path) -> None:
    out = StringIO()
    demo.main(tmp_path / "new", out)  # it raises if a step ran that should not have
    said = out.getvalue()
    assert "Its exit code: -9." in said
    assert re.findall(r"tides@\d  (\w+)", said) == [
        "measure",
        "find_high_water",
        "draw",
        "summarise",
    ]
    assert "index.html does not exist" in said
    assert (tmp_path / "new" / "index.html").exists(), "a directory that was named is kept"


def test_the_demo_leaves_nothing_behind_and_needs_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-W", "error", "-m", "holdfast.demo"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
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
    with pytest.raises(demo.DemoFailedError, match="please report it"):
        demo.main(tmp_path, StringIO())
