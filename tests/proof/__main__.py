"""`python -m tests.proof`: carry out the fault programme, or some parts of it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.proof.page import PAGE, RESULTS, ROOT, written
from tests.proof.parts import ELSEWHERE, FAULTS, PARTS, SCHEDULES, Part

_HUNG: Final = 12 * 3600  # seconds that a test may take
_ABOVE: Final = ("cli", "demo", "documents", "integrations", "testing", "views", "web")
_SIMULATION: Final = ROOT / "tests/simulation"
_CARRIED_OUT: Final = re.compile(r"([0-9,]+) schedules from seed ")


def main() -> int:
    """Carry out the parts that are named, or all; returns how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--scale", type=float, default=1, help="of how often things are done")
    parser.add_argument("--workers", type=int, default=2 * min(os.cpu_count() or 1, 4))
    parser.add_argument("--page", action="store_true", help="only write RELIABILITY.md")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    failed = 0
    for name in () if given.page else given.parts or PARTS:
        path = RESULTS / f"{name}.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        result = carry_out(name, given.scale, given.workers, before)
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"{name}: {result['passed']:,} passed, {result['failed']:,} failed", flush=True)
        failed += result["failed"] > 0
    PAGE.write_text(written())
    return failed


def carry_out(name: str, scale: float, workers: int, before: dict[str, Any]) -> dict[str, Any]:
    """Carry out one part, or what is left of it; returns what is known of it afterwards."""
    began, seed = time.time(), random.SystemRandom().randrange(1 << 40)
    if name == SCHEDULES:
        done = _schedules(PARTS[name], scale, seed, before)
    else:
        done = _tests(PARTS[name], scale, seed, workers)
    return {
        "part": name,
        "commit": _git("rev-parse", "--short=10", "HEAD"),
        "changed": bool(
            _git("status", "--porcelain", "--", "src", "tests", ":!tests/proof/results")
        ),
        "began": datetime.fromtimestamp(began, UTC).isoformat(timespec="minutes"),
        "minutes": round((time.time() - began) / 60, 1),
        "machine": _machine(),
        "scale": scale,
        "seed": seed,
        **done,
    }


def _schedules(part: Part, scale: float, seed: int, before: dict[str, Any]) -> dict[str, Any]:
    """Those that are still missing, if the others were carried out on the same code."""
    code, count = _simulated_code(), round(part.settings["SCHEDULES"] * scale)
    earlier: list[dict[str, Any]] = []
    found = 0
    if before.get("code") == code and 0 < before["survived"].get(SCHEDULES, 0) < count:
        own = ("commit", "changed", "began", "minutes", "seed", "schedules")
        earlier = [*before["earlier"], {name: before[name] for name in own}]
        found = before["survived"][SCHEDULES]
        count -= found
    command = [sys.executable, "-m", "tests.simulation", str(seed), "--count", str(count)]
    done = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the schedules alone
        assert child.stdout is not None
        try:
            for line in child.stdout:
                print(line, end="", flush=True)
                if said := _CARRIED_OUT.match(line):
                    done = int(said[1].replace(",", ""))
        finally:
            signal.signal(signal.SIGINT, handler)
    failed = child.returncode != 0 or not done
    return {
        "scale": round((found + done) / part.settings["SCHEDULES"], 3),
        "passed": int(not failed),
        "failed": int(failed),
        "survived": {} if failed else {SCHEDULES: found + done},
        "schedules": done,
        "code": code,
        "earlier": earlier,
    }


def _simulated_code() -> str:
    """A digest of all that a schedule can execute: nothing below imports what is above."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src/holdfast").rglob("*.py"), *_SIMULATION.rglob("*.py")]):
        if path.relative_to(ROOT).parts[2] not in _ABOVE:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _tests(part: Part, scale: float, seed: int, workers: int) -> dict[str, Any]:
    raised = {
        f"HOLDFAST_{name}": str(max(1, round(count * scale)))
        for name, count in part.settings.items()
    }
    with TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal"]
        command += ["--hung-after", str(_HUNG), "--junit-xml", str(report), *part.tests]
        command += [f"--deselect={test}" for test in ELSEWHERE if test not in part.tests]
        environment = {**os.environ, **raised, "HOLDFAST_SEED": str(seed)}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        return _read(report)


def _read(report: Path) -> dict[str, Any]:
    """What the tests of a report came to, and what those that passed survived."""
    counts, survived = Counter[str](), Counter[str]()
    if not report.exists():
        return {"passed": 0, "failed": 1, "survived": {}}
    for case in ET.parse(report).iter("testcase"):
        ended = {child.tag for child in case}
        bad = bool(ended & {"failure", "error"})
        counts["failed" if bad else "skipped" if "skipped" in ended else "passed"] += 1
        for said in () if bad else case.iter("property"):
            if said.attrib["name"] in FAULTS:  # others are notes
                survived[said.attrib["name"]] += int(said.attrib["value"])
    return {
        "passed": counts["passed"],
        "failed": counts["failed"],
        "skipped": counts["skipped"],
        "survived": dict(sorted(survived.items())),
    }


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
