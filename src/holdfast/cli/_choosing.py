"""Options that several commands choose runs with."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli._session import all_runs, find_run, run_argument

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age(text: str) -> timedelta:
    """A length of time such as 90s, 12h, 30d or 8w."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise click.BadParameter(
            f"{text!r} is no length of time; give one such as 90s, 12h, 30d or 8w"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def chosen_by(command: Callable[..., None]) -> Callable[..., None]:
    """`RUN...`, `--all`, `--thread` and `--owner`."""
    for option in (
        click.option("--owner", metavar="ID", help="All runs of this owner."),
        click.option("--thread", "thread_id", metavar="ID", help="All runs of this thread."),
        click.option("--all", "every", is_flag=True, help="All runs of the store."),
        run_argument("runs", required=False, nargs=-1),
    ):
        command = option(command)
    return command


def chosen(
    cp: SyncCheckpointer,
    runs: Sequence[str],
    every: bool,
    thread_id: str | None,
    owner: str | None,
) -> list[str]:
    """The ids of the runs that are meant, and of the runs within them."""
    if sum((bool(runs), every, thread_id is not None, owner is not None)) != 1:
        raise click.UsageError("say which runs: RUN..., --thread, --owner or --all")
    if every:
        return [run.run_id for run in all_runs(cp)]
    found = [find_run(cp, run) for run in runs] or list(
        all_runs(cp, thread_id=thread_id, owner=owner)
    )
    names = dict.fromkeys(
        name
        for run in found
        for name in (run.run_id, *(child.run_id for child in cp.children(run.run_id)))
    )
    return list(names)
