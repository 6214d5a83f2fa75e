"""What the host program allows checks to access. No claim can widen it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

GIB: Final = 1 << 30
MIB: Final = 1 << 20

Connection = str | Path | Callable[[], Any]
"""A SQLite file, a URL (`postgresql://`, `mysql://`, `duckdb:///`), or a function that opens a
DB-API connection, which is closed after the check."""

Resolver = Callable[[str, int], Sequence[str]]
"""The addresses of a host, as text. Raises `socket.gaierror` when there are none."""


def system_resolver(host: str, port: int) -> list[str]:
    """What the system's resolver says, each address once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What checks may access, and for how long. Given by the host program, never by evidence.

    Paths: with `base_path` or `roots`, relative paths start at `base_path` (or the first root),
    and nothing leads out of them: no `..`, no symlink, no absolute path. Without, relative paths
    stay inside the working directory, and absolute ones are trusted as the program's own. To
    check claims of others, pass `own_word=False`: then every path must be in a root.

    Databases: `connections` by name; "default" is what a `db_row` claim without a name means.
    Network: `hosts` ("example.org", "*.example.org", "example.org:8443") if only these are
    allowed; addresses that are not public are refused unless `private_addresses`.
    Containers: not looked at unless `docker_socket` is given.
    """

    base_path: Path | None = None
    roots: tuple[Path, ...] = ()
    own_word: bool = True
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)  # passwords
    hosts: frozenset[str] | None = None
    private_addresses: bool = False
    docker_socket: Path | None = None
    resolver: Resolver = system_resolver
    tls: Any = None  # your own `ssl.SSLContext`; None: the system's certificate authorities
    max_file_bytes: int = 64 * GIB
    max_response_bytes: int = MIB
    max_redirects: int = 5
    connect_seconds: float = 5.0
    check_seconds: float = 30.0  # for one claim, with its retries; a file that is read has longer
    total_seconds: float = 300.0  # for one call of the verifier, beside the reading of files
    slowest_read: float = 10 * MIB  # bytes a second: files are given the time that they take so
    directories: tuple[Path, ...] = field(init=False)  # base_path and roots, absolute

    def __post_init__(self) -> None:
        put = object.__setattr__
        for several in (self.hosts, self.roots):
            if isinstance(several, str):
                raise TypeError("hosts and roots are lists of names, not one name")
        base = None if self.base_path is None else Path(os.path.abspath(self.base_path))  # noqa: PTH100 - Path.absolute keeps ".."
        roots = tuple(Path(os.path.abspath(root)) for root in self.roots)  # noqa: PTH100 - as above
        put(self, "base_path", base)
        put(self, "roots", roots)
        put(self, "directories", roots if base is None else (base, *roots))
        put(self, "connections", MappingProxyType(dict(self.connections)))
        for host in self.hosts or ():
            if "/" in host:
                raise ValueError(f"{host!r} is no host; give example.org, or example.org:8443")
        if self.hosts is not None:
            put(self, "hosts", frozenset(host.rstrip(".").lower() for host in self.hosts))
        for name in (
            "check_seconds",
            "total_seconds",
            "connect_seconds",
            "max_file_bytes",
            "slowest_read",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")

    def allows_host(self, host: str, port: int) -> bool:
        """Whether the host's name is allowed; what it resolves to is checked when connecting."""
        if self.hosts is None:
            return True
        name = host.rstrip(".").lower()
        above = name.partition(".")[2]
        names = {name, f"*.{above}"} if above else {name}
        while above:
            above = above.partition(".")[2]
            if above:
                names.add(f"*.{above}")
        return any({wanted, f"{wanted}:{port}"} & self.hosts for wanted in names)
