"""Whose pyproject.toml is read: the project's own, and nobody else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import project
from holdfast.project import project_settings
from holdfast.urls import DEFAULT_URL, default_url
from tests.users import ANN, BOB, as_user, belongs_to, needs_root, public_directory


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory outside of every repository and home, which everyone can enter."""
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    project._told.clear()
    with public_directory() as path:
        monkeypatch.chdir(path)
        yield path
        monkeypatch.chdir("/")


def write(directory: Path, text: str = 'store = "theirs.db"\nflows = ["planted:flow"]\n') -> Path:
    file = directory / "pyproject.toml"
    file.write_text(f"[tool.holdfast]\n{text}")
    return file


def test_a_project_file_of_another_user_is_ignored_with_a_warning(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / "mine").mkdir()
    file = write(shared)
    monkeypatch.setattr("holdfast.permissions.os.geteuid", lambda: os.getuid() + 1)
    if os.getuid() == 0:
        belongs_to(ANN, file, shared)
    monkeypatch.chdir(shared / "mine")
    assert default_url() == DEFAULT_URL
    assert default_url() == DEFAULT_URL
    (line,) = caplog.messages
    assert f"'{file}' is ignored: it belongs to" in line
    assert "HOLDFAST_STORE" in line


def test_a_key_that_nothing_reads_is_warned_about_once(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(shared, 'strore = "mine.db"\nzebra = 1\nhosts = []\n')
    assert default_url() == DEFAULT_URL
    assert default_url() == DEFAULT_URL
    near, far = caplog.messages
    assert near.endswith("nothing reads 'strore' under [tool.holdfast]; did you mean 'store'?")
    assert far.endswith("; known are flows, hosts, remember, retention, roots, store")


@needs_root
@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_whoever_can_write_beside_it_is_not_trusted(shared: Path, what: str) -> None:
    file = write(shared)
    if what == "link":
        file.rename(shared / "other.toml")
        file.symlink_to("other.toml")
        file = shared / "other.toml"
    belongs_to(BOB, shared, file)
    belongs_to(ANN, shared if what == "directory" else file)
    with as_user(BOB):
        assert project_settings() == (None, {})


@pytest.mark.parametrize("what", ["pyproject.toml", "."])
def test_a_project_that_everyone_can_write_to_is_ignored_until_that_is_changed(
    shared: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(shared)
    (shared / what).chmod(0o777)
    assert project_settings() == (None, {})
    (line,) = caplog.messages
    command = line.rpartition("use it after: ")[2]
    assert command == f"chmod o-w {(shared / what).resolve()}"
    os.system(command)
    assert project_settings()[1]["store"] == "theirs.db"


def test_a_project_of_a_group_is_used(shared: Path) -> None:
    """With a umask of 002, as many systems have it, everything is writable by the group."""
    write(shared).chmod(0o664)
    shared.chmod(0o775)
    assert project_settings()[0] == shared / "pyproject.toml"


@needs_root
def test_files_of_root_are_used_by_everyone(shared: Path) -> None:
    """As in a container, whose program is installed by root and run by another user."""
    write(shared)
    with as_user(BOB):
        assert project_settings()[0] == shared / "pyproject.toml"


@needs_root
def test_root_uses_the_project_of_whoever_called_sudo(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    belongs_to(ANN, shared, write(shared))
    assert project_settings() == (None, {})
    monkeypatch.setenv("SUDO_UID", str(ANN))
    assert project_settings()[0] == shared / "pyproject.toml"
    with as_user(BOB):
        assert project_settings() == (None, {}), "only root was called by sudo"


@pytest.mark.parametrize("top", ["repository", "worktree", "home"])
def test_nothing_above_the_repository_or_the_home_directory_is_read(
    shared: Path, top: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    above = write(shared)
    inside = shared / "top"
    (inside / "deep").mkdir(parents=True)
    monkeypatch.chdir(inside / "deep")
    assert project_settings()[0] == above, "nothing is between"
    if top == "home":
        monkeypatch.setenv("HOME", str(inside))
    elif top == "worktree":
        (inside / ".git").write_text("gitdir: elsewhere")
    else:
        (inside / ".git").mkdir()
    assert project_settings() == (None, {})
    assert "above the repository or the home directory" in caplog.text
    file = write(inside)
    assert project_settings()[0] == file, "that of the repository or the home directory itself"


def test_a_file_that_says_nothing_to_holdfast_is_ignored_without_a_word(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    shared.chmod(0o777)
    assert project_settings() == (None, {})
    assert not caplog.messages


@pytest.mark.parametrize(
    "text", ["[tool]\nholdfast = 1", "x = " + "[" * 5000, "x = '" + "a" * (1 << 20) + "'", "\xff"]
)
def test_a_project_file_that_makes_no_sense_is_an_error(shared: Path, text: str) -> None:
    (shared / "pyproject.toml").write_text(text, encoding="latin-1")
    with pytest.raises(hf.StoreURLError, match="can't be read"):
        project_settings()


def test_a_pipe_is_no_project_file(shared: Path) -> None:
    os.mkfifo(shared / "pyproject.toml")
    assert project_settings() == (None, {})
