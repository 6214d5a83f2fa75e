"""A session of the OpenAI Agents SDK: the items of a conversation, in any store."""

from __future__ import annotations

import os
from typing import Any, Final, Self

from agents.items import TResponseInputItem
from agents.memory import SessionSettings

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.codec import values
from holdfast.integrations.openai_agents.history import History
from holdfast.kernel import compose
from holdfast.kernel.appending import append, append_at
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import Kind, Status, check_id
from holdfast.store import Store

FLOW: Final = "openai-agents"
"""The flow that a session's run says it belongs to, so that no other run is taken for one."""


class HoldfastSession:
    """A conversation's items, for `Runner.run(agent, text, session=session)`.

    Whatever is added is durable when `add_items` returns, all of it or nothing. Items that are
    popped or cleared stay in the history. Any number of sessions, also in other processes, may
    use the same id at once: none loses items, and no item is popped twice.
    """

    def __init__(
        self,
        session_id: str,
        store: Store | str | os.PathLike[str] | Checkpointer | SyncCheckpointer | None = None,
        *,
        owner: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Open the session with this id, which is the id of its run.

        The store is given by URL, path or as an object; None is the default one. To share one
        connection between sessions, give a checkpointer: that is not closed with the session.
        `owner` is whose data it is, see `Checkpointer.forget`. The `limit` of the settings is the
        number of newest items that an agent is given.
        """
        self.session_id = check_id("session_id", session_id)
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._owner = None if owner is None else check_id("owner", owner)
        self._owns = not isinstance(store, Checkpointer | SyncCheckpointer)
        self._checkpointer = (
            store if isinstance(store, Checkpointer | SyncCheckpointer) else SyncCheckpointer(store)
        )
        self._history = History(session_id, FLOW)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, oldest first: `limit` of them, or as many as the settings say."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        packed = await self._core.drive_async(self._newest(limit))
        return [values.decode(item) for item in packed]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items. Raises `SerializeError` for one that can't be stored; then none is added."""
        if items:
            await self._core.drive_async(self._append("add", list(items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none."""
        packed = await self._core.drive_async(self._pop())
        return None if packed is None else values.decode(packed)

    async def clear_session(self) -> None:
        """Remove all items. `Checkpointer.clear` deletes them from the store, too."""
        await self._core.drive_async(self._clear())

    @property
    def _core(self) -> Core:
        return self._checkpointer.core

    def _newest(self, limit: int | None) -> Op[list[bytes]]:
        core = self._core
        yield lambda: self._history.catch_up(core)
        return self._history.newest(limit)

    def _append(self, what: str, value: Any) -> Op[None]:
        yield from append(self._core, self.session_id, self._draft(what, value))

    def _pop(self) -> Op[bytes | None]:
        core, draft = self._core, self._draft("pop", 1)
        while True:
            head, newest = yield lambda: self._history.catch_up(core)
            if newest is None:
                return None
            if (yield from append_at(core, self.session_id, head, [draft])) is not None:
                item: bytes = newest.item
                return item

    def _clear(self) -> Op[None]:
        core = self._core
        _, newest = yield lambda: self._history.catch_up(core)
        if newest is not None:
            yield from self._append("clear", True)

    def _draft(self, what: str, value: Any) -> Draft:
        """An entry that says what was done, as a value of its own."""
        encoding = compose.encode(self._core, self.session_id, {what: value}, root="items")
        return Draft(
            Kind.RESULT.value,
            Status.OPEN.value,
            encoding,
            step=what,
            flow=FLOW,
            owner=self._owner,
        )

    # --- lifetime

    def close(self) -> None:
        """Release the store, unless a checkpointer was given. A second call does nothing."""
        if self._owns and isinstance(self._checkpointer, SyncCheckpointer):
            self._checkpointer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self._checkpointer.store.url!r})"
