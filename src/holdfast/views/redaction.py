"""Hides what looks like a secret in timelines and differences; see `holdfast.codec.redaction`."""

import json
from collections.abc import Sequence

from holdfast.codec.redaction import MAP, hidden, is_secret, redacted
from holdfast.model import Kind
from holdfast.operations.diff import Change, Diff
from holdfast.operations.timeline import Moment


def redacted_moment(moment: Moment) -> Moment:
    """A moment of a timeline; what a step emitted is in its note, as JSON."""
    if moment.kind != Kind.OUTPUT:
        return moment._replace(note=redacted(moment.note))
    try:
        return moment._replace(note=json.dumps(redacted(json.loads(moment.note))))
    except (ValueError, RecursionError):  # of a damaged one
        return moment._replace(note=redacted(moment.note))


def redacted_diff(diff: Diff) -> Diff:
    """A difference of states, with what looks like a secret hidden."""
    return diff._replace(changes=tuple(map(_change, diff.changes)))


def _change(change: Change) -> Change:
    # Of a pair in a map whose keys are no texts, the key is not known here.
    hide = MAP in change.path or any(is_secret(part) for part in _texts(change.path))
    show = hidden if hide else redacted
    return change._replace(old=show(change.old), new=show(change.new))


def _texts(path: Sequence[str | int]) -> list[str]:
    return [part for part in path if isinstance(part, str)]
