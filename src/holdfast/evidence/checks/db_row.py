"""db_row: a database has exactly one such row, with these values.

    expected = {"table": "tasks", "where": {"id": 7, "deleted_at": None},
                "values": {"status": "done"}, "schema": "public"}
    metadata = {"connection": "main"}        a name that the host program registered
    metadata = {"db_path": "store/x.sqlite"} a SQLite file inside the roots, or a registered one

Without either, the connection is "default". `None` is NULL. `values` and `schema` are
optional. Names are those of the catalogue or there is no such row; they are never SQL. The database
only finds the rows; whether they are equal is decided by `same_cell`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import EvidenceError, EvidencePolicyError
from holdfast.evidence import (
    Context,
    Evidence,
    Policy,
    Verdict,
    error,
    failed,
    inconclusive,
    verified,
)
from holdfast.evidence.checks.fields import Fields, path_subject
from holdfast.evidence.claims import canonical
from holdfast.evidence.world.bases import where_claimed
from holdfast.evidence.world.cells import same_cell
from holdfast.evidence.world.databases import Dialect, columns_of, connected, described, run
from holdfast.evidence.world.paths import Place, locate, look, real_path

_SCALARS: Final = (type(None), bool, int, float, str, bytes)
# DB-API's names, which every driver uses: what may be otherwise a moment later.
_TRANSIENT: Final = frozenset(["OperationalError", "InterfaceError", "IOException"])
_MAX_COLUMNS: Final = 100
_MAX_ALIKE: Final = 100  # rows that the database takes for equal to the claimed one
_PRECISION: Final = 1e-6  # of the columns that keep the fewest digits


class ExpectedRow(NamedTuple):
    """The claim, parsed."""

    source: str | Place  # the name of a connection, or where a file is
    table: str
    schema: str | None
    where: dict[str, Any]
    values: dict[str, Any]


def admit(evidence: Evidence, policy: Policy) -> ExpectedRow:
    """The claim, parsed."""
    fields = Fields(evidence, "table", "schema", "where", "values")
    where: dict[str, Any] = fields.required("where", dict)
    values: dict[str, Any] = fields.optional("values", dict, {})
    if not where:
        raise fields.refuse("where is empty; it must select one row")
    if len(where) > _MAX_COLUMNS or len(values) > _MAX_COLUMNS:
        raise fields.refuse(f"more than {_MAX_COLUMNS} columns")
    for name, value in [*where.items(), *values.items()]:
        fields.typed("the name of a column", name, str)
        if isinstance(value, float) and math.isnan(value):
            raise fields.refuse(f"{name} is NaN, which is equal to nothing")
    for name, value in where.items():
        if type(value) not in _SCALARS:
            raise fields.refuse(f"{name}: {type(value).__name__} can't be compared in SQL")
    table, schema = fields.required("table", str), fields.optional("schema", str, None)
    return ExpectedRow(_source(fields, evidence, policy), table, schema, where, values)


def subject(evidence: Evidence) -> str:
    """The row: the database, the table and the condition."""
    expected, metadata = evidence.expected, evidence.metadata
    database = metadata.get("connection", "default")
    if "db_path" in metadata:
        database = path_subject(metadata["db_path"], evidence.base)
    row = [database, expected.get("schema"), expected["table"], expected["where"]]
    return f"row:{canonical(row)}"


def facts(evidence: Evidence) -> dict[str, object]:
    """That there is one such row, and each value."""
    values = evidence.expected.get("values", {})
    return {"row": True, **{_fact(name): canonical(value) for name, value in values.items()}}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if there is no such row, several, or other values; INCONCLUSIVE if the database can't answer."""
    claim = admit(evidence, context.policy)
    values = {name: v for name, v in claim.values.items() if context.in_force(_fact(name))}
    claim = claim._replace(values=values)
    try:
        if isinstance(claim.source, Place):
            return _check_file(claim, claim.source, context)
        where = context.policy.connections[claim.source]
        with connected(claim.source, where, context) as (connection, dialect):
            return _compare(claim, connection, dialect)
    except (EvidenceError, TimeoutError):
        raise
    except Exception as problem:  # noqa: BLE001 - drivers have no error in common
        context.remaining()  # it was stopped at its deadline
        names = {kind.__name__ for kind in type(problem).__mro__}
        source = claim.source if isinstance(claim.source, str) else claim.source.path
        why = f"{source} could not be asked: {described(problem)}"
        if names & _TRANSIENT or isinstance(problem, OSError):
            return inconclusive(why, transient=True)
        return error(why)


def _fact(column: str) -> str:
    return f"column {column}"


def _check_file(claim: ExpectedRow, place: Place, context: Context) -> Verdict:
    """SQLite opens by name, so look before and after that it is the file inside the roots."""
    try:
        before = look(place, context.policy)
        path = real_path(place, context.policy)
        with connected(path, Path(path), context) as (connection, dialect):
            verdict = _compare(claim, connection, dialect)
        after = look(place, context.policy)
    except (FileNotFoundError, NotADirectoryError):
        return where_claimed(failed(f"there is no database {place.path}"), place)
    if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino):
        return inconclusive(f"{place.path} was replaced while it was read", transient=True)
    return verdict


def _source(fields: Fields, evidence: Evidence, policy: Policy) -> str | Place:
    metadata = evidence.metadata
    if "db_path" in metadata:
        if "connection" in metadata:
            raise fields.refuse("connection and db_path can't be given together")
        registered = _registered(metadata["db_path"], policy)
        if registered is not None:
            return registered
        place = locate(metadata["db_path"], policy, evidence.base)
        if place.root is None:
            raise EvidencePolicyError(
                place.path,
                "it must be inside a root, or registered: Policy(connections={name: path})",
            )
        return place
    name = fields.typed("connection", metadata.get("connection", "default"), str)
    if name not in policy.connections:
        raise EvidencePolicyError(
            f"the connection {name!r}", "it is not registered: Policy(connections={name: URL})"
        )
    return name


def _registered(path: object, policy: Policy) -> str | None:
    """The connection that the program registered for this very file, if the path is absolute."""
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    for name, where in policy.connections.items():
        is_file = isinstance(where, str | Path) and "://" not in str(where)
        if is_file and Path(str(where)).absolute() == Path(path):
            return name
    return None


def _compare(claim: ExpectedRow, connection: Any, dialect: Dialect) -> Verdict:
    table, columns = columns_of(connection, dialect, claim.table, claim.schema)
    if not columns:
        return failed(f"there is no table {claim.table!r}")
    known = {_fold(column, dialect): column for column in columns}
    for name in (*claim.where, *claim.values):
        if _fold(name, dialect) not in known:
            return failed(f"{table} has no column {name!r}")

    def quoted(name: str) -> str:
        return dialect.quoted(known[_fold(name, dialect)])

    tests: list[str] = []
    bound: list[Any] = []
    for name, value in claim.where.items():
        test, values = _roughly(value)
        tests.append(test.format(column=quoted(name), mark=dialect.mark))
        bound += values
    asked = dict.fromkeys([*claim.where, *claim.values])
    source = dialect.quoted(table)
    if claim.schema is not None:
        source = f"{dialect.quoted(claim.schema)}.{source}"
    # Every name above is the catalogue's own, quoted; every value is bound.
    sql = (
        f"SELECT {', '.join(map(quoted, asked))} FROM {source}"  # noqa: S608 - as said
        f" WHERE {' AND '.join(tests)} LIMIT {_MAX_ALIKE + 1}"
    )
    alike = run(connection, sql, bound, limit=_MAX_ALIKE + 1)
    rows = [dict(zip(asked, row, strict=True)) for row in alike]
    exact = [row for row in rows if all(same_cell(row[k], v) for k, v in claim.where.items())]
    if len(exact) > 1:
        return failed(f"{table} has more than one such row")
    if len(rows) > _MAX_ALIKE:
        return inconclusive(
            f"{table} has too many rows that the database takes for equal to this one: more than "
            f"{_MAX_ALIKE}; name more columns in where"
        )
    if not exact:
        return failed(f"{table} has no such row")
    for name, value in claim.values.items():
        if not same_cell(exact[0][name], value):
            return failed(f"{name} has another value")
    return verified()


def _roughly(value: Any) -> tuple[str, list[Any]]:
    """A condition for all rows that may have this value, and more; and what to bind in it."""
    if value is None:
        return "{column} IS NULL", []
    if isinstance(value, float) and math.isfinite(value):  # columns may be less precise
        margin = abs(value) * _PRECISION
        return "{column} BETWEEN {mark} AND {mark}", [value - margin, value + margin]
    return "{column} = {mark}", [value]


def _fold(name: str, dialect: Dialect) -> str:
    return name.lower() if dialect.folds_case else name
