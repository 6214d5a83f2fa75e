"""Notifications of a Redis store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError as LostConnectionError

from holdfast.changes import ANY_RUN, Change, Watch
from holdfast.stores._shared.waking import Interruptible

if TYPE_CHECKING:
    from holdfast.stores.redis.link import Link

_ANSWER_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 15.0  # then the server is asked whether it is there


class RedisWatch(Watch):
    """Waits by SUBSCRIBE."""

    def __init__(self, link: Link, channel: bytes) -> None:
        self._link = link
        self._heard = time.monotonic()
        self._asked = False
        self._waking = Interruptible()
        try:
            self._subscription = link.subscription()
            with link.translated():
                self._subscription.subscribe(channel)
                self._subscription.get_message(timeout=_ANSWER_SECONDS)  # the confirmation
        except BaseException:
            self.close()
            raise

    def wait(self, seconds: float) -> list[Change]:
        until = time.monotonic() + seconds
        woken = False
        with self._link.translated():
            while not (found := self._messages()) and not woken:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._check_alive()
                connection = self._subscription.connection
                pause = min(left, _SILENCE_SECONDS)
                woken = self._waking.wait(connection._sock.fileno(), pause)  # noqa: SLF001
        return list(found.values())

    def wake(self) -> None:
        self._waking.wake()

    def close(self) -> None:
        self._waking.close()
        subscription: Any = getattr(self, "_subscription", None)
        if subscription is not None:
            with self._link.translated():
                subscription.close()

    def _messages(self) -> dict[str | None, Change]:
        """What has come; nothing stays in the driver's buffer."""
        found: dict[str | None, Change] = {}
        while (message := self._subscription.get_message()) is not None:
            self._heard, self._asked = time.monotonic(), False
            if message["type"] == "message":
                data = message["data"]
                text = data.decode() if isinstance(data, bytes) else data
                seq, _, rest = text.partition(" ")
                status, _, run = rest.partition(" ")
                found[run] = Change(run, int(seq), status)
            elif message["type"] == "subscribe":  # the user's client has connected again
                found[None] = ANY_RUN
        return found

    def _check_alive(self) -> None:
        """Raise if the server has been silent for long, and does not answer."""
        silent = time.monotonic() - self._heard
        if self._asked and silent > _SILENCE_SECONDS + _ANSWER_SECONDS:
            raise LostConnectionError("the server does not answer")
        if not self._asked and silent > _SILENCE_SECONDS:
            self._subscription.ping()
            self._asked = True
