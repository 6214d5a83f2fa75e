"""From a claimed host to a connection, without being led to internal services.

The name is resolved once, every address it has must be allowed, and the connection goes to one of
those very addresses: a name that resolves to another one a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final

from holdfast.errors import EvidencePolicyError, InvalidEvidenceError
from holdfast.evidence.context import Context
from holdfast.evidence.policy import Policy

_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})", re.ASCII)
_NAT64: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("::/96"),
    ipaddress.IPv6Network("::ffff:0:0:0/96"),
)
MAX_ADDRESSES: Final = 16


class NoAnswerError(OSError):
    """The host was given all the time the policy has for connecting, and did not answer."""


def admit_host(host: object, port: object, policy: Policy) -> tuple[str, int]:
    """The host and port, if their text is allowed; a literal address is checked at once.

    Raises `InvalidEvidenceError` or `EvidencePolicyError`.
    """
    if type(port) is not int or not 0 < port < 65536:
        raise InvalidEvidenceError("port", f"{port!r} is not a port")
    if not isinstance(host, str):
        raise InvalidEvidenceError("host", "must be a str")
    literal = _literal(host)
    if literal is None and not _NAME.fullmatch(host):
        raise InvalidEvidenceError("host", f"{host[:80]!r} is not a host name")
    if not policy.allows_host(host, port):
        raise EvidencePolicyError(f"{host}:{port}", "it is not among the hosts that are allowed")
    if literal is not None:
        _refuse_private(host, literal, policy)
    return host, port


def connect(host: str, port: int, context: Context) -> socket.socket:
    """A connection to a host that `admit_host` let pass.

    Raises `EvidencePolicyError` if any of its addresses is not allowed, `socket.gaierror` if
    there are none, `NoAnswerError` or another `OSError` if none answers, and `TimeoutError` if
    there was too little time to tell.
    """
    policy = context.policy
    addresses = list(policy.resolver(host, port))[:MAX_ADDRESSES]
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "the name has not an address")
    for address in addresses:
        literal = _literal(address)
        if literal is None:
            raise EvidencePolicyError(host, f"it resolves to {address[:80]!r}, not an address")
        _refuse_private(host, literal, policy)
    problem: OSError = NoAnswerError("it has not an address")
    for address in addresses:
        try:
            return _dial(address, port, context)
        except TimeoutError:
            raise
        except OSError as error:
            problem = error
    raise problem


def _dial(address: str, port: int, context: Context) -> socket.socket:
    left = context.remaining()
    limit = context.policy.connect_seconds
    try:
        return socket.create_connection((address, port), timeout=min(limit, left))
    except TimeoutError:
        if left < limit:
            raise TimeoutError("there was too little time to connect") from None
        raise NoAnswerError(f"no answer within {limit:g} s") from None


def _literal(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _refuse_private(
    host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, policy: Policy
) -> None:
    if not policy.private_addresses and not is_public(address):
        words = f"{address} is not a public address; Policy(private_addresses=True) allows it"
        raise EvidencePolicyError(host, words)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is an address on the internet, also if it is wrapped in another one."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour
        if wrapped is None and address.teredo is not None:
            return False
        if wrapped is None and any(address in network for network in _NAT64):
            wrapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if wrapped is not None:
            return is_public(wrapped)
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )
