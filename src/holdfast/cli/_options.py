"""Options and arguments that several commands share, and how options are declared."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import click

from holdfast.retention import Retention, parse_age

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
    try:
        return parse_age(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def duration(text: str) -> timedelta:
    """A length of time in seconds, or as `age` takes it: 30, 2.5, 90s or 10m."""
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text.strip()):
        return timedelta(seconds=float(text))
    try:
        return age(text)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not a length of time; give seconds, or one such as 90s, 10m, 12h or 30d"
        ) from None


def point_in_time(text: str) -> datetime:
    """A date and time such as 2026-11-19T10:00, in local time unless it says otherwise."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; give one such as 2026-11-19T10:00 (local) or "
            "2026-11-19T10:00+00:00"
        ) from None


def configured_retention() -> list[Retention]:
    """The policies in pyproject.toml."""
    try:
        return Retention.configured()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    """What `--label` says, by name."""
    found = dict(parse_pair(pair, "--label") for pair in pairs)
    if len(found) < len(pairs):
        raise click.UsageError("--label: a label may be given once")
    return found


def parse_pair(pair: str, option: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = pair.partition("=")
    if not separator or not name:
        raise click.UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
    return name, value


def together(*options: Decorator) -> Decorator:
    """Several options as one, in this order."""

    def decorate(fn: Callable[..., None]) -> Callable[..., None]:
        for one in reversed(options):
            fn = one(fn)
        return fn

    return decorate


class _Number(click.IntRange):
    name = "whole number"  # in messages


def at_most(default: int) -> Decorator:
    """How many things a list shows; see `Session.most`."""
    text = f"List at most this many, 0 for all. By default {default}; with --json, all."
    return option("--limit N", text, type=_Number(0))


dry_run: Final = option("--dry-run", "Only say what would be deleted.")
flows: Final = option(
    "--flow MODULE:NAME",
    "A flow that may be needed; by default those in pyproject.toml.",
    to="flows",
    multiple=True,
)
ask_workers: Final = option(
    "--ask-workers TIME",
    "How long workers on other machines have to check claims labelled with their hosts: 30, 5m.",
    type=duration,
)
reason: Final = option("--reason TEXT", "Why; it is kept in the run's history.", default="")
by: Final = option("--by NAME", "Who does it; it is kept in the run's history.")
inputs: Final = together(
    option(
        "--input, -i NAME=VALUE",
        "An input; JSON if it is JSON, else text.",
        to="pairs",
        multiple=True,
    ),
    option(
        "--input-json JSON",
        "All inputs as an object, or the data of a pipeline; @FILE, or - for standard input.",
        to="document",
    ),
)
belongs_to: Final = together(
    option("--run-id ID", "The run's id; by default a new one."),
    option("--thread ID", "The thread of the run."),
    option("--owner ID", "The owner of the run."),
    option("--label NAME=VALUE", "A label to find the run by.", to="labels", multiple=True),
)
workers: Final = option(
    "--workers N", "How many runs are read at a time.", default=4, type=click.IntRange(1, 64)
)
