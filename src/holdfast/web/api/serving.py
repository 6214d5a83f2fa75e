"""From declared endpoints to routes: what a request gives is checked, what it gets is redacted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.codec.ascii_json import to_ascii
from holdfast.codec.redaction import redacted
from holdfast.engine.people.fitting import problems_with
from holdfast.errors import InvalidIdError
from holdfast.views import runs
from holdfast.web import paths  # noqa: F401 - ids in routes
from holdfast.web.api import problems
from holdfast.web.api.declaring import JSON, RUN_ID, Call, Endpoint, Field
from holdfast.web.api.problems import PREFIX, ProblemError
from holdfast.web.site import Site

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_BOOLEANS: Final = {"true": True, "false": False}
_READ_ONLY: Final = (
    "This server only shows the store.",
    "Start it with: holdfast ui --allow-writes, or use the command line.",
)


def routes(endpoints: Iterable[Endpoint]) -> list[Route]:
    """One route for each path, with all its methods; the first of all may end with a slash."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one
    return [
        Route(pattern, partial(_answer, found), methods=list(found))
        for path, found in by_path.items()
        for pattern in ([PREFIX, f"{PREFIX}/"] if path == "/" else [_pattern(path)])
    ]


def _pattern(path: str) -> str:
    return PREFIX + re.sub(r"{(\w+)}", r"{\1:id}", path)


async def _answer(endpoints: Mapping[str, Endpoint], request: Request) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    try:
        sent = await request.body()
        return await run_in_threadpool(_called, endpoints[method], request, sent)
    except Exception as error:  # noqa: BLE001 - nothing of ours may show
        return problems.of_error(request, error)


def _called(endpoint: Endpoint, request: Request, sent: bytes) -> Response:
    site: Site = request.app.state.site
    if endpoint.writes and not site.settings.allow_writes:
        raise ProblemError(403, *_READ_ONLY)
    with site.noting_outages():
        given = _in_path(endpoint, request, site) | _in_query(endpoint, request)
        if endpoint.writes:
            given |= _in_body(endpoint, request, sent)
        call = Call(site, request.app.state.live, request.state.who, _url_of(request))
        if endpoint.media != JSON and request.method == "HEAD":
            return Response(media_type=endpoint.media)  # a stream would not end
        found = endpoint.call(call, **given)
    if isinstance(found, Response):
        return found
    return Response(to_ascii(redacted(found)), media_type=JSON)


def _in_path(endpoint: Endpoint, request: Request, site: Site) -> dict[str, Any]:
    """What the path names: the run itself, which is there, and numbers."""
    found: dict[str, Any] = {}
    for field in endpoint.in_path:
        text = request.path_params[field.name]
        if field is not RUN_ID:
            is_number = field.schema["type"] == "integer"
            found[field.name] = _checked(field, _number(text) if is_number else text)
            continue
        try:
            found["run"] = runs.of_id(site.cp, text)
        except InvalidIdError as error:
            raise ProblemError(404, str(error)) from None
    return found


def _in_query(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    _refuse_unknown(request.query_params, endpoint.query)
    return {field.name: _from_query(field, request) for field in endpoint.query}


def _from_query(field: Field, request: Request) -> Any:
    texts = request.query_params.getlist(field.name)
    kind = field.schema.get("type")
    if not texts:
        return _missing(field)
    if kind == "array":
        return _checked(field, texts)
    if len(texts) > 1:
        raise _wrong(field.name, "is given more than once")
    if kind == "integer":
        return _checked(field, _number(texts[0]))
    if kind == "boolean":
        return _checked(field, _BOOLEANS.get(texts[0], texts[0]))
    return _checked(field, texts[0])


def _in_body(endpoint: Endpoint, request: Request, sent: bytes) -> dict[str, Any]:
    media = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media != JSON:
        raise ProblemError(415, f"The body is {media}.", f"Send {JSON}.")
    try:
        found = json.loads(sent, parse_constant=_refuse_constant) if sent else {}
    except (ValueError, RecursionError):
        raise ProblemError(400, "The body is not JSON.", "Send a JSON object.") from None
    if not isinstance(found, dict):
        raise ProblemError(400, "The body is no JSON object.", "Send a JSON object.")
    _refuse_unknown(found, endpoint.body)
    return {
        field.name: _checked(field, found[field.name]) if field.name in found else _missing(field)
        for field in endpoint.body
    }


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_unknown(given: Iterable[str], fields: Sequence[Field]) -> None:
    known = [field.name for field in fields]
    for name in given:
        if name not in known:
            raise _wrong(name, "is not known here", f"Known are: {', '.join(known) or 'none'}.")


def _missing(field: Field) -> Any:
    if field.required:
        raise _wrong(field.name, "is missing")
    return field.default


def _checked(field: Field, value: Any) -> Any:
    wrong = problems_with(value, field.checked_first, field.name)
    if wrong:
        raise ProblemError(400, f"{wrong}.", field.text, parameter=field.name)
    if isinstance(value, str) and not _is_text(value):
        raise _wrong(field.name, "contains NUL or invalid Unicode")
    try:
        return value if field.parse is None else field.parse(value)
    except ValueError as error:
        raise _wrong(field.name, f"can't be used: {error}") from None


def _is_text(value: str) -> bool:
    """Whether every store can compare it with what it has."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _number(text: str) -> Any:
    return int(text) if _INTEGER.fullmatch(text) else text


def _wrong(name: str, why: str, advice: str = "") -> ProblemError:
    return ProblemError(400, f"{name!r} {why}.", advice, parameter=name)


def _url_of(request: Request) -> Callable[..., str]:
    """Makes the address of the same request with some parameters changed."""

    def url(**changed: Any) -> str:
        items = [(k, v) for k, v in request.query_params.multi_items() if k not in changed]
        items += [(name, str(value)) for name, value in changed.items()]
        return f"{request.scope['path']}?{urlencode(items)}"

    return url
