"""What must hold of any store at any time, and the small entries tests are made of."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from holdfast import scanning
from holdfast.heads import RunHead
from holdfast.model import CARRY_STATE, HIDDEN, Entry
from holdfast.store import RunFilter, Store, StoreStats
from holdfast.stores.memory import MemoryStore

_PAGE: Final = 7  # entries in the first page: every check also pages; later pages are larger


def entry(run: str, seq: int, body: bytes = b"", **fields: Any) -> Entry:
    """An entry with plausible fields and an id of its own; any field may be given."""
    defaults: dict[str, Any] = {
        "kind": "checkpoint",
        "entry_id": secrets.token_bytes(16),
        "parent": seq - 1 if seq else None,
        "term": seq,
        "digest": hashlib.sha256(f"{run}@{seq}".encode()).digest(),
        "step": f"step-{seq}",
        "step_index": seq,
        "type": None,
        "status": "open",
        "at": 1_700_000_000_000_000 + seq,
        "duration": 0.25,
        "size": len(body),
        "flow": None,
        "thread": None,
        "owner": None,
        "meta": "",
    }
    return Entry(run=run, seq=seq, body=body, **(defaults | fields))


def tombstone(run: str, seq: int, **fields: Any) -> Entry:
    """What `erase` is given: a deleted head that carries nothing."""
    empty = {"kind": "tombstone", "status": "deleted", "step": None, "step_index": None}
    return entry(run, seq, b"", **(empty | fields))


def read_all(
    store: Store, run: str, *, newest_first: bool = False, bodies: bool = True
) -> list[Entry]:
    """Every entry of a run, page by page."""
    found: list[Entry] = []
    while True:
        limit = _PAGE + len(found)
        page = store.read(
            run,
            after=found[-1].seq if found else None,
            limit=limit,
            newest_first=newest_first,
            bodies=bodies,
        )
        found += page
        if len(page) < limit:
            return found


def all_heads(store: Store, where: RunFilter = RunFilter()) -> list[Entry]:
    """The heads of every run that matches, page by page."""
    found: list[Entry] = []
    while True:
        limit = _PAGE + len(found)
        page = store.runs(where, after=found[-1].run if found else "", limit=limit)
        found += page
        if len(page) < limit:
            return found


def all_listed(store: Store, where: RunFilter = RunFilter()) -> list[tuple[RunHead, Entry]]:
    """Every run that matches, with its row of the index, page by page."""
    found: list[tuple[RunHead, Entry]] = []
    while True:
        limit = _PAGE + len(found)
        page = store.listed(where, before=found[-1][0].position if found else None, limit=limit)
        found += page
        if len(page) < limit:
            return found


class Snapshot(MemoryStore):
    """The journals of a store as they were read: `scanning` may ask again and again."""

    def __init__(self, journals: Iterable[list[Entry]]) -> None:
        super().__init__()
        self._journals = {journal[-1].run: journal for journal in journals if journal}
        self._names = sorted(self._journals)

    @classmethod
    def of(cls, store: Store) -> Self:
        """Those of all runs that are neither hidden nor deleted, without bodies."""
        return cls(read_all(store, head.run, bodies=False) for head in all_heads(store))


def check_store(store: Store) -> list[str]:
    """Read everything by the public methods and return what is wrong with it; empty when sound."""
    return list(_violations(store))


def _violations(store: Store) -> Iterator[str]:
    listed: list[list[Entry]] = []
    for prefix in ("", HIDDEN):
        live = all_heads(store, RunFilter(prefix=prefix))
        dead = all_heads(store, RunFilter(prefix=prefix, status="deleted"))
        for heads in (live, dead):
            names = [head.run for head in heads]
            if names != sorted(set(names)):
                yield f"runs are not in order, each once: {names}"
        if twice := {head.run for head in live} & {head.run for head in dead}:
            yield f"listed as live and as deleted: {sorted(twice)}"
        for head in live + dead:
            if head.run.startswith(HIDDEN) != bool(prefix):
                yield f"{head.run!r} is listed under the prefix {prefix!r}"
            if (head.status == "deleted") != (head in dead):
                yield f"{head.run!r} has the status {head.status} and is listed as another"
            journal = read_all(store, head.run)
            yield from _journal_violations(store, head, journal)
            if not prefix:
                listed.append(journal)
    if (stats := store.stats()) != (sums := totals_of(listed)):
        yield f"stats() says {stats}, the entries say {sums}"
    yield from _index_violations(store, Snapshot(listed))


def _index_violations(store: Store, journals: Snapshot) -> Iterator[str]:
    if not keeps_index(store):
        return
    rows = all_listed(store)
    if rows != (expected := scanning.listed(journals, RunFilter(), None, len(rows) + 1)):
        differ = [pair for pair in zip(rows, expected, strict=False) if pair[0] != pair[1]][:3]
        yield f"listed() has {len(rows)} runs, the entries {len(expected)}; they differ: {differ}"
    counts = scanning.counts(journals, RunFilter())
    if (said := store.counts()) != counts:
        yield f"counts() says {said}, the entries say {counts}"
    if wrong := store.rebuild(write=False):
        yield f"rebuild() finds {wrong} wrong rows"


def keeps_index(store: Store) -> bool:
    """Whether a store keeps the heads index, rather than reading every journal when asked."""
    return type(store).listed is not Store.listed


def _journal_violations(store: Store, head: Entry, journal: list[Entry]) -> Iterator[str]:
    run = head.run
    if not journal:
        yield f"{run!r} is listed and has no entry"
        return
    seqs = [item.seq for item in journal]
    if seqs != list(range(seqs[0], seqs[0] + len(seqs))):
        yield f"{run!r} has its seqs out of order, twice or with gaps: {seqs}"
    if seqs[0] and (journal[0].kind, journal[0].status) != ("tombstone", "deleted"):
        yield f"{run!r} begins at {seqs[0]}, and not with the tombstone of what was before"
    if any(item.run != run for item in journal):
        yield f"{run!r} holds another run's entries"
    if head != journal[-1]._replace(body=b""):
        yield f"{run!r} is listed with the head {head}, which is not its last entry"
    if store.last(run) != journal[-1]:
        yield f"{run!r}: last() is not the last entry"
    if read_all(store, run, newest_first=True) != journal[::-1]:
        yield f"{run!r} reads differently from its end"
    if read_all(store, run, bodies=False) != [item._replace(body=b"") for item in journal]:
        yield f"{run!r} reads differently without bodies"
    if (stats := store.stats(run)) != (sums := totals_of([journal])):
        yield f"stats({run!r}) says {stats}, the entries say {sums}"


def totals_of(journals: list[list[Entry]]) -> StoreStats:
    """What `stats` must say of these journals."""
    items = [
        item
        for journal in journals
        for item in journal
        if item.size > 0 and item.kind in CARRY_STATE
    ]
    return StoreStats(
        checkpoints=len(items),
        state_bytes=sum(item.size for item in items),
        stored_bytes=sum(len(item.body) for item in items),
        oldest=min((item.at for item in items), default=None),
        newest=max((item.at for item in items), default=None),
    )
