"""DSSE, the envelope of signed statements: https://github.com/secure-systems-lab/dsse.

    {"payload": "<base64>", "payloadType": "...", "signatures": [{"keyid": "ann", "sig": "<base64>"}]}

What is signed is the payload with its type before it, and the lengths of both.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from holdfast.errors import InvalidSignatureError
from holdfast.keys.signing import SigningKey, TrustedKeys

MAX_BYTES: Final = 64 << 20
"""Bytes of an envelope that are read."""

_MAX_SIGNATURES: Final = 64
_MAX_TYPE: Final = 200
_MAX_SIGNATURE: Final = 1024  # characters of base64


class Opened(NamedTuple):
    """What is in an envelope whose signature was checked."""

    payload: bytes
    signed_by: tuple[str, ...]  # the ids of the trusted keys that signed it


def signed(payload: bytes, payload_type: str, key: SigningKey) -> dict[str, Any]:
    """The envelope of a payload, as JSON has it."""
    signature = key.sign(to_sign(payload, payload_type))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": key.key_id, "sig": base64.b64encode(signature).decode()}],
    }


def opened(
    envelope: Mapping[str, Any], payload_type: str, trusted: TrustedKeys, what: str
) -> Opened:
    """The payload, if it has this type and a trusted key signed it. Messages call it `what`.

    Signatures of other keys are ignored, as the standard wants it. Raises `ValueError` for what is
    no such envelope, and `InvalidSignatureError`.
    """
    given = envelope.get("payloadType")
    if given != payload_type:
        raise ValueError(f"it holds something else: {str(given)[:_MAX_TYPE]!r}")
    payload = _bytes(envelope.get("payload"), "payload")
    data = to_sign(payload, payload_type)
    problem = InvalidSignatureError(what)
    found: list[str] = []
    for key_id, signature in _signatures(envelope):
        try:
            trusted.verify(key_id, data, signature, what=what)
        except InvalidSignatureError as error:
            problem = error
        else:
            found.append(key_id)
    if not found:
        raise problem
    return Opened(payload, tuple(dict.fromkeys(found)))


def to_sign(payload: bytes, payload_type: str) -> bytes:
    """The bytes that a signature is made of: DSSE's pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def parse_object(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object in UTF-8. Raises `ValueError` for anything that parsers may read differently.

    So no key may be there twice, and no number may be infinite.
    """
    if len(text) > MAX_BYTES:
        raise ValueError(f"{what} is larger than {MAX_BYTES >> 20} MiB")
    try:
        found = json.loads(
            text.decode(), object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite
        )
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{what} is not a JSON object")
    return found


def _signatures(envelope: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    given = envelope.get("signatures")
    if not isinstance(given, list) or len(given) > _MAX_SIGNATURES:
        raise ValueError(f"signatures is not a list of at most {_MAX_SIGNATURES}")
    for one in given:
        if not isinstance(one, dict) or not isinstance(one.get("keyid", ""), str):
            raise ValueError("a signature is an object with keyid and sig")
        if len(str(one.get("sig"))) > _MAX_SIGNATURE:
            raise ValueError("a signature is too long")
        yield one.get("keyid", ""), _bytes(one.get("sig"), "sig")


def _bytes(text: object, what: str) -> bytes:
    """Base64, of the standard alphabet or of that for URLs."""
    if not isinstance(text, str):
        raise ValueError(f"{what} is not text")
    try:
        return base64.b64decode(text.translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{what} is not base64") from None


_STANDARD: Final = str.maketrans("-_", "+/")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse(text)
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")
