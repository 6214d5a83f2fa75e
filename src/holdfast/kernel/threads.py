"""The runs of a thread, as its journal lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.codec.meta import Meta
from holdfast.errors import KeyDestroyedError
from holdfast.model import Kind, thread_journal

if TYPE_CHECKING:
    from holdfast.kernel.journal import Journals
    from holdfast.kernel.pages import Damage


def members(
    journals: Journals, thread: str, *, newest_first: bool = True, damage: Damage | None = None
) -> Iterator[Meta]:
    """What a thread's journal says of each of its runs; a run may be listed more than once.

    Runs of others are left out if the store is bound to an owner, and so are those of owners who
    were forgotten: their keys were destroyed. Blocks.
    """
    name = thread_journal(thread)
    for entry in journals.entries(name, newest_first=newest_first, damage=damage):
        if entry.kind == Kind.MEMBER:
            try:
                meta = Meta(entry)
            except KeyDestroyedError:
                continue
            yield meta
