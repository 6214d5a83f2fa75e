"""The checkpoints of a run, their states, and how these differ."""

from __future__ import annotations

from typing import Any, Final

from holdfast.checkpoint import CheckpointInfo, RunInfo
from holdfast.codec.redaction import redacted
from holdfast.integrations.mcp.limits import select
from holdfast.model import checkpoint_id
from holdfast.views import comparing, runs
from holdfast.views import run as one_run
from holdfast.web.api.capping import capped
from holdfast.web.api.declaring import MOST_SEQ, Call, flag, get, limit, number, text
from holdfast.web.api.problems import ProblemError
from holdfast.web.api.schemas import ANYTHING, COMPONENTS, FLAG, TEXT, many, maybe, named, record

_OF_A_CHECKPOINT: Final = COMPONENTS["Checkpoint"]["properties"]


@get(
    "/runs/{run_id}/checkpoints",
    record(checkpoints=many(named("Checkpoint")), next=maybe(TEXT)),
    number("after", "Begin behind this seq.", least=-1, most=MOST_SEQ),
    flag("oldest_first", "From the oldest checkpoint to the newest."),
    text("step", "Only those that were saved after this step."),
    limit(100, 1000),
)
def list_checkpoints(
    call: Call,
    run: RunInfo,
    after: int | None,
    oldest_first: bool,
    step: str | None,
    limit: int,
) -> dict[str, Any]:
    """List the checkpoints of a run, the newest first, without their states.

    Those that a rollback left behind are listed, too, and damaged ones, with their `damage`.
    """
    cp = call.site.cp
    found = cp.list_checkpoints(
        run.run_id, after=after, limit=limit + 1, oldest_first=oldest_first, step=step
    )
    shown = found[:limit]
    return {
        "checkpoints": [one.to_dict() for one in shown],
        "next": call.url(after=shown[-1].seq) if len(found) > limit else None,
    }


@get(
    "/runs/{run_id}/checkpoints/{seq}",
    record(
        "damage",
        "interrupts",
        **_OF_A_CHECKPOINT,
        state=ANYTHING,
        path=TEXT,
        cut=FLAG,
        interrupts=many(ANYTHING),
    ),
    text("path", "A JSON pointer to a part of the state, such as /messages/3.", default=""),
)
def show_checkpoint(call: Call, run: RunInfo, seq: int, path: str) -> dict[str, Any]:
    """Show a checkpoint with its state.

    A state, or a part of it, of more than 1 MB as JSON is null, and `cut` is true: give the `path`
    of a part. Of a LangGraph thread, the state is the values of its channels.
    """
    cp = call.site.cp
    found = one_run.state_at(cp, run, checkpoint_id(run.run_id, seq))
    if found.checkpoint is None:
        raise ProblemError(409, found.damage, "Find out more with: holdfast verify RUN.")
    try:
        part = select(redacted(found.value), path, 0)
    except LookupError as error:
        raise ProblemError(404, f"{error}", parameter="path") from None
    state, cut = capped(part)
    described = CheckpointInfo(found.checkpoint.entry).to_dict()
    document = described | {"state": state, "path": path, "cut": cut}
    if found.interrupts is not None:
        document["interrupts"] = found.interrupts
    return document


@get(
    "/runs/{run_id}/diff",
    record(a=TEXT, b=TEXT, patch=maybe(many({"type": "object"})), cut=FLAG),
    text("a", "A seq, RUN@SEQ, or a step: its newest checkpoint.", required=True),
    text("b", "The same.", required=True),
)
def diff_checkpoints(call: Call, run: RunInfo, a: str, b: str) -> dict[str, Any]:
    """Show how the state at b differs from the state at a, as a JSON Patch (RFC 6902).

    As `holdfast diff --json` prints it. A patch of more than 1 MB is null, and `cut` is true.
    """
    cp = call.site.cp
    places = [runs.find_place(cp, run.run_id, where) for where in (a, b)]
    found = comparing.compare(cp, run, *places)
    document = found._replace(diff=found.diff.redacted()).document()
    document["patch"], cut = capped(document["patch"])
    return document | {"cut": cut}


ENDPOINTS: Final = (list_checkpoints, show_checkpoint, diff_checkpoints)
