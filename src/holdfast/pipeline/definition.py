"""From data to a pipeline that can run, or to everything that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from importlib.resources import files
from typing import Any, Final

from holdfast.engine.people.questions import Inquiry
from holdfast.engine.walking.plan import END, Asking, Node
from holdfast.errors import InvalidIdError, UnresolvedError
from holdfast.model import check_id
from holdfast.pipeline.conditions import ALWAYS, condition_of
from holdfast.pipeline.pipeline_plan import Loop, Path, PipelinePlan
from holdfast.pipeline.problems import Nearest, Problems, Where, shown
from holdfast.pipeline.references import Scope, Template
from holdfast.pipeline.registry import Registry
from holdfast.pipeline.steps import (
    ENDS,
    MAX_SECONDS,
    FunctionStep,
    HumanInputStep,
    SettingError,
    Step,
)

MAX_STEPS: Final = 1_000
MAX_PATHS: Final = 5_000
MAX_PARTS: Final = 100_000  # items of all lists and mappings
MAX_DEPTH: Final = 50
MAX_BITS: Final = 1_000  # of a number
MAX_VISITS: Final = 1_000_000_000  # each step has a limit of its own

KEYS: Final = ("name", "version", "description", "parameters", "steps", "flow", "loop_config")
_COMMON: Final = (
    "id", "name", "description", "type", "config", "continue_on_error", "fallback", "checkpoint",
)  # fmt: skip
_WORK: Final = (
    *_COMMON,
    "function",
    "class",
    "step_class",
    "module",
    "inputs",
    "retry",
    "timeout",
    "inline",
    "outputs",
    "reads",
)
_HUMAN: Final = (
    *_COMMON, "prompt", "schema", "choices", "assignees", "deadline", "default", "show",
)  # fmt: skip
_TYPES: Final = ("task", "human_input")


def definition_schema() -> dict[str, Any]:
    """The JSON Schema of a definition in a file: for editors, and to check one before it is used."""
    text = files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def plan_of(
    given: Mapping[str, Any],
    registry: Registry,
    problems: Problems,
    *,
    migrate: Mapping[str, Callable[[Any], Any] | None] | None = None,
    rename: Mapping[str, str] | None = None,
) -> PipelinePlan | None:
    """The plan that a definition describes; None if there is something in `problems`."""
    _see_that_it_is_small(given, problems)
    if problems:
        return None
    problems.keys(given, KEYS, ())
    name = given.get("name", "pipeline")
    try:
        check_id("name", name)
    except InvalidIdError as error:
        problems.say(("name",), error.reason)
    version = given.get("version", "1")
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        problems.say(("version",), f"must be text or a number, not {shown(version)}")
    parameters = _parameters(given.get("parameters", {}), problems)
    problems.is_a(str, given.get("description", ""), ("description",), "text")
    loop = _loop(given.get("loop_config"), problems)
    listed = _steps(given.get("steps"), registry, problems)
    steps = {name: step for name, step in listed.items() if step is not None}
    start, paths = _flow(given.get("flow"), listed, registry, problems)
    inputs = {
        name: _inputs(step, listed, problems, ("steps", index))
        for index, (name, step) in enumerate(listed.items())
        if step is not None
    }
    if problems:
        return None
    plan = PipelinePlan(
        flow=name,
        version=str(version),
        state=dict,
        nodes={
            step.id: Node(step.id, step.call, step.policy, None, _asking(step, inputs, parameters))
            for step in steps.values()
        },
        edges={source: _targets(ways) for source, ways in paths.items()},
        routes={},
        entry=start,
        merge=None,
        migrate={str(old): change for old, change in (migrate or {}).items()},
        rename=dict(rename or {}),
        ends=ENDS,
        steps=steps,
        inputs=inputs,
        paths=paths,
        loop=loop,
        parameters=parameters,
        description=given.get("description", ""),
        max_steps=MAX_VISITS,
    )
    if not problems:
        _see_that_it_ends(plan, problems)
    return None if problems else plan


def _see_that_it_is_small(given: Any, problems: Problems) -> None:
    """Before anything else is made of it: data may hold itself, or the same a million times."""
    count = 0
    todo: list[tuple[Any, int]] = [(given, 0)]
    while todo:
        part, depth = todo.pop()
        if isinstance(part, int) and part.bit_length() > MAX_BITS:
            problems.say((), f"there is a number of more than {MAX_BITS:,} bits in it")
            return
        if not isinstance(part, Mapping | list | tuple):
            continue
        count += len(part)
        if depth > MAX_DEPTH or count > MAX_PARTS:
            how = (
                f"deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else f"of over {MAX_PARTS:,} parts"
            )
            problems.say((), f"it is {how}: that is no definition")
            return
        items = (*part, *part.values()) if isinstance(part, Mapping) else part
        todo += [(item, depth + 1) for item in items]


def _parameters(given: Any, problems: Problems) -> dict[str, Any]:
    where: Where = ("parameters",)
    if not problems.is_a(Mapping, given, where, "a mapping of names to defaults"):
        return {}
    try:
        return deepcopy(dict(given))
    except Exception as error:  # noqa: BLE001 - whatever the objects in it raise
        problems.say(where, f"must be data that can be copied for each step: {error}")
        return {}


# --- steps


def _steps(given: Any, registry: Registry, problems: Problems) -> dict[str, Step | None]:
    """The steps by id, in order; None is one that something is wrong with, and that is there."""
    where: Where = ("steps",)
    if not isinstance(given, list | tuple) or not given:
        problems.say(where, f"must be a list of at least one step, not {shown(given)}")
        return {}
    if len(given) > MAX_STEPS:
        problems.say(where, f"there are {len(given):,}; at most {MAX_STEPS:,} are allowed")
        return {}
    steps: dict[str, Step | None] = {}
    for index, item in enumerate(given):
        step = _step(item, registry, problems, (*where, index))
        name = item.get("id") if isinstance(item, Mapping) else None if step is None else step.id
        if not isinstance(name, str):
            name = f"steps[{index}]"  # no id: nothing can lead there
        elif name in steps:
            problems.say((*where, index, "id"), f"there is a step {shown(name)} already")
        steps[name] = step
    return steps


def _step(given: Any, registry: Registry, problems: Problems, where: Where) -> Step | None:
    if isinstance(given, Step):
        return given
    if not problems.is_a(Mapping, given, where, "a Step, or a mapping with an id"):
        return None
    kind = given.get("type", "task")
    if kind not in _TYPES:
        problems.say((*where, "type"), f"{shown(kind)} is no type of step", Nearest(kind, _TYPES))
        return None
    problems.keys(given, _HUMAN if kind == "human_input" else _WORK, where)
    for key in ("name", "description"):
        problems.is_a(str, given.get(key, ""), (*where, key), "text")
    settings = {
        key: value
        for key, value in given.items()
        if key not in ("type", "function", "class", "step_class", "module")
    }
    for key in ("outputs", "reads"):
        paths = given.get(key, [])
        if not isinstance(paths, str | list) or not all(isinstance(path, str) for path in paths):
            problems.say((*where, key), f"must be a path or a list of paths, not {shown(paths)}")
            return None
    try:
        if "fallback" in given:
            settings["fallback"] = _named(given, "fallback", registry)
        return _made(kind, given, settings, registry)
    except SettingError as error:
        problems.say((*where, error.key) if error.key else where, error.words)
    except (TypeError, ValueError) as error:  # a class of the program's own may raise them
        problems.say(where, str(error))
    return None


def _made(
    kind: str, given: Mapping[str, Any], settings: dict[str, Any], registry: Registry
) -> Step:
    if "id" not in given:
        raise SettingError("", "has no id")
    name = settings.pop("id")
    if kind == "human_input":
        return HumanInputStep(name, **settings)
    if sum(key in given for key in ("function", "class", "step_class")) != 1:
        raise SettingError("", "needs either a function or a class")
    if "function" in given:
        return FunctionStep(name, _named(given, "function", registry), **settings)
    key = "class" if "class" in given else "step_class"
    if "module" in given:
        given = {key: f"{given['module']}:{given[key]}"}
    made = _named(given, key, registry)
    if not isinstance(made, type) or not issubclass(made, Step):
        raise SettingError(key, f"{made!r} is no subclass of Step")
    return made(name, **settings)


def _named(given: Mapping[str, Any], key: str, registry: Registry) -> Any:
    try:
        return registry.function(given[key])
    except ValueError as error:
        raise SettingError(key, error) from None


def _inputs(
    step: Step, steps: Collection[str], problems: Problems, where: Where
) -> Template | None:
    """What a step is given; for one that a person takes, what they see."""
    if isinstance(step, HumanInputStep):
        shown_to_people = {"prompt": step.inquiry.prompt, "show": step.show}
        return Template(shown_to_people, steps, problems, where)
    if step.inputs is None:
        return None
    inputs = step.inputs
    if (
        isinstance(inputs, list)
        and inputs
        and all(
            isinstance(item, Mapping)
            and set(item) == {"name", "source"}
            and isinstance(item["name"], str)
            for item in inputs
        )
    ):
        inputs = {item["name"]: item["source"] for item in inputs}
    return Template(inputs, steps, problems, (*where, "inputs"))


def _asking(
    step: Step, inputs: Mapping[str, Template | None], parameters: Mapping[str, Any]
) -> Asking | None:
    if not isinstance(step, HumanInputStep):
        return None
    template, asked = inputs[step.id], step.inquiry
    assert template is not None

    def inquiry(state: dict[str, Any]) -> Inquiry:
        shown_to_people = template.render(Scope(state, parameters))
        try:
            prompt, show = f"{shown_to_people['prompt']}", shown_to_people["show"]
            return replace(asked, prompt=prompt, show=show)
        except (TypeError, ValueError) as error:  # an empty prompt, or a number without end
            raise UnresolvedError(f"the prompt of {step.id!r}", str(error)) from None

    return Asking(inquiry, None)


# --- flow


def _loop(given: Any, problems: Problems) -> Loop:
    where: Where = ("loop_config",)
    if given is None or not problems.is_a(Mapping, given, where, "a mapping"):
        return Loop()
    problems.keys(given, Loop._fields, where)
    for key, value in given.items():
        if key == "max_iterations":
            fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
        else:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            fits = fits and 0 <= value <= MAX_SECONDS
        if key in Loop._fields and not fits and not (value is None and key != "max_iterations"):
            problems.say(
                (*where, key), f"must be a number above 0, but not huge, not {shown(value)}"
            )
    return Loop(**{key: given[key] for key in Loop._fields if given.get(key) is not None})


def _flow(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems
) -> tuple[str, dict[str, tuple[Path, ...]]]:
    where: Where = ("flow",)
    if not problems.is_a(Mapping, given, where, "a mapping with start_at and paths"):
        return "", {}
    problems.keys(given, ("start_at", "paths"), where)
    if not steps:
        return "", {}  # that is told already
    start = given.get("start_at")
    if not isinstance(start, str) or start not in steps:
        problems.say((*where, "start_at"), f"{shown(start)} is no step", Nearest(start, steps))
    listed = given.get("paths", [])
    if not problems.is_a(
        list, list(listed) if isinstance(listed, tuple) else listed, (*where, "paths"), "a list"
    ):
        return "", {}
    if len(listed) > MAX_PATHS:
        problems.say((*where, "paths"), f"there are {len(listed):,}; at most {MAX_PATHS:,}")
        return "", {}
    paths: dict[str, list[Path]] = {}
    for index, item in enumerate(listed):
        path = _path(item, steps, registry, problems, (*where, "paths", index))
        if path is None:
            continue
        ways = paths.setdefault(path.source, [])
        if ways and ways[-1].condition is ALWAYS:
            problems.say(
                (*where, "paths", index),
                f"is never tried: one before it always leaves {path.source!r}",
            )
        ways.append(path)
    return str(start), {source: tuple(ways) for source, ways in paths.items()}


def _path(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems, where: Where
) -> Path | None:
    if not problems.is_a(Mapping, given, where, "a mapping with from and to"):
        return None
    problems.keys(given, ("from", "to", "condition"), where)
    source, to = given.get("from"), given.get("to")
    fine = True
    if not isinstance(source, str) or source not in steps:
        problems.say((*where, "from"), f"{shown(source)} is no step", Nearest(source, steps))
        fine = False
    targets = list(to) if isinstance(to, list | tuple) else [to]
    known = (*steps, *ENDS) if len(targets) == 1 else tuple(steps)
    for target in targets:
        if not isinstance(target, str) or target not in known:
            hint: object = Nearest(target, known)
            if target in ENDS:
                hint = ": what runs side by side can't begin with an end"
            problems.say((*where, "to"), f"{shown(target)} is no step", hint)
            fine = False
    if not targets or (fine and len(set(targets)) < len(targets)):
        problems.say((*where, "to"), "must name at least one step, and each once")
        fine = False
    condition = condition_of(
        given.get("condition"), steps, registry, problems, (*where, "condition")
    )
    return Path(str(source), tuple(targets), condition) if fine else None


def _targets(ways: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(target for way in ways for target in way.targets))


def _see_that_it_ends(plan: PipelinePlan, problems: Problems) -> None:
    """No step may lead nowhere, and no run may come to the same step twice at once."""
    ending, reached = plan.leading_to_end(), plan.reachable()
    for index, name in enumerate(plan.nodes):
        where: Where = ("steps", index)
        if name not in plan.paths:
            problems.say(where, f"no path leaves {name!r}: add one to 'end' or to another step")
        elif name not in ending:
            problems.say(where, f"there is no way from {name!r} to an end")
        if name not in reached:
            problems.say(where, f"{name!r} can't be reached from {plan.entry!r}")
    if problems:
        return
    for ways in plan.paths.values():
        for way in ways:
            if len(way.targets) > 1:
                _see_that_it_joins(plan, way, problems)


def _see_that_it_joins(plan: PipelinePlan, way: Path, problems: Problems) -> None:
    join = plan.join_of(way.targets)
    by: dict[str, str] = {way.source: way.source}
    for target in way.targets:
        for name in plan.before_join(target, join):
            if name in by:
                where = "" if join == END else f", though they join at {join!r} only"
                problems.say(
                    ("flow", "paths"),
                    f"{way.source!r} leads to {', '.join(map(repr, way.targets))} side by side, and "
                    f"both {by[name]!r} and {target!r} may come to {name!r}{where}: "
                    "every path of theirs must lead there, or only one's",
                )
                return
            by[name] = target
