"""The tools of the server: each reads from the store and returns a JSON document.

All but `answer_question` write nothing, and none executes a flow.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any, Final, Literal

from holdfast.checkpoint import Checkpoint, RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.ascii_json import to_ascii
from holdfast.codec.redaction import AsIs, redacted
from holdfast.codec.summaries import for_people
from holdfast.engine.people import inbox, requests
from holdfast.engine.people.questions import FAIL, Question
from holdfast.engine.resume.activity import activity_of
from holdfast.errors import CheckpointCorruptedError
from holdfast.evidence import EvidenceVerifier
from holdfast.evidence.trust.checking import Checker
from holdfast.integrations.langgraph import plain
from holdfast.integrations.langgraph.layout import FLOW
from holdfast.integrations.mcp.limits import MOST, select, shorten
from holdfast.integrations.mcp.scope import Scope
from holdfast.operations.diff import diff_values

_PAGE: Final = 100
_NOTE: Final = 500  # characters of a note in a timeline
_PROMPT: Final = 4_000
_LEAST: Final = (
    200  # characters of a question's schema, or of what it shows, however many there are
)
_ENTRIES: Final = 1 << 53  # no run has so many

RunStatus = Literal["open", "submitted", "running", "paused", "failed", "cancelled", "completed"]


class Tools:
    """What the server can do with one store, within a scope.

    From now on, what codecs stored is data for this checkpointer: no code of theirs is run.
    """

    def __init__(
        self,
        cp: SyncCheckpointer,
        scope: Scope,
        *,
        verifier: EvidenceVerifier | None = None,
        by: str | None = None,
    ) -> None:
        cp.core.journals.keep_coded()
        self._cp = cp
        self._scope = scope
        self._verifier = verifier  # None: claims about the world are not checked
        self._by = by  # who answers

    def list_runs(
        self,
        status: RunStatus | None = None,
        flow: str | None = None,
        prefix: str = "",
        after: str | None = None,
        limit: int = 20,
    ) -> str:
        """List runs, the last started first.

        Filter by status, by the name of the flow, or by the beginning of the id. `more` says
        whether there are others: give the last run_id as `after` for the next page. At most 100 at
        once.
        """
        if after is not None:
            self._scope.find(self._cp, after)
        where = {"status": status, "flow": flow, "prefix": prefix, "after": after}
        limit = max(1, min(limit, _PAGE))
        found = list(islice(self._scope.listed(self._cp, **where), limit + 1))
        return to_ascii({"runs": list(map(self._run, found[:limit])), "more": len(found) > limit})

    def show_run(self, run_id: str, after: int | None = None, limit: int = 50) -> str:
        """Show a run: what it is doing, its child runs, and its timeline, oldest entry first.

        `more` says whether there are later entries: give the last seq as `after`. At most 100 at
        once.
        """
        run = self._scope.find(self._cp, run_id)
        _check_seq(after)
        limit = max(1, min(limit, _PAGE))
        moments = self._cp.timeline(run_id, after=after, limit=limit + 1)
        children = self._cp.children(run_id)
        document = {
            "run": self._run(run),
            "timeline": [
                moment._asdict() | {"note": shorten(moment.note, _NOTE)[0]}
                for moment in moments[:limit]
            ],
            "more": len(moments) > limit,
            "children": [{"run_id": c.run_id, "status": c.status} for c in children[:_PAGE]],
            "more_children": len(children) > _PAGE,
        }
        return to_ascii(document)

    def show_checkpoint(
        self, run_id: str, seq: int | None = None, path: str = "", offset: int = 0
    ) -> str:
        """Show the state of a run: the current one, or the one at a seq of its timeline.

        Long values are cut, and `cut` says so. `path` is a JSON pointer to a part of the state,
        such as /messages/3; with `offset`, a text or list at that place is shown from there on. Of
        a thread of LangGraph's, the values of its channels are shown.
        """
        self._scope.find(self._cp, run_id)
        found = self._load(run_id, seq)
        part = select(for_people(redacted(readable.to_json(_state(found)))), path, max(0, offset))
        state, cut = shorten(part)
        return to_ascii(
            {
                "checkpoint_id": found.checkpoint_id,
                "step": found.step,
                "path": path,
                "state": state,
                "cut": cut,
            }
        )

    def diff_checkpoints(self, run_id: str, old: int, new: int) -> str:
        """Show how the state of a run at one seq differs from that at another, as a JSON Patch."""
        self._scope.find(self._cp, run_id)
        a, b = self._load(run_id, old), self._load(run_id, new)
        found = diff_values(_state(a), _state(b), a.checkpoint_id, b.checkpoint_id)
        patch, cut = shorten(for_people(found.redacted().patch))
        return to_ascii({"old": found.old_id, "new": found.new_id, "patch": patch, "cut": cut})

    def list_questions(self, run_id: str | None = None) -> str:
        """List the open questions of a run, or of all runs, with the JSON schema of their answers.

        The most urgent first, at most 100. Long values are cut, and `cut` says so: the more, the
        more questions there are.
        """
        if run_id is not None:
            self._scope.find(self._cp, run_id)
        every = inbox.open_questions(self._cp.core, run_id)
        found = [one for one in every if self._may_see(one)]
        most = max(MOST // max(1, len(found)), _LEAST)
        shown = [_question(one, most) for one in found[:_PAGE]]
        return to_ascii({"questions": shown, "more": len(found) > _PAGE})

    def verify_run(self, run_id: str) -> str:
        """Check every stored byte of a run, and whether its claims about the world are true now.

        Claims are checked only if the server was started with leave to look at files or hosts.
        """
        self._scope.find(self._cp, run_id)
        found = self._cp.verify(run_id)
        document: dict[str, Any] = {
            "run_id": run_id,
            "intact": found.ok,
            "entries": found.entries,
            "problems": [shorten(str(problem), _NOTE)[0] for problem in found.problems[:_PAGE]],
            "more_problems": len(found.problems) > _PAGE,
        }
        if self._verifier is None:
            document["claims"] = "not checked: the server was not given leave to (--root DIR ...)"
        elif found.ok:
            document["claims"] = self._claims(run_id, self._verifier)
        return to_ascii(document)

    def answer_question(self, run_id: str, answer: Any, question: str | None = None) -> str:
        """Answer an open question of a run. The answer must fit the question's JSON schema.

        Name the question by its key if the run asks several. An answer can't be taken back, and a
        second one is refused. The run continues when a worker or a person resumes it.
        """
        self._scope.find(self._cp, run_id)
        core = self._cp.core
        asked = requests.open_question(core, run_id, question)
        value = readable.data_from_json(answer)
        core.drive(requests.answer(core, run_id, value, asked.key, by=self._by))
        return to_ascii({"run_id": run_id, "question": asked.key, "answered": True, "by": self._by})

    # --- what they are made of

    def _run(self, run: RunInfo) -> dict[str, Any]:
        try:
            facts = activity_of(self._cp.core, run)._asdict()
        except CheckpointCorruptedError:  # `verify_run` reports it
            facts = {}
        return run._asdict() | facts | {"labels": shorten(run.labels, _NOTE)[0]}

    def _load(self, run_id: str, seq: int | None) -> Checkpoint:
        _check_seq(seq)
        found = self._cp.load(run_id) if seq is None else self._cp.load(run_id, seq=seq)
        if found is None:
            raise LookupError(f"run {run_id!r} has no checkpoint {'yet' if seq is None else seq}")
        return found

    def _may_see(self, question: Question) -> bool:
        run = self._cp.run(question.run_id)
        return run is not None and self._scope.has(self._cp, run)

    def _claims(self, run_id: str, verifier: EvidenceVerifier) -> list[dict[str, Any]]:
        """What is found now of the claims that bind the current checkpoint. Records nothing."""
        core = self._cp.core
        newest = next(iter(core.journals.branch(run_id)), None)
        if newest is None:
            return []
        return [
            {
                "claim": shorten(claim.evidence.description, _NOTE)[0],
                "status": verdict.status.value,
                "reason": shorten(verdict.reason or "", _NOTE)[0],
            }
            for claim, verdict in Checker(core, verifier).verdicts(newest)[:_PAGE]
        ]


def _state(checkpoint: Checkpoint) -> Any:
    """The state; of a thread of LangGraph's, the values of its channels."""
    if checkpoint.flow == FLOW:
        with suppress(ValueError):  # another state
            return plain.channel_values(checkpoint.state)
    return checkpoint.state


def _check_seq(seq: int | None) -> None:
    """Raise `ValueError` for a number that no store could look for."""
    if seq is not None and not -_ENTRIES < seq < _ENTRIES:
        raise ValueError("a seq is the number of an entry, as show_run lists them")


def _question(question: Question, most: int) -> dict[str, Any]:
    """A question, with at most so many characters of each of its values."""
    default = None if question.default is FAIL else readable.to_json(question.default)
    limits = {
        "prompt": (question.prompt, _PROMPT),
        "schema": (redacted(AsIs(readable.to_json(question.schema) or {})), most),
        "assignees": (list(question.assignees), _NOTE),
        "default": (redacted(default), _NOTE),
        "shown": (redacted(readable.to_json(question.shown)), most),
    }
    values = {name: shorten(value, min(limit, most)) for name, (value, limit) in limits.items()}
    return {
        "run_id": question.run_id,
        "question": question.key,
        "asked_at": question.asked_at,
        "deadline": question.deadline,
        **{name: value for name, (value, _) in values.items()},
        "cut": any(cut for _, cut in values.values()),
    }
