"""A run that is about to be opened: what it belongs to, and what its first entry says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from holdfast.codec.meta import with_facts
from holdfast.engine.inputs import comparable_hash
from holdfast.engine.options import Options
from holdfast.engine.program import Program, Stored
from holdfast.engine.resume.takeover import Make
from holdfast.errors import RunExistsError
from holdfast.kernel import compose
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status, check_id

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_MOST_LABELS: Final = 20
_TAKEN: Final = "resume it with resume=True, or choose another id"


class Link(NamedTuple):
    """What a run belongs to."""

    thread: str | None = None
    owner: str | None = None
    listed: bool = False  # its thread's journal names it already
    source: str | None = None  # MODULE:NAME that it was started by; shown, never imported
    labels: Mapping[str, str] = _NO_LABELS


class Opening:
    """A run that is about to be opened. Raises if its inputs can't be stored or do not fit."""

    def __init__(self, core: Core, make: Make, run_id: str, inputs: Any, link: Link) -> None:
        check_id("run_id", run_id)
        self.program = equipped(core, make)()
        self.birth = core.journals.new_birth()
        self._core, self._run, self._link = core, run_id, link
        flow = self.program.flow
        check_id("flow", flow.name)
        if link.owner is not None:
            check_id("owner", link.owner)
        self._encoding = compose.encode(core, run_id, inputs, "inputs", link.owner)
        self._facts: dict[str, Any] = {
            "inputs_hash": comparable_hash(core, inputs, self._encoding),
            "birth": self.birth,
        }
        if link.source is not None:
            self._facts["source"] = link.source
        if (labels := _checked_labels(link.labels)) is not None:
            self._facts["labels"] = labels
        stored = Stored(self._encoding, core.journals.decode)
        if self.program.by_fields and core.withholding.is_idle:
            stored.take_apart(inputs)
        self.program.begin(run_id, stored)

    def append(
        self, status: Status, facts: Mapping[str, Any], member: Draft | None = None
    ) -> Op[Entry]:
        """Append the opening. Raises `RunExistsError`."""
        flow = self.program.flow
        opening = Draft(
            Kind.OPEN.value,
            status.value,
            self._encoding,
            parent=None,
            flow=flow.name,
            thread=self._link.thread,
            owner=self._link.owner,
            meta=with_facts(flow.opening_text, {**self._facts, **facts}),
        )

        def decide(head: Entry | None) -> Draft:
            if head is not None and head.status != Status.DELETED:
                raise RunExistsError(self._run, _TAKEN)
            return opening

        listed = self._link.listed
        return append_if(self._core, self._run, decide, listed=listed, member=member, opens=True)


def _checked_labels(labels: Mapping[str, str]) -> dict[str, str] | None:
    if labels is _NO_LABELS:
        return None
    given: object = labels
    if not isinstance(given, Mapping):
        raise TypeError(f"labels must be a mapping of texts, not {given!r}")
    if len(given) > _MOST_LABELS:
        raise ValueError(f"a run may have {_MOST_LABELS} labels, not {len(given)}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"a label is a text, and so is its name, not {name!r}: {value!r}")
        if not name or "=" in name:
            raise ValueError(f"the name of a label is not empty and has no '=', not {name!r}")
        check_id("label", f"{name}={value}")
    return dict(given) or None


def equipped(core: Core, make: Make, options: Options | None = None) -> Make:
    """Programs that tell the time as the journals do, and are as strict as the options say."""
    journals = core.journals
    apart = core.withholding.is_idle

    def made() -> Program:
        program = make()
        program.clock = journals.clock
        program.stored_form = journals.stored_form
        program.codec = journals if apart else None
        program.strict = options is not None and options.strict
        return program

    return made
