"""Notifications of a PostgreSQL store."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Final

import psycopg

from holdfast.changes import ANY_RUN, Change, Watch
from holdfast.stores._shared.waking import Interruptible
from holdfast.stores.postgres.connections import Connections

_SETTLING_SECONDS: Final = 0.02
_HEARING_SECONDS: Final = 2.0
# Transactions that write to the journal, by ids that are never used again while their session lives.
_WRITING: Final = """
    SELECT virtualtransaction, pid FROM pg_locks
    WHERE relation = %s::regclass AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()
"""


class PostgresWatch(Watch):
    """Waits by LISTEN. Its row in `watchers` makes writers notify."""

    def __init__(self, db: Connections, schema: str, channel: str) -> None:
        self._db = db
        self._entries = f'"{schema}".entries'
        self._watchers = f'"{schema}".watchers'
        self._heard = False
        self._kept: list[Change] = []  # came while `hears` waited
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._waking = Interruptible()
            stack.callback(self._waking.close)
            self._cursor = stack.enter_context(db.alone())
            self._cursor.execute(f'LISTEN "{channel}"')
            self._cursor.execute(
                f"DELETE FROM {self._watchers} "  # noqa: S608
                "WHERE pid NOT IN (SELECT pid FROM pg_stat_activity)"
            )
            self._pid = self._cursor.execute(
                f"INSERT INTO {self._watchers} VALUES (pg_backend_pid()) "  # noqa: S608
                "ON CONFLICT (pid) DO UPDATE SET pid = excluded.pid RETURNING pid"
            ).fetchone()
            stack.callback(self._leave)
            # These may have found that nobody watches, and not be committed yet.
            self._unaware = self._writing()
            self._stack = stack.pop_all()

    def wait(self, seconds: float) -> list[Change]:
        until = time.monotonic() + seconds
        with self._db.translated:
            while True:
                left = until - time.monotonic()
                pause = min(left, _SETTLING_SECONDS) if self._unaware else left
                woken = self._waking.wait(self._cursor.connection.fileno(), pause)
                found = [*self._kept, *self._missed(), *self._notified()]
                self._kept.clear()
                if found or woken or time.monotonic() >= until:
                    return found

    def hears(self) -> bool:
        """Whether a notification without a run, which was just sent, arrives in time."""
        until = time.monotonic() + _HEARING_SECONDS
        with self._db.translated:
            while not self._heard and (left := until - time.monotonic()) > 0:
                self._waking.wait(self._cursor.connection.fileno(), left)
                self._kept += self._notified()
        return self._heard

    def wake(self) -> None:
        self._waking.wake()

    def close(self) -> None:
        self._stack.close()

    def _notified(self) -> list[Change]:
        connection = self._cursor.connection.pgconn
        connection.consume_input()
        found: dict[str, Change] = {}
        while notification := connection.notifies():
            seq, _, rest = notification.extra.decode().partition(" ")
            status, _, run = rest.partition(" ")
            if run and seq.isdigit():
                found[run] = Change(run, int(seq), status)
            else:
                self._heard = True
        return list(found.values())

    def _missed(self) -> list[Change]:
        """Any run, once all are committed that began before this and will not notify."""
        if not self._unaware:
            return []
        self._unaware &= self._writing()
        return [] if self._unaware else [ANY_RUN]

    def _writing(self) -> set[tuple[str, int]]:
        return set(self._cursor.execute(_WRITING, (self._entries,)).fetchall())

    def _leave(self) -> None:
        with suppress(psycopg.Error):
            self._cursor.execute(f"DELETE FROM {self._watchers} WHERE pid = %s", self._pid)  # noqa: S608
            self._cursor.execute("UNLISTEN *")
