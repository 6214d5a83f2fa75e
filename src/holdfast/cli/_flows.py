"""Flows that are named on the command line, and their inputs."""

import importlib
import importlib.util
import json
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from holdfast.cli import _show
from holdfast.cli._importing import importing
from holdfast.cli._options import parse_pair
from holdfast.cli._runs import find_run
from holdfast.cli._session import Session
from holdfast.engine.door import StoreLike
from holdfast.engine.effects import Call
from holdfast.engine.flow import Flow
from holdfast.engine.functions import hints_of
from holdfast.errors import InvalidFlowError, ReviveError
from holdfast.graph import CompiledGraph, Graph
from holdfast.pipeline import Pipeline
from holdfast.project import project_settings
from holdfast.views.commands import PLACEHOLDER, recorded
from holdfast.views.errors import NotFoundError
from holdfast.workflow.flow import Workflow

T = TypeVar("T")

NAME_IT: Final = (
    f"name the flow with --flow {PLACEHOLDER} (the module that defines it, and its name there), or "
    "in flows under [tool.holdfast] in pyproject.toml"
)
"""What to do where a run's flow is not known."""


class Named(NamedTuple):
    """A flow that was named, and how the command line gives it its inputs."""

    flow: Flow[Any]
    hints: Mapping[str, Any]  # the types of its inputs, by name
    threaded: bool = False  # a run without a thread is a thread of its own
    store: StoreLike = None  # where it keeps its runs by itself
    takes_any: bool = False  # it begins with any value, not only with inputs by name

    def call(self, data: Any, source: str) -> Call[Any]:
        """What to run, given plain data. Raises `TypeError` and `ValueError`."""
        return Call(self.flow, self.flow.inputs_from(data), source=source)


def load(name: str, beside: Path | None = None) -> Named:
    """The flow that is called `module:name` or `path/to/file.py:name`, or the pipeline that a file
    describes: `path/to/file.yaml@module:functions`. They are looked for `beside` a project's
    pyproject.toml if that names them, else in the current directory."""
    beside = Path.cwd() if beside is None else beside
    file, _, functions = name.partition("@")
    if file.endswith((".yaml", ".yml", ".json")):
        return _flow(_described(file, functions, beside), name)
    return _flow(_named(name, beside), name)


def _described(file: str, functions: str, beside: Path) -> Pipeline:
    try:
        registry = _named(functions, beside) if functions else None
        return Pipeline.from_file(beside / file, registry=registry)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {file!r}") from None
    except InvalidFlowError as error:
        lead = "" if functions else f"; name the functions it may use: {file}@module:functions"
        raise click.UsageError(f"{_show.clean(str(error))}{_show.clean(lead)}") from error


def _named(name: str, beside: Path) -> Any:
    """What is called `module:name` or `path/to/file.py:name`."""
    where, separator, attribute = name.rpartition(":")
    if not separator or not where or not attribute:
        raise click.UsageError(
            f"{name!r} names no flow; give module:flow, such as jobs.nightly:etl, or file.py:etl"
        )
    if name == PLACEHOLDER:
        raise click.UsageError(
            f"{PLACEHOLDER} is a placeholder: put in its place the module that defines the flow and "
            "its name there, such as jobs.nightly:etl, or file.py:etl"
        )
    found: Any = _module(where, beside)
    for part in attribute.split("."):
        if not hasattr(found, part):
            flows = [one for one, value in vars(found).items() if isinstance(value, Flow)]
            known = f"; it has {', '.join(sorted(flows))}" if flows else ""
            raise NotFoundError(f"{where} has no {attribute!r}{known}")
        found = getattr(found, part)
    return found


def declared(name: str, kind: type[T]) -> T:
    """What is called `module:name`, if it is of this type."""
    found = _named(name, Path.cwd())
    if not isinstance(found, kind):
        raise click.UsageError(f"{name} is not {kind.__name__} but a {type(found).__name__}")
    return found


def find(names: Sequence[str], wanted: str | None, source: str | None = None) -> Named:
    """The flow of this name, among those named here or in pyproject.toml.

    `source`, which is what the run was started by, is only shown: data in a store never
    chooses what is imported, and is no advice.
    """
    if wanted is None:
        raise NotFoundError("the run was saved by a program, and has no flow to resume")
    flows = load_all(names)
    for flow in flows:
        if flow.flow.name == wanted:
            return flow
    known = ", ".join(repr(flow.flow.name) for flow in flows)
    raise NotFoundError(
        f"the run is of flow {wanted!r}{f' ({recorded(source)})' if source else ''}; "
        + (f"known are only {known}; " if known else "")
        + NAME_IT
    )


def load_all(names: Sequence[str], *, strict: bool = False) -> list[Named]:
    """The flows that are named here, or else in pyproject.toml.

    One of the latter that can't be loaded is warned of and left out, unless this is `strict`.
    """
    if not names:
        project, settings = project_settings()
        listed = settings.get("flows", [])
        if not isinstance(listed, list):
            raise click.UsageError(f"flows under [tool.holdfast] must be a list, not {listed!r}")
        if project is None:
            return []
        if strict:
            return [load(str(name), project.parent) for name in listed]
        return list(_loadable(listed, project.parent))
    return [load(name) for name in names]


def _loadable(names: Sequence[object], beside: Path) -> Iterator[Named]:
    """The flows of a project; one that can't be loaded must not stop the others."""
    for name in names:
        try:
            yield load(str(name), beside)
        except Exception as error:
            if click.get_current_context().meta.get("holdfast.debug"):
                raise
            reason = error.message if isinstance(error, click.ClickException) else str(error)
            reason = reason.partition("\n")[0]
            _show.warn(f"flow {name} in pyproject.toml can't be used: {reason}")


def place_of(session: Session, names: Sequence[str], run: str) -> StoreLike:
    """The store of a flow's own that holds a run; None if the usual one does, or is wanted."""
    if session.where is not None or _holds(session, run):
        return None
    for flow in load_all(names):
        other = Session(None, session.json, session.keys)
        other.adopt(flow.store)
        if other.where is not None and _holds(other, run):
            return flow.store
    return None


def _holds(session: Session, run: str) -> bool:
    try:
        with session.opened() as cp, suppress(click.UsageError):  # several may be meant
            find_run(cp, run)
    except NotFoundError:
        return False
    return True


def call_from(flow: Named, source: str, pairs: Sequence[str], document: str | None) -> Call[Any]:
    """What to run, from `--input k=v` and `--input-json`."""
    inputs: Any = {}
    if document is not None:
        inputs = parse_json(document, "--input-json")
        if not isinstance(inputs, dict) and not flow.takes_any:
            raise click.UsageError("--input-json must be an object of inputs by name")
        if not isinstance(inputs, dict) and pairs:
            raise click.UsageError("--input-json is not an object: --input can't add to it")
    for pair in pairs:
        name, value = parse_pair(pair, "--input")
        inputs[name] = value if flow.hints.get(name) is str else parse_value(value)
    try:
        call = flow.call(inputs, source)
        if isinstance(flow.flow, Workflow):
            flow.flow.ready(call.inputs)  # have they the declared types?
        return call
    except ReviveError as error:
        text = f"{error.path}: {error.reason}"
        raise click.UsageError(_show.clean(text)) from error
    except (TypeError, ValueError) as error:
        raise click.UsageError(_show.clean(str(error))) from error


def parse_value(text: str) -> Any:
    """JSON if it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_json(text: str, option: str) -> Any:
    """A document: as text, in a file as @FILE, or from standard input as -."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text()
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None


def _module(where: str, beside: Path) -> Any:
    if where.endswith(".py"):
        path = beside / where
        name = path.stem if path.stem not in sys.modules else f"holdfast_flow_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise NotFoundError(f"there is no file {where!r}")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.absolute().parent))
        sys.modules[name] = module  # where classes of it are looked for
        try:
            with importing(where):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]  # as an import statement does
            raise
        return module
    if str(beside) not in sys.path:
        sys.path.insert(0, str(beside))
    try:
        with importing(where):
            return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise NotFoundError(f"there is no module {where!r} here or installed") from error


def _flow(found: Any, name: str) -> Named:
    if isinstance(found, Graph):
        found = found.compile()
    if isinstance(found, Workflow):
        return Named(found, hints_of(found.fn))
    if isinstance(found, CompiledGraph):
        return Named(found, _fields(found.state_type))
    if isinstance(found, Pipeline):
        return Named(found, {}, threaded=True, store=found.kept_in, takes_any=True)
    has_flow = isinstance(getattr(found, "flow", None), Workflow)
    advice = f"use {name}.flow" if has_flow else "name a workflow, graph or pipeline"
    raise click.UsageError(f"{name} is not a flow but a {type(found).__name__}; {advice}")


def _fields(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except (TypeError, NameError):
        return {}
