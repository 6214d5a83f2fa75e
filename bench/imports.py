"""What holdfast costs before it does anything: bytes to install, CPU time to import.

python -m bench.imports [--json FILE] [--dir DIRECTORY]

Each package is installed into a fresh environment of its own, so pip must reach an index, and is
imported there by fresh interpreters, from compiled bytecode as users have it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.inputs import MB
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    minus,
    print_goals,
    print_measured,
    scratch,
    write,
)

BARE: Final = "bare python"
HELP: Final = "holdfast --help"


class Package(NamedTuple):
    """What pip installs, and what a user then imports."""

    requirement: str
    code: str


PACKAGES: Final = {
    "holdfast": Package(str(Path(__file__).parents[1]), "import holdfast"),
    "SqliteSaver": Package(
        "langgraph-checkpoint-sqlite>=3.0", "import langgraph.checkpoint.sqlite"
    ),
}


_SHOW_HELP: Final = """
import contextlib, io
from holdfast.cli.main import holdfast
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    holdfast(["--help"])
"""


def main() -> None:
    """Measure, print, write the JSON."""
    options = arguments(__doc__).parse_args()
    with scratch(options.dir) as directory:
        installed = Measured(
            (name, _install(directory / name, package.requirement))
            for name, package in PACKAGES.items()
        )
        trials = {BARE: _import(directory / "holdfast", "pass")}
        trials |= {name: _import(directory / name, PACKAGES[name].code) for name in PACKAGES}
        trials[HELP] = _import(directory / "holdfast", _SHOW_HELP)
        imported = interleave(directory, 10, trials)
    for name in PACKAGES:
        beyond = imported.paired(name, BARE, "cpu_ms", minus)
        assert beyond is not None, "every import was measured"
        imported[name]["beyond_bare_ms"] = [beyond]
    goals = [
        Goal("install", "MB", 10, installed.median("holdfast", "mb")),
        Goal("import, CPU", "ms", 60, imported.median("holdfast", "beyond_bare_ms")),
        Goal("holdfast --help, CPU", "ms", 100, imported.median(HELP, "cpu_ms")),
    ]
    print_measured("install", installed)
    print_measured("import", imported)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": environment(),
            "install": installed,
            "import": imported,
            "goals": as_json(goals),
        },
    )


def _install(directory: Path, requirement: str) -> dict[str, list[float]]:
    """Megabytes and packages that installing it adds to a fresh environment."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    before = _content(packages)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--compile"]
    subprocess.run([*pip, requirement], check=True, capture_output=True)
    added = {path: size for path, size in _content(packages).items() if path not in before}
    count = sum(path.name == "METADATA" for path in added)
    return {"mb": [sum(added.values()) / MB], "packages": [float(count)]}


def _content(directory: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in directory.rglob("*") if path.is_file()}


def _import(directory: Path, code: str) -> Trial:
    python = str(directory / "bin" / "python")

    def measure(path: Path) -> dict[str, float]:
        child = os.posix_spawn(python, [python, "-I", "-c", code], os.environ)
        _, status, used = os.wait4(child, 0)
        assert status == 0, f"{code!r} failed"
        return {"cpu_ms": (used.ru_utime + used.ru_stime) * 1000}

    return measure


if __name__ == "__main__":
    main()
