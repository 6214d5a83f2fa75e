"""The schema of a SQLite store and its migrations."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from holdfast.errors import SchemaError, StoreError
from holdfast.seams import fault
from holdfast.stores._shared.disk import make_directories, sync_directory
from holdfast.stores._shared.schema import refuse_newer
from holdfast.stores.sqlite import index

_WAL_KEPT: Final = 8 << 20  # bytes of the log that are used again, rather than cut off
APPLICATION_ID: Final = 0x686F6C64  # "hold"
NAMES: Final = (
    "entries",
    "checkpoints",
    *index.TABLES,
)  # what is ours in the file; all else is the user's

_VIEW: Final = """
    CREATE VIEW checkpoints AS SELECT
        run || '@' || seq AS checkpoint_id, thread AS thread_id, flow AS pipeline_id,
        iif(meta = '', NULL, json_extract(meta, '$.flow_version')) AS pipeline_version,
        step AS step_id, step_index,
        coalesce(iif(meta = '', NULL, json_extract(meta, '$.step_name')), step) AS step_name,
        strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch')
            || printf('.%06dZ', at % 1000000) AS timestamp,
        iif(meta = '', '{{}}', coalesce(json_extract(meta, '$.metadata'), '{{}}')) AS metadata,
        run || '@' || parent AS parent_checkpoint_id,
        iif(status IN ('failed', 'paused'), status, 'completed') AS status,
        run AS run_id, seq AS sequence, type AS checkpoint_type, owner AS owner_id, duration,
        size AS state_bytes, length(body) AS stored_bytes, lower(hex(digest)) AS digest
    FROM entries WHERE kind IN ({kinds}) AND size > 0;
"""

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: the journal, and the read-only view of it for people and other tools
    """
    CREATE TABLE entries (
        run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, entry_id BLOB NOT NULL,
        parent INTEGER, term INTEGER NOT NULL, digest BLOB NOT NULL, step TEXT,
        step_index INTEGER, type TEXT, status TEXT NOT NULL, at INTEGER NOT NULL, duration REAL, size INTEGER NOT NULL,
        flow TEXT, thread TEXT, owner TEXT, meta TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (run, seq)
    );
    """
    + _VIEW.format(kinds="'checkpoint'"),
    # 2: what a step of a workflow left is a checkpoint, too
    "DROP VIEW checkpoints;" + _VIEW.format(kinds="'checkpoint', 'result'"),
    # 3: the heads index
    index.SCHEMA,
)
_INDEXED: Final = 3


def make_file(path: Path) -> None:
    """Make the database's file, durably, readable by its owner only."""
    make_directories(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    sync_directory(path.parent)


def prepare(db: sqlite3.Connection, url: str, synchronous: str) -> None:
    """Configure the connection and bring the schema up to date."""
    db.execute("BEGIN")  # one snapshot: another process may be making the schema right now
    try:
        tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise SchemaError(url, "this is not a SQLite database; name another file") from error
        raise
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if tables and application != APPLICATION_ID:
        raise SchemaError(url, "this SQLite file was not made by holdfast; name another one")
    version = check_version(db, url)
    db.execute("COMMIT")
    if not tables:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must come before the first table
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"{url}: SQLite can't use WAL here ({mode}); use a local disk")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves it in the drive's cache
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    db.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT}")
    db.execute("PRAGMA secure_delete = ON")  # what was deleted is not in the file any more
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    version = check_version(db, url)  # another process may have migrated it meanwhile
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        for statement in script.split(";"):
            db.execute(statement)
            fault("schema.migrate")
        if number == _INDEXED:
            index.build(db)
        db.execute(f"PRAGMA user_version = {number}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("COMMIT")


def check_version(db: sqlite3.Connection, url: str) -> int:
    """The version of the schema, 0 if there is none. Raises `SchemaError` for a newer one."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    refuse_newer(url, version, len(MIGRATIONS))
    return version
