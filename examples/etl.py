"""ETL: sales from CSV files, cleaned into files and loaded into a database, exactly once.

    python examples/etl.py              # kill it at any time and start it again

It works in the current directory, on the files in inbox/; if there is no such directory, it makes
one with six small files. What it shows:

* `for_each`: the files are cleaned side by side, and a resumed run does only those left over;
* a transactional step: rows are loaded by `commit=`, in one transaction with the checkpoint;
* evidence: change a file in inbox/, delete one in clean/, or delete the row of the load, then
  run it again. It goes back to before that, and does the rest again.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.evidence import Evidence, EvidenceVerifier, Policy
from holdfast.workflow import for_each, step, workflow

DATABASE = "sales.db"  # holds holdfast's journal and the tables below
INBOX, CLEAN = Path("inbox"), Path("clean")


@step(reads=lambda name: INBOX / name, outputs=lambda file: file)
def clean(name: str) -> str:
    """Extract one file: rows with a shop and a positive amount, in cents."""
    print(f"cleaning {name}\n", end="", flush=True)  # one write: several threads print
    with (INBOX / name).open(newline="") as file:
        rows = [
            [row["shop"].strip().lower(), round(100 * float(row["amount"]))]
            for row in csv.DictReader(file)
            if row["shop"] and float(row["amount"]) > 0
        ]
    CLEAN.mkdir(exist_ok=True)
    target = CLEAN / f"{name}.json"
    target.write_text(json.dumps(rows))
    return str(target)


def write(cursor: Any, totals: dict[str, int]) -> None:
    """Runs in the transaction that also records the step: both happen, or neither does."""
    cursor.execute("CREATE TABLE IF NOT EXISTS loads (batch TEXT PRIMARY KEY, shops INTEGER)")
    cursor.execute("CREATE TABLE IF NOT EXISTS sales (batch TEXT, shop TEXT, cents INTEGER)")
    cursor.execute("DELETE FROM loads WHERE batch = 'today'")  # if evidence sent us back here
    cursor.execute("DELETE FROM sales WHERE batch = 'today'")
    for shop, cents in totals.items():
        cursor.execute("INSERT INTO sales VALUES ('today', ?, ?)", (shop, cents))
    cursor.execute("INSERT INTO loads VALUES ('today', ?)", (len(totals),))


def loaded(totals: dict[str, int]) -> Evidence:
    """What must be true of the database for the load to count as done."""
    row = {"table": "loads", "where": {"batch": "today"}, "values": {"shops": len(totals)}}
    return Evidence("db_row", "the load is complete", row)


@step(reads=lambda files: files, commit=write, evidence=loaded)
def load(files: list[str]) -> dict[str, int]:
    """Transform to cents by shop, which `write` loads."""
    print("adding up", len(files), "files", flush=True)
    totals: Counter[str] = Counter()
    for file in files:
        for shop, cents in json.loads(Path(file).read_text()):
            totals[shop] += cents
    return dict(sorted(totals.items()))


@step(outputs="report.md")
def report(totals: dict[str, int]) -> str:
    """A page for people."""
    print("writing the report", flush=True)
    lines = [f"| {shop} | {cents / 100:.2f} |" for shop, cents in totals.items()]
    Path("report.md").write_text("\n".join(["| shop | sales |", "|---|---|", *lines, ""]))
    return f"{len(totals)} shops, {sum(totals.values()) / 100:.2f} EUR"


@workflow
async def etl(names: list[str]) -> str:
    """Extract, transform, load, report."""
    files = await for_each(names, clean, concurrency=4)
    return await report(await load(files))


def make_sample() -> None:
    """Six days of sales in two shops, with some of the dirt that real files have."""
    unfinished = Path("inbox.new")
    unfinished.mkdir(exist_ok=True)
    for day in range(1, 7):
        rows = [f"Harbour,{day}.50", f" pier ,{10 * day}", ",3.00", f"harbour,-{day}"]
        (unfinished / f"day-{day}.csv").write_text("\n".join(["shop,amount", *rows, ""]))
    unfinished.rename(INBOX)  # all of it, or none


def main() -> None:
    """Run it, or resume it; a completed run is verified, and repaired if necessary."""
    if not INBOX.exists():
        make_sample()
    names = sorted(path.name for path in INBOX.glob("*.csv"))
    policy = Policy(connections={"default": DATABASE})
    engine = hf.Engine(DATABASE, verifier=EvidenceVerifier(policy=policy))
    print("done:", engine.run_sync(etl(names), run_id="etl-today", resume=True))


if __name__ == "__main__":
    main()
