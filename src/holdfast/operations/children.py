"""Child runs: which runs are steps of another, as both of them recorded it. Everything blocks.

A parent's journal names its child runs, and the opening of a child names the run, the step and
the birth id that it belongs to. A run is a child only if its own opening says so: ids narrow a
search, but decide nothing. The namespaces of a LangGraph thread, which its subgraphs have, count
as children of the thread's main run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checkpoint import RunInfo
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError, InvalidIdError
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.reader import all_runs
from holdfast.kernel.tip import Tip
from holdfast.model import OF_CHILD, Entry, Kind, Status, check_id, child_prefixes
from holdfast.operations.listing import info_of
from holdfast.operations.reading import outages_named
from holdfast.store import RunFilter

_LANGGRAPH: Final = "langgraph"  # the flow, and what follows the id of the main run of a thread:
_NAMESPACE: Final = "|"  # see `holdfast.integrations.langgraph.layout`


def children(core: Core, run_id: str) -> list[RunInfo]:
    """The child runs of a run, and theirs, ordered by id.

    Those of an earlier run with this id are not among them.
    """
    check_id("run_id", run_id)
    with outages_named(run_id):
        heads = [head for head in family(core, run_id) if head.run != run_id]
        found = info_of(core, heads)
    return sorted(found, key=lambda info: info.run_id)


def parent_of(core: Core, run_id: str) -> str | None:
    """The run and step that a child run is, as RUN@STEP; None if the run is not a child."""
    with outages_named(run_id):
        said = _says(core, run_id)
    return None if said is None else said[0]


def family(core: Core, run_id: str) -> list[Entry]:
    """The heads of the run and of its child runs: every child before its parent.

    Runs that were deleted are left out; namespaces that outlived their LangGraph thread are not.
    Each head was read before the children of its run were looked for, so whoever begins another
    child moves it.
    """
    heads: dict[str, Entry] = {}
    todo = [run_id]
    while todo:
        run = todo.pop()
        head = head_to_delete(core, run)
        if head is not None and head.status != Status.DELETED:
            heads[run] = head
            todo += [child for child in _children_of(core, run) if child not in heads]
        elif run == run_id:
            todo += _namespaces(core, run)
    return list(reversed(heads.values()))


def runs_of_thread(core: Core, thread_id: str) -> list[str]:
    """The runs of a thread: those that name it, and the main run of the LangGraph thread.

    The latter may be gone: then its `family` is what is left of its namespaces.
    """
    named = [head.run for head in all_runs(core.journals.store, RunFilter(thread=thread_id))]
    if thread_id not in named and _is_langgraphs(core, thread_id):
        named.append(thread_id)
    return named


def parent_run(core: Core, run_id: str) -> str | None:
    """The id of the run whose child this one is, if that very run is still there."""
    thread = _thread_of(core, run_id)
    if thread is not None:
        return thread
    parent, birth = _says(core, run_id) or (None, None)
    if parent is None or birth is None:
        return None
    names = (parent[:place] for place, char in enumerate(parent) if char == "@")  # or of the step
    return next((name for name in names if _birth(_opening(core, name)) == birth), None)


def root_of(core: Core, run_id: str) -> Entry | None:
    """The head of the run that a child run belongs to in the end; None if that is gone."""
    while True:
        if (_says(core, run_id) or (None,))[0] is None:
            return core.journals.head(run_id)
        above = parent_run(core, run_id)
        if above is None:
            return None
        run_id = above


def head_to_delete(core: Core, run: str) -> Entry | None:
    """The run's head, or a blank one if it can't be read: damaged runs can be deleted, too."""
    try:
        return core.journals.head(run)
    except CheckpointCorruptedError as error:
        if error.seq is None:
            raise
        blank = core.journals.place(Tip(run, None), Draft(Kind.OPEN.value, Status.OPEN.value))
        return blank._replace(seq=error.seq, term=error.seq, digest=error.digest)


def _children_of(core: Core, run: str) -> set[str]:
    """The child runs of this run alone.

    Its journal names them. Where that can't be read completely, or names what is not there, they
    are also looked for under the ids that they would have.
    """
    named, damaged, flow = _named_by(core, run)
    if not (named or damaged) and flow != _LANGGRAPH:
        return set()  # whatever its opening proves to be
    opening = _opening(core, run)
    if opening is not None and opening.flow is None:
        return set()  # no engine executes it
    if opening is not None and opening.flow == _LANGGRAPH:
        return set(_namespaces(core, run))
    birth = _birth(opening)
    found = {child for step, child in named if _says(core, child) == (f"{run}@{step}", birth)}
    if damaged or any(child not in found for _, child in named):
        found.update(_naming(core, run, birth))
    return found


def _is_langgraphs(core: Core, run: str) -> bool:
    """Whether a run is LangGraph's, or gone."""
    head = head_to_delete(core, run)
    if head is None or head.status == Status.DELETED:
        return True
    opening = _opening(core, run)
    return _LANGGRAPH in (head.flow, opening and opening.flow)


def _namespaces(core: Core, run: str) -> Iterator[str]:
    """The runs of the namespaces of a LangGraph thread, or below one of them."""
    within = RunFilter(flow=_LANGGRAPH, prefix=f"{run}{_NAMESPACE}")
    for head in all_runs(core.journals.store, within):
        if _is_namespace(core, head.run):
            yield head.run


def _is_namespace(core: Core, run: str) -> bool:
    """Whether a run with the id and flow of a namespace is one, as its opening says."""
    try:
        opening = core.journals.opening(run)
        return opening is not None and bool(Meta(opening).langgraph.get("ns"))
    except CheckpointCorruptedError:
        return True


def _thread_of(core: Core, run: str) -> str | None:
    """The main run of the LangGraph thread that this namespace belongs to, if it is there."""
    main, between, _ = run.partition(_NAMESPACE)
    if not between or not main or not _is_namespace(core, run):
        return None
    head = head_to_delete(core, main)
    is_there = head is not None and head.status != Status.DELETED
    return main if is_there and _is_langgraphs(core, main) else None


def _named_by(core: Core, run: str) -> tuple[set[tuple[str | None, str]], bool, str | None]:
    """The steps and child runs that a run's journal names, whether it is damaged, and its flow."""
    named: set[tuple[str | None, str]] = set()
    flow: str | None = None
    try:
        for entry in core.journals.entries(run):
            if entry.kind == Kind.CHILD:
                named.add((entry.step, Meta(entry).run))
            elif entry.kind == Kind.OPEN:
                flow = entry.flow
    except CheckpointCorruptedError:
        return named, True, flow
    return named, False, flow


def _naming(core: Core, run: str, birth: str | None) -> Iterator[str]:
    """The runs whose openings name this one as their parent, by its id alone if that is all we know."""
    for prefix in sorted(set(child_prefixes(run))):
        for head in all_runs(core.journals.store, RunFilter(prefix=prefix)):
            parent, parent_birth = _says(core, head.run) or (None, None)
            if parent is None:
                continue
            if birth is None:
                ours = parent.rpartition("@")[0] == run
            else:
                ours = parent.startswith(f"{run}@") and parent_birth == birth
            if ours:
                yield head.run


def _says(core: Core, run: str) -> tuple[str | None, str | None] | None:
    """The parent and its birth id that a run's opening names; None if there is no such run."""
    if OF_CHILD not in run:
        return None
    try:
        opening = core.journals.opening(check_id("run_id", run))
        if opening is None:
            return None
        meta = Meta(opening)
        return meta.parent, meta.parent_birth
    except (CheckpointCorruptedError, InvalidIdError):
        return None


def _opening(core: Core, run: str) -> Entry | None:
    """The opening of a run; None if that is gone or damaged."""
    try:
        return core.journals.opening(run)
    except CheckpointCorruptedError:
        return None


def _birth(opening: Entry | None) -> str | None:
    """The birth id in a run's opening; None if that is gone or damaged."""
    try:
        return None if opening is None else Meta(opening).birth_id
    except CheckpointCorruptedError:
        return None
