"""Databases of `PostgresSaver` and `AsyncPostgresSaver`, in a read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.extras import missing_extra
from holdfast.integrations.langgraph.databases.checking import check_saved, checked_dict
from holdfast.integrations.langgraph.databases.rows import (
    TASKS,
    UNREADABLE,
    Place,
    Saved,
    Source,
    Write,
    check_columns,
    check_type,
    checked_metadata,
    refused,
    send_pending,
)
from holdfast.integrations.langgraph.databases.values import put_together, take_apart
from holdfast.integrations.langgraph.layout import Typed
from holdfast.urls import masked

if TYPE_CHECKING:
    import psycopg

_NEWEST: Final = 9  # of the migrations that are known here
_TEXT: Final = ("text",)
_PLACE: Final = ("thread_id", "checkpoint_ns", "checkpoint_id")
_TABLES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "checkpoints": {
        **dict.fromkeys((*_PLACE, "parent_checkpoint_id", "type"), _TEXT),
        **dict.fromkeys(("checkpoint", "metadata"), ("jsonb",)),
    },
    "checkpoint_blobs": {
        **dict.fromkeys(("thread_id", "checkpoint_ns", "channel", "version", "type"), _TEXT),
        "blob": ("bytea",),
    },
    "checkpoint_writes": {
        **dict.fromkeys((*_PLACE, "task_id", "task_path", "channel", "type"), _TEXT),
        "idx": ("integer",),
        "blob": ("bytea",),
    },
    "checkpoint_migrations": {"v": ("integer",)},
}
_PATH: Final = "task_path"  # which older databases lack
_PAGE: Final = 100  # checkpoints that are fetched at a time
_SINCE_4: Final = 4  # the version of a checkpoint that has its own pending tasks

_COLUMNS: Final = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_TYPES: Final = """
    (SELECT DISTINCT ON (type) type, thread_id, checkpoint_ns, NULL, channel
    FROM checkpoint_blobs WHERE (%(all)s OR thread_id = ANY(%(threads)s)) AND type <> 'empty')
    UNION ALL
    (SELECT DISTINCT ON (type) coalesce(type, 'null'), thread_id, checkpoint_ns, checkpoint_id,
    channel FROM checkpoint_writes WHERE %(all)s OR thread_id = ANY(%(threads)s))
"""
_COUNT: Final = "SELECT count(*) FROM checkpoints WHERE %(all)s OR thread_id = ANY(%(threads)s)"
_SAVED: Final = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
    FROM checkpoints WHERE %(all)s OR thread_id = ANY(%(threads)s)
    ORDER BY thread_id COLLATE "C", checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C"
"""
_VALUES: Final = """
    SELECT channel, type, blob FROM checkpoint_blobs
    JOIN unnest(%s::text[], %s::text[]) AS wanted (c, v) ON channel = c AND version = v
    WHERE thread_id = %s AND checkpoint_ns = %s AND type <> 'empty'
"""
_WRITTEN: Final = """
    SELECT task_id, task_path, idx, channel, coalesce(type, 'null'), blob FROM checkpoint_writes
    WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s
    ORDER BY task_id COLLATE "C", idx
"""


@contextmanager
def opened(where: str) -> Iterator[Source]:
    """A database, by its URL."""
    try:
        import psycopg
    except ImportError as error:
        raise ValueError(str(missing_extra("postgres", error))) from error
    name = masked(where)
    try:
        with psycopg.connect(where) as db:
            db.read_only = True
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield PostgresSource(db, name)
    except psycopg.Error as error:
        raise ValueError(f"{name} can't be read: {error}") from error


class PostgresSource:
    """The tables `checkpoints`, `checkpoint_blobs` and `checkpoint_writes`."""

    def __init__(self, db: psycopg.Connection[Any], name: str) -> None:
        self.name = name
        self._db = db
        columns = {table: self._columns(table) for table in _TABLES}
        for table, known in _TABLES.items():
            check_columns(name, table, columns[table], known, frozenset({_PATH}))
        (version,) = db.execute("SELECT max(v) FROM checkpoint_migrations").fetchone() or (None,)
        if version is None or version > _NEWEST:
            raise ValueError(
                f"the tables of {name} are at migration {version}, and this version of holdfast "
                f"knows those up to {_NEWEST}; nothing was imported"
            )
        has_path = _PATH in columns["checkpoint_writes"]
        self._writes = _WRITTEN if has_path else _WRITTEN.replace(_PATH, "''")

    def _columns(self, table: str) -> dict[str, str]:
        """The columns of a table, by name; none if there is none, or it is a view."""
        return dict(self._db.execute(_COLUMNS, (table,)).fetchall())

    def check_types(self, threads: tuple[str, ...]) -> None:
        """Raise ValueError, with its place, for the first value that can't be taken over."""
        for kind, *place, channel in self._db.execute(_TYPES, _chosen(threads)).fetchall():
            check_type(Place(*place), f"the channel {channel!r}", kind)

    def count(self, threads: tuple[str, ...]) -> int:
        """How many checkpoints there are, of these threads or of all."""
        (found,) = self._db.execute(_COUNT, _chosen(threads)).fetchone() or (0,)
        return int(found)

    def checkpoints(self, threads: tuple[str, ...]) -> Iterator[Saved]:
        """Those checkpoints, ordered by thread, namespace and id."""
        known: dict[str, tuple[str, Typed | None]] = {}  # of one journal: channel → version, value
        journal: tuple[str, str] | None = None
        with self._db.cursor("holdfast_import") as rows:
            rows.itersize = _PAGE
            rows.execute(_SAVED, _chosen(threads))
            for row in rows:
                if journal != row[:2]:
                    journal, known = row[:2], {}
                try:
                    saved = self._saved(row, known)
                except UNREADABLE as error:
                    raise refused(Place(*row[:3]), error) from error
                yield saved

    def _saved(self, row: tuple[Any, ...], known: dict[str, tuple[str, Typed | None]]) -> Saved:
        thread, ns, checkpoint_id, parent, checkpoint, metadata = row
        checkpoint = checked_dict("its state", checkpoint)
        inline = checked_dict("channel_values", checkpoint.pop("channel_values", None) or {})
        checked_dict("channel_versions", checkpoint.get("channel_versions"))
        channels = {channel: put_together("msgpack", value) for channel, value in inline.items()}
        channels |= self._blobs(thread, ns, checkpoint["channel_versions"], known)
        sends = checkpoint.pop("pending_sends", None)
        if checkpoint["v"] < _SINCE_4 and parent is not None:
            sends = [
                take_apart(*write.value)
                for write in sorted(
                    self._written(thread, ns, parent), key=lambda w: (w.task_path, w.task_id, w.idx)
                )
                if write.channel == TASKS
            ]
        send_pending(checkpoint, channels, "msgpack", sends)
        writes = self._written(thread, ns, checkpoint_id)
        metadata = checked_metadata(metadata or {})
        saved = Saved(thread, ns, checkpoint_id, parent, checkpoint, channels, metadata, writes)
        check_saved(saved)
        return saved

    def _written(self, thread: str, ns: str, checkpoint_id: str) -> list[Write]:
        rows = self._db.execute(self._writes, (thread, ns, checkpoint_id))
        return [
            Write(task, path, idx, channel, (kind, bytes(blob)))
            for task, path, idx, channel, kind, blob in rows
        ]

    def _blobs(
        self,
        thread: str,
        ns: str,
        versions: Mapping[str, Any],
        known: dict[str, tuple[str, Typed | None]],
    ) -> dict[str, Typed]:
        """The values of a checkpoint's channels; only those that changed are fetched."""
        wanted = {channel: str(version) for channel, version in versions.items()}
        new = [c for c, version in wanted.items() if c not in known or known[c][0] != version]
        if new:
            versions_of = [wanted[channel] for channel in new]
            rows = self._db.execute(_VALUES, (new, versions_of, thread, ns))
            found = {channel: (kind, bytes(blob or b"")) for channel, kind, blob in rows}
            for typed in found.values():
                take_apart(*typed)
            known.update({channel: (wanted[channel], found.get(channel)) for channel in new})
        return {c: value for c in wanted if (value := known[c][1]) is not None}


def _chosen(threads: tuple[str, ...]) -> dict[str, Any]:
    return {"all": not threads, "threads": list(threads)}
