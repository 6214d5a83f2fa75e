"""`holdfast ui`: look at runs in a browser, and answer or change them if that is allowed."""

import os
import secrets
from functools import partial
from typing import Any, Final

import click

from holdfast.cli import _options, _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._options import option, parse_pair
from holdfast.cli._session import Session, as_command
from holdfast.extras import missing_extra
from holdfast.model import check_id
from holdfast.project import project_settings
from holdfast.urls import masked

_PORT: Final = 8765
_TOKENS: Final = "HOLDFAST_UI_TOKENS"


@as_command(
    "holdfast ui",
    "holdfast ui --store runs.db --open",
    "holdfast ui --flow jobs:digest --allow-writes",
    'holdfast ui --bind 0.0.0.0 --token "ann=$TOKEN_OF_ANN"',
)
@_options.flows
@option(
    "--bind ADDRESS", "Where to listen; others than this machine need a token.", default="127.0.0.1"
)
@option(
    "--port N", "The port; 0 for any that is free.", default=_PORT, type=click.IntRange(0, 65535)
)
@option(
    "--token NAME=TOKEN",
    "Let in who gives this name and token. $HOLDFAST_UI_TOKENS has several, with commas.",
    to="tokens",
    multiple=True,
)
@option(
    "--name HOST",
    "A name that this server is reached by, such as runs.example.org.",
    to="names",
    multiple=True,
)
@option("--owner ID", "Show only runs of this owner; new ones belong to them.")
@option("--allow-writes", "Allow answering, resuming, cancelling, forking, deleting.")
@option("--open", "Open it in a browser.", to="opens")
@allowing
def command(
    session: Session,
    flows: tuple[str, ...],
    bind: str,
    port: int,
    tokens: tuple[str, ...],
    names: tuple[str, ...],
    owner: str | None,
    allow_writes: bool,
    opens: bool,
    allowed: Allowed,
) -> None:
    """Serve the store to browsers: its runs, what they did, what they claim and what they ask.

    Only this machine can connect, and nothing can be changed, unless you say otherwise. Without
    --allow-writes, each action shows the command that does it. The REST API is at /api/v1. Flows
    that are given are executed by this process; others by workers. Needs the extra `ui`.
    """
    check_installed()
    from holdfast.web.server import is_loopback, listen, serve
    from holdfast.web.site import Settings, Site

    session.bind(owner)
    _refuse_hosts_meant_for_bind(allowed)
    known = _tokens(tokens)
    if not known and not is_loopback(bind):
        raise click.UsageError(
            f"at {bind} others than this machine can connect, so name those who may: "
            f"--token you={secrets.token_urlsafe(24)}"
        )
    loaded, sources = _loaded(flows)
    settings = Settings(
        allow_writes=allow_writes,
        tokens=known,
        names=names,
        flows=loaded,
        sources=sources,
        verifier=allowed.verifier(),
        keys=session.keys.words,
    )
    with session.opened() as cp:
        try:
            listening = listen(bind, port)
        except OSError as error:
            raise click.UsageError(
                f"can't listen at {bind}, port {port}: {error.strerror}; choose another with --port"
            ) from None
        host = f"[{bind}]" if ":" in bind else bind
        address = f"http://{host}:{listening.getsockname()[1]}"
        ready = partial(_say_where, session, address, allow_writes, opens)
        with listening:
            serve(Site(cp, session.where, settings), listening, ready)


def _refuse_hosts_meant_for_bind(allowed: Allowed) -> None:
    """Raise for addresses of this machine: --host is easily taken for --bind."""
    from holdfast.web.server import is_loopback

    for host in () if allowed.private_addresses else allowed.hosts:
        if host in ("0.0.0.0", "::") or is_loopback(host):  # noqa: S104 - it is refused
            raise click.UsageError(
                f"--host names where claims may be checked; to listen at {host}: --bind {host}; "
                "to check claims there: --private-addresses"
            )


def check_installed() -> None:
    """Raises `ImportError`, which says what to install, if the web UI can't run here."""
    try:
        import holdfast.web.server
        import holdfast.web.site  # noqa: F401
    except ImportError as error:
        raise missing_extra("ui", error) from error


def is_installed() -> bool:
    """Whether the web UI can run here."""
    try:
        check_installed()
    except ImportError:
        return False
    return True


def _say_where(session: Session, address: str, allow_writes: bool, opens: bool) -> None:
    """Say where it is served, and open it in a browser."""
    may = "can change runs" if allow_writes else "read-only"
    if session.json:
        _show.print_json({"url": address, "store": masked(session.url)})
    else:
        _show.say(f"holdfast at {address} ({masked(session.url)}, {may}); Ctrl-C stops it")
    if opens:
        import webbrowser

        webbrowser.open(address)


def _loaded(names: tuple[str, ...]) -> tuple[list[Any], dict[str, str]]:
    """The flows that are named here or in pyproject.toml, and as what they were named here."""
    if not names and not project_settings()[1].get("flows"):
        return [], {}
    from holdfast.cli import _flows  # graphs and pipelines, which most who look do without

    flows = [named.flow for named in _flows.load_all(names)]
    return flows, {flow.name: name for flow, name in zip(flows, names, strict=False)}


def _tokens(given: tuple[str, ...]) -> dict[str, str]:
    """Tokens by name."""
    from holdfast.web.security import SHORTEST_TOKEN

    listed = [one.strip() for one in os.environ.get(_TOKENS, "").split(",") if one.strip()]
    known: dict[str, Any] = {}
    for pair in (*given, *listed):
        if "=" not in pair:  # it may be a token: it is not shown
            raise click.UsageError("--token takes NAME=TOKEN")
        name, token = parse_pair(pair, "--token")
        check_id("name", name)
        if ":" in name:
            raise click.UsageError(f"--token: a name can't have a colon: {name!r}")
        if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
            raise click.UsageError(
                f"--token: {name!r} needs one of at least {SHORTEST_TOKEN} printable characters, "
                f"such as {secrets.token_urlsafe(24)}"
            )
        if name in known:
            raise click.UsageError(f"--token: {name!r} has two")
        known[name] = token
    return known
