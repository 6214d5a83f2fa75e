"""Databases of `SqliteSaver` and `AsyncSqliteSaver`, opened read-only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.integrations.langgraph.databases.checking import (
    check_bytes,
    check_saved,
    checked_dict,
)
from holdfast.integrations.langgraph.databases.rows import (
    UNREADABLE,
    Place,
    Saved,
    Source,
    Write,
    check_columns,
    check_type,
    parsed_metadata,
    refused,
    send_pending,
)
from holdfast.integrations.langgraph.databases.values import is_plain, put_together, take_apart
from holdfast.urls import local_path

_TEXT: Final = ("TEXT",)
_CHECKPOINTS: Final = {
    **dict.fromkeys(("thread_id", "checkpoint_ns", "checkpoint_id"), _TEXT),
    **dict.fromkeys(("parent_checkpoint_id", "type"), _TEXT),
    **dict.fromkeys(("checkpoint", "metadata"), ("BLOB",)),
}
_WRITES: Final = {
    **dict.fromkeys(("thread_id", "checkpoint_ns", "checkpoint_id", "task_id"), _TEXT),
    **dict.fromkeys(("task_path", "channel", "type"), _TEXT),
    "idx": ("INTEGER",),
    "value": ("BLOB",),
}
_PATH: Final = "task_path"  # which older databases lack
_TYPES: Final = """
    SELECT type, thread_id, checkpoint_ns, checkpoint_id, NULL FROM checkpoints
    WHERE :all OR thread_id IN (SELECT value FROM json_each(:threads)) GROUP BY type
    UNION ALL
    SELECT ifnull(type, 'null'), thread_id, checkpoint_ns, checkpoint_id, channel FROM writes
    WHERE :all OR thread_id IN (SELECT value FROM json_each(:threads)) GROUP BY type
"""
_COUNT: Final = """
    SELECT count(*) FROM checkpoints
    WHERE :all OR thread_id IN (SELECT value FROM json_each(:threads))
"""
_SAVED: Final = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints WHERE :all OR thread_id IN (SELECT value FROM json_each(:threads))
    ORDER BY thread_id, checkpoint_ns, checkpoint_id
"""
_WRITTEN: Final = """
    SELECT task_id, task_path, idx, channel, ifnull(type, 'null'), ifnull(value, x'') FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx
"""


def path_of(where: str) -> Path:
    """The file that a path names, or a URL that begins with sqlite:///."""
    named = local_path(where) if where.startswith("sqlite:///") else None
    return named or Path(where)


@contextmanager
def opened(where: str) -> Iterator[Source]:
    """A database, by its path, or by its URL as stores have it."""
    path = path_of(where)
    if not path.is_file():
        raise ValueError(f"there is no file {where}")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.isolation_level = None
            for setting in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
                db.execute(f"PRAGMA {setting}")
            db.execute("BEGIN")
            yield SqliteSource(db, where)
    except sqlite3.Error as error:
        raise ValueError(f"{where} can't be read: {error}") from error


class SqliteSource:
    """The tables `checkpoints` and `writes`."""

    def __init__(self, db: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._db = db
        check_columns(name, "checkpoints", self._columns("checkpoints"), _CHECKPOINTS)
        writes = self._columns("writes")
        check_columns(name, "writes", writes, _WRITES, frozenset({_PATH}))
        self._written = _WRITTEN if _PATH in writes else _WRITTEN.replace(_PATH, "''")

    def _columns(self, table: str) -> dict[str, str]:
        """The columns of a table, by name; none if there is none, or it is a view."""
        kind = self._db.execute("SELECT type FROM sqlite_schema WHERE name = ?", (table,))
        if kind.fetchone() != ("table",):
            return {}
        rows = self._db.execute("SELECT name, upper(type) FROM pragma_table_xinfo(?)", (table,))
        return dict(rows.fetchall())

    def check_types(self, threads: tuple[str, ...]) -> None:
        """Raise ValueError, with its place, for the first value that can't be taken over."""
        for kind, *place, channel in self._db.execute(_TYPES, _chosen(threads)):
            what = "its state" if channel is None else f"the channel {channel!r}"
            check_type(Place(*map(str, place)), what, str(kind))

    def count(self, threads: tuple[str, ...]) -> int:
        """How many checkpoints there are, of these threads or of all."""
        (found,) = self._db.execute(_COUNT, _chosen(threads)).fetchone()
        return int(found)

    def checkpoints(self, threads: tuple[str, ...]) -> Iterator[Saved]:
        """Those checkpoints, ordered by thread, namespace and id."""
        for row in self._db.execute(_SAVED, _chosen(threads)):
            try:
                saved = self._saved(row)
            except UNREADABLE as error:
                raise refused(Place(*map(str, row[:3])), error) from error
            yield saved

    def _saved(self, row: tuple[Any, ...]) -> Saved:
        thread, ns, checkpoint_id, parent, kind, data, metadata = row
        check_bytes("the column checkpoints.checkpoint", data)
        fields = checked_dict("its state", take_apart(kind, data))
        values = checked_dict("channel_values", fields.pop("channel_values", None))
        checked_dict("channel_versions", fields.get("channel_versions"))
        channels = {channel: put_together(kind, value) for channel, value in values.items()}
        send_pending(fields, channels, kind, fields.pop("pending_sends", None))
        if not is_plain(fields):
            raise ValueError("there is an object where only data belongs")
        place = (thread, ns, checkpoint_id)
        writes = [
            Write(task, path, idx, channel, (type_, value))
            for task, path, idx, channel, type_, value in self._db.execute(self._written, place)
        ]
        saved = Saved(*place, parent, fields, channels, parsed_metadata(metadata), writes)
        check_saved(saved)
        return saved


def _chosen(threads: tuple[str, ...]) -> dict[str, Any]:
    return {"all": not threads, "threads": json.dumps(threads)}
