"""What the storm executes: a flow of six steps, each with an effect in the journal's database."""

from __future__ import annotations

import os
from functools import cache
from threading import get_ident
from typing import Any, Final

import psycopg

import holdfast as hf
from holdfast.workflow import step, workflow

STEPS: Final = 6
TABLES: Final = """
    CREATE TABLE began (run text, step text, pid integer, number serial);
    CREATE TABLE effects (run text, step text, pid integer);
"""


def note(cursor: Any, result: tuple[str, str, int]) -> None:
    """The effect, in the transaction that records the step."""
    cursor.execute("INSERT INTO effects VALUES (%s, %s, %s)", result)


@step(commit=note)
def work(database: str, number: int) -> tuple[str, str, int]:
    here = hf.current_step()
    row = (here.run_id, here.step, os.getpid())
    _connection(database, get_ident()).execute("INSERT INTO began VALUES (%s, %s, %s)", row)
    return row


@cache
def _connection(database: str, thread: int) -> psycopg.Connection[Any]:
    return psycopg.connect(database, autocommit=True)


@workflow
async def voyage(database: str, number: int) -> int:
    for _ in range(STEPS):
        await work(database, number)
    return number * number
