"""The reference page of the command line, made from its help: `python -m tests.cli.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click

from holdfast.cli._exits import Exit
from holdfast.cli.main import SECTIONS, holdfast

_WIDTH: Final = 96

_INTRODUCTION: Final = """\
# The command line

`holdfast` lists, executes, resumes, checks, moves and deletes the runs in a store. `python -m
holdfast` is the same program.

- **The store** is the one given with `--store` (a URL or a path), else `$HOLDFAST_STORE`, else
  `store` under `[tool.holdfast]` in the nearest `pyproject.toml`, else `.holdfast/holdfast.db`
  here. `holdfast config` says which it is, and why. A `pyproject.toml` of another user, or above
  the repository or home directory, is ignored with a warning. Looking at a store never creates one.
  Passwords in URLs are not shown.
- **Ids** may be shortened as long as they stay unique. A checkpoint is named by its seq, as
  `RUN@SEQ`, or by a step: then the newest one of that step is meant.
- **`--json`** prints JSON for programs, in ASCII: one document, or one object per line where a
  command lists things or follows a run.
- **Color and bars** appear on a terminal only, and no color where `$NO_COLOR` is set. Without
  a terminal nothing is asked: the command fails and names the option to use.
- **Stored text is not trusted**: escape sequences, and characters that reorder text, are shown
  escaped and never sent to a terminal.
- **Errors** are one line on standard error; `--debug` shows the traceback.

This page is made from `--help`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join(_parts()) + "\n"


def _parts() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    for code in Exit:
        yield f"| {code.value} | {code.meaning} |"
    yield "\n## All commands\n"
    yield _help(holdfast, "holdfast", None)
    root = click.Context(holdfast, info_name="holdfast", **holdfast.context_settings)
    for commands in SECTIONS.values():
        for name in commands:
            command = holdfast.get_command(root, name)
            assert command is not None, name
            yield f"## holdfast {name}\n"
            yield _help(command, name, root)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    ctx = click.Context(
        command, parent, info_name=name, terminal_width=_WIDTH, **command.context_settings
    )
    return f"```text\n{command.get_help(ctx).rstrip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
