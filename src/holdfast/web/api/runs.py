"""Runs: lists of them, one of them, its timeline and its child runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from holdfast.checkpoint import RunInfo
from holdfast.codec.redaction import redacted
from holdfast.heads import Position, label_text
from holdfast.model import check_id, split_checkpoint_id
from holdfast.operations.listing import STATUSES, matching
from holdfast.views import run as one_run
from holdfast.views import runs
from holdfast.views.claims import claims
from holdfast.views.outcome import outcome_of
from holdfast.views.redaction import redacted_moment
from holdfast.views.step_detail import detail_of
from holdfast.views.step_reading import named_steps
from holdfast.web.api.capping import capped
from holdfast.web.api.declaring import (
    MOST_SEQ,
    Call,
    Field,
    flag,
    get,
    identity,
    limit,
    moment,
    number,
    several,
    text,
)
from holdfast.web.api.schemas import ANYTHING, COUNT, FLAG, TEXT, many, maybe, named, record

_MOMENTS: Final = 500  # of a run, in the document with everything
_CHILDREN: Final = 500


def _labels(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ValueError(f"{pair!r} is not NAME=VALUE")
        if name in found:
            raise ValueError(f"the label {name!r} is given twice")
        if label_text(name, value) is None:
            raise ValueError("no run can have this label")
        found[name] = value
    return found


def _position(cursor: str) -> Position:
    at, separator, run_id = cursor.partition("-")
    if not (separator and run_id and at.isascii() and at.isdigit() and len(at) <= 18):
        raise ValueError("it is not from the `next` of a page")
    return int(at), check_id("after", run_id)


_FILTERS: Final[tuple[Field, ...]] = (
    text("prefix", "Only runs whose id begins with this.", default=""),
    several(
        "status",
        {"enum": [*STATUSES, runs.ORPHANED, runs.ANSWERED]},
        "Only runs with one of these statuses.",
    ),
    text("flow", "Only runs of this flow."),
    identity("thread", "Only runs of this thread."),
    identity("owner", "Only runs of this owner."),
    several("label", TEXT, "Only runs with this label, as NAME=VALUE.", parse=_labels),
    moment("since", "Only runs started since: 24h ago, or a time."),
    moment("until", "Only runs started before: 24h ago, or a time."),
    flag("asking", "Only runs that wait for an answer."),
    flag("children", "List child runs, too."),
)


@get(
    "/runs",
    record("counts", runs=many(named("Run")), next=maybe(TEXT), counts={"type": "object"}),
    *_FILTERS,
    flag("counts", "Say how many runs match, by status."),
    text("after", "Where the page begins, from `next` of the one before.", parse=_position),
    limit(50, 500),
)
def list_runs(
    call: Call,
    prefix: str,
    status: list[str],
    flow: str | None,
    thread: str | None,
    owner: str | None,
    label: Mapping[str, str] | tuple[()],
    since: datetime | None,
    until: datetime | None,
    asking: bool,
    children: bool,
    counts: bool,
    after: Position | None,
    limit: int,
) -> dict[str, Any]:
    """List runs, the last started first.

    `next` is the address of the following page, or null. Paging is stable: runs that are added or
    deleted meanwhile make no other appear twice, or not at all. Each run is as
    `holdfast runs --json` prints it. Runs under way that nobody executes are listed under
    `orphaned`, or under `answered` if they got the answer that they waited for, and only the others
    under `running`. Yet `counts` are by recorded status, and that of all these is `running`.
    """
    cp = call.site.cp
    where = matching(
        runs.recorded(status) or None,
        flow,
        thread,
        owner,
        labels=dict(label),
        since=since,
        until=until,
        asking=asking,
        roots=not children,
        prefix=prefix,
    )
    page = runs.page(cp, where, behind=after, limit=limit, statuses=status)
    found: dict[str, Any] = {
        "runs": [runs.document(cp, one) for one in page.runs],
        "next": None if page.last is None else call.url(after=f"{page.last[0]}-{page.last[1]}"),
    }
    if counts:
        found["counts"] = cp.store.counts(where)
    return found


@get(
    "/runs/{run_id}",
    record(
        "interrupts",
        run=named("Run"),
        timeline=many(named("Moment")),
        children=many(named("ChildRun")),
        checkpoint_id=maybe(TEXT),
        state=ANYTHING,
        inputs=ANYTHING,
        result=ANYTHING,
        failure=ANYTHING,
        claims=many(ANYTHING),
        damage=maybe(TEXT),
        interrupts=many(ANYTHING),
        cut=many(TEXT),
    ),
    text(
        "at",
        "The state and the claims at a seq, RUN@SEQ or after a step, instead of the current ones.",
    ),
)
def show_run(call: Call, run: RunInfo, at: str | None) -> dict[str, Any]:
    """Show a run: its inputs, timeline, result or failure, claims, state and child runs.

    As `holdfast show --json` prints it. What is too much is left out, and `cut` names it: of the
    timeline and of the child runs the last 500 are here, values of more than 1 MB are not. The
    others are below /timeline, /children and /checkpoints.
    """
    cp = call.site.cp
    place = None if at is None else runs.find_place(cp, run.run_id, at)
    shown = one_run.show(cp, run, place, most=_MOMENTS + 1)
    document = shown._replace(moments=list(map(redacted_moment, shown.moments))).document()
    document |= outcome_of(cp, run, shown.moments).document()
    document["failure"] = redacted(document["failure"])
    claimed = claims(cp, *((run.run_id,) if place is None else split_checkpoint_id(place)))
    document["claims"] = redacted(claimed.document())
    cut = []
    for name, most in (("timeline", _MOMENTS), ("children", _CHILDREN)):
        if len(document[name]) > most:
            document[name] = document[name][-most:]
            cut.append(name)
    for name in ("state", "inputs", "result"):
        document[name], is_cut = capped(document[name])
        cut += [name] if is_cut else []
    return document | {"cut": cut}


@get(
    "/runs/{run_id}/timeline",
    record(timeline=many(named("Moment")), next=maybe(TEXT)),
    number("after", "Begin behind this seq.", least=-1, most=MOST_SEQ),
    flag("newest_first", "From the newest entry to the oldest."),
    limit(200, 1000),
)
def run_timeline(
    call: Call,
    run: RunInfo,
    after: int | None,
    newest_first: bool,
    limit: int,
) -> dict[str, Any]:
    """List what happened in a run, entry by entry.

    `next` is the address of the following page, or null.
    """
    cp = call.site.cp
    found = cp.timeline(run.run_id, after=after, limit=limit + 1, newest_first=newest_first)
    more = len(found) > limit
    moments = one_run.in_words(cp, run, found[:limit])
    return {
        "timeline": [redacted_moment(moment)._asdict() for moment in moments],
        "next": call.url(after=moments[-1].seq) if more else None,
    }


@get(
    "/runs/{run_id}/steps/{step}",
    record(
        step=TEXT,
        name=TEXT,
        status=TEXT,
        seq=maybe({"type": "integer"}),
        took=maybe({"type": "number"}),
        child=maybe(TEXT),
        attempts=many({"type": "object"}),
        result=ANYTHING,
        answer=maybe({"type": "object"}),
        outputs=many({"type": "object"}),
        claims=many({"type": "object"}),
        rounds=COUNT,
        damage=maybe(TEXT),
        cut=FLAG,
    ),
    number(
        "at",
        "The seq of one of its executions, instead of an item that failed, or the last.",
        least=0,
        most=MOST_SEQ,
    ),
)
def run_step(call: Call, run: RunInfo, step: str, at: int | None) -> dict[str, Any]:
    """Show what one step did: its attempts with tracebacks, its output and its result.

    As `holdfast show --step --json` prints it. A result or answer of more than 1 MB is null, and
    `cut` true.
    """
    cp = call.site.cp
    document = detail_of(cp, run, named_steps(cp, run), step, at).document()
    document["result"], cut = capped(document["result"])
    if document["answer"] is not None:
        document["answer"]["value"], too_large = capped(document["answer"]["value"])
        cut |= too_large
    return document | {"cut": cut}


@get(
    "/runs/{run_id}/children",
    record(children=many(named("ChildRun")), next=maybe(TEXT), count=COUNT),
    text("after", "Begin behind this id."),
    limit(200, 1000),
)
def run_children(
    call: Call,
    run: RunInfo,
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    """List the child runs of a run, and theirs, by id.

    `count` is how many there are. `next` is the address of the following page, or null.
    """
    every = [one._asdict() for one in call.site.cp.children(run.run_id)]
    found = [one for one in every if after is None or one["run_id"] > after]
    shown = found[:limit]
    more = len(found) > limit
    return {
        "children": shown,
        "next": call.url(after=shown[-1]["run_id"]) if more else None,
        "count": len(every),
    }


ENDPOINTS: Final = (list_runs, show_run, run_timeline, run_step, run_children)
