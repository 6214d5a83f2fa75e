"""The random id of a store, which is kept in it: what it is called, however it was opened. Blocks."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from holdfast.codec.meta import Meta, dump_meta
from holdfast.errors import ConflictError
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import EntryReader
from holdfast.kernel.known_heads import proved_alone
from holdfast.kernel.store_view import real_store
from holdfast.model import STORE_JOURNAL, Entry, Kind, Status


def known_store_id(journals: EntryReader) -> str | None:
    """The id of a store; None if it has none yet. Writes nothing, and needs no key."""
    found = real_store(journals.store).read(STORE_JOURNAL, limit=1)
    if not found:
        return None
    first = found[0]
    proved_alone(journals, first)
    birth = Meta(first).fields.get("birth")
    return birth if isinstance(birth, str) else first.entry_id.hex()


def store_id(core: Core) -> str:
    """The id of a store, which is given one unless another process is faster."""
    found = known_store_id(core.journals)
    if found is None:
        birth = core.journals.new_birth()
        draft = Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"birth": birth}))
        with suppress(ConflictError):
            core.drive(append_if(core, STORE_JOURNAL, partial(_first, draft)))
        found = known_store_id(core.journals)
    assert found is not None, "it was written just now"
    return found


def _first(draft: Draft, head: Entry | None) -> Draft:
    if head is not None:
        raise ConflictError(head.run, head.seq)
    return draft
