"""What is below the timeline: what the run was given, and what came of it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from holdfast.codec import readable
from holdfast.codec.meta import Meta
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError
from holdfast.views.legible import INLINE, Field, fields_of, legible
from holdfast.views.steps import Steps
from holdfast.web.pages.shown_run import ShownRun
from holdfast.web.rendering import run_path
from holdfast.web.site import Site

_FIELDS: Final = 30


class Card(NamedTuple):
    """A few facts under a title."""

    title: str
    fields: list[Field]
    more: int = 0
    error: str = ""  # what went wrong, with its traceback
    trace: str = ""
    link: tuple[str, str] | None = None  # address and text
    note: str = ""


def cards_of(site: Site, run: ShownRun, steps: Steps) -> list[Card]:
    """The inputs of a run, its result or failure, and where it comes from."""
    return [*_inputs(site, run), *_outcome(site, run, steps)]


def _inputs(site: Site, run: ShownRun) -> list[Card]:
    try:
        opening = site.cp.core.journals.opening(run.run_id)
        if opening is None:
            return []
        origin = Meta(opening).origin
        cards = [_card("Inputs", site, run, opening.seq)] if opening.size else []
        cards = [card for card in cards if card.fields or card.note]  # a flow may take none
    except CheckpointCorruptedError as error:
        return [Card("Inputs", [], note=f"damaged: {error.reason}")]
    if origin:
        place, _, seq = origin.rpartition("@")
        link = run_path(place, tab="state", at=seq), origin
        cards.append(Card("Forked from", [], link=link))
    return cards


def _outcome(site: Site, run: ShownRun, steps: Steps) -> list[Card]:
    if steps.failure is not None and run.info.status == "failed":
        told = _read(site, run, steps.failure)
        if isinstance(told, dict):
            error = redacted(f"{told.get('type', '')}: {told.get('message', '')}")
            error = error if len(error) <= INLINE else f"{error[:INLINE]}…"
            return [Card("Failure", [], error=error, trace=redacted(str(told.get("trace", ""))))]
    if steps.result is not None:
        return [_card("Result", site, run, steps.result)]
    if run.info.status == "completed" and "nodes" in steps.structure:
        return [_card("Result", site, run, None)]
    return []


def _card(title: str, site: Site, run: ShownRun, seq: int | None) -> Card:
    try:
        tree = legible(readable.to_json(_read(site, run, seq)))
    except CheckpointCorruptedError as error:
        return Card(title, [], note=f"damaged: {error.reason}")
    fields, total = fields_of(tree, most=_FIELDS)
    return Card(title, fields, total - len(fields))


def _read(site: Site, run: ShownRun, seq: int | None) -> Any:
    """What an entry has; without one, the final state of the run: the result of a graph."""
    if seq is None:
        found = site.cp.load(run.run_id)
        return None if found is None else found.state
    return site.cp.core.journals.value(run.run_id, seq, as_data=True)
