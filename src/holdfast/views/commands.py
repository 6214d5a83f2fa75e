"""Commands as they are typed, on the store that somebody looks at. They never show its password."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors.base import one_line
from holdfast.project import project_settings
from holdfast.urls import absolute, default_url, masked
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


class Commands(NamedTuple):
    """The commands of `holdfast` on one store."""

    store: str | None = None
    """The store, as it was named; None is the one that commands use if none is named."""
    keys: tuple[str, ...] = ()
    """The options that name its keys: files, never the keys themselves."""
    elsewhere: bool = False
    """They are typed where another store may be the default: the store is always named."""

    def anywhere(self) -> "Commands":
        """The same in every directory: files are named by their absolute paths."""
        store = None if self.store is None else absolute(self.store, Path.cwd())
        return self._replace(store=store, keys=tuple(map(_absolute_key, self.keys)), elsewhere=True)

    def line(
        self, name: str, run: str | None = None, *options: str, places: Sequence[str] = ()
    ) -> str:
        """One command on the store; `places` are what it takes behind the run.

        A run's id may begin with a dash, and must not become an option. A password of the store is
        for its reader to put in.
        """
        where = [*self.keys]
        if self.store is not None and (self.elsewhere or self.store != default_url()):
            where.insert(0, f"--store={masked(self.store)}")
        words = [*places] if run is None else [run, *places]
        if any(word.startswith("-") for word in words):
            words = [*options, *where, "--", *words]
        else:
            words += [*options, *where]
        return " ".join(map(_quoted, ("holdfast", name, *words)))

    def resume(
        self,
        run_id: str,
        flows: Sequence[str] = (),
        source: str | None = None,
        *,
        name: str = "resume",
    ) -> str:
        """The command that continues a run, with the options that it needs here.

        `flows` are those that somebody named, here and now. What the run itself says, `source`, is
        used only if the project names it, too.
        """
        configured = project_settings()[1].get("flows", [])
        needed = [flow for flow in flows if flow not in configured]
        if not flows and (source not in configured if source else not configured):
            needed = [PLACEHOLDER]
        return self.line(name, run_id, *(f"--flow={flow}" for flow in needed))

    def answer(self, run_id: str, asked: "Sequence[Question]", *, form: bool = False) -> str:
        """The command that answers the first of these questions, with all that it needs.

        It has an answer that fits, if there are only a few, or an example of one. Otherwise, and
        with `form`, the command asks for the answer itself, on a terminal.
        """
        first, theirs = asked[0], self.of_others()
        signed = theirs is not self  # then whose key it is says who answers
        options = [f"--question={first.key}"] if len(asked) > 1 else []
        options += [f"--by={first.assignees[0]}"] if first.assignees and not signed else []
        fitting = [] if form else answers(first)
        options += [f"--with={one}" for one in fitting[:1]]
        return theirs.line("answer", run_id, *options)

    def of_others(self) -> "Commands":
        """The same for somebody else, who has a signing key of their own, where there are any."""
        kept = tuple(one for one in self.keys if not one.startswith(_SIGNATURES))
        if len(kept) == len(self.keys):
            return self
        return self._replace(keys=(*kept, *(f"{name}=FILE" for name in _SIGNATURES)))


def _absolute_key(option: str) -> str:
    name, _, value = option.partition("=")
    return f"{name}={absolute(value, Path.cwd())}"


def answers(asked: "Question") -> list[str]:
    """Answers that fit, as `--with` takes them: all if they are few, or an example; maybe none."""
    form = answer_form(asked)
    if form == _FORMS["boolean"] or (_choices(asked) and form != ANY_FORM):
        return ["true", "false"] if not _choices(asked) else list(map(_choice, _choices(asked)))
    return [] if form in (ANY_FORM, *_FORMS.values()) else [form]


def other_answers(asked: "Question", command: str) -> str:
    """What else can be answered than what a command answers, in words; empty if that is clear."""
    fitting = answers(asked)
    if not fitting:
        return f"it asks for the answer; in a script, give it: --with {answer_form(asked)}"
    if "--with=" not in command:
        return ""
    if len(fitting) == 1:
        return "" if _choices(asked) else "put your own answer in place of this example"
    return f"or with another answer: {', '.join(map(_quoted, fitting[1:]))}"


def answer_form(asked: "Question") -> str:
    """What an answer looks like: a word, the choices if they are few, or an example that fits."""
    try:
        return _form(asked)
    except (TypeError, ValueError, RecursionError):  # anyone may have written what is stored
        return ANY_FORM


def _form(asked: "Question") -> str:
    schema = asked.schema
    if choices := _choices(asked):
        shown = "|".join(map(_choice, choices[:_LONGEST]))
        return shown if len(shown) <= _LONGEST and shown.isprintable() else ANY_FORM
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _FORMS:
        return _FORMS[kind]
    value = example(schema, schema)
    spelt = json.dumps(value, ensure_ascii=False, default=str)
    fits = value and len(spelt) <= _LONGEST and spelt.isprintable()
    return spelt if fits and not asked.problems_with(json.loads(spelt)) else ANY_FORM


def _choices(asked: "Question") -> list[Any]:
    choices = asked.schema.get("enum")
    return choices if isinstance(choices, list) else []


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


def meaning(command: str, flow: str | None = None, source: str | None = None) -> str:
    """What to put for the placeholder in a command; empty if it has none."""
    if not has_placeholder(command):
        return ""
    what = "the flow" if flow is None else f"flow {flow!r}"
    says = f"; {recorded(source)}" if source else ""
    return one_line(f"{PLACEHOLDER} is the module and name of {what}{says}")


def led_by(lead: str, command: str, note: str = "") -> str:
    """A sentence that ends with a command, and a note on it before: shells take no comments."""
    return f"{lead.removesuffix(':')} ({note}): {command}" if note else f"{lead} {command}"


def recorded(source: str) -> str:
    """What a run was started by. Anyone may have written that: it is quoted, and no command."""
    return f"its record says that it was started as {source!r}"
