"""`holdfast config`: what is set, and where."""

import os
from typing import NamedTuple

from holdfast.cli import _show
from holdfast.cli._session import Session, as_command
from holdfast.urls import masked, project_settings, unknown_settings


class Setting(NamedTuple):
    """One setting, and where its value comes from."""

    name: str
    value: str
    source: str


@as_command("holdfast config", "holdfast config --store runs.db --json")
def command(session: Session) -> None:
    """Show every setting, and where its value comes from.

    Arguments come before the environment, that before [tool.holdfast] in the nearest
    pyproject.toml, and that before what is built in. Keys there that nothing reads are warned
    about.
    """
    settings = [_store(session), _flows(), _project()]
    session.show(
        [setting._asdict() for setting in settings],
        lambda: _show.table(("SETTING", "VALUE", "FROM"), settings),
    )
    for name in unknown_settings():
        said = f"warning: nothing reads {name!r} under [tool.holdfast]; known are flows and store"
        _show.say(_show.clean(said), "yellow", err=True)


def _store(session: Session) -> Setting:
    if session.where is not None:
        source = "--store"
    elif os.environ.get("HOLDFAST_STORE"):
        source = "$HOLDFAST_STORE"
    elif "store" in project_settings()[1]:
        source = f"{project_settings()[0]}"
    else:
        source = "built in"
    return Setting("store", masked(session.url), source)


def _flows() -> Setting:
    project, told = project_settings()
    if "flows" in told:
        return Setting("flows", ", ".join(map(str, told["flows"])), str(project))
    return Setting("flows", "", "built in")


def _project() -> Setting:
    project, _ = project_settings()
    return Setting(
        "project", "" if project is None else str(project), "the current directory and those above"
    )
