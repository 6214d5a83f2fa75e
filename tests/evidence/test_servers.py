"""Rows of real servers, which compare more loosely than a claim means it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from holdfast.evidence import EvidenceVerifier, Policy
from tests.effort import examples
from tests.servers import mariadb, postgres

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, status, verifier

TABLES = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, name VARCHAR(40), status VARCHAR(40), price DECIMAL(9, 2),
    done_at TIMESTAMP NULL, data {bytes});
INSERT INTO tasks VALUES (1, 'one', 'completed', 2.50, NULL, {literal});
INSERT INTO tasks VALUES (2, 'two', 'open', 0, '2024-02-29 12:00:00', NULL);
INSERT INTO tasks VALUES (3, 'twins', 'completed', 1, NULL, NULL);
INSERT INTO tasks VALUES (4, 'twins', 'completed', 1, NULL, NULL);
INSERT INTO tasks VALUES (5, 'TWO', 'upper', 1, NULL, NULL);
INSERT INTO tasks VALUES (6, 'étape', 'accent', 1, NULL, NULL);
CREATE TABLE letters (id INTEGER, padded CHAR(5), ci VARCHAR(9) COLLATE {collation}, f REAL, at TIMESTAMP NULL);
INSERT INTO letters VALUES (1, 'abc', 'alice', 0.1, '2024-02-29 12:00:00'), (2, 'x', 'ALICE', 1, NULL);
CREATE TABLE crowd (ci VARCHAR(9) COLLATE {collation});
INSERT INTO crowd SELECT 'alike' FROM {many};
CREATE TABLE {quote}we{quote}{quote}ird; -- [name]{quote} ({quote}co l'umn{quote} VARCHAR(9));
INSERT INTO {quote}we{quote}{quote}ird; -- [name]{quote} VALUES ('v');
CREATE VIEW finished AS SELECT id, name FROM tasks WHERE status = 'completed';
CREATE VIEW endless AS SELECT {sleep} AS x
"""
FOLDING = (
    b"CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
)
POSTGRES = {"bytes": "BYTEA", "literal": r"'\x00ff'", "quote": '"', "sleep": "pg_sleep(600)::text",
            "collation": "folding", "many": "generate_series(1, 300)"}  # fmt: skip
MYSQL = {"bytes": "BLOB", "literal": "x'00ff'", "quote": "`", "sleep": "SLEEP(600)",
         "collation": "utf8mb4_general_ci", "many": "seq_1_to_300"}  # fmt: skip


class Database(NamedTuple):
    kind: str
    url: str
    schema: str
    connect: Callable[[], Any]  # as a program might that likes its rows otherwise


@pytest.fixture(scope="module", params=["postgres", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgres":
        url = postgres.new_url()
        schema = url.rpartition("%3D")[2]
        plain = url.replace(f"schema={schema}&", "")
        with psycopg.connect(plain, autocommit=True) as db:
            db.execute(FOLDING + TABLES.format(**POSTGRES).encode())
        connect = lambda: psycopg.connect(plain, row_factory=dict_row, autocommit=True)  # noqa: E731
        yield Database("postgres", plain, schema, connect)
    else:
        url = mariadb.new_url()
        with mariadb.connect(url) as connection, connection.cursor() as cursor:
            for statement in TABLES.replace("ird; --", "ird\x00 --").format(**MYSQL).split(";"):
                cursor.execute(statement.replace("\x00", ";"))
        options: dict[str, Any] = {"cursorclass": pymysql.cursors.DictCursor}
        port, _, name = url.rpartition(":")[2].partition("/")
        connect_mysql = lambda: pymysql.connect(  # noqa: E731
            host="127.0.0.1", port=int(port), user="root", database=name, **options
        )
        yield Database("mysql", url, name, connect_mysql)


@pytest.fixture
def checker(database: Database) -> EvidenceVerifier:
    return verifier(connections={"default": database.url, "theirs": database.connect})


def row(where: Any, values: Any = None, table: str = "tasks", **more: Any) -> Any:
    return claim("db_row", table=table, where=where, values=values or {}, **more)


@pytest.mark.parametrize(
    ("where", "values", "found"),
    [
        ({"id": 1}, {}, VERIFIED),
        ({"id": 1, "done_at": None}, {"status": "completed", "price": 2.5}, VERIFIED),
        ({"id": 1}, {"data": b"\x00\xff", "done_at": None}, VERIFIED),
        ({"name": "one"}, {"id": 1}, VERIFIED),
        ({"name": "étape"}, {"status": "accent"}, VERIFIED),
        ({"price": 2.5}, {"id": 1}, VERIFIED),
        ({"data": b"\x00\xff"}, {"id": 1}, VERIFIED),
        ({"done_at": "2024-02-29 12:00:00"}, {"id": 2}, VERIFIED),
        ({"id": 1}, {"status": "open"}, FAILED),
        ({"id": 1}, {"status": "Completed"}, FAILED),
        ({"id": 1}, {"status": None}, FAILED),
        ({"id": 2, "done_at": None}, {}, FAILED),
        ({"name": "twins"}, {}, FAILED),
        ({"id": 99}, {}, FAILED),
        ({"id": 1 << 70}, {}, FAILED),
        ({"name": "' OR 1=1 --"}, {}, FAILED),
        ({"name": "\\' OR 1=1 --"}, {}, FAILED),
    ],
)  # fmt: skip
def test_exactly_one_row_has_these_values(
    checker: EvidenceVerifier, where: Any, values: Any, found: Any
) -> None:
    assert status(checker, row(where, values)) is found


@pytest.mark.parametrize(
    "where",
    [{"name": "ONE"}, {"name": "one "}, {"name": "etape"}, {"name": 0, "id": 1}, {"id": "1one"},
     {"name": "two", "status": "OPEN"}, {"data": "\x00\xff"}],
)  # fmt: skip
def test_what_a_server_takes_for_equal_is_not_what_was_claimed(
    checker: EvidenceVerifier, where: Any
) -> None:
    assert status(checker, row(where)) in (FAILED, ERROR)


def test_of_two_rows_that_differ_in_case_the_one_that_was_claimed_is_found(
    checker: EvidenceVerifier,
) -> None:
    assert status(checker, row({"name": "two"}, {"id": 2})) is VERIFIED
    assert status(checker, row({"name": "TWO"}, {"id": 5})) is VERIFIED


@pytest.mark.parametrize(
    ("where", "values", "found"),
    [
        ({"ci": "alice"}, {"id": 1}, VERIFIED),
        ({"ci": "ALICE"}, {"id": 2}, VERIFIED),
        ({"ci": "Alice"}, {}, FAILED),
        ({"id": 1}, {"ci": "ALICE"}, FAILED),
        ({"id": "1"}, {}, FAILED),
        ({"id": 1}, {"f": 0.1}, VERIFIED),
        ({"f": 0.1}, {"id": 1}, VERIFIED),
        ({"id": 1}, {"at": "2024-02-29T12:00:00"}, VERIFIED),
        ({"id": 1}, {"at": "2024-02-29 12:00:01"}, FAILED),
    ],
)  # fmt: skip
def test_a_row_is_compared_by_the_letter_whatever_the_collation(
    checker: EvidenceVerifier, where: Any, values: Any, found: Any
) -> None:
    assert status(checker, row(where, values, table="letters")) is found


def test_padding_counts(checker: EvidenceVerifier, database: Database) -> None:
    """PostgreSQL gives the blanks of a CHAR column, MariaDB does not."""
    kept = "abc  " if database.kind == "postgres" else "abc"
    for text in ("abc", "abc  ", "abc   "):
        found = VERIFIED if text == kept else FAILED
        assert status(checker, row({"padded": text}, table="letters")) is found, text
        assert status(checker, row({"id": 1}, {"padded": text}, table="letters")) is found, text


def test_too_many_rows_that_look_alike_are_inconclusive(checker: EvidenceVerifier) -> None:
    assert status(checker, row({"ci": "ALIKE"}, table="crowd")) is INCONCLUSIVE
    assert status(checker, row({"ci": "alike"}, table="crowd")) is FAILED


def test_a_server_that_knows_no_encoding_is_asked_like_any_other() -> None:
    url = postgres.new_database(encoding="SQL_ASCII")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE tasks (id INTEGER, name TEXT, data BYTEA)")
        db.execute(
            b"INSERT INTO tasks VALUES (1, '\xc3\xa9tape', 'plain'), (2, 'plain', NULL),"
            b" (3, '\xe9tape', NULL)"
        )
    checker = verifier(connections={"default": url})
    for where, values, found in (
        ({"id": 1}, {"name": "étape"}, VERIFIED),
        ({"name": "étape"}, {"id": 1}, VERIFIED),
        ({"name": "plain"}, {"id": 2}, VERIFIED),
        ({"name": "PLAIN"}, {}, FAILED),
        ({"id": 3}, {"name": "étape"}, FAILED),
        ({"id": 1}, {"data": b"plain"}, VERIFIED),
        ({"id": 1}, {"data": "plain"}, FAILED),
        ({"id": 2}, {"name": b"plain"}, FAILED),
    ):
        assert status(checker, row(where, values)) is found, (where, values)


def test_names_are_the_catalogues_own_and_never_sql(
    checker: EvidenceVerifier, database: Database
) -> None:
    assert status(checker, row({"id": 1}, schema=database.schema)) is VERIFIED
    assert status(checker, row({"id": 1}, table="finished")) is VERIFIED
    weird = {"co l'umn": "v"}
    quote = '"' if database.kind == "postgres" else "`"
    assert status(checker, row(weird, table=f"we{quote}ird; -- [name]")) is VERIFIED
    for table in ("nowhere", "(SELECT 1 AS id) AS x", "tasks; --", "pg_class", ""):
        assert status(checker, row({"id": 1}, table=table)) is not VERIFIED
    for name in ("nothing", "ID", "id = 1 OR 1", "*", ""):
        assert status(checker, row({name: 1})) is not VERIFIED
    assert status(checker, row({"id": 1}, schema="elsewhere")) is FAILED


def test_a_connection_may_be_the_programs_own_whatever_its_rows_look_like(
    checker: EvidenceVerifier,
) -> None:
    evidence = claim(
        "db_row", {"connection": "theirs"}, table="tasks", where={"id": 1}, values={"name": "one"}
    )
    assert status(checker, evidence) is VERIFIED


def test_a_query_that_does_not_end_is_stopped(database: Database) -> None:
    checker = verifier(connections={"default": database.url}, check_seconds=1)
    begun = time.monotonic()
    evidence = row({"x": "never"}, table="endless")
    assert status(checker, evidence) is INCONCLUSIVE
    assert time.monotonic() - begun < 25


def test_a_server_that_is_gone_is_no_verdict_on_the_row() -> None:
    for url in ("postgresql://127.0.0.1:1/db", "mysql://127.0.0.1:1/db"):
        assert status(verifier(connections={"default": url}), row({"id": 1})) is INCONCLUSIVE


def test_nothing_can_be_written(database: Database, checker: EvidenceVerifier) -> None:
    """Not even by a view that calls something which does."""
    if database.kind == "postgres":
        with psycopg.connect(database.url, autocommit=True) as db:
            db.execute(
                "CREATE FUNCTION sly() RETURNS int LANGUAGE sql AS "
                "$$ INSERT INTO tasks VALUES (77) RETURNING id $$"
            )
            db.execute("CREATE VIEW sly AS SELECT sly() AS id")
    else:
        with mariadb.connect(database.url) as connection, connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION sly() RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
                "BEGIN INSERT INTO tasks (id) VALUES (77); RETURN 77; END"
            )
            cursor.execute("CREATE VIEW sly AS SELECT sly() AS id")
    assert status(checker, row({"id": 77}, table="sly")) is not VERIFIED
    assert status(checker, row({"id": 77})) is FAILED


ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "one", "n": 7.5, "data": b"\x00\xff"},
    {"id": 2, "name": "two", "n": None, "data": None},
    {"id": 3, "name": "TWO", "n": 7.0, "data": b"two"},
    {"id": 4, "name": "7", "n": 0.1, "data": b""},
]
VALUES = [1, 2, 3, 4, "1", "one", "One", "two", "TWO", "two ", "7", 7, 7.0, 7.5, 0.1, None, True,
          False, b"\x00\xff", b"two", b"", "", "\0", "' OR 1=1", 2**70, -0.0, float("inf")]  # fmt: skip


def _has(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    def equal(one: Any, value: Any) -> bool:
        if one is None or value is None:
            return one is value
        kinds = (str, bytes)
        return bool(one == value) and all(isinstance(one, k) == isinstance(value, k) for k in kinds)

    return all(equal(row[name], value) for name, value in wanted.items())


def test_no_row_is_verified_that_python_would_not_call_equal(database: Database) -> None:
    checker = EvidenceVerifier(policy=Policy(connections={"default": database.url}), attempts=1)
    kind = "BYTEA" if database.kind == "postgres" else "BLOB"
    statement = (
        f"CREATE TABLE any_row (id INTEGER, name VARCHAR(9), n DOUBLE PRECISION, data {kind})"
    )
    insert = "INSERT INTO any_row VALUES (%(id)s, %(name)s, %(n)s, %(data)s)"
    if database.kind == "postgres":
        with psycopg.connect(database.url, autocommit=True) as db:
            db.execute(statement.encode())
            for one in ROWS:
                db.execute(insert, one)
    else:
        with mariadb.connect(database.url) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            for one in ROWS:
                cursor.execute(insert, one)
            connection.commit()
    columns = st.dictionaries(st.sampled_from(list(ROWS[0])), st.sampled_from(VALUES), max_size=2)

    @given(columns, columns)
    @settings(max_examples=examples(60), deadline=None, database=None)
    def attempt(where: dict[str, Any], values: dict[str, Any]) -> None:
        evidence = row(where, values, table="any_row")
        found = status(checker, evidence)
        exact = [one for one in ROWS if _has(one, where)]
        holds = bool(where) and len(exact) == 1 and _has(exact[0], values)
        if found is VERIFIED:
            assert holds
        elif found is FAILED:
            assert not holds

    attempt()
