"""A step's own SQL and its result are one on servers, too, whatever breaks in between."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import holdfast as hf
from holdfast.workflow import step, workflow
from tests import faults
from tests.servers import mariadb, postgres


def query(url: str, statement: str) -> list[Any]:
    is_postgres = url.startswith("postgres")
    db: Any = psycopg.connect(url, autocommit=True) if is_postgres else mariadb.connect(url)
    try:
        cursor = db.cursor()
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
    finally:
        db.close()


@workflow("booking")
def booking(amount: int) -> Any:
    return (yield step("book").python(lambda: amount * 2, commit=book))


def book(cursor: Any, total: int) -> None:
    cursor.execute("INSERT INTO ledger VALUES (%s)", (total,))


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_payment_is_booked_once(kind: str, where: str) -> None:
    url = postgres.new_database() if kind == "postgres" else mariadb.new_url()
    query(url, "CREATE TABLE ledger (amount INTEGER)")
    trouble = hf.OutcomeUnknownError("", "the answer was lost")

    async def pay(number: int) -> None:
        """Whichever of its commits it is that nobody hears of."""
        engine = hf.Engine(url)
        with faults.at(f"{kind}.commit.{where}", faults.raising(trouble), nth=number):
            assert await engine.run(booking(amount=number), run_id=f"pay-{number}") == 2 * number
        await engine.close()

    for number in range(1, 6):
        asyncio.run(pay(number))
    assert query(url, "SELECT amount FROM ledger ORDER BY amount") == [
        (2 * n,) for n in range(1, 6)
    ]
