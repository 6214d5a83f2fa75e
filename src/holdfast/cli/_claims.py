"""Which claims a command may check: files in the current directory and the project, and what it was
told to allow.

Anyone may have written the claims of a run: it may be imported, or lie in a store of several
people. No claim alone makes a command read a file elsewhere or connect to a host.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from holdfast.cli import _show
from holdfast.cli._options import option, parse_pair, together
from holdfast.evidence import EvidenceVerifier, Policy
from holdfast.project import project_settings

_OPTIONS: Final = together(
    option(
        "--base-path DIR",
        "Where relative paths in claims start, instead of the current directory.",
        type=click.Path(exists=True, file_okay=False),
    ),
    option(
        "--root DIR",
        "A directory whose files claims may be about, besides the current one and the project's.",
        to="roots",
        multiple=True,
        type=click.Path(exists=True, file_okay=False),
    ),
    option(
        "--host NAME",
        "A host that claims may be checked at: example.org, *.example.org, example.org:8443.",
        to="hosts",
        multiple=True,
    ),
    option("--private-addresses", "Such a host may have an address that is not public."),
    option(
        "--connection NAME=URL",
        "A database that claims name, by URL or path to a SQLite file.",
        to="connections",
        multiple=True,
    ),
    option(
        "--docker-socket PATH",
        "Where Docker is asked about containers: /var/run/docker.sock.",
        type=click.Path(exists=True, dir_okay=False),
    ),
)


class Allowed(NamedTuple):
    """What checks may access, by the options of a command."""

    base_path: str | None
    roots: tuple[str, ...]
    hosts: tuple[str, ...]
    private_addresses: bool
    connections: Mapping[str, str]
    docker_socket: str | None

    def verifier(self) -> EvidenceVerifier:
        """Checks claims within the current directory, or `base_path`, and what is allowed besides.

        The project's directory is allowed, too, and `roots` and `hosts` under `[tool.holdfast]` in
        its pyproject.toml.
        """
        project, settings = project_settings()
        roots = list(map(Path, self.roots))
        if project is not None:
            roots += [project.parent / root for root in _listed(settings, "roots")]
            roots += [] if _is_everything(project.parent) else [project.parent]
        base = Path.cwd() if self.base_path is None else Path(self.base_path)
        everything = self.base_path is None and _is_everything(base)
        hosts = frozenset((*self.hosts, *_listed(settings, "hosts")))
        for host in hosts:
            if "/" in host:
                raise click.UsageError(
                    f"{_show.clean(host)!r} is no host; give example.org, or example.org:8443"
                )
        policy = Policy(
            base_path=None if everything else base,  # "/", as cron has it, was nobody's choice
            roots=tuple(roots),
            own_word=False,
            connections=self.connections,
            hosts=hosts,
            private_addresses=self.private_addresses,
            docker_socket=None if self.docker_socket is None else Path(self.docker_socket),
        )
        return EvidenceVerifier(policy=policy)


def allowing(fn: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what checks may access; the command gets them as `allowed`."""

    @functools.wraps(fn)
    def command(
        *arguments: Any,
        base_path: str | None,
        roots: tuple[str, ...],
        hosts: tuple[str, ...],
        private_addresses: bool,
        connections: tuple[str, ...],
        docker_socket: str | None,
        **others: Any,
    ) -> None:
        known = dict(parse_pair(pair, "--connection") for pair in connections)
        allowed = Allowed(base_path, roots, hosts, private_addresses, known, docker_socket)
        fn(*arguments, allowed=allowed, **others)

    return _OPTIONS(command)


def _is_everything(directory: Path) -> bool:
    return directory == Path(directory.anchor)


def _listed(settings: Mapping[str, Any], name: str) -> list[str]:
    """A list of text in pyproject.toml."""
    found = settings.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise click.UsageError(f"{name} under [tool.holdfast] must be a list, not {found!r}")
    return found
