"""The lock files: exact versions, with the digests of every file that pip may install.

python requirements/lock.py              brings them up to date with pyproject.toml (`make lock`)
python requirements/lock.py --upgrade    the newest versions that pyproject.toml allows
python requirements/lock.py --check      do they fit pyproject.toml? Offline; `make lint` runs it

Each file holds for every Python that holdfast supports, and for every platform.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parent / "pyproject.toml"
_HASH: Final = re.compile(r" --hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Lock:
    """What one lock file is made from: the project itself, with these extras and groups."""

    name: str
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The lock file."""
        return HERE / f"{self.name}.txt"


_INTEGRATIONS: Final = ("langgraph", "pydantic-ai", "openai-agents", "otel", "mcp")
LOCKS: Final = (  # the versions of the first hold for the others
    Lock("dev", ("all", *_INTEGRATIONS, "ui", "testing"), ("build", "dev")),
    Lock("base", ("ui",), ("build",)),  # with what `holdfast demo --ui` needs
    Lock("pythons", ("crypto", "numpy", "yaml", "postgres", "testing"), ("build", "pythons")),
    Lock(
        "extras",
        ("all", *_INTEGRATIONS, "pandas", "polars", "pyarrow", "testing"),
        ("build", "extras", "pythons"),
    ),
    Lock("bench", ("crypto", "postgres", "mysql", "redis", "duckdb", "ui"), ("build", "bench")),
)


def main(*options: str) -> int:
    """Write the lock files or check them; the exit code."""
    if options == ("--check",):
        problems = list(check())
        for problem in problems:
            print(problem, file=sys.stderr)
        return 1 if problems else 0
    for lock in LOCKS:
        _write(lock, *options)
    return 0


def check(locks: Iterable[Lock] = LOCKS, project: Path = PROJECT) -> Iterator[str]:
    """Every way in which a lock file does not fit pyproject.toml any more."""
    table = tomllib.loads(project.read_text())
    for lock in locks:
        for problem in _problems(lock, table):
            yield f"requirements/{lock.path.name}: {problem}; run: make lock"


def _problems(lock: Lock, table: dict[str, Any]) -> Iterator[str]:
    if not lock.path.exists():
        yield "it does not exist"
        return
    wanted = list(declared(lock, table))
    pins, direct = _pins(lock.path.read_text())
    for requirement in wanted:
        found = pins.get(canonicalize_name(requirement.name), [])
        if not found:
            yield f"{requirement} is missing"
        for pin in found:
            if not _fits(pin, requirement):
                yield f"{pin} does not fit {requirement}"
    for name in sorted(direct - {canonicalize_name(each.name) for each in wanted}):
        yield f"nothing needs {name}"


def declared(lock: Lock, table: dict[str, Any]) -> Iterator[Requirement]:
    """What pyproject.toml asks for itself; what that needs in turn is not in here."""
    project = table["project"]
    yield from map(Requirement, project["dependencies"])
    for extra in lock.extras:
        yield from _of_extra(extra, project)
    for group in lock.groups:
        yield from _of_group(group, table["dependency-groups"])


def _of_extra(extra: str, project: dict[str, Any]) -> Iterator[Requirement]:
    for requirement in map(Requirement, project["optional-dependencies"][extra]):
        if requirement.name == project["name"]:
            for other in sorted(requirement.extras):
                yield from _of_extra(other, project)
        else:
            yield requirement


def _of_group(group: str, groups: dict[str, Any]) -> Iterator[Requirement]:
    for item in groups[group]:
        if isinstance(item, str):
            yield Requirement(item)
        else:
            yield from _of_group(item["include-group"], groups)


def _pins(text: str) -> tuple[dict[NormalizedName, list[Requirement]], set[NormalizedName]]:
    """The requirements of a lock file by name, and the names that pyproject.toml asks for."""
    pins: dict[NormalizedName, list[Requirement]] = {}
    direct = set()
    name = canonicalize_name("")
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("#"):
            if "(pyproject.toml" in line:  # uv says what asked for it
                direct.add(name)
        elif line.strip():
            pin = Requirement(_HASH.sub("", line).strip())
            name = canonicalize_name(pin.name)
            pins.setdefault(name, []).append(pin)
    return pins, direct


def _fits(pin: Requirement, requirement: Requirement) -> bool:
    (version,) = (each.version for each in pin.specifier)
    return requirement.specifier.contains(version, prereleases=True)


def _write(lock: Lock, *options: str) -> None:
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet"]
    command += ["--no-config", "--universal"]
    command += ["--python-version=3.11", "--generate-hashes", "--only-binary=:all:"]
    command += ["--default-index=https://pypi.org/simple", "--no-emit-index-url"]
    command += [
        "--custom-compile-command=make lock",
        f"--output-file=requirements/{lock.path.name}",
    ]
    command += [f"--extra={extra}" for extra in lock.extras]
    command += [f"--group={group}" for group in lock.groups]
    if lock is not LOCKS[0]:
        command.append(f"--constraint=requirements/{LOCKS[0].path.name}")
    subprocess.run([*command, *options, PROJECT.name], cwd=PROJECT.parent, check=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
