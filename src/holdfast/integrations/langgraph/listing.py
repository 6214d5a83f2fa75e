"""Which checkpoints match, and what delta channels are rebuilt from. Everything here blocks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph.index import Index, Place
from holdfast.integrations.langgraph.layout import (
    FLOW,
    Typed,
    namespaces_prefix,
    opening_says,
    run_id,
    thread_and_ns,
    typed_values,
)
from holdfast.integrations.langgraph.threads import Found, Threads, Writes
from holdfast.kernel.reader import all_runs
from holdfast.store import RunFilter

T = TypeVar("T")

COUNTERS: Final = "counters_since_delta_snapshot"
"""In the metadata of a checkpoint: the delta channels that are rebuilt from its ancestors."""


class Namespace(NamedTuple):
    """A namespace of a thread, and the run that holds it."""

    run: str
    thread: Any
    ns: str


def namespaces(threads: Threads, thread: Any = None, ns: str | None = None) -> list[Namespace]:
    """The namespaces of a thread, or of all threads, as far as they are there."""
    if thread is not None and ns is not None:
        return [Namespace(run_id(str(thread), ns), thread, ns)]
    store = threads.core.journals.store
    if thread is None:
        runs = [head.run for head in all_runs(store, RunFilter(flow=FLOW))]
    else:
        within = RunFilter(flow=FLOW, prefix=namespaces_prefix(str(thread)))
        runs = [run_id(str(thread)), *(head.run for head in all_runs(store, within))]
    return [named(threads, run) for run in runs]


def named(threads: Threads, run: str) -> Namespace:
    """The thread and namespace of a run; where its id was hashed, its opening says them."""
    said = thread_and_ns(run)
    if said is None:
        opening = threads.core.journals.opening(run)
        said = None if opening is None else opening_says(opening)
        if said is None or run_id(*said) != run:  # a fork has the opening of its origin
            said = run, ""
    return Namespace(run, *said)


def matching(
    threads: Threads,
    wanted: Mapping[str, Any],
    where: Mapping[str, Any] | None,
    before: str | None,
    limit: int | None,
    make: Callable[[Namespace, Found], T],
) -> Iterator[T]:
    """What `make` makes of the checkpoints that match, newest first.

    Damage is raised when everything else was listed.
    """
    only = wanted.get("checkpoint_id")
    found: list[tuple[Place, Namespace, Index]] = []
    indexes: list[Index] = []
    unread: list[CheckpointCorruptedError] = []
    spaces = namespaces(threads, wanted.get("thread_id"), wanted.get("checkpoint_ns"))
    for space in spaces:
        few = limit if not (only or where or before) else None
        index = threads.reading(space.run, partial(_index, threads, space.run, few))
        indexes.append(index)
        places = _matching(index, only, where, before)
        found += [(place, space, index) for place in islice(places, limit)]
    if len(spaces) > 1:
        found.sort(key=lambda each: each[0].id, reverse=True)
    listed = found[:limit]
    for (space, index), group in groupby(listed, key=lambda each: each[1:]):
        places = (place for place, _, _ in group)
        for each in threads.passing(space.run, index, places, unread.append):
            try:
                made = make(space, each)
            except CheckpointCorruptedError as error:
                unread.append(error)
            else:
                yield made
    if unread:
        raise unread[0]
    for index in indexes:
        if limit is None or len(found) < limit:
            index.check()
        elif its := [place for place, _, other in listed if other is index]:
            index.check(its)


def _index(threads: Threads, run: str, few: int | None) -> Index:
    """What a run holds, or only its newest checkpoints if these few are wanted."""
    found = threads.recent(run, few) if few else None
    return threads.index(run) if found is None else found


def _matching(
    index: Index, only: str | None, where: Mapping[str, Any] | None, before: str | None
) -> Iterator[Place]:
    end = index.places.get(before or "")
    if only is not None:
        places = iter([index.places[only]] if only in index.places else [])
    else:
        places = index.newest_first()
    for place in places:
        if end is not None and place.seq >= end.seq:
            continue
        if end is None and before and place.id >= before:
            continue
        if where:
            metadata = place.metadata
            if any(metadata.get(key) != value for key, value in where.items()):
                continue
        yield place


class Replay(NamedTuple):
    """What a delta channel is rebuilt from."""

    seed: Typed | None  # its last snapshot; None: it was empty at first
    writes: list[tuple[str, Typed]]  # since then, with their tasks


def delta_history(
    threads: Threads, run: str, name: str | None, channels: Sequence[str]
) -> dict[str, Replay]:
    """What these channels are rebuilt from at a checkpoint, the newest unless it is named."""
    index = threads.index(run) if channels else Index()
    start = index.newest() if name is None else index.places.get(name)
    way = list(_ancestors(threads, run, index, start, set(channels)))
    if start is None or way:
        index.check(place for place, _, _ in way)
    seqs = [seq for place, _, _ in way for seq in index.writes_of(place)]
    written = dict(threads.written(run, seqs))
    found = {channel: Replay(None, []) for channel in channels}
    for place, sought, seeds in reversed(way):
        rows = [written[seq] for seq in index.writes_of(place) if seq in written]
        for channel, seed in seeds.items():
            found[channel] = Replay(seed, [])
        for task, channel, typed in in_order(rows):
            if channel in sought:
                found[channel].writes.append((task, typed))
    return found


def needed(threads: Threads, run: str, index: Index, newest: Place) -> set[str]:
    """The checkpoint, and those that its delta channels are rebuilt from."""
    counters = newest.metadata.get(COUNTERS) or {}
    sought = set(counters) - _values_at(threads, run, newest, set(counters)).keys()
    way = _ancestors(threads, run, index, newest, sought)
    return {newest.id, *(place.id for place, _, _ in way)}


def bereft(
    threads: Threads, run: str, index: Index, goes: Container[str]
) -> tuple[str, str] | None:
    """A checkpoint that stays and one that goes, from which its delta channels are rebuilt."""
    looked: set[tuple[str, str]] = set()
    for start in index.all_places():
        counters = {} if start.id in goes else start.metadata.get(COUNTERS) or {}
        sought = set(counters) - _values_at(threads, run, start, set(counters)).keys()
        place: Place | None = start
        while sought and place is not None and place.parent is not None:
            if place.parent in goes:
                return start.id, place.parent
            place = index.places.get(place.parent)
            if place is not None:
                sought -= _values_at(threads, run, place, sought).keys()
                sought = {channel for channel in sought if (place.id, channel) not in looked}
                looked.update((place.id, channel) for channel in sought)
    return None


def _ancestors(
    threads: Threads, run: str, index: Index, start: Place | None, channels: set[str]
) -> Iterator[tuple[Place, set[str], dict[str, Typed]]]:
    """The ancestors back to where each channel has a value.

    With each come the channels that are sought there, and the values of those that it has.
    """
    sought = set(channels)
    place = start
    passed = set()
    while sought and place is not None and place.parent is not None:
        child, place = place, index.places.get(place.parent)
        if place is None:
            _check_beginning(index, run, child, sought)
            return
        if place.id in passed:
            return
        passed.add(place.id)
        seeds = _values_at(threads, run, place, sought)
        yield place, set(sought), seeds
        sought -= seeds.keys()


def _check_beginning(index: Index, run: str, place: Place, sought: set[str]) -> None:
    """Raise if these channels have a past at a checkpoint whose parent is missing."""
    index.check()
    missing = sorted(sought & (place.metadata.get(COUNTERS) or {}).keys())
    if missing:
        reason = (
            f"its channels {missing} are rebuilt from the checkpoint {place.parent}, which was "
            "deleted"
        )
        raise CheckpointCorruptedError(run, place.seq, reason)


def _values_at(threads: Threads, run: str, place: Place, sought: set[str]) -> dict[str, Typed]:
    """The values that a checkpoint has of these channels."""
    if not sought or (place.has is not None and not sought & set(place.has)):
        return {}
    state = threads.core.journals.value(run, place.seq)
    try:
        return {name: typed for name, typed in typed_values(state).items() if name in sought}
    except ValueError as error:
        raise CheckpointCorruptedError(run, place.seq, str(error)) from None


def in_order(writes: Sequence[Writes]) -> Iterator[tuple[str, str, Typed]]:
    """Task, channel and value of each write that counts, in the order that LangGraph wants."""
    counted: dict[tuple[str, int], tuple[str, str, Typed]] = {}
    for note, rows in writes:
        for number, channel, typed in rows:
            if number < 0 or (note.task, number) not in counted:
                counted[note.task, number] = note.path, channel, typed
    order = sorted(counted.items(), key=lambda item: (item[1][0], *item[0]))
    return ((task, channel, typed) for (task, _), (_, channel, typed) in order)
