"""A store behind another: the base of what shows only a part of a store, or shows it otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from holdfast.changes import Change
from holdfast.heads import Position, RunHead, Tally
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter, Store, StoreStats, Survives


class StoreView(Store):
    """Gives every call on to the store beneath it; a subclass overrides what it shows otherwise.

    Views may be put on views. A writer and a watcher work for all views of a store: they have the
    store itself (`real_store`), and so do transactions (`Transactional`) and notifications.
    """

    def __init__(self, beneath: Store) -> None:
        self.beneath = beneath
        own: Any = self  # these belong to the classes of other stores
        own.form, own.inline = beneath.form, beneath.inline
        own.shared, own.lasting = beneath.shared, beneath.lasting
        self.url, self.expires = beneath.url, beneath.expires

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return self.beneath.append(entries, behind)

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        return self.beneath.read(
            run, after=after, limit=limit, newest_first=newest_first, bodies=bodies
        )

    def scan(
        self, after: str = "", *, limit: int = PAGE, bodies: bool = True
    ) -> list[Entry] | None:
        return self.beneath.scan(after, limit=limit, bodies=bodies)

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        return self.beneath.runs(where, after=after, limit=limit)

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        return self.beneath.trim(marker, changes)

    def erase(self, tombstone: Entry) -> bool:
        return self.beneath.erase(tombstone)

    def together(self) -> AbstractContextManager[None]:
        return self.beneath.together()

    def stats(self, run: str | None = None) -> StoreStats:
        return self.beneath.stats(run)

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        return self.beneath.listed(where, before=before, limit=limit)

    def row(self, run: str) -> RunHead | None:
        return self.beneath.row(run)

    def entries_at(self, places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
        return self.beneath.entries_at(places, bodies=bodies)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        return self.beneath.due(now, flows=flows, limit=limit)

    def holders(self) -> dict[str, int]:
        return self.beneath.holders()

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        return self.beneath.counts(where)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        return self.beneath.tally(since, until, flow=flow)

    def rebuild(self, *, write: bool = True) -> int:
        return self.beneath.rebuild(write=write)

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        return self.beneath.poll(mark)

    def scrub(self) -> None:
        self.beneath.scrub()

    def survives(self) -> Survives:
        return self.beneath.survives()

    def exists(self) -> bool:
        return self.beneath.exists()

    def close(self) -> None:
        self.beneath.close()

    def __repr__(self) -> str:
        return repr(self.beneath)


def real_store(store: Store) -> Store:
    """The store itself, beneath all views."""
    while isinstance(store, StoreView):
        store = store.beneath
    return store
