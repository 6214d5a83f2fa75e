"""The heads index in a MySQL or MariaDB database: how its rows are written and made anew.

Statistics are added up later (`fold`): if each change updated a number, all writers would wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.heads import NOW, RowChange, RunHead, Tally, applied, differences
from holdfast.scanning import summed
from holdfast.stores._shared.index import HEAD_COLUMNS, as_head, as_row
from holdfast.stores._shared.rebuilding import NOW_COLUMNS, Journals
from holdfast.stores.mysql.connections import Session, literal

FOLD_EVERY: Final = 500
"""After so many changes by one store, it adds up the statistics that are new."""

_BATCH: Final = 1000
_LOCK: Final = "SHA2(CONCAT('holdfast tally ', DATABASE(), '{prefix}'), 224)"
_SUMS: Final = (
    "ON DUPLICATE KEY UPDATE n = {prefix}run_tally_sums.n + VALUES(n), "
    "total = {prefix}run_tally_sums.total + VALUES(total)"
)

TABLES: Final = (
    """
    CREATE TABLE IF NOT EXISTS {prefix}run_heads (
        run VARBINARY(1024) PRIMARY KEY, opened BIGINT NOT NULL, changed BIGINT NOT NULL,
        status VARBINARY(64) NOT NULL, flow VARBINARY(2048), thread VARBINARY(2048),
        owner VARBINARY(2048), parent VARBINARY(1024), holder VARBINARY(1024), due BIGINT,
        questions BIGINT NOT NULL, labels LONGBLOB NOT NULL, seq BIGINT NOT NULL,
        KEY opened (opened, run), KEY status (status, opened, run),
        KEY flow (flow(512), status, opened), KEY owner (owner(512), opened),
        KEY thread (thread(512), opened), KEY holder (holder, opened), KEY due (due, run),
        KEY questions (questions, opened)
    ) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC
    """,
    """
    CREATE TABLE IF NOT EXISTS {prefix}run_labels (
        label VARBINARY(1024), opened BIGINT, run VARBINARY(1024),
        PRIMARY KEY (label, opened, run)
    ) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC
    """,
    """
    CREATE TABLE IF NOT EXISTS {prefix}run_tally_sums (
        hour BIGINT, flow VARBINARY(2048), what VARBINARY(64), bucket BIGINT,
        n BIGINT NOT NULL, total BIGINT NOT NULL, PRIMARY KEY (hour, what, bucket, flow)
    ) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC
    """,
    """
    CREATE TABLE IF NOT EXISTS {prefix}run_tally_new (
        id BIGINT AUTO_INCREMENT PRIMARY KEY, hour BIGINT NOT NULL, flow VARBINARY(2048) NOT NULL,
        what VARBINARY(64) NOT NULL, bucket BIGINT NOT NULL, n BIGINT NOT NULL,
        total BIGINT NOT NULL
    ) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC
    """,
    """
    CREATE OR REPLACE SQL SECURITY INVOKER VIEW {prefix}run_tally AS
    SELECT hour, flow, what, bucket, CAST(sum(n) AS SIGNED) AS n,
        CAST(sum(total) AS SIGNED) AS total
    FROM (
        SELECT hour, flow, what, bucket, n, total FROM {prefix}run_tally_sums
        UNION ALL SELECT hour, flow, what, bucket, n, total FROM {prefix}run_tally_new
    ) AS every GROUP BY hour, flow, what, bucket
    """,
)


def change(session: Session, prefix: str, changes: Sequence[RowChange]) -> None:
    """Change rows and statistics, in the transaction that appends what changes them."""
    runs = ", ".join(["%s"] * len(changes))
    found = session.execute(
        f"SELECT {HEAD_COLUMNS} FROM {prefix}run_heads WHERE run IN ({runs})",  # noqa: S608
        [each.run for each in changes],
    )
    before = {row.run: row for row in map(as_head, found)}
    rows: list[RunHead] = []
    counted: list[Tally] = []
    for each in changes:
        old = before.get(each.run)
        row = applied(old, each)
        counted += differences(old, each)
        if old is not None and (row is None or row.position != old.position):
            _remove(session, prefix, old)
        if row is not None:
            rows.append(row)
    _put(session, prefix, rows, label=[row for row in rows if row.run not in before or row.labels])
    _count(session, prefix, summed(counted) if len(changes) > 1 else counted)


def journals(session: Session, prefix: str) -> Journals:
    """The journals and the index, to compare them."""
    return Journals(session.execute, f"`{prefix}entries`", prefix, "%s")


def build(session: Session, prefix: str) -> None:
    """Make the index anew. Whoever is interrupted begins again."""
    for table in ("run_heads", "run_labels", "run_tally_sums", "run_tally_new"):
        session.execute(f"DELETE FROM {prefix}{table}")  # noqa: S608
    rows: list[RunHead] = []

    def put(row: RunHead) -> None:
        rows.append(row)
        if len(rows) >= _BATCH:
            _put(session, prefix, rows, label=rows)
            rows.clear()

    counted = journals(session, prefix).built(put)
    _put(session, prefix, rows, label=rows)
    _count(session, prefix, counted)
    _count_anew(session, prefix)


def correct(session: Session, prefix: str, runs: Iterable[str]) -> None:
    """Make the rows of these runs anew, in a transaction."""
    own = journals(session, prefix)
    for run in runs:
        old, row = own.row(run), own.right(run)
        if old is not None:
            _remove(session, prefix, old)
        _put(session, prefix, [row] if row else [], label=[row] if row else [])
    _count_anew(session, prefix)


def fold(session: Session, prefix: str) -> None:
    """Add up the statistics that are new, in a transaction, unless another does."""
    lock = _LOCK.format(prefix=prefix)
    if session.execute(f"SELECT GET_LOCK({lock}, 0)") != [(1,)]:
        return
    try:
        found = session.execute(
            f"SELECT id, {NOW_COLUMNS} FROM {prefix}run_tally_new ORDER BY id LIMIT %s",  # noqa: S608
            [4 * _BATCH],
        )
        if found:
            sums = summed(Tally._make(row[1:]) for row in found)
            _insert(session, f"{prefix}run_tally_sums", sums, _SUMS.format(prefix=prefix))
            ids = ", ".join(str(row[0]) for row in found)
            session.execute(f"DELETE FROM {prefix}run_tally_new WHERE id IN ({ids})")  # noqa: S608
        session.execute("COMMIT")
    finally:
        session.execute(f"DO RELEASE_LOCK({lock})")


def _remove(session: Session, prefix: str, row: RunHead) -> None:
    session.execute(f"DELETE FROM {prefix}run_heads WHERE run = %s", [row.run])  # noqa: S608
    for label in row.labels:
        session.execute(
            f"DELETE FROM {prefix}run_labels WHERE label = %s AND opened = %s AND run = %s",  # noqa: S608
            [label, row.opened, row.run],
        )


def _put(
    session: Session, prefix: str, rows: Sequence[RunHead], *, label: Sequence[RunHead]
) -> None:
    """Write rows, and the labels of some of them."""
    if rows:
        values = b", ".join(b"(%s)" % b", ".join(map(literal, as_row(row))) for row in rows)
        text = f"REPLACE INTO {prefix}run_heads ({HEAD_COLUMNS}) VALUES "  # noqa: S608
        session.execute(text.encode() + values)
    labels = [(each, row.opened, row.run) for row in label for each in row.labels]
    if labels:
        values = b", ".join(b"(%s)" % b", ".join(map(literal, each)) for each in labels)
        text = f"REPLACE INTO {prefix}run_labels (label, opened, run) VALUES "  # noqa: S608
        session.execute(text.encode() + values)


def _count(session: Session, prefix: str, counted: Sequence[Tally]) -> None:
    _insert(session, f"{prefix}run_tally_new", counted)


def _insert(session: Session, table: str, counted: Sequence[Tally], rest: str = "") -> None:
    for at in range(0, len(counted), _BATCH):
        page = counted[at : at + _BATCH]
        values = b", ".join(b"(%s)" % b", ".join(map(literal, each)) for each in page)
        text = f"INSERT INTO {table} ({NOW_COLUMNS}) VALUES "  # noqa: S608
        session.execute(text.encode() + values + b" " + rest.encode())


def _count_anew(session: Session, prefix: str) -> None:
    for table in ("run_tally_sums", "run_tally_new"):
        session.execute(f"DELETE FROM {prefix}{table} WHERE hour = {NOW}")  # noqa: S608
    now = journals(session, prefix).now
    session.execute(f"INSERT INTO {prefix}run_tally_sums ({NOW_COLUMNS}) {now}")
