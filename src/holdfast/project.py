"""The project that a program is started in: what its pyproject.toml says under `[tool.holdfast]`.

The file decides which store is used and which modules commands import. So it counts only if nobody
else can have written it, and only within the repository, or the home directory.
"""

from __future__ import annotations

import os
import shlex
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from holdfast.errors import StoreURLError
from holdfast.errors.base import meant, shortened
from holdfast.logs import logger
from holdfast.permissions import by_group, is_ours, user_name

SETTINGS: Final = frozenset({"store", "flows", "roots", "hosts", "remember", "retention"})
"""The keys of `[tool.holdfast]` in pyproject.toml."""

_LARGEST: Final = 1 << 20
_log: Final = logger()
_told: Final[set[str]] = set()  # what was warned of in this process


def project_settings() -> tuple[Path | None, dict[str, Any]]:
    """The nearest pyproject.toml, and what it says under `[tool.holdfast]`.

    It is looked for in the working directory and those above it, up to the first that is a Git
    repository or the home directory. One that others may have written is ignored, and so is one
    further up: a warning says so, once, if it has settings for holdfast. Of keys that nothing reads
    it warns, too.
    """
    inside = True
    for directory in (Path.cwd(), *Path.cwd().parents):
        project = directory / "pyproject.toml"
        try:
            text, problem = _read(project)
        except FileNotFoundError:
            inside = inside and not _is_top(directory)
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise StoreURLError(str(project), f"can't be read: {error}") from error
        if not inside:
            problem = (
                "it is above the repository or the home directory; move it there, or name the "
                "store and the flows with HOLDFAST_STORE or --store and --flow"
            )
        if problem is None:
            settings = _settings(project, text)
            for line in unknown_settings(settings):
                _warn(f"{str(project)!r}: {line}")
            return project, settings
        _warn_if_ignored(project, text, problem)
        return None, {}
    return None, {}


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """A sentence for each key under `[tool.holdfast]` that nothing reads: most likely misspelt."""
    known = f"; known are {', '.join(sorted(SETTINGS))}"
    return [
        f"nothing reads {shortened(name)} under [tool.holdfast]{meant(name, SETTINGS) or known}"
        for name in sorted(settings.keys() - SETTINGS)
    ]


def _is_top(directory: Path) -> bool:
    """Whether nothing above this directory belongs to the project."""
    try:
        home = Path.home()
    except RuntimeError:
        home = None
    return directory == home or os.path.lexists(directory / ".git")


def _read(project: Path) -> tuple[str, str | None]:
    """The text of a file, and why it may not be used, if so. Raises `OSError`.

    Whoever can write to its directory can put modules beside it, which commands would import.
    """
    try:
        file = os.open(project, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        with suppress(PermissionError):
            if is_ours(project.parent.stat()):
                raise
        raise FileNotFoundError from None  # others keep it to themselves
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError
        text = opened.read(_LARGEST + 1)
    directory = project.parent
    problem = _problem("it", status, project) or _problem(
        "its directory", directory.stat(), directory
    )
    if len(text) > _LARGEST:
        raise OSError("it is larger than 1 MiB")
    return text.decode(errors="strict" if problem is None else "replace"), problem


def _problem(what: str, status: os.stat_result, path: Path) -> str | None:
    """Why others may have written a file, or a module in a directory."""
    if not is_ours(status):
        return (
            f"{what} belongs to {user_name(status.st_uid)}; name the store and the flows yourself, "
            "with HOLDFAST_STORE or --store and --flow"
        )
    if status.st_mode & stat.S_IWOTH:
        return f"everyone can write to {what}; use it after: chmod o-w {shlex.quote(str(path))}"
    if by_group(status):
        return f"its group can write to {what}; use it after: chmod g-w {shlex.quote(str(path))}"
    return None


def _settings(project: Path, text: str) -> dict[str, Any]:
    try:
        found = _table(text)
    except (ValueError, RecursionError) as error:
        raise StoreURLError(str(project), f"can't be read: {error}") from error
    return found


def _table(text: str) -> dict[str, Any]:
    tool = tomllib.loads(text).get("tool", {})
    found = tool.get("holdfast", {}) if isinstance(tool, dict) else {}
    if not isinstance(found, dict):
        raise ValueError("[tool.holdfast] is not a table")
    return found


def _warn_if_ignored(project: Path, text: str, problem: str) -> None:
    """Say that settings are ignored: the program may look for its store in the wrong place."""
    with suppress(ValueError, RecursionError):  # then nothing tells what it is for
        if not _table(text):
            return
    _warn(f"{str(project)!r} is ignored: {problem}")


def _warn(line: str) -> None:
    if line not in _told:
        _told.add(line)
        _log.warning("%s", line)
