"""Who gets in: every request passes here before any route is looked for.

Nothing is exempt, neither by its path nor by its kind. A page of another site can make a browser
send requests here, and a name of that site can be made to lead here: so the `Host` and the origin
of each request are checked even where no token is needed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.api.problems import is_of_api, problem
from holdfast.web.site import Site
from holdfast.web.statuses import TooLargeError

MAX_BODY: Final = 4 << 20
"""Bytes of a request's body: a state that is edited fits, or is edited with the command line."""

SHORTEST_TOKEN: Final = 16
"""Characters of a token."""

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # without it, forms would not say where they come from
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Sent with every response."""

_READING: Final = ("GET", "HEAD")
_FROM_HERE: Final = "Send it from a page of this site, or from a program."


class Guard:
    """Answers what must not reach the application, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application do it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSocket is served
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        is_file = scope["path"].startswith("/static/")  # it has an etag, and no secrets

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added.update(HEADERS)
                added.setdefault("cache-control", "no-cache" if is_file else "no-store")
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, sending)
            return
        scope.setdefault("state", {})["who"] = _name_of(headers, self._site.settings.tokens)
        # Ids in paths may hold an encoded slash: routes see the path as it was sent.
        scope["path"] = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        await self._app(scope, _Limited(receive), sending)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Why a request is not answered; None if it is."""
        settings = self._site.settings
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _is_host(hosts[0], settings.names):
            return _refusal(
                scope, 421, "this is not the host that you asked for; name it with --name"
            )
        if not _is_from_here(scope["method"], hosts[0], headers):
            return _refusal(scope, 403, "a page of another site may not do this")
        if settings.tokens and _name_of(headers, settings.tokens) is None:
            response = _refusal(scope, 401, "give a name and its token")
            response.headers["www-authenticate"] = 'Basic realm="holdfast", charset="UTF-8"'
            return response
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 12:
            return _refusal(scope, 400, "content-length is not a number")
        if int(length) > MAX_BODY:
            return _refusal(scope, 413, f"at most {MAX_BODY:,} bytes can be sent")
        return None


class _Limited:
    """What is received, up to the most that a request may send."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > MAX_BODY:
            raise TooLargeError
        return message


def _refusal(scope: Scope, status: int, text: str) -> Response:
    """Why, for people; for programs as a document."""
    if is_of_api(str(scope["path"])):
        advice = _FROM_HERE if status == 403 else ""
        return problem(status, f"{text[:1].upper()}{text[1:]}.", advice)
    return PlainTextResponse(f"{text}\n", status)


def _is_host(host: str, names: Collection[str]) -> bool:
    """Whether a host is one of this site: an address, localhost, or one of its names.

    A name that leads here but is not one of these may belong to a site that attacks this one.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_from_here(method: str, host: str, headers: Headers) -> bool:
    """Whether a request comes from a page of this site, from no page, or follows a link."""
    site = headers.get("sec-fetch-site", "none")
    if method in _READING:
        follows = headers.get("sec-fetch-mode") == "navigate"
        return site in ("none", "same-origin") or follows
    origin = headers.get("origin")
    if origin is not None:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or parts.netloc.lower() != host.lower():
            return False
    return site in ("none", "same-origin")


def _hashed(token: str) -> bytes:
    """Of one length, whatever was given."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _name_of(headers: Headers, tokens: Mapping[str, str]) -> str | None:
    """Whose token a request has; None if it has none. Takes as long for each wrong token."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    name: str | None = None
    if kind.lower() == "basic":
        try:
            name, _, given = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:  # it is not base64, or not UTF-8
            given = ""
    elif kind.lower() != "bearer":
        given = ""
    found = None
    for known, token in tokens.items():
        fits = hmac.compare_digest(_hashed(token), _hashed(given))
        if fits and name in (None, known):
            found = known
    return found
