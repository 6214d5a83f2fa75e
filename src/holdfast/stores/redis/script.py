"""A script that a server runs, and how it is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError


class Script(NamedTuple):
    """A script, and the name by which a server knows it once it has seen it."""

    text: str
    sha: str

    def called(
        self, send: Callable[..., Any], keys: Sequence[bytes], arguments: Sequence[object]
    ) -> Any:
        """Send the script by its name or, to a server that has not seen it yet, whole."""
        try:
            return send("EVALSHA", self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return send("EVAL", self.text, len(keys), *keys, *arguments)


def script(text: str) -> Script:
    """The script with this text."""
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
