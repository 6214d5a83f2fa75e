"""Hides what looks like a secret in timelines; see `holdfast.codec.redaction`."""

import json

from holdfast.codec.redaction import redacted
from holdfast.model import Kind
from holdfast.operations.timeline import Moment


def redacted_moment(moment: Moment) -> Moment:
    """A moment of a timeline; what a step emitted is in its note, as JSON."""
    if moment.kind != Kind.OUTPUT:
        return moment._replace(note=redacted(moment.note))
    try:
        return moment._replace(note=json.dumps(redacted(json.loads(moment.note))))
    except (ValueError, RecursionError):  # of a damaged one
        return moment._replace(note=redacted(moment.note))
