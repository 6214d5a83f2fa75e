"""Whether what an operation found in a damaged run is honest."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.errors import UnknownFormatError
from tests.damage.operations import Case, Found, Operation, Trouble


def wrongs(operation: Operation, case: Case, truth: Found, found: Found) -> Iterator[str]:
    """What is wrong, absent, or damaged without need."""
    damage = case.damage
    assert damage is not None
    for place, right in truth.items():
        if place not in found:
            listed = operation.shows_index or operation.goes_by_index
            if listed and _is_as_stored(case, place):
                continue
            yield f"{place!r} is absent"
            continue
        got = found[place]
        if operation.shows_index and _is_as_stored(case, place):
            continue
        if isinstance(got, Trouble):
            yield from _blames(got, operation, case, place)
        elif operation.name == "verify":
            if not got <= damage.named:
                yield f"problems at {sorted(got, key=str)}"
        elif operation.name == "doctor":
            continue
        elif got != right and not isinstance(right, Trouble):
            yield f"{place!r} is {got!r:.150}, not {right!r:.150}"
    for place in found.keys() - truth.keys():
        if operation.shows_index and _is_as_stored(case, place):
            continue
        if not isinstance(found[place], Trouble):
            yield f"{place!r} is {found[place]!r:.150}, and should not be there"


def _is_as_stored(case: Case, place: object) -> bool:
    """Whether a list may show something else here.

    Lists read no bodies, so they show fields as they are stored; but an entry that is missing, or
    that nothing says was deleted, is marked.
    """
    damage = case.damage
    assert damage is not None
    if damage.run != case.run:
        return place == damage.run
    where = place if isinstance(place, int) else case.head.seq
    gone = damage.name in ("delete", "forge as deleted")
    return where in damage.named and not (gone and where in damage.seqs)


def _blames(trouble: Trouble, operation: Operation, case: Case, place: object) -> Iterator[str]:
    damage = case.damage
    assert damage is not None
    error = trouble.error
    if place in ("intact", "said") and isinstance(error, ValueError):
        return
    if isinstance(error, UnknownFormatError) and error.seq == case.head.seq:
        return  # nothing is saved behind what this version can't read
    if not isinstance(error, hf.CheckpointCorruptedError):
        yield f"{place!r}: {type(error).__name__}: {error}"
    elif error.run_id != damage.run or error.seq not in damage.named:
        yield f"{place!r}: names {error.run_id}@{error.seq}: {error.reason}"
    elif damage.run == case.run and damage.named.isdisjoint(operation.needs(case, place)):
        yield f"{place!r} does not depend on it: {error}"
