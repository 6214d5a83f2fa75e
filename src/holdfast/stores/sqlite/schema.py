"""The schema of a SQLite store and its migrations."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from holdfast.errors import SchemaError, StoreError, StoreUnavailableError
from holdfast.seams import fault
from holdfast.stores._shared.access import refuse_planted
from holdfast.stores._shared.disk import make_directories, sync_directory
from holdfast.stores._shared.schema import refuse_newer
from holdfast.stores.sqlite import index

_SWITCHING: Final = 2.0  # seconds to wait for others who open a new file at the same moment
_WAL_KEPT: Final = 8 << 20  # bytes of the log that are used again, rather than cut off
APPLICATION_ID: Final = 0x686F6C64  # "hold": the file was made by holdfast, if it still says so
_VERSION: Final = f"{index.PREFIX}schema"
_VIEW: Final = f"{index.PREFIX}checkpoints"
NAMES: Final = (index.ENTRIES, _VIEW, _VERSION, *index.TABLES)
"""What is ours in the file; all else is the program's."""

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: the journal, and the read-only view of it for people and other tools
    """
    CREATE TABLE holdfast_schema (version INTEGER NOT NULL);
    INSERT INTO holdfast_schema VALUES (0);
    CREATE TABLE holdfast_entries (
        run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, entry_id BLOB NOT NULL,
        parent INTEGER, term INTEGER NOT NULL, digest BLOB NOT NULL, step TEXT,
        step_index INTEGER, type TEXT, status TEXT NOT NULL, at INTEGER NOT NULL, duration REAL,
        size INTEGER NOT NULL, flow TEXT, thread TEXT, owner TEXT, meta TEXT NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (run, seq)
    );
    CREATE VIEW holdfast_checkpoints AS SELECT
        run || '@' || seq AS checkpoint_id, thread AS thread_id, flow AS pipeline_id,
        iif(meta = '', NULL, json_extract(meta, '$.flow_version')) AS pipeline_version,
        step AS step_id, step_index,
        coalesce(iif(meta = '', NULL, json_extract(meta, '$.step_name')), step) AS step_name,
        strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch')
            || printf('.%06dZ', at % 1000000) AS timestamp,
        iif(meta = '', '{}', coalesce(json_extract(meta, '$.metadata'), '{}')) AS metadata,
        run || '@' || parent AS parent_checkpoint_id,
        iif(status IN ('failed', 'paused'), status, 'completed') AS status,
        run AS run_id, seq AS sequence, type AS checkpoint_type, owner AS owner_id, duration,
        size AS state_bytes, length(body) AS stored_bytes, lower(hex(digest)) AS digest
    FROM holdfast_entries WHERE kind IN ('checkpoint', 'result') AND size > 0;
    """,
    # 2: the heads index
    index.SCHEMA,
    # 3: an index that counts runs by status without the rows
    index.COUNTED,
)
_INDEXED: Final = 2


def make_file(path: Path, url: str) -> None:
    """Make the database's file, durably, readable by its owner only.

    Raises `StoreError` if others may have put one there, or could.
    """
    make_directories(path.parent)
    refuse_planted(url, path)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    sync_directory(path.parent)


def prepare(db: sqlite3.Connection, url: str, synchronous: str) -> None:
    """Configure the connection and bring the schema up to date, in the file of whichever program."""
    db.execute("BEGIN")  # one snapshot: another process may be making the schema right now
    try:
        new = _is_empty(db)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise SchemaError(url, "this is not a SQLite database; name another file") from error
        raise
    version = check_version(db, url)
    if not version:
        _refuse_unusable(db, url)
    db.execute("COMMIT")
    if new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must come before the first table
    _use_wal(db, url)
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves it in the drive's cache
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    db.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT}")
    db.execute("PRAGMA temp_store = MEMORY")  # what undoes a part of a block needs no file
    db.execute("PRAGMA secure_delete = ON")  # what was deleted is not in the file any more
    if version < len(MIGRATIONS):
        _migrate(db, url)


def check_version(db: sqlite3.Connection, url: str) -> int:
    """The version of the schema, 0 if there is none. Raises `SchemaError` for a newer one.

    It has a table of its own: `user_version` belongs to the program whose file it is.
    """
    if not _exists(db, _VERSION):
        return 0
    try:
        (version,) = db.execute("SELECT max(version) FROM holdfast_schema").fetchone()
    except sqlite3.OperationalError:
        version = None
    if not isinstance(version, int):
        raise _taken(url, _VERSION)
    refuse_newer(url, version, len(MIGRATIONS))
    return version


def has_journal(path: Path, *, unreadable: bool = True) -> bool:
    """Whether the store is there. Changes nothing.

    `unreadable` is the answer for a file that SQLite can't read now, or that is no database: by
    default, whoever opens it gets the error.

    Only SQLite opens the file: whoever closes it drops all locks that the process has on it.
    """
    name = f"{path.absolute().as_uri()}?mode=ro"
    try:
        if not path.stat().st_size:
            return False  # a database in which nothing is, of which SQLite would remove the log
        with closing(sqlite3.connect(name, uri=True, timeout=0)) as db:
            return _exists(db, _VERSION)
    except (OSError, sqlite3.Error):
        return unreadable


def _refuse_unusable(db: sqlite3.Connection, url: str) -> None:
    """Raise `SchemaError` for a database that can't hold the journal."""
    if db.execute("PRAGMA encoding").fetchone()[0] != "UTF-8":
        raise SchemaError(
            url, "its encoding is UTF-16, which would sort runs in another order; name another file"
        )
    made_by_holdfast = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if made_by_holdfast and _exists(db, "entries"):
        raise SchemaError(
            url, "it was made by holdfast before its first release; name another file"
        )
    for name in NAMES:
        if _exists(db, name):
            raise _taken(url, name)


def _taken(url: str, name: str) -> SchemaError:
    return SchemaError(url, f"it has a table {name!r} that is not holdfast's; name another file")


def _is_empty(db: sqlite3.Connection) -> bool:
    return not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def _exists(db: sqlite3.Connection, name: str) -> bool:
    query = "SELECT count(*) FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
    return bool(db.execute(query, (name,)).fetchone()[0])


def _use_wal(db: sqlite3.Connection, url: str) -> None:
    deadline = time.monotonic() + _SWITCHING
    while True:
        try:
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > deadline:  # SQLite itself does not wait for it
                raise StoreUnavailableError(
                    f"{url}: it is not in WAL mode, and can't be switched to it while others use "
                    "it; end their transactions, or run PRAGMA journal_mode = WAL in the program "
                    "that owns the file"
                ) from error
        time.sleep(0.01)
    if mode != "wal":
        raise StoreError(f"{url}: SQLite can't use WAL here ({mode}); use a local disk")


def _migrate(db: sqlite3.Connection, url: str) -> None:
    """Create what is missing, in one transaction: a crash leaves a program's file as it was."""
    db.execute("BEGIN IMMEDIATE")
    new = _is_empty(db)
    version = check_version(db, url)  # another process may have migrated it meanwhile
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        for statement in script.split(";"):
            db.execute(statement)
            fault("schema.migrate")
        if number == _INDEXED:
            index.build(db)
        db.execute("UPDATE holdfast_schema SET version = ?", (number,))
    if new:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("COMMIT")
