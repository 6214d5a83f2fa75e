"""The pages of the API: names, true signatures and docstrings, as Markdown.

Signatures are those that `help()` shows, also of operations that are written once for sync and
async callers. What a page shows comes from `__all__`, or from the names that are listed here.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, ForwardRef, get_origin, get_overloads

import holdfast
import holdfast.errors
import holdfast.stores


@dataclass(frozen=True)
class Page:
    """One page: names of a module, in this order."""

    path: str  # below reference/api, without its suffix
    title: str
    module: str
    names: tuple[str, ...] = ()  # none: all in `__all__`
    first: tuple[str, ...] = ()  # of them, what users begin with


_ENGINE: Final = (
    *("Engine", "RunHandle", "RunOptions", "NewRun", "Resume", "RunNames", "Call", "StepInfo"),
    *("current_step", "state_of", "now", "random", "uuid", "sleep", "durable"),
    *("WorkerInfo", "WorkerEvent"),
)
_CHECKPOINTER: Final = (
    *("Checkpointer", "SyncCheckpointer", "Checkpoint", "CheckpointInfo", "RunInfo", "Stats"),
    *("Status", "CheckpointType", "Diff", "Integrity", "Change", "Retention", "Migrations"),
    *("DryRun", "NOT_SAVED", "register_codec", "new_id"),
)
_STORES: Final = ("open_store", "register_store")
_KEYS: Final = (
    *("Keyring", "SigningKey", "TrustedKeys", "Secret", "environment_secrets"),
    *("Anchor", "check_attestation"),
)
_WORKFLOW: Final = (
    *("step", "workflow", "for_each", "parallel", "branch", "ask", "approve", "sleep"),
    *("command", "read_run", "Retry", "Step", "Workflow"),
)
PAGES: Final = (
    Page("engine", "Engine", "holdfast", _ENGINE),
    Page("checkpointer", "Checkpointers", "holdfast", _CHECKPOINTER),
    Page("keys", "Keys, secrets, anchors", "holdfast", _KEYS),
    Page("opening", "Opening stores", "holdfast", _STORES),
    Page("workflow", "Workflows", "holdfast.workflow", first=_WORKFLOW),
    Page("graph", "Graphs", "holdfast.graph", first=("Graph", "END", "CompiledGraph")),
    Page("pipeline", "Pipelines", "holdfast.pipeline", first=("Pipeline",)),
    Page("events", "Events", "holdfast.events"),
    Page("errors", "Errors", "holdfast.errors"),
    Page("evidence", "Evidence", "holdfast.evidence"),
    Page("manager", "Checkpoint manager", "holdfast.manager"),
    Page("stores", "Stores", "holdfast.stores", tuple(dir(holdfast.stores))),
    Page("store", "Store interface", "holdfast.store", ("Store", "RunFilter", "StoreStats")),
    Page("telemetry", "Telemetry", "holdfast.telemetry"),
    Page("testing", "Testing", "holdfast.testing"),
    *(
        Page(name, title, f"holdfast.integrations.{name}")
        for name, title in {
            "dask": "Dask",
            "langgraph": "LangGraph",
            "pydantic_ai": "Pydantic AI",
            "openai_agents": "OpenAI Agents SDK",
            "otel": "OpenTelemetry",
        }.items()
    ),
    *(
        Page(f"documents-{name}", f"holdfast.documents.{name}", f"holdfast.documents.{name}")
        for name in ("maverick", "iamodules", "flowgraph")
    ),
)
_FIRST: Final = {
    "Engine": ("run", "start", "resume", "recover", "answer", "questions", "status", "outcome"),
    "Checkpointer": ("save", "load"),
    "SyncCheckpointer": ("save", "load"),
}
"""The methods that users begin with."""
_AWAITED: Final[dict[type, type]] = {holdfast.SyncCheckpointer: holdfast.Checkpointer}
"""Classes whose methods are those of another one, which are awaited."""
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_WIDTH: Final = 88
_OPTIONS: Final = re.compile(r"Unpack\[(\w+)\]")
_NAMED: Final = re.compile(r"(?<!\[)`([A-Z]\w+)`")


def pages() -> Iterator[tuple[str, str]]:
    """Every page of the reference: its path below reference/api, and its Markdown."""
    home_of = homes()
    links = {
        name: _linked([name], home_of[id(getattr(importlib.import_module(page.module), name))])
        for page in reversed(PAGES)
        for name in names_of(page)
        if name[0].isupper()
    }
    lines = ["# API", "", "Everything that is public. What is not here may change at any time.", ""]
    for page in PAGES:
        module = importlib.import_module(page.module)
        own = [name for name in names_of(page) if home_of[id(getattr(module, name))] is page]
        lines.append(f"* [{page.title}]({page.path}.md), `{page.module}`: {_linked(own, page)}")
        text = "\n\n".join(_page(page, module, home_of)) + "\n"
        yield f"{page.path}.md", re.sub(_NAMED, lambda found: links.get(found[1], found[0]), text)
    yield "index.md", "\n".join(lines) + "\n"


def names_of(page: Page) -> list[str]:
    """What can be imported from a page's module, in the page's order."""
    exported = importlib.import_module(page.module).__all__ if not page.names else ()
    rest = sorted(set(exported) - {*page.first}, key=lambda name: (name[0].islower(), name))
    return list(page.names or (*page.first, *rest))


def homes() -> dict[int, Page]:
    """The page that documents each object, by its id: the first that has it."""
    found: dict[int, Page] = {}
    for page in PAGES:
        module = importlib.import_module(page.module)
        for name in names_of(page):
            found.setdefault(id(getattr(module, name)), page)
    return found


def _linked(names: list[str], page: Page) -> str:
    return ", ".join(f"[`{name}`]({page.path}.md#{name})" for name in names)


def _page(page: Page, module: ModuleType, home_of: dict[int, Page]) -> Iterator[str]:
    yield f"# {page.title}"
    yield f"Import from `{page.module}`."
    if not page.names and module.__doc__:
        yield _text(module.__doc__)
    elsewhere = []
    for name in names_of(page):
        value = getattr(module, name)
        home = home_of[id(value)]
        if home is page:
            yield from _of_name(name, value, page.module)
        else:
            elsewhere.append(_linked([name], home))
    if elsewhere:
        # Search finds these names where they are described.
        yield f"## Also in {page.module} {{ #also-in data-search-exclude }}"
        yield ", ".join(elsewhere)


def _of_name(name: str, value: Any, module: str) -> Iterator[str]:
    yield f"## {name} {{ #{name} }}"
    if inspect.isclass(value):
        yield from _of_class(name, value)
    elif callable(value) and get_origin(value) is None:
        yield from _of_function(name, value)
    else:
        yield _fenced(f"from {module} import {name}")
        yield _text(_written_below(module, name) or "")


def _written_below(module: str, name: str) -> str | None:
    """The docstring that stands below a constant, wherever it is imported from."""
    nodes = ast.parse(inspect.getsource(importlib.import_module(module))).body
    body = [each for one in nodes for each in (one.body if isinstance(one, ast.If) else [one])]
    for node, below in zip(body, [*body[1:], None], strict=True):
        match node, below:
            case ast.ImportFrom(module=str(source), names=names), _:
                if found := [one.name for one in names if (one.asname or one.name) == name]:
                    return _written_below(source, found[0])
            case (
                ast.Assign(targets=[ast.Name(id=given)]) | ast.AnnAssign(target=ast.Name(id=given)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if given == name:
                return text
    return None


def _of_class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, enum.Enum):
        yield _text(value.__doc__ or "")
        yield "\n".join(f"* `{name}.{each.name}`: `{each.value!r}`" for each in value)
        return
    if value.__init__ is not object.__init__ and (found := _signature(value)) is not None:
        yield _fenced(_formatted(f"class {name}", found, returns=False))
    if value.__doc__ is not None:
        yield _text(value.__doc__)
    members = dict(_members(value))
    of = _AWAITED.get(value)
    same = [each for each, member in members.items() if of and _is_twin(member, each, of)]
    if of and same:
        links = [f"[`{each}`](#{of.__name__}.{each}){{ #{name}.{each} }}" for each in same]
        methods = f"The methods of `{of.__name__}`, with the same arguments and without `await`"
        yield f"{methods}: {', '.join(links)}."
    for each, member in members.items():
        if each not in same and not _is_twin(member, each.removesuffix("_sync")):
            awaited = each.removesuffix("_sync")
            # Search finds once what is there for sync and for async callers.
            searched = awaited == each or awaited not in members
            yield from _of_member(name, each, member, searched=searched)
            if _is_twin(twin := members.get(f"{each}_sync"), each):
                yield f"{_about_twin(member, twin)}\n{{: #{name}.{each}_sync }}"


def _of_member(of: str, name: str, member: Any, *, searched: bool) -> Iterator[str]:
    yield f"### {name} {{ #{of}.{name}{'' if searched else ' data-search-exclude'} }}"
    if isinstance(member, property):
        getter: Any = member.fget
        yield _fenced(f"{of}.{name}{_returned(inspect.signature(getter))}")
        yield _text(getter.__doc__ or "")
    else:
        yield from _of_function(f"{of}.{name}", member)


def _is_twin(member: Any, name: str, of: type | None = None) -> bool:
    """Whether a method says of itself that it is the blocking form of the method of this name, or
    says exactly what that method of the other class says.
    """
    if of is not None:
        return bool(member.__doc__ == getattr(of, name).__doc__)
    return bool(member and (member.__doc__ or "").startswith(f"`{name}`,"))


def _about_twin(awaited: Any, twin: Any) -> str:
    """The one line that a blocking form gets."""
    signature = inspect.signature(awaited)
    if list(signature.parameters) == ["self"]:
        return f"`{twin.__name__}()` blocks."
    call = f"`{twin.__name__}(...)`"
    if more := twin.__doc__.partition("without an event loop")[2].strip(":. "):
        return f"{call} takes the same arguments: {more}."
    if re.match(r"AsyncIterator|Stream\b", _type(signature.return_annotation)):
        return f"{call} is for a plain `for` loop; same arguments."
    return f"{call} blocks; same arguments."


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that holdfast's own classes define.

    What users begin with, then those of the class itself, then those of its bases, each in the
    order of the source.
    """
    ours = [base for base in value.__mro__ if base.__module__.startswith("holdfast")]
    names = [name for base in ours for name in vars(base) if not name.startswith("_")]
    order = dict.fromkeys((*_FIRST.get(value.__name__, ()), *names))
    for name in order:
        static = inspect.getattr_static(value, name)
        if isinstance(static, property):
            yield name, static
            continue
        member = getattr(value, name, None)
        if callable(member) and not inspect.isclass(member) and member.__doc__:
            yield name, member


def _of_function(name: str, value: Any) -> Iterator[str]:
    prefix = "async def " if inspect.iscoroutinefunction(value) else "def "
    short = name.rpartition(".")[2]
    plain = inspect.isfunction(value) and not hasattr(value, "__signature__")
    forms = get_overloads(value) if plain else []
    signatures = [_signature(form) for form in forms or [value]]
    texts = [_formatted(f"{prefix}{short}", found) for found in signatures if found is not None]
    if texts:
        yield _fenced("\n\n".join(texts))
    yield _text(value.__doc__ or "")
    yield from _options(value, texts)


def _options(value: Any, texts: list[str]) -> Iterator[str]:
    """What `**options` may be: each with its type, and its default as the function has it."""
    for kind in sorted({*_OPTIONS.findall("\n".join(texts))}):
        options = inspect.unwrap(value).__globals__[kind]
        has = inspect.signature(value).parameters
        given = [
            has[name] if name in has else inspect.Parameter(name, _KEYWORD, annotation=annotation)
            for name, annotation in options.__annotations__.items()
        ]
        yield f"Options (`{kind}`):"
        yield _fenced("\n".join(map(_parameter, given)))
        if more := _text((options.__doc__ or "").partition("\n")[2]):
            yield more


def _signature(value: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def _formatted(head: str, signature: inspect.Signature, *, returns: bool = True) -> str:
    """A signature on one line if it fits, else one line for each parameter."""
    parameters = [one for one in signature.parameters.values() if one.name[0] != "_"]
    shown = list(_parameters(parameters))
    end = f"){_returned(signature) if returns else ''}"
    line = f"{head}({', '.join(shown)}{end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in shown), end])


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    kinds = [each.kind for each in parameters]
    for at, each in enumerate(parameters):
        first = each.kind is each.KEYWORD_ONLY and each.KEYWORD_ONLY not in kinds[:at]
        if first and each.VAR_POSITIONAL not in kinds:
            yield "*"
        yield _parameter(each)
        if each.kind is each.POSITIONAL_ONLY and each.POSITIONAL_ONLY not in kinds[at + 1 :]:
            yield "/"


def _parameter(each: inspect.Parameter) -> str:
    stars = "*" * (each.kind is each.VAR_POSITIONAL) + "**" * (each.kind is each.VAR_KEYWORD)
    text = f"{stars}{each.name}"
    if each.annotation is not each.empty:
        text += f": {_type(each.annotation)}"
    if each.default is not each.empty:
        text += f" = {_default(each.default)}"
    return text


def _returned(signature: inspect.Signature) -> str:
    found = signature.return_annotation
    return "" if found is signature.empty else f" -> {_type(found)}"


def _type(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation
    return inspect.formatannotation(annotation).replace("holdfast.", "")


def _default(value: Any) -> str:
    if value is ...:
        return "..."
    if inspect.isroutine(value) or inspect.isclass(value):
        return str(value.__name__)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if (kind := type(value)).__module__.startswith("holdfast."):
        required = [
            each
            for each in inspect.signature(kind).parameters.values()
            if each.default is each.empty
        ]
        return f"{kind.__name__}()" if not required and value == kind() else "..."
    text = repr(value)
    return "..." if text.startswith("<") else text


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"


def _text(doc: str) -> str:
    """A docstring as Markdown: code is fenced, lists stand alone, pages become links."""
    head, _, rest = doc.partition("\n")
    text = f"{head.strip()}\n{textwrap.dedent(rest)}".strip()
    text = re.sub(r"(?m)(?<=\n\n)((?: {4}.+\n?|\n(?= {4}))+)", _fence_indented, text)
    text = re.sub(r"(?m)^(?!- | )(.+)\n(?=- )", r"\1\n\n", text)
    return re.sub(r"\bdocs/([\w/-]+)\.md", r"[\1](../../\1.md)", text)


def _fence_indented(found: re.Match[str]) -> str:
    return _fenced(textwrap.dedent(found[0]).strip()) + "\n"
