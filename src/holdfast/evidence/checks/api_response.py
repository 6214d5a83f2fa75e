"""api_response: a URL answers with this status, these JSON values, headers or bytes.

    expected = {"url": "https://api.example.org/jobs/7", "method": "GET" | "HEAD", "status": 200,
                "json": {"job.state": "done", "job.files[0]": "a.txt", "/a~1b": 1},
                "headers": {"ETag": "abc"}, "body_sha256": "9f86d0…", "follow_redirects": False}

All but `url` are optional; the default of `status` is 200. A JSON value is named by keys and indexes, or
by a JSON pointer (RFC 6901). A redirect is an answer like any other unless it is to be followed;
then every hop must pass the policy, and none goes from https to http.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import socket
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from holdfast.codec.values import same
from holdfast.errors import EvidencePolicyError, InvalidEvidenceError
from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.claims import canonical
from holdfast.evidence.world.addresses import admit_host, connect
from holdfast.evidence.world.http import Exchange, TooLargeError

_REDIRECTS: Final = frozenset([301, 302, 303, 307, 308])
_PORTS: Final = {"http": 80, "https": 443}
_TARGET: Final = re.compile(r"[\x21-\x7e]*", re.ASCII)
_STEP: Final = re.compile(r"\[(\d{1,9})\]|(?:^|\.)([^.\[\]]+)")


class Target(NamedTuple):
    """A URL that the policy does not refuse by its text."""

    url: str
    scheme: str
    host: str
    port: int
    path: str


class ExpectedResponse(NamedTuple):
    """The claim, parsed."""

    target: Target
    method: str
    status: int | None  # None: any
    values: dict[str, Any]
    headers: dict[str, Any]
    body_sha256: str | None
    follow: bool


def admit(evidence: Evidence, policy: Policy) -> ExpectedResponse:
    """The claim, parsed."""
    fields = Fields(
        evidence, "url", "method", "status", "json", "headers", "body_sha256", "follow_redirects"
    )
    method = fields.optional("method", str, "GET").upper()
    if method not in ("GET", "HEAD"):
        raise fields.refuse("method must be GET or HEAD: a check changes nothing")
    values: dict[Any, Any] = fields.optional("json", dict, {})
    headers: dict[Any, Any] = fields.optional("headers", dict, {})
    digest = fields.sha256("body_sha256") if "body_sha256" in fields else None
    if method == "HEAD" and (values or digest):
        raise fields.refuse("the answer to HEAD has no body")
    for path in values:
        if not isinstance(path, str) or steps_of(path) is None:
            raise fields.refuse(f"{path!r} is not a path to a JSON value")
    if not all(isinstance(text, str) for header in headers.items() for text in header):
        raise fields.refuse("headers are text")
    return ExpectedResponse(
        admit_url(fields.required("url", str), policy),
        method,
        fields.optional("status", int, 200),
        values,
        headers,
        digest,
        fields.optional("follow_redirects", bool, False),
    )


def admit_url(url: str, policy: Policy) -> Target:
    """The URL, parsed. Raises if it is malformed, or the policy does not allow its host."""
    if not _TARGET.fullmatch(url) or len(url) > 8192:
        raise InvalidEvidenceError("url", "must be printable ASCII without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidEvidenceError("url", "not a URL") from None  # the error quotes it
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidEvidenceError("url", "must be http://host… or https://host…")
    if "@" in parts.netloc:
        raise EvidencePolicyError(parts.hostname, "a URL may not contain a user or password")
    host, port = admit_host(parts.hostname, _PORTS[parts.scheme] if port is None else port, policy)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(url, parts.scheme, host, port, path)


def subject(evidence: Evidence) -> str:
    """The method and the URL: its host in lower case, no fragment, no default port."""
    expected = evidence.expected
    parts = urlsplit(expected["url"])
    host = (parts.hostname or "").rstrip(".")
    host = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _PORTS.get(parts.scheme)):
        host += f":{parts.port}"
    query = f"?{parts.query}" if parts.query else ""
    method = expected.get("method", "GET").upper()
    return f"url:{method} {parts.scheme}://{host}{parts.path or '/'}{query}"


def facts(evidence: Evidence) -> dict[str, object]:
    """The status, the digest of the body, each header and each JSON value."""
    expected = evidence.expected
    found: dict[str, object] = {"status": expected.get("status", 200)}
    if "body_sha256" in expected:
        found["body"] = str(expected["body_sha256"]).lower()
    found |= {_header(name): text for name, text in expected.get("headers", {}).items()}
    return found | {_value(path): canonical(v) for path, v in expected.get("json", {}).items()}


def _header(name: str) -> str:
    return f"header {name.lower()}"


def _value(path: str) -> str:
    """One name for a JSON value, however its path is spelled."""
    return f"json {canonical([str(step) for step in steps_of(path) or [path]])}"


def _in_force(claim: ExpectedResponse, context: Context) -> ExpectedResponse:
    """The claim without what later ones replaced."""
    return claim._replace(
        status=claim.status if context.in_force("status") else None,
        values={path: v for path, v in claim.values.items() if context.in_force(_value(path))},
        headers={name: v for name, v in claim.headers.items() if context.in_force(_header(name))},
        body_sha256=claim.body_sha256 if context.in_force("body") else None,
    )


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if the answer is another one; INCONCLUSIVE if there is none, or it is too large."""
    claim = _in_force(admit(evidence, context.policy), context)
    target = claim.target
    try:
        for _ in range(context.policy.max_redirects + 1):
            with Exchange(connect(target.host, target.port, context), context) as exchange:
                if target.scheme == "https":
                    exchange.secure(context.policy.tls or ssl.create_default_context(), target.host)
                exchange.send(claim.method, target.host, target.port, target.path)
                location = exchange.header("Location")
                if not (claim.follow and exchange.status in _REDIRECTS and location):
                    return _compare(claim, exchange)
            following = admit_url(urljoin(target.url, location[0]), context.policy)
            if target.scheme == "https" and following.scheme == "http":
                raise EvidencePolicyError(target.host, "it redirects from https to http")
            target = following
        return failed(f"more than {context.policy.max_redirects} redirects")
    except TooLargeError:
        limit = context.policy.max_response_bytes
        return inconclusive(f"the answer is longer than {limit:,} bytes, which is the limit")
    except TimeoutError:
        raise
    except ssl.SSLCertVerificationError as error:
        return inconclusive(f"{target.host} has no valid certificate: {error.verify_message}")
    except socket.gaierror as error:
        return inconclusive(f"{target.host}: {error.strerror}", transient=True)
    except (OSError, http.client.HTTPException) as error:
        why = (
            getattr(error, "strerror", None) or type(error).__name__
        )  # its text may quote the answer
        return inconclusive(f"no answer from {target.host}:{target.port}: {why}", transient=True)


def _compare(claim: ExpectedResponse, exchange: Exchange) -> Verdict:
    if claim.status not in (None, exchange.status):
        return failed(f"the status is {exchange.status}, not {claim.status}")
    for name, value in claim.headers.items():
        found = exchange.header(name)
        if value not in found and value != ", ".join(found):
            return failed(f"the header {name} has another value")
    if claim.body_sha256 is None and not claim.values:
        return verified()
    body = exchange.body()
    if claim.body_sha256 is not None and hashlib.sha256(body).hexdigest() != claim.body_sha256:
        return failed("the body has another digest")
    if claim.values:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return failed("the body is not JSON")
        for path, value in claim.values.items():
            there, at = _find(document, path)
            if not there:
                return failed(f"the answer has no {path}")
            if not same(at, value):
                return failed(f"{path} has another value")
    return verified()


def steps_of(path: str) -> list[str | int] | None:
    """The keys and indexes that a JSON path is made of; None if it is none."""
    if path.startswith("/"):
        return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    rest = path.removeprefix("$").removeprefix(".") if path.startswith("$") else path
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None:
            return None
        steps.append(match[2] if match[1] is None else int(match[1]))
        at = match.end()
    return steps if steps or path == "$" else None


def _find(document: Any, path: str) -> tuple[bool, Any]:
    for step in steps_of(path) or []:
        if isinstance(document, dict) and isinstance(step, str) and step in document:
            document = document[step]
        elif isinstance(document, list) and str(step).isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return False, None
    return True, document
