"""New runs of the flows that the UI was given, for programs in other languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from holdfast.engine.effects import Call
from holdfast.engine.flow import Flow
from holdfast.engine.options import RunNames
from holdfast.engine.resume.activity import activity_of
from holdfast.errors import HoldfastError, ReviveError
from holdfast.seams import new_id
from holdfast.views.errors import NotFoundError
from holdfast.views.runs import of_id
from holdfast.web.site import Site
from holdfast.web.statuses import InvalidFieldError, ReadOnlyError
from holdfast.workflow.flow import Workflow


def submit(
    site: Site,
    who: str | None,
    flow: str,
    inputs: Any,
    *,
    run_id: str | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    labels: Mapping[str, str] | None = None,
    delay: timedelta | None = None,
) -> dict[str, Any]:
    """Record a run, and execute it here; with a `delay`, or if this process ends, a worker does.

    It belongs to who submits it unless another `owner` is given, or the UI is for one owner. With
    the id of a run of the same flow with the same inputs, nothing is done, and `new` is False.
    Returns a document as `holdfast submit --json` prints it.
    """
    if not site.settings.allow_writes:
        raise ReadOnlyError
    executor = site.executor
    known = {one.name: one for one in site.settings.flows}
    if executor is None or flow not in known:
        names = ", ".join(map(repr, sorted(known))) or "none"
        raise NotFoundError(f"flow {flow!r} is none of those that are executed here: {names}")
    call = _call(known[flow], inputs)
    options = RunNames(
        run_id=new_id() if run_id is None else run_id,
        thread_id=thread_id,
        owner=owner or site.cp.owner or who,
        labels=dict(labels or {}),
    )
    with _refused_as("labels"):
        name, new = executor.submit(call, options, delay)
    if new and delay is None:
        executor.resume(name)
    info = of_id(site.cp, name)
    due = activity_of(site.cp.core, info).due
    return {"run_id": name, "flow": flow, "status": info.status, "new": new, "due": due}


def _call(flow: Flow[Any], inputs: Any) -> Call[Any]:
    """The call with these inputs, which are plain data. Raises if they are not what it takes."""
    try:
        with _refused_as("inputs"):
            made: Call[Any] = Call(flow, flow.inputs_from(inputs))
            if isinstance(flow, Workflow):
                flow.ready(made.inputs)  # have they the declared types?
            return made
    except ReviveError as error:
        reason = f"{error.path}: {error.reason}"
        raise InvalidFieldError("inputs", reason) from error


@contextmanager
def _refused_as(field: str) -> Iterator[None]:
    """Say which field it is that an engine does not take."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, HoldfastError):
            raise
        raise InvalidFieldError(field, str(error)) from error
