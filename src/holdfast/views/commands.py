"""Commands as they are typed, on the store that somebody looks at. They never show its password."""

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors.base import one_line
from holdfast.project import project_settings
from holdfast.urls import default_url, masked
from holdfast.views.schemas import example

if TYPE_CHECKING:  # the engine takes long to import
    from holdfast.engine.people.questions import Question

PLACEHOLDER: Final = "MODULE:NAME"
"""What stands in a command for a flow that only its reader knows."""

ANY_FORM: Final = "JSON"
"""What stands for an answer whose schema is too much for a hint."""

_SIGNATURES: Final = ("--sign-key", "--trusted")
_FORMS: Final = {"boolean": "true|false", "string": "TEXT", "integer": "NUMBER", "number": "NUMBER"}
_LONGEST: Final = 60  # characters of choices, or of an example
_MASK: Final = "***"  # what a URL shows of its secrets


class Commands(NamedTuple):
    """The commands of `holdfast` on one store."""

    store: str | None = None
    """The store, as it was named; None is the one that commands use if none is named."""
    keys: tuple[str, ...] = ()
    """The options that name its keys: files, never the keys themselves."""
    elsewhere: bool = False
    """They are typed where another store may be the default: the store is always named."""

    def line(
        self, name: str, run: str | None = None, *options: str, places: Sequence[str] = ()
    ) -> str:
        """One command on the store; `places` are what it takes behind the run.

        A run's id may begin with a dash, and must not become an option.
        """
        where, note = [*self.keys], ""
        if self.store is not None and (self.elsewhere or self.store != default_url()):
            shown = masked(self.store)
            if _MASK in shown:
                note = "  # with --store as before, or HOLDFAST_STORE set to it"
            else:
                where = [f"--store={shown}", *self.keys]
        words = [*places] if run is None else [run, *places]
        if any(word.startswith("-") for word in words):
            words = [*options, *where, "--", *words]
        else:
            words += [*options, *where]
        return " ".join(map(_quoted, ("holdfast", name, *words))) + note

    def resume(
        self,
        run_id: str,
        flows: Sequence[str] = (),
        source: str | None = None,
        *,
        of: str | None = None,
        name: str = "resume",
    ) -> str:
        """The command that continues a run `of` a flow, with the options that it needs here.

        `flows` are those that somebody named, here and now. What the run itself says, `source`, is
        used only if the project names it, too.
        """
        configured = project_settings()[1].get("flows", [])
        needed = [flow for flow in flows if flow not in configured]
        if not flows and (source not in configured if source else not configured):
            needed = [PLACEHOLDER]
        command = self.line(name, run_id, *(f"--flow={flow}" for flow in needed))
        return explained(command, of, source)

    def answer(self, run_id: str, asked: "Sequence[Question]", *, form: bool = False) -> str:
        """The command that answers the first of these questions, with all that it needs.

        With `form`, the command asks for the answer itself, as it does on a terminal.
        """
        first, theirs = asked[0], self.of_others()
        signed = theirs is not self  # then whose key it is says who answers
        options = [f"--question={first.key}"] if len(asked) > 1 else []
        options += [f"--by={first.assignees[0]}"] if first.assignees and not signed else []
        options += [] if form else [f"--with={answer_form(first)}"]
        return theirs.line("answer", run_id, *options)

    def of_others(self) -> "Commands":
        """The same for somebody else, who has a signing key of their own, where there are any."""
        kept = tuple(one for one in self.keys if not one.startswith(_SIGNATURES))
        if len(kept) == len(self.keys):
            return self
        return self._replace(keys=(*kept, *(f"{name}=FILE" for name in _SIGNATURES)))


def answer_form(asked: "Question") -> str:
    """What an answer looks like: a word, the choices if they are few, or an example that fits."""
    try:
        return _form(asked)
    except (TypeError, ValueError, RecursionError):  # anyone may have written what is stored
        return ANY_FORM


def _form(asked: "Question") -> str:
    schema = asked.schema
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        shown = "|".join(map(_choice, choices[:_LONGEST]))
        return shown if len(shown) <= _LONGEST and shown.isprintable() else ANY_FORM
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _FORMS:
        return _FORMS[kind]
    value = example(schema, schema)
    spelt = json.dumps(value, ensure_ascii=False, default=str)
    fits = value and len(spelt) <= _LONGEST and spelt.isprintable()
    return spelt if fits and not asked.problems_with(json.loads(spelt)) else ANY_FORM


def _choice(choice: Any) -> str:
    """A choice as `--with` takes it: text as it is, unless that would be read as JSON."""
    spelt = json.dumps(choice, ensure_ascii=False, default=str)
    if not isinstance(choice, str) or choice[:1] in ("", "@", "-", "{", "[", '"'):
        return spelt
    try:
        json.loads(choice)
    except ValueError:
        return choice
    return spelt


def _quoted(word: str) -> str:
    """A word as a shell reads it; what is not plainly visible is spelt as bash and zsh do."""
    if word.isprintable():
        return shlex.quote(word)
    text = word.replace("\\", r"\\").replace("'", r"\'")
    spelt = (char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
    return f"$'{''.join(spelt)}'"


def has_placeholder(command: str) -> bool:
    """Whether a command can't run as it is: its reader has to name a flow in it."""
    return f"--flow={PLACEHOLDER}" in command


def explained(command: str, flow: str | None = None, source: str | None = None) -> str:
    """A command; if it has a placeholder, with a comment that says what to put there."""
    if not has_placeholder(command):
        return command
    what = "the flow" if flow is None else f"flow {flow!r}"
    says = f"; {recorded(source)}" if source else ""
    return one_line(f"{command}  # {PLACEHOLDER}: the module and name of {what}{says}")


def recorded(source: str) -> str:
    """What a run was started by. Anyone may have written that: it is quoted, and no command."""
    return f"its record says that it was started as {source!r}"
