"""A store whose metadata is encrypted, as a program with the key sees it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.heads import Position, RunHead
from holdfast.kernel.store_view import StoreView
from holdfast.keys.sealing import Sealer
from holdfast.model import Entry
from holdfast.store import PAGE, RunFilter, Store


class SealedView(StoreView):
    """Gives out entries whose metadata opens itself when it is looked into."""

    def __init__(self, beneath: Store, sealer: Sealer) -> None:
        super().__init__(beneath)
        self._readable = sealer.readable

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        found = super().read(
            run, after=after, limit=limit, newest_first=newest_first, bodies=bodies
        )
        return list(map(self._readable, found))

    def scan(
        self, after: str = "", *, limit: int = PAGE, bodies: bool = True
    ) -> list[Entry] | None:
        found = super().scan(after, limit=limit, bodies=bodies)
        return None if found is None else list(map(self._readable, found))

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        return list(map(self._readable, super().runs(where, after=after, limit=limit)))

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        found = super().listed(where, before=before, limit=limit)
        return [(row, self._readable(head)) for row, head in found]

    def entries_at(self, places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
        return list(map(self._readable, super().entries_at(places, bodies=bodies)))
