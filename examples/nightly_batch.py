"""A nightly batch: usage is billed in the database that also holds the journal, exactly once.

    python examples/nightly_batch.py               # kill it at any time and start it again
    python examples/nightly_batch.py --store postgresql://user:password@host/database

Without `--store` it uses SQLite, in nightly.db; PostgreSQL needs the extra `postgres` and lets any
machine resume where another died. If nobody used anything yet, it makes up a day of usage. What it
shows:

* one run a night, named after the day: cron may start it as often as it likes;
* batches side by side, each booked by `commit=` in one transaction with its checkpoint: no
  invoice is missing and none is there twice, wherever it was killed;
* a file for people whose digest is evidence: delete it, and the next start writes it again.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.workflow import for_each, step, workflow

Invoice = tuple[str, int, int]  # day, customer, cents

TABLES = [
    "CREATE TABLE IF NOT EXISTS usage (day TEXT, customer INTEGER, cents INTEGER)",
    "CREATE TABLE IF NOT EXISTS invoices (day TEXT, customer INTEGER, cents INTEGER)",
]
INVOICE = "INSERT INTO invoices VALUES (%s, %s, %s)"


class Database:
    """The same few statements on either database."""

    url = "nightly.db"

    @property
    def on_server(self) -> bool:
        """Whether it is PostgreSQL."""
        return self.url.startswith("postgresql://")

    def sql(self, text: str) -> str:
        """A statement in the database's own style of parameters."""
        return text if self.on_server else text.replace("%s", "?")

    def run(self, text: str, *parameters: object) -> list[Any]:
        """Run one statement by itself."""
        connect: Any = sqlite3.connect
        if self.on_server:
            from psycopg import connect
        with closing(connect(self.url)) as db:
            found = db.execute(self.sql(text), parameters)
            rows = found.fetchall() if found.description else []
            db.commit()
        return rows


database = Database()


@step
def customers(day: str) -> list[int]:
    """Who used something that day."""
    print("looking for customers", flush=True)
    rows = database.run("SELECT DISTINCT customer FROM usage WHERE day = %s ORDER BY 1", day)
    return [customer for (customer,) in rows]


def book(cursor: Any, invoices: list[Invoice]) -> None:
    """The short part, in the transaction that records the step."""
    for invoice in invoices:
        cursor.execute(database.sql(INVOICE), invoice)


@step(retry=3, commit=book)
def bill(day: str, batch: list[int]) -> list[Invoice]:
    """The slow part, outside any transaction: what each of them owes."""
    print(f"billing {batch[0]} to {batch[-1]}\n", end="", flush=True)  # one write: threads print
    owed = "SELECT SUM(cents) FROM usage WHERE day = %s AND customer = %s"
    return [(day, customer, int(database.run(owed, day, customer)[0][0])) for customer in batch]


@step(outputs=lambda result, day, _: f"statement-{day}.csv")
def statement(day: str, invoices: list[Invoice]) -> str:
    """A file for the accountants."""
    print("writing the statement", flush=True)
    lines = [f"{customer},{cents / 100:.2f}" for _, customer, cents in invoices]
    Path(f"statement-{day}.csv").write_text("\n".join(["customer,amount", *lines, ""]))
    return f"{len(lines)} invoices, {sum(cents for *_, cents in invoices) / 100:.2f} EUR"


@workflow
async def nightly(day: str, size: int) -> str:
    """Bill everyone, a batch at a time."""
    found = await customers(day)
    batches = [found[start : start + size] for start in range(0, len(found), size)]
    billed = await for_each(batches, lambda batch: bill(day, batch), name="bill", concurrency=4)
    return await statement(day, [invoice for invoices in billed for invoice in invoices])


def make_tables(day: str) -> None:
    """The tables; if there is no usage, that of forty customers, three uses each."""
    for table in TABLES:
        database.run(table)
    if not database.run("SELECT 1 FROM usage LIMIT 1"):
        uses = [(day, who, 100 * use + who) for who in range(1, 41) for use in (1, 2, 3)]
        rows = ", ".join(["(%s, %s, %s)"] * len(uses))
        database.run(f"INSERT INTO usage VALUES {rows}", *(value for use in uses for value in use))


def main() -> None:
    """Bill the day, or resume the bill."""
    parser = argparse.ArgumentParser(description="a batch that survives kill -9")
    parser.add_argument("--day", default="2026-11-15", help="which day to bill")
    parser.add_argument("--size", type=int, default=10, help="customers in a batch (10)")
    parser.add_argument("--store", default=database.url, help="URL or path (nightly.db)")
    options = parser.parse_args()
    database.url = options.store
    engine = hf.Engine(options.store)
    engine.checkpointer.store.survives()  # the store makes its file; our tables go into it
    make_tables(options.day)
    call = nightly(options.day, options.size)
    print("done:", engine.run_sync(call, run_id=f"nightly-{options.day}", resume=True))


if __name__ == "__main__":
    main()
