"""The lock files fit pyproject.toml, name only what PyPI has, and hold digests for all of it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from requirements.lock import HERE, LOCKS, PROJECT, check

_LINE = re.compile(
    r"""(\#.*|[a-z0-9.-]+(\[[a-z0-9,-]+\])?==[^\s\\]+(\ ;\ [^\\]+)?\ \\
    |\ {4}--hash=sha256:[0-9a-f]{64}(\ \\)?|\ {4}\#.*)""",
    re.VERBOSE,
)


def test_the_lock_files_fit_pyproject() -> None:
    assert list(check()) == []


@pytest.mark.parametrize(
    ("was", "is_now", "problem"),
    [
        ('"ormsgpack>=1.11"', '"ormsgpack>=99"', r"base\.txt: ormsgpack==\S+ does not fit \S+>=99"),
        ('"click>=8.1"', '"click>=8.1", "kelp>=1"', r"base\.txt: kelp>=1 is missing"),
        ('"pexpect>=4.9",', "", r"dev\.txt: nothing needs pexpect"),
    ],
)
def test_a_change_of_pyproject_that_was_not_locked_is_found(
    was: str, is_now: str, problem: str, tmp_path: Path
) -> None:
    changed = tmp_path / "pyproject.toml"
    text = PROJECT.read_text()
    assert was in text
    changed.write_text(text.replace(was, is_now))
    assert any(re.search(problem, each) for each in check(project=changed))


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_a_lock_file_holds_versions_and_digests_alone(path: Path) -> None:
    """No address and no path, of which pip would take other files."""
    lines = path.read_text().splitlines()
    assert [line for line in lines if not _LINE.fullmatch(line)] == []
    for line, following in itertools.pairwise(lines):
        assert "==" not in line or line.startswith(" ") or "--hash=" in following


def test_every_environment_of_the_makefile_is_locked() -> None:
    makefile = (PROJECT.parent / "Makefile").read_text()
    assert {lock.name for lock in LOCKS} <= set(
        re.findall(r"(?:\(LOCKED\) requirements/|call install,\S+,)([a-z-]+)", makefile)
    )
    unlocked = [
        line.strip()
        for line in makefile.splitlines()
        if re.search(r"(pip|PIP\)).* install ", line) and "(LOCKED)" not in line
    ]
    assert all("(EDITABLE)" in line or line.endswith("$(TORCH)") for line in unlocked), unlocked
