"""Changes of runs as they happen."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from holdfast.web import live
from holdfast.web.api.declaring import Call, get, identity
from holdfast.web.api.problems import ProblemError
from holdfast.web.api.schemas import TEXT


@get(
    "/events",
    TEXT,
    identity("run", "Only changes of this run."),
    media=live.MEDIA,
)
def events(call: Call, run: str | None) -> Response:
    """Tell which runs changed, as server-sent events, at most twice a second.

    `runs` has the `ids` of runs that changed; if `any` is true, others may have, too. `store` says
    since when the store can't be reached, in `lost_since`; null if it can be again.
    """
    if call.live.is_full:
        raise ProblemError(503, "Too many listen already.", "Close some of the others.")
    return live.streaming(call.live, run)


ENDPOINTS: Final = (events,)
