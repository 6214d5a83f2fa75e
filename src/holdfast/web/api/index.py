"""Where the API begins: what this server is, and where everything else is."""

from __future__ import annotations

from typing import Any, Final

from holdfast import __version__
from holdfast.web.api.declaring import Call, get
from holdfast.web.api.problems import PREFIX
from holdfast.web.api.schemas import FLAG, TEXT, record

_LINKS: Final = {
    "self": PREFIX,
    "openapi": f"{PREFIX}/openapi.json",
    "runs": f"{PREFIX}/runs",
    "questions": f"{PREFIX}/questions",
    "workers": f"{PREFIX}/workers",
    "stats": f"{PREFIX}/stats",
    "doctor": f"{PREFIX}/doctor",
    "events": f"{PREFIX}/events",
    "health": "/healthz",
    "metrics": "/metrics",
}


@get(
    "/",
    record(
        name=TEXT,
        version=TEXT,
        store=TEXT,
        may_write=FLAG,
        links=record(**dict.fromkeys(_LINKS, TEXT)),
    ),
)
def index(call: Call) -> dict[str, Any]:
    """Say what this server is: its version, its store, and where to find everything else.

    The same is at the address without the slash at its end.
    """
    return {
        "name": "holdfast",
        "version": __version__,
        "store": call.site.short_name,
        "may_write": call.site.settings.allow_writes,
        "links": dict(_LINKS),
    }


ENDPOINTS: Final = (index,)
