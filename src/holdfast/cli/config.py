"""`holdfast config`: the settings, and where they come from."""

from typing import NamedTuple

import click

from holdfast.cli import _show
from holdfast.cli._options import configured_retention
from holdfast.cli._session import OWNER, Session, as_command
from holdfast.project import project_settings
from holdfast.urls import default_heads_file, masked
from holdfast.views import words


class Setting(NamedTuple):
    """One setting, and where its value comes from."""

    name: str
    value: str
    source: str


@as_command("holdfast config", "holdfast config --store runs.db --json")
def command(session: Session) -> None:
    """Show every setting, and where its value comes from.

    An option wins over the environment, the environment over [tool.holdfast] in the nearest
    pyproject.toml, and that over the built-in value. Unknown keys there are warned about, and so
    is a pyproject.toml that is ignored because others may have written it.
    """
    project, configured = project_settings()
    policies, wrong = [], None
    try:
        policies = configured_retention()
    except click.UsageError as error:  # after what else there is to say
        wrong = error
    settings = [
        Setting("store", masked(session.url), session.source or "built in"),
        Setting("owner", session.owner or "", f"${OWNER}" if session.owner else "built in"),
        *(
            Setting(
                name,
                ", ".join(map(str, configured.get(name, []))),
                str(project) if name in configured else "built in",
            )
            for name in ("flows", "roots", "hosts")
        ),
        Setting(
            "retention",
            "invalid" if wrong else words.plural(len(policies), "policy") if policies else "",
            str(project) if policies or wrong else "built in",
        ),
        Setting(
            "remember",
            default_heads_file() or "",
            str(project) if "remember" in configured else "built in",
        ),
        Setting("project", str(project or ""), "the current directory and those above"),
    ]
    session.show(
        [setting._asdict() for setting in settings],
        lambda: _show.table(("SETTING", "VALUE", "FROM"), settings),
    )
    if wrong is not None:
        raise wrong
