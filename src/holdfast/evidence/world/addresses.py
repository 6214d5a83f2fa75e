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
_LOCALHOST: Final = re.compile(r"(^|\.)localhost\.?$", re.IGNORECASE)  # RFC 6761
# Written out, because Pythons differ in which of IANA's special-purpose blocks they know. Blocks that
# the registries call reachable count, too: nothing that somebody runs is in them.
_SPECIAL_V4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
            "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
            "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
            "168.63.129.16/32",  # in no registry: Azure's virtual machines find their platform there
        ),
    )
)  # fmt: skip
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)  # before an IPv4 address, in any network
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
        words = "it is not among the hosts that are allowed; Policy(hosts=[...]) allows it"
        raise EvidencePolicyError(f"{host}:{port}", words)
    if literal is not None:
        _refuse_private(host, literal, policy)
    elif not policy.private_addresses and _LOCALHOST.search(host):
        words = "it has no public address; Policy(private_addresses=True) allows it"
        raise EvidencePolicyError(host, words)
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
    address, percent, zone = text.partition("%")
    if percent and not _NAME.fullmatch(zone):
        return None
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def _refuse_private(
    host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, policy: Policy
) -> None:
    if not policy.private_addresses and not is_public(address):
        words = f"{address} is not a public address; Policy(private_addresses=True) allows it"
        raise EvidencePolicyError(host, words)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is an ordinary address on the internet, also if it is wrapped in another one.

    Nothing in the special-purpose registries of IANA is. An IPv4 address in an IPv6 address counts
    as itself where it may be reached that way; 6to4 and Teredo are given up and count as not public.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in block for block in _SPECIAL_V4)
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        return is_public(last)
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP and not is_public(last):
        return False
    special = any(address in block for block in _SPECIAL_V6)
    return address in _GLOBAL_V6 and address.is_global and not special
