"""What a claim is about, as text: a later claim on the same subject supersedes an earlier one."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.codec import readable

Plain = Mapping[str, Any]


def subject_of(kind: str, description: str, expected: Plain, metadata: Plain, digest: str) -> str:
    """The subject of a claim. One that is malformed is about nothing but itself."""
    name = _NAMERS.get(kind, _custom)
    try:
        return name(description, expected, metadata)
    except (KeyError, TypeError, ValueError, AttributeError):
        return f"claim:{digest}"


def subjects_in(pack: Any) -> set[str]:
    """What the claims of a pack are about, as it is stored; nothing, if it is malformed."""
    try:
        return {_subject_in(claim) for claim in pack["evidence_list"]}
    except (KeyError, TypeError, ValueError, AttributeError):
        return set()


def _subject_in(claim: Plain) -> str:
    expected, metadata = (readable.from_json(claim[name]) for name in ("expected", "metadata"))
    itself = json.dumps(claim, sort_keys=True)
    return subject_of(claim["evidence_type"], claim["description"], expected, metadata, itself)


def canonical(value: object) -> str:
    """The same text for equal plain data, whatever the order of its keys."""
    return json.dumps(readable.to_json(value), sort_keys=True, separators=(",", ":"))


def normal_url(url: str) -> str:
    """The URL with its host in lower case, without a fragment or the scheme's own port."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port
    default = {"http": 80, "https": 443}.get(parts.scheme)
    where = f"[{host}]" if ":" in host else host
    if port not in (None, default):
        where += f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{where}{parts.path or '/'}{query}"


def _path(description: str, expected: Plain, metadata: Plain) -> str:
    path = expected["path"]
    if not path:
        raise ValueError("no path")
    # "//x" is "/x" on every system we run on, but POSIX lets normpath keep it.
    return "path:" + posixpath.normpath(f"/{path}" if path.startswith("//") else path).replace(
        "//", "/"
    )


def _row(description: str, expected: Plain, metadata: Plain) -> str:
    database = metadata.get("connection", "default")
    if "db_path" in metadata:
        database = _path(description, {"path": metadata["db_path"]}, {})
    table = [database, expected.get("schema"), expected["table"], expected["where"]]
    return "row:" + canonical(table)


def _command(description: str, expected: Plain, metadata: Plain) -> str:
    return "command:" + canonical(metadata.get("command", description))


def _host(description: str, expected: Plain, metadata: Plain) -> str:
    return f"host:{expected['host'].rstrip('.').lower()}:{int(expected['port'])}"


def _url(description: str, expected: Plain, metadata: Plain) -> str:
    return f"url:{expected.get('method', 'GET').upper()} {normal_url(expected['url'])}"


def _container(description: str, expected: Plain, metadata: Plain) -> str:
    return f"container:{expected['container'].lstrip('/')}"


def _process(description: str, expected: Plain, metadata: Plain) -> str:
    return f"process:{int(expected['pid'])}"


def _custom(description: str, expected: Plain, metadata: Plain) -> str:
    subject = metadata["subject"]
    if not isinstance(subject, str):
        raise TypeError("a subject is text")
    return f"custom:{subject}"


_NAMERS: Final[dict[str, Callable[[str, Plain, Plain], str]]] = {
    "artifact_exists": _path,
    "file_sha256": _path,
    "command_exit": _command,
    "db_row": _row,
    "network_reachable": _host,
    "api_response": _url,
    "container_running": _container,
    "process_exists": _process,
}
