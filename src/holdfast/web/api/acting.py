"""What is done to runs: each is a POST, only with `--allow-writes`, and records who did it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from holdfast.checkpoint import RunInfo
from holdfast.codec import readable
from holdfast.operations.forking import SAME
from holdfast.retention import parse_age
from holdfast.views import run as one_run
from holdfast.views import runs
from holdfast.web import actions
from holdfast.web.api.declaring import Call, Field, identity, number, post, text
from holdfast.web.api.problems import ProblemError
from holdfast.web.api.schemas import ANYTHING, COUNT, FLAG, TEXT, TIME, maybe, record
from holdfast.web.editing import unhidden
from holdfast.web.submitting import submit

_MISSING: Final = object()
_AGE: Final[dict[str, Any]] = {
    "parse": parse_age,
    "schema": {"pattern": "^[1-9][0-9]{0,3}[smhdw]$"},
}
_LABELS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_REASON: Final = text("reason", "Why; it is kept in the run's history.", default="")
_BY: Final = identity("by", "Who does it, where no token says so.")
_AT: Final = "A seq, RUN@SEQ or a step"
_THEN: Final = record(by={"enum": ["here", "worker", "nobody"]}, command=maybe(TEXT))
_ASKED: Final = record("status", "then", run_id=TEXT, asked=TEXT, status=TEXT, new=FLAG, then=_THEN)


@post(
    "/runs",
    record(run_id=TEXT, flow=TEXT, status=TEXT, new=FLAG, due=maybe(TIME)),
    text("flow", "The name of a flow that this server was started with.", required=True),
    Field("inputs", ANYTHING, "Its inputs: an object, or the data of a pipeline.", default={}),
    identity("run_id", "The run's id; by default a new one."),
    identity("thread", "The thread of the run."),
    identity("owner", "The owner of the run; by default who submits it."),
    Field("labels", _LABELS, "Labels to find the run by.", default={}),
    text("delay", "Execute it so much later: 90s, 10m, 12h, 3d.", **_AGE),
    _BY,
)
def submit_run(
    call: Call,
    flow: str,
    inputs: Any,
    run_id: str | None,
    thread: str | None,
    owner: str | None,
    labels: dict[str, str],
    delay: timedelta | None,
    by: str | None,
) -> dict[str, Any]:
    """Start a run of a flow that the server was given with `--flow`.

    Sent again under the same id it changes nothing, and `new` is false. If the server ends, a
    worker continues the run.
    """
    return submit(
        call.site,
        _who(call, by),
        flow,
        inputs,
        run_id=run_id,
        thread_id=thread,
        owner=owner,
        labels=labels,
        delay=delay,
    )


@post(
    "/runs/{run_id}/answer",
    record(run_id=TEXT, question=maybe(TEXT), answered=FLAG, new=FLAG, then=_THEN),
    Field("value", ANYTHING, "The answer, which has to fit the question's schema.", required=True),
    text("question", "Which question, if the run asks several."),
    _BY,
)
def answer(
    call: Call, run: RunInfo, value: Any, question: str | None, by: str | None
) -> dict[str, Any]:
    """Answer an open question of a run, which then continues.

    A second answer is refused, but for the same one by the same person: `new` is false then. `then`
    says who continues the run; if nobody does, with the command that starts a worker.
    """
    return actions.answer(call.site, _who(call, by), run.run_id, _data("value", value), question)


@post("/runs/{run_id}/resume", _ASKED, _BY)
def resume(call: Call, run: RunInfo, by: str | None) -> dict[str, Any]:
    """Continue a run that failed, was paused, forked or rolled back, or whose process died.

    It is executed by this server if its flow was given, else by a worker.
    """
    return actions.resume(call.site, _who(call, by), run.run_id)


@post("/runs/{run_id}/pause", _ASKED, _REASON, _BY)
def pause(call: Call, run: RunInfo, reason: str, by: str | None) -> dict[str, Any]:
    """Ask a run to stop after its running steps, to be resumed later."""
    return actions.pause(call.site, _who(call, by), run.run_id, reason)


@post("/runs/{run_id}/cancel", _ASKED, _REASON, _BY)
def cancel(call: Call, run: RunInfo, reason: str, by: str | None) -> dict[str, Any]:
    """Cancel a run: its steps that can be undone are undone, and it is over."""
    return actions.cancel(call.site, _who(call, by), run.run_id, reason)


@post(
    "/runs/{run_id}/fork",
    record(run_id=TEXT, checkpoint_id=maybe(TEXT), origin=maybe(TEXT), new=FLAG),
    text("at", f"{_AT}; by default the current checkpoint."),
    identity("run_id", "The new run's id; by default a new one."),
    Field("state", ANYTHING, "Its state, if it is another.", default=_MISSING),
    _BY,
)
def fork(
    call: Call, run: RunInfo, at: str | None, run_id: str | None, state: Any, by: str | None
) -> dict[str, Any]:
    """Begin a new run from a checkpoint of another, with its state or an edited one.

    The state is given as GET shows it; secrets that were hidden there stay as they are. With the id
    of a fork of the same checkpoint with the same state, nothing is done, and `new` is false.
    """
    changed = SAME if state is _MISSING else _edited(call, run, at, state)
    return actions.fork(call.site, _who(call, by), run.run_id, new_id=run_id, at=at, state=changed)


@post(
    "/runs/{run_id}/rollback",
    record(
        "ahead",
        run_id=TEXT,
        checkpoint_id=TEXT,
        step=maybe(TEXT),
        new=FLAG,
        ahead={"type": "array"},
    ),
    text("at", f"{_AT}: its newest checkpoint.", required=True),
    _BY,
)
def rollback(call: Call, run: RunInfo, at: str, by: str | None) -> dict[str, Any]:
    """Make an earlier checkpoint of a run the current one; resume the run to continue from there.

    Later checkpoints stay in the history. The effects of steps are not undone.
    """
    return actions.rollback(call.site, _who(call, by), run.run_id, at)


@post(
    "/runs/{run_id}/prune",
    record(
        "preview",
        dry_run=FLAG,
        checkpoints=COUNT,
        runs={"type": "array"},
        refused={"type": "object"},
        preview=TEXT,
    ),
    number("keep_latest", "Delete all but the newest so many.", least=1, most=1_000_000),
    text("older_than", "Delete only those that are older than this: 30d.", **_AGE),
    text("preview", "What a call without it answered as `preview`."),
    _BY,
)
def prune(
    call: Call,
    run: RunInfo,
    keep_latest: int | None,
    older_than: timedelta | None,
    preview: str | None,
    by: str | None,
) -> dict[str, Any]:
    """Delete old checkpoints of a run, after a look at what would go.

    Without `preview` nothing is deleted: the answer says what would be. Send its `preview` with the
    same request to delete exactly that.
    """
    if keep_latest is None and older_than is None:
        raise ProblemError(
            400, "Nothing says what to delete.", "Give keep_latest, older_than or both."
        )
    return actions.prune(
        call.site,
        _who(call, by),
        run.run_id,
        keep_latest=keep_latest,
        older_than=older_than,
        preview=preview,
    )


def _who(call: Call, by: str | None) -> str | None:
    """Who does it: the name of the token, which nobody can change."""
    if call.who is not None and by not in (None, call.who):
        raise ProblemError(400, f"This token is {call.who!r}'s.", "Leave it out.", parameter="by")
    return by if call.who is None else call.who


def _data(name: str, value: Any) -> Any:
    """The value that this is the JSON form of."""
    try:
        return readable.data_from_json(value)
    except ValueError as error:
        raise ProblemError(422, f"{name} {error}.", parameter=name) from None


def _edited(call: Call, run: RunInfo, at: str | None, state: Any) -> object:
    """An edited state, with the secrets that were hidden when it was shown."""
    place = None if at is None else runs.find_place(call.site.cp, run.run_id, at)
    found = one_run.state_at(call.site.cp, run, place)
    if found.checkpoint is None:
        raise ProblemError(409, found.damage or "The run has no checkpoint yet.")
    return unhidden(found.checkpoint, state)


ENDPOINTS: Final = (submit_run, answer, resume, pause, cancel, fork, rollback, prune)
