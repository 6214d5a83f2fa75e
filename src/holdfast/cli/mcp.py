"""`holdfast mcp`: let a model look at runs, and answer if it is allowed to."""

from typing import Any

import click

from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.model import check_id


@as_command(
    "holdfast mcp --store sqlite:////srv/jobs/runs.db",
    "holdfast mcp --owner ann --allow-answer --by ann",
    "holdfast mcp --run nightly-31 --root /srv/jobs",
)
@option("--owner ID", "Show only runs of this owner.", to="owners", multiple=True)
@option("--run ID", "Show only this run and its child runs.", to="runs", multiple=True)
@option("--allow-answer", "Offer a tool that answers open questions; needs --by.")
@option("--by NAME", "In whose name questions are answered; the model can't choose it.")
@allowing
def command(
    session: Session,
    owners: tuple[str, ...],
    runs: tuple[str, ...],
    allow_answer: bool,
    by: str | None,
    allowed: Allowed,
) -> None:
    """Serve the store to a model over standard input and output (Model Context Protocol).

    The model can list runs and open questions, show timelines, checkpoints and differences, and
    verify runs, all within limits of size. With --allow-answer it can also answer. It can't start,
    resume, pause, cancel, change or delete anything. Claims about the world are checked only if
    you say what may be looked at, with --root, --host, --connection, --base-path or
    --docker-socket. Needs the extra `mcp`.
    """
    if allow_answer != (by is not None):
        raise click.UsageError("--allow-answer and --by NAME go together: an answer is somebody's")
    for name, ids in (("owner", owners), ("run_id", runs), ("by", (by,) if by else ())):
        for one in ids:
            check_id(name, one)
    from holdfast.integrations.mcp.scope import Scope
    from holdfast.integrations.mcp.server import make_server
    from holdfast.integrations.mcp.tools import Tools

    looks: Any = allowed.roots or allowed.hosts or allowed.connections or allowed.base_path
    verifier = allowed.verifier() if looks or allowed.docker_socket else None
    if len(owners) == 1:
        session.bind(owners[0])
    with session.opened() as cp:
        scope = Scope(frozenset(owners), frozenset(runs))
        tools = Tools(cp, scope, verifier=verifier, by=by)
        make_server(tools, may_answer=allow_answer).run("stdio")
