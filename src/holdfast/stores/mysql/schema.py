"""The schema of a MySQL or MariaDB store and its migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import pymysql

from holdfast.errors import SchemaError
from holdfast.seams import fault
from holdfast.stores._shared.schema import (
    LOCK_SECONDS,
    MARK,
    MIGRATION_SECONDS,
    too_long,
    version_in,
)
from holdfast.stores.mysql import index
from holdfast.stores.mysql.connections import Session, patient

# Text is stored as bytes, so that no collation folds, pads or truncates it.
_TABLE: Final = """
    CREATE TABLE {entries} (
        run VARBINARY(1024) NOT NULL, seq BIGINT NOT NULL, kind VARBINARY(64) NOT NULL,
        entry_id VARBINARY(512) NOT NULL, parent BIGINT, term BIGINT NOT NULL,
        digest VARBINARY(512) NOT NULL, step VARBINARY(2048), step_index BIGINT, type VARBINARY(2048),
        status VARBINARY(64) NOT NULL, at BIGINT NOT NULL, duration DOUBLE, size BIGINT NOT NULL,
        flow VARBINARY(2048), thread VARBINARY(2048), owner VARBINARY(2048),
        meta LONGBLOB NOT NULL, body LONGBLOB NOT NULL,
        `stored` BIGINT GENERATED ALWAYS AS (octet_length(body)) STORED,
        PRIMARY KEY (run, seq)
    ) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, COMMENT = 'holdfast schema 0'
"""
_VIEW: Final = """
    CREATE OR REPLACE SQL SECURITY INVOKER VIEW {checkpoints} AS SELECT
        CONVERT(CONCAT(run, '@', seq) USING utf8mb4) AS checkpoint_id,
        CONVERT(thread USING utf8mb4) AS thread_id, CONVERT(flow USING utf8mb4) AS pipeline_id,
        JSON_UNQUOTE(JSON_EXTRACT({meta}, '$.flow_version')) AS pipeline_version,
        CONVERT(step USING utf8mb4) AS step_id, step_index,
        COALESCE(JSON_UNQUOTE(JSON_EXTRACT({meta}, '$.step_name')), CONVERT(step USING utf8mb4))
            AS step_name,
        TIMESTAMP('1970-01-01 00:00:00') + INTERVAL at MICROSECOND AS `timestamp`,
        COALESCE(JSON_EXTRACT({meta}, '$.metadata'), '{{}}') AS metadata,
        CONVERT(CONCAT(run, '@', parent) USING utf8mb4) AS parent_checkpoint_id,
        CASE WHEN status IN ('failed', 'paused') THEN CONVERT(status USING utf8mb4)
            ELSE 'completed' END AS status,
        CONVERT(run USING utf8mb4) AS run_id, seq AS sequence,
        CONVERT(type USING utf8mb4) AS checkpoint_type, CONVERT(owner USING utf8mb4) AS owner_id,
        duration, size AS state_bytes, `stored` AS stored_bytes, LOWER(HEX(digest)) AS digest
    FROM {entries} WHERE kind IN ('checkpoint', 'result') AND size > 0
"""
# MySQL fails on what it does not take for JSON, such as half a surrogate pair.
_META: Final = "IF(JSON_VALID(CONVERT(meta USING utf8mb4)), CONVERT(meta USING utf8mb4), NULL)"
_LOCK: Final = "SHA2(CONCAT('holdfast ', DATABASE()), 224)"  # of at most 64 characters
# Only MariaDB limits other statements than queries; to MySQL these are comments.
_UNLIMIT: Final = "SET @limit = 0 /*M!, @limit = @@max_statement_time, max_statement_time = 0 */"
_LIMIT: Final = "SET /*M! max_statement_time = @limit, */ @limit = NULL"


class Migration(NamedTuple):
    """A way to the next version. MySQL commits every statement by itself.

    The first statements may be repeated, if a client died in between. Then come clauses of one
    ALTER TABLE, which also sets the version: it is done once or not at all.
    """

    first: tuple[str, ...] = ()
    alter: tuple[str, ...] = ()
    indexes: bool = False  # whether the heads index is made after the first statements


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration((_VIEW,)),  # 1: the view for people
    Migration(index.TABLES, indexes=True),  # 2: the heads index
)


def prepare(session: Session, prefix: str, url: str) -> None:
    """Bring the schema up to date. If it is already, this needs no rights."""
    if version_of(session, prefix, url) == len(MIGRATIONS):
        return
    with _alone(session, url):
        version = version_of(session, prefix, url)  # another may have been faster
        with patient(session.db, MIGRATION_SECONDS):
            _migrate(session, prefix, version)


@contextmanager
def _alone(session: Session, url: str) -> Iterator[None]:
    """Lock out other migrations, and lift the user's time limits."""
    session.execute(_UNLIMIT)
    try:
        with patient(session.db, 2 * LOCK_SECONDS):  # the server gives up first
            if session.execute(f"SELECT GET_LOCK({_LOCK}, %s)", (LOCK_SECONDS,)) != [(1,)]:
                raise too_long(url)
        yield
    finally:
        with suppress(pymysql.Error):  # who lost the connection has lost the lock
            session.execute(f"DO RELEASE_LOCK({_LOCK})")
            session.execute(_LIMIT)


def _migrate(session: Session, prefix: str, version: int | None) -> None:
    names = {
        "entries": f"`{prefix}entries`",
        "checkpoints": f"`{prefix}checkpoints`",
        "meta": _META,
        "prefix": prefix,
    }
    if version is None:
        session.execute(_TABLE.format(**names))
        fault("schema.migrate")
    for number, migration in enumerate(MIGRATIONS[version or 0 :], (version or 0) + 1):
        for statement in migration.first:
            session.execute(statement.format(**names))
            fault("schema.migrate")
        if migration.indexes:
            index.build(session, prefix)
            fault("schema.migrate")
        clauses = ", ".join((*migration.alter, f"COMMENT = '{MARK}{number}'"))
        session.execute(f"ALTER TABLE {names['entries']} {clauses}")
        fault("schema.migrate")


def version_of(session: Session, prefix: str, url: str) -> int | None:
    """The version of the schema, None if there is none. Raises `SchemaError` for a newer one."""
    found = session.execute(
        "SELECT table_comment FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name = CONVERT(%s USING utf8mb4)",
        (f"{prefix}entries",),
    )
    if not found:
        return None
    version = version_in(str(found[0][0]), url, len(MIGRATIONS))
    if version is None:
        raise SchemaError(
            url,
            "there is a table that holdfast did not create; open the store with another prefix=",
        )
    return version
