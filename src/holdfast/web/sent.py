"""What a form sent, and how a page answers once it was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.codec.ascii_json import to_ascii
from holdfast.errors import InvalidIdError
from holdfast.model import check_id
from holdfast.web.site import Site
from holdfast.web.statuses import InvalidFieldError, ReadOnlyError

FORM: Final = "application/x-www-form-urlencoded"
_MOST: Final = 500  # fields


class Sent(NamedTuple):
    """A form that was sent to change something."""

    request: Request
    site: Site
    fields: Mapping[str, str]

    @property
    def run_id(self) -> str:
        """The run in the path."""
        found: str = self.request.path_params["run_id"]
        return found

    def field(self, name: str) -> str:
        """One field without the space around it; empty if it was not sent."""
        return self.fields.get(name, "").strip()

    def who(self) -> str:
        """Who sent it: whose token it was, else who the form says. Raises `InvalidFieldError`."""
        known: str | None = self.request.state.who
        if known is not None:
            return known
        name = self.field("by")
        if not name:
            raise InvalidFieldError("by", "say who you are: it is recorded")
        try:
            return check_id("by", name)
        except InvalidIdError as error:
            raise InvalidFieldError("by", str(error)) from None


Handle = Callable[[Sent], Response]


def posted(handle: Handle) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads a form and handles it in a thread; refused where nothing may change."""

    async def endpoint(request: Request) -> Response:
        site: Site = request.app.state.site
        if not site.settings.allow_writes:
            raise ReadOnlyError
        body = await request.body()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != FORM:
            raise HTTPException(415, f"Send it as {FORM}")

        def read_and_handle() -> Response:
            return handle(Sent(request, site, _fields(body)))

        return await run_in_threadpool(read_and_handle)  # a large form takes seconds to read

    return endpoint


def _fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises `HTTPException`."""
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST))
    except ValueError:
        raise HTTPException(400, "That form can't be read") from None


def done(request: Request, to: str, text: str) -> Response:
    """Leads to the page that shows what was done, and says so where scripts run."""
    if request.headers.get("hx-request") != "true":
        return RedirectResponse(to, 303)
    headers = {"hx-redirect": to, "hx-trigger": to_ascii({"holdfast:done": text})}
    return Response(status_code=200, headers=headers)
