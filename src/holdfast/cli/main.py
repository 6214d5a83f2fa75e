"""The `holdfast` program: finds the command, and turns errors into a message and an exit code."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from holdfast.errors import HoldfastError

SECTIONS: Final = {
    "Look": {
        "runs": "list runs",
        "show": "one run: its timeline, its state, its child runs",
        "watch": "follow a run, or all, while they are executed",
        "diff": "how one checkpoint differs from another",
        "stats": "count runs, checkpoints and bytes",
        "ui": "look at runs in a browser",
        "mcp": "let a model look at runs, and answer if you allow it",
    },
    "Execute": {
        "run": "start a flow",
        "submit": "record a run for a worker to execute",
        "resume": "continue a run where it stopped",
        "retry": "continue runs that failed, one or many",
        "recover": "resume every run whose process died",
        "dry-run": "which runs would resume with the code as it is now",
        "worker": "execute what was submitted, is due, was answered or lost its process",
        "workers": "who executes runs, and where",
        "questions": "what runs wait for people to answer",
        "answer": "answer a question",
        "pause": "stop a run, to resume it later",
        "cancel": "end a run, and undo its steps",
    },
    "Go back": {
        "fork": "start a new run from a checkpoint, with its state or an edited one",
        "rollback": "make an earlier checkpoint the current one",
    },
    "Trust": {
        "verify": "check stored bytes, and claims about the world; prove histories",
        "anchor": "one root over all runs, kept elsewhere, against tampering",
        "remember": "compare runs with what is remembered of them",
        "attest": "what a run claims and what was found, signed, for others",
        "doctor": "what is wrong with a store, and what to do about it",
    },
    "Keep, move, delete": {
        "export": "write runs to files",
        "import": "read runs from files",
        "copy": "copy runs to another store",
        "prune": "delete old checkpoints and runs",
        "delete": "delete one checkpoint",
        "forget": "delete all runs of an owner or thread, with a receipt",
    },
    "Set up": {
        "demo": "a program that is killed, resumed and checked",
        "keygen": "make a key that encrypts or signs",
        "rekey": "wrap the keys of a store with a newer one",
        "config": "the settings, and where they come from",
        "bench": "how fast saving is on this disk",
        "completion": "shell completion of commands and run ids",
    },
}
"""Every command, and what it is for. Its module has its name, and is imported when it is called,
not when it is listed."""


_INTERRUPTED: Final = 130
_ELSEWHERE: Final = {  # what other programs call it
    "list": "runs",
    "ls": "runs",
    "ps": "runs",
    "status": "show",
    "info": "show",
    "inspect": "show",
    "history": "show",
    "inbox": "questions",
    "log": "show",
    "logs": "watch",
    "tail": "watch",
    "follow": "watch",
    "start": "run",
    "exec": "run",
    "continue": "resume",
    "rerun": "retry",
    "approve": "answer",
    "reject": "answer",
    "stop": "pause",
    "kill": "cancel",
    "rm": "forget",
    "remove": "forget",
    "check": "verify",
    "serve": "ui",
    "web": "ui",
}


_OPTIONS: Final = ("version", "help")
_FLAGS: Final = ("--json", "--debug")
_OF_COMMANDS: Final = (
    *_FLAGS,
    *("--store", "--key-file", "--key-store", "--sign-key", "--trusted"),
)


class Commands(click.Group):
    """Commands in sections, found by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in self.list_commands(ctx):
            return None
        plain = cmd_name.replace("-", "_")
        module = f"holdfast.cli.{plain}" + ("_" if keyword.iskeyword(plain) else "")
        command: click.Command = importlib.import_module(module).command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; an option of all commands has its place after the command."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in _OF_COMMANDS:
                raise
            called = next((one for one in given if one in self.list_commands(ctx)), "COMMAND")
            value = "" if name in _FLAGS else " …"
            told = f"{name} goes after the command: holdfast {called} {name}{value}"
            raise click.UsageError(told, ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, or an error that names the one that may be meant."""
        wrong = args[0]
        if ctx.resilient_parsing or wrong.startswith("-") or self.get_command(ctx, wrong):
            return super().resolve_command(ctx, args)
        from holdfast.errors.base import closest, did_you_mean

        right = _ELSEWHERE.get(wrong.lower())
        if wrong.lower() == "status" and len(args) == 1:
            right = "runs"  # of all
        lead = did_you_mean(right or closest(wrong, self.list_commands(ctx)))
        if wrong.lower() in _OPTIONS:
            lead = f"; did you mean 'holdfast --{wrong.lower()}'?"
        raise click.UsageError(f"there is no command {wrong!r}{lead}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A list for each section."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()), col_max=12)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors that are meant for people end it without a traceback."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):  # Abort: Ctrl-C or Ctrl-D at a prompt
            click.echo("\ninterrupted", err=True)
            ctx.exit(_INTERRUPTED)
        except click.ClickException as error:  # its message may quote what is stored
            from holdfast.errors.base import one_line

            shown = "\n".join(map(one_line, error.message.split("\n")))
            error.message = shown  # type: ignore[misc]  # click shows what is there
            raise
        except (HoldfastError, OSError, ImportError) as error:
            from holdfast.extras import MissingExtraError

            unforeseen = isinstance(error, ImportError) and not isinstance(error, MissingExtraError)
            if unforeseen or isinstance(error, BrokenPipeError) or ctx.meta.get("holdfast.debug"):
                raise
            from holdfast.cli._exits import code_of
            from holdfast.cli._show import clean
            from holdfast.views.errors import message

            notes = getattr(error, "__notes__", [])
            click.echo(clean("; ".join([f"Error: {message(error)}", *notes])), err=True)
            ctx.exit(code_of(error))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command takes --store, --json and --debug. Ids may be shortened as long as they "
    "stay unique. The store is, in this order: --store, $HOLDFAST_STORE, `store` under "
    "[tool.holdfast] in pyproject.toml, .holdfast/holdfast.db. With $HOLDFAST_OWNER, only the runs of "
    "that owner are there. Keys: --key-file or $HOLDFAST_KEY_FILE, --key-store or "
    "$HOLDFAST_KEY_STORE, --sign-key or $HOLDFAST_SIGN_KEY, --trusted or $HOLDFAST_TRUSTED.",
)
@click.version_option(package_name="holdfast", message="holdfast %(version)s")
def holdfast() -> None:
    """List, execute, check, move and delete the runs in a holdfast store."""
    nothing = Path(os.devnull)  # for streams that the caller closed
    sys.stdout = sys.stdout or nothing.open("w")
    sys.stderr = sys.stderr or nothing.open("w")
    sys.stdin = sys.stdin or nothing.open()
    # What a pipe or a file can't encode must not end a command.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    _clean_the_log()
    sys.excepthook = _print_error


def _print_error(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """A traceback may quote what is stored, too."""
    import traceback

    from holdfast.errors.base import one_line

    for part in traceback.format_exception(kind, error, trace):
        for line in part.rstrip("\n").split("\n"):
            click.echo(one_line(line), err=True)


def _clean_the_log() -> None:
    """What is logged may quote what is stored; it must not reach a terminal as it is."""
    import logging

    class Clean(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from holdfast.cli._show import clean
            from holdfast.views.errors import as_options

            text = as_options(f"{record.levelname.lower()}: {record.getMessage()}")
            click.echo(clean(text), err=True)

    logging.lastResort = Clean(logging.WARNING)  # for whoever configures nothing else
