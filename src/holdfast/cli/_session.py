"""What every command has: its common options, the store, and ids that may be shortened."""

import functools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _keys, _show
from holdfast.cli._exits import FailedError
from holdfast.cli._keys import Keys
from holdfast.codec.secrets import environment_secrets
from holdfast.engine.tracebacks import FULL
from holdfast.errors import CheckpointNotFoundError, HoldfastError
from holdfast.kernel.keyed import has_only_fields
from holdfast.model import check_id
from holdfast.project import project_settings
from holdfast.store import Store
from holdfast.stores.sqlite.schema import has_journal
from holdfast.urls import default_heads_file, default_url, is_shared, local_path, masked, open_store
from holdfast.views.commands import Commands
from holdfast.views.errors import NotFoundError

if TYPE_CHECKING:  # the engine takes as long to import as all the rest: most commands don't need it
    from holdfast.engine.door import StoreLike
    from holdfast.keys.keyring import Keyring


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta["holdfast.debug"] = value
    if value and FULL not in os.environ:
        os.environ[FULL] = "full"
        ctx.call_on_close(lambda: os.environ.pop(FULL, None))


_SEVERAL: Final = 10  # checkpoints that a message names
_SESSION: Final = "holdfast.session"  # where a command finds its own
OWNER: Final = "HOLDFAST_OWNER"
"""The environment's owner: commands see and change only the runs of this one."""

_ELSEWHERE: Final = {"--fix": "--repair"}  # what other programs call an option
_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
_LOOKED_AT: Final = 100  # files of a directory that is no store
_COMMON: Final = (
    click.Option(["--store"], metavar="URL", help="The store, by URL or path."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of tables."),
    click.Option(
        ["--debug"], is_flag=True, expose_value=False, callback=_debug, help="Show tracebacks."
    ),
    *_keys.OPTIONS,
)


class Command(click.Command):
    """A command whose help ends with examples."""

    examples: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; an error says what may be meant."""
        options = {name for one in self.params for name in one.opts}
        given = [*args]  # click takes them out
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = _ELSEWHERE.get(error.option_name)
            if meant is None or meant not in options:
                raise
            told = f"No such option '{error.option_name}'. Did you mean '{meant}'?"
            raise click.UsageError(told, ctx) from None
        except click.UsageError as error:
            extra = _EXTRA.match(error.message)
            if extra is None or "--input" not in options:
                raise
            told = f"{error.message}; an input is given as: --input {_as_input(extra[1], given)}"
            raise click.UsageError(told, ctx) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they are typed."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def as_command(*examples: str, own_store: bool = False) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function that takes the `Session` first; it is named like its module.

    Where it has its `own_store`, help hides the options that name a store and its keys.
    """

    def make(fn: Callable[..., None]) -> Command:
        @functools.wraps(fn)
        def run(
            store: str | None,
            as_json: bool,
            key_file: str | None,
            key_store: str | None,
            sign_key: str | None,
            trusted: tuple[str, ...],
            **arguments: Any,
        ) -> None:
            if store == "":
                raise click.UsageError("--store is empty: name a store, or leave it out")
            session = Session(store, as_json, Keys(key_file, key_store, sign_key, trusted))
            click.get_current_context().meta[_SESSION] = session
            fn(session, **arguments)

        name = fn.__module__.rpartition(".")[2].rstrip("_").replace("_", "-")
        made = click.command(name, cls=Command)(run)
        made.params += map(_hidden, _COMMON) if own_store else _COMMON
        made.examples = examples
        return made

    return make


def _hidden(one: click.Option) -> click.Option:
    """The option without its line in the help, if it is about a store."""
    if one.name in ("as_json", "debug"):
        return one
    one = copy(one)
    one.hidden = True
    return one


def shown_commands() -> Commands:
    """Commands on the store of the command that is called, to be shown."""
    session = click.get_current_context().meta.get(_SESSION)
    return session.commands if isinstance(session, Session) else Commands()


class Session:
    """One call of a command."""

    def __init__(self, store: str | None, as_json: bool, keys: Keys = Keys()) -> None:
        self.where = store
        self.keys = keys
        self.own: StoreLike = None  # what a flow brought along
        self.owner = os.environ.get(OWNER) or None  # whose runs alone are to be seen
        self.json = as_json

    def bind(self, owner: str | None) -> None:
        """See and change only the runs of this owner, if one is given."""
        if owner is None:
            return
        if self.owner not in (None, owner):
            raise click.UsageError(f"${OWNER} is {self.owner!r}, and --owner {owner!r}")
        self.owner = check_id("owner", owner)

    @property
    def url(self) -> str:
        """The selected store."""
        return self.where or default_url()

    @property
    def source(self) -> str:
        """Where the selected store is named; empty if it is the built-in one."""
        if self.where is not None:
            return "--store"
        if os.environ.get("HOLDFAST_STORE"):
            return "$HOLDFAST_STORE"
        project, configured = project_settings()
        return str(project) if "store" in configured else ""

    def adopt(self, own: "StoreLike") -> None:
        """Use the store that a flow brings along, unless another was named."""
        if own is None or self.where is not None:
            return
        self.own = own
        if isinstance(own, str | os.PathLike):
            self.where = os.fspath(own)
        else:
            self.where = _store_of(own).url

    @contextmanager
    def opened(
        self, *, new: bool = False, signing: bool = True, whole: bool = False, **options: Any
    ) -> Iterator[SyncCheckpointer]:
        """The store, open. One that is not there is an error, unless it may be `new`.

        Without `signing`, nothing is to be saved, and --sign-key is for something else. As a
        `whole`, everything in the store is to be encrypted from now on.
        """
        if not new:
            self.require_store()
        store: Any = self.url
        if self.own is not None and not isinstance(self.own, str | os.PathLike):
            store = _store_of(self.own)
        options = {"owner": self.owner, **self.guards(signing=signing, whole=whole), **options}
        with SyncCheckpointer(store, **options) as checkpointer:
            if not new and not checkpointer.store.exists():
                raise self._no_store(local_path(self.url) or checkpointer.store.url)
            if not new:
                _refuse_other_directory(local_path(self.url), checkpointer)
            checkpointer.core.journals.keep_coded()
            try:
                yield checkpointer
            except CheckpointNotFoundError as error:
                if note := _checkpoints(checkpointer, error):
                    error.add_note(note)
                raise

    def guards(self, *, signing: bool = True, whole: bool = False) -> dict[str, Any]:
        """The keys, and where heads of the project's own store are remembered."""
        own = self.where is None and self.own is None
        remember = {"remember": default_heads_file()} if own else {}
        keys = self.keys.opened(signing=signing)
        if "key" in keys and not whole and self._has_only_fields(keys["key"]):
            keys["key"] = keys["key"].for_fields()
        return {**keys, **remember}

    def engine(self) -> dict[str, Any]:
        """What an engine is opened with. A checkpointer that a flow brings along has its own."""
        if self.own is None or isinstance(self.own, str | os.PathLike | Store):
            return {**self.guards(), "secrets_from": environment_secrets}
        return self.guards()

    def _has_only_fields(self, ring: "Keyring") -> bool:
        path = local_path(self.url)
        if path is not None and not path.exists():
            return False
        with closing(open_store(self.url)) as store:
            return store.exists() and has_only_fields(store, ring)

    @property
    def place(self) -> "StoreLike":
        """The store as an engine takes it; with an owner, not the checkpointer of a flow."""
        if self.own is None:
            return self.url
        return self.own if self.owner is None else _store_of(self.own)

    def require_store(self) -> None:
        """Looking must not create anything. Raises where there is no such file or directory."""
        path = local_path(self.url)
        if path is not None and not (path.exists() and has_journal(path)):
            raise self._no_store(path, near=_database_in(Path()))

    def _no_store(self, where: Path | str, near: Path | None = None) -> NotFoundError:
        where = where.absolute() if isinstance(where, Path) else where
        lead = "name a store with --store, or save something first"
        if near is not None:
            lead = f"did you mean --store {shlex.quote(str(near))}?"
        said = f"there is no store at {where}"
        if isinstance(where, Path) and where.exists():
            said = f"holdfast saved nothing in {where}"
        if self.where is None and self.source:
            said += f", which {self.source} names"
        return NotFoundError(_show.clean(f"{said}; {lead}"))

    def warn_if_new(self) -> None:
        """Say so where a new store is made, and one of holdfast's is beside it."""
        path = local_path(self.url)
        if self.where is not None or self.own is not None or path is None or path.exists():
            return
        near = _database_in(Path())
        if near is not None:
            use = f"to use {near}: --store {shlex.quote(str(near))}"
            _show.warn(_show.clean(f"this is a new store: {path}; {use}"))

    def require_shared(self) -> None:
        """Raise unless several processes may use the store at once, as workers do."""
        own = self.own
        known = own is None or isinstance(own, str | os.PathLike)
        if (is_shared(self.url) if known else _store_of(own).shared) is False:
            raise click.UsageError(
                f"{_show.clean(masked(self.url))} can be used by one process at a time only, and "
                "workers are others; use SQLite (sqlite:///runs.db), a directory or a server such "
                "as postgresql://"
            )

    def show(self, document: Any, draw: Callable[[], None]) -> None:
        """Print the document as JSON if that was asked for, else draw it."""
        if self.json:
            _show.print_json(document)
        else:
            draw()

    def most(self, limit: int | None, default: int) -> int | None:
        """How many things a list shows, given its --limit; None for all, as with --json."""
        if limit is None:
            return None if self.json else default
        return limit or None

    @property
    def commands(self) -> Commands:
        """Commands on the same store, to be shown."""
        return Commands(self.where, self.keys.words)

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    def require_terminal(self) -> None:
        """Raise where nobody can be asked: --yes has to be given instead."""
        if not self.interactive:
            raise click.UsageError(
                "there is no terminal to ask on; to do it without asking, give --yes"
            )

    def confirm(self, question: str) -> None:
        """Go on if a person says so."""
        self.require_terminal()
        if not click.confirm(question):
            raise FailedError("nothing was changed")


def _as_input(extra: str, given: Sequence[str]) -> str:
    """How the first extra argument is given as an input, quoted for a shell.

    `extra` are all of them, joined by spaces, as click names them.
    """
    first = {one for one in given if f"{extra} ".startswith(f"{one} ")}
    if len(first) != 1:
        return "NAME=VALUE"  # two readings: "a" and "a b"
    word = first.pop()
    return shlex.quote(word if "=" in word else f"NAME={word}")


def _store_of(own: "StoreLike") -> Store:
    from holdfast.engine.door import open_checkpointer

    return open_checkpointer(own).checkpointer.store


def _refuse_other_directory(path: Path | None, cp: SyncCheckpointer) -> None:
    """Raise for a directory that nothing was ever saved in; a database may lie in it."""
    if path is None or not path.is_dir() or (path / ".lock").exists() or cp.store.runs(limit=1):
        return
    near = _database_in(path)
    lead = f"; did you mean --store {shlex.quote(str(near))}?" if near else ", and no runs"
    raise NotFoundError(_show.clean(f"the directory {path} holds no files of holdfast{lead}"))


def _database_in(directory: Path) -> Path | None:
    """A database of holdfast's in a directory; one that can't be read is passed over."""
    names = sorted(islice(directory.glob("*.db"), _LOOKED_AT))
    found = (one for one in names if one.is_file() and has_journal(one, unreadable=False))
    return next(found, None)


def _checkpoints(cp: SyncCheckpointer, error: CheckpointNotFoundError) -> str:
    """Which checkpoints a run has, if one was named that is none: not all entries have a state."""
    if error.checkpoint_id is None or not error.run_id:
        return ""
    with suppress(HoldfastError):
        found = [f"@{one.seq}" for one in cp.list_checkpoints(error.run_id, limit=_SEVERAL + 1)]
        more = ", …" if len(found) > _SEVERAL else ""
        return f"it has {', '.join(found[:_SEVERAL])}{more}" if found else ""
    return ""
