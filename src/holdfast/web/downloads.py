"""Values as files. A browser saves them, and never shows them as a page."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.responses import Response

from holdfast.codec.ascii_json import to_ascii

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def attachment(tree: Any, name: str) -> Response:
    """A value in JSON's form as a file to save."""
    safe = _UNSAFE.sub("_", name).strip("._-")[:80] or "value"
    headers = {"content-disposition": f'attachment; filename="{safe}.json"'}
    return Response(
        to_ascii(tree, indent=2).encode(), media_type="application/json", headers=headers
    )
