"""Options and arguments that several commands share, and how options are declared."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import click

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def option(spec: str, text: str, *, to: str | None = None, **settings: Any) -> Decorator:
    """An option as its help shows it: "--owner ID", "--input, -i NAME=VALUE", or a flag "--yes".

    `to` is the argument it is passed as, if that is not its name; `settings` are click's.
    """
    *names, last = spec.replace(",", "").split()
    if last.startswith("-"):
        names.append(last)
        settings["is_flag"] = "type" not in settings
    else:
        settings["metavar"] = last
    if settings.get("multiple"):
        text += " May be repeated."
    shown = bool(settings.get("default")) and not settings.get("is_flag")
    names += [to] if to else []
    return click.option(*names, help=text, show_default=shown, **settings)


def age(text: str) -> timedelta:
    """A length of time such as 90s, 12h, 30d or 8w."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise click.BadParameter(
            f"{text!r} is not a length of time; give one such as 90s, 12h, 30d or 8w"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def at_most(default: int) -> Decorator:
    """How many things a list shows; see `Session.most`."""
    text = f"List at most this many, 0 for all. By default {default}; with --json, all."
    return option("--limit N", text, type=click.IntRange(0))


dry_run: Final = option("--dry-run", "Only say what would be deleted.")
flows: Final = option(
    "--flow MODULE:NAME",
    "A flow that may be needed; by default those in pyproject.toml.",
    to="flows",
    multiple=True,
)
reason: Final = option("--reason TEXT", "Why; it is kept in the run's history.", default="")
workers: Final = option(
    "--workers N", "How many runs are read at a time.", default=4, type=click.IntRange(1, 64)
)
