"""From data to a pipeline that can run, or to all problems with it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from importlib import resources
from typing import Any, Final

from holdfast.engine.people.questions import Inquiry
from holdfast.engine.walking.plan import END, Asking, Node
from holdfast.errors import InvalidIdError, UnresolvedError
from holdfast.migrations import Migrations, refuse_inputs, version_of
from holdfast.model import check_id
from holdfast.pipeline.conditions import ALWAYS, condition_of
from holdfast.pipeline.files import Read
from holdfast.pipeline.pipeline_plan import Loop, Path, PipelinePlan
from holdfast.pipeline.problems import Nearest, Problems, shown
from holdfast.pipeline.references import Scope, Template
from holdfast.pipeline.registry import Registry
from holdfast.pipeline.steps import (
    ENDS,
    MAX_SECONDS,
    FunctionStep,
    HumanInputStep,
    SettingError,
    SleepStep,
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
    "id", "name", "description", "config", "continue_on_error", "fallback", "checkpoint",
)  # fmt: skip
_NAMING: Final = ("type", "function", "class", "step_class", "module")  # what a step does
_TASK: Final = (*_COMMON, *_NAMING, "inputs", "retry", "timeout", "inline", "outputs", "reads")
_ASKING: Final = ("prompt", "schema", "choices", "assignees", "deadline", "default", "show")
_SLEEPING: Final = ("inputs", "until", "days", "hours", "minutes", "seconds")
_KEYS_OF: Final = {  # by type
    "task": _TASK,
    "human_input": ("type", *_COMMON, *_ASKING),
    "sleep": ("type", *_COMMON, *_SLEEPING),
}


def definition_schema() -> dict[str, Any]:
    """The JSON Schema of definition files: for editors, and to check a file before it is used."""
    text = resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def plan_of(
    given: Any,
    registry: Registry,
    read: Read | None = None,
    *,
    migrate: Migrations | None = None,
    rename: Mapping[str, str] | None = None,
) -> PipelinePlan:
    """The plan that a definition describes, `read` from a file or made in the program.

    Raises `InvalidFlowError` with all problems.
    """
    problems, plan = Problems(), None
    title = "the pipeline" if read is None else read.path
    if problems.is_a(Mapping, given, "a mapping with steps and a flow"):
        if read is None and isinstance(given.get("name"), str):
            title = f"pipeline {given['name']!r}"
        _check_size(given, problems)
        plan = None if problems else _plan(given, registry, problems, migrate, rename or {})
    if plan is not None:
        _check_ends(plan, problems)
    problems.settle(title, None if read is None else read.place)
    assert plan is not None
    return plan


def _plan(
    given: Mapping[str, Any],
    registry: Registry,
    problems: Problems,
    migrate: Migrations | None,
    rename: Mapping[str, str],
) -> PipelinePlan | None:
    problems.keys(given, KEYS)
    name, version = given.get("name", "pipeline"), given.get("version", "")
    try:
        check_id("name", name)
    except InvalidIdError as error:
        problems.at("name").add(error.reason)
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        problems.at("version").add(f"must be text or a number, not {shown(version)}")
    else:
        try:
            version = version_of(version or None, refuse_inputs(migrate, "pipeline"))
        except ValueError as error:
            problems.at("version").add(str(error))
    parameters = _parameters(given.get("parameters", {}), problems.at("parameters"))
    problems.at("description").is_a(str, given.get("description", ""), "text")
    loop = _loop(given.get("loop_config"), problems.at("loop_config"))
    listed = _steps(given.get("steps"), registry, problems.at("steps"))
    steps = {name: step for name, step in listed.items() if step is not None}
    start, paths = _flow(given.get("flow"), listed, registry, problems.at("flow"))
    inputs = {
        name: _inputs(step, listed, problems.at("steps", index))
        for index, (name, step) in enumerate(listed.items())
        if step is not None
    }
    if problems:
        return None
    return PipelinePlan(
        flow=name,
        version=str(version),
        state=dict,
        nodes={
            step.id: Node(step.id, step.call, step.policy, None, _asking(step, inputs, parameters))
            for step in steps.values()
        },
        edges={
            source: tuple(dict.fromkeys(target for way in ways for target in way.targets))
            for source, ways in paths.items()
        },
        routes={},
        entry=start,
        merge=None,
        migrate=migrate,
        rename=dict(rename),
        ends=ENDS,
        steps=steps,
        inputs=inputs,
        paths=paths,
        loop=loop,
        parameters=parameters,
        description=given.get("description", ""),
        max_steps=MAX_VISITS,
    )


def _check_size(given: Any, problems: Problems) -> None:
    """Before anything else: data may contain itself, or the same part a million times."""
    count = 0
    todo: list[tuple[Any, int]] = [(given, 0)]
    while todo:
        part, depth = todo.pop()
        if isinstance(part, int) and part.bit_length() > MAX_BITS:
            problems.add(f"there is a number of more than {MAX_BITS:,} bits in it")
            return
        if not isinstance(part, Mapping | list | tuple):
            continue
        count += len(part)
        if depth > MAX_DEPTH or count > MAX_PARTS:
            deep = f"deeper than {MAX_DEPTH}"
            how = deep if depth > MAX_DEPTH else f"of over {MAX_PARTS:,} parts"
            problems.add(f"it is {how}: that is not a definition")
            return
        items = (*part, *part.values()) if isinstance(part, Mapping) else part
        todo += [(item, depth + 1) for item in items]


def _parameters(given: Any, problems: Problems) -> dict[str, Any]:
    if not problems.is_a(Mapping, given, "a mapping of names to defaults"):
        return {}
    try:
        return deepcopy(dict(given))
    except Exception as error:  # noqa: BLE001 - whatever the objects in it raise
        problems.add(f"must be data that can be copied for each step: {error}")
        return {}


# --- steps


def _steps(given: Any, registry: Registry, problems: Problems) -> dict[str, Step | None]:
    """The steps by id, in order; None is a step with problems."""
    if not isinstance(given, list | tuple) or not given:
        problems.add(f"must be a list of at least one step, not {shown(given)}")
        return {}
    if len(given) > MAX_STEPS:
        problems.add(f"there are {len(given):,}; at most {MAX_STEPS:,} are allowed")
        return {}
    steps: dict[str, Step | None] = {}
    for index, item in enumerate(given):
        step = _step(item, registry, problems.at(index))
        name = item.get("id") if isinstance(item, Mapping) else None if step is None else step.id
        if not isinstance(name, str):
            name = f"steps[{index}]"  # no id: nothing can lead there
        elif name in steps:
            problems.at(index, "id").add(f"there is a step {shown(name)} already")
        steps[name] = step
    return steps


def _step(given: Any, registry: Registry, problems: Problems) -> Step | None:
    if isinstance(given, Step):
        return given
    if not problems.is_a(Mapping, given, "a Step, or a mapping with an id"):
        return None
    kind = given.get("type", "task")
    if not problems.at("type").one_of(_KEYS_OF, kind, "type of step"):
        return None
    problems.keys(given, _KEYS_OF[kind])
    for key in ("name", "description"):
        problems.at(key).is_a(str, given.get(key, ""), "text")
    for key in ("outputs", "reads"):
        paths = given.get(key, [])
        if not isinstance(paths, str | list) or not all(isinstance(path, str) for path in paths):
            problems.at(key).add(f"must be a path or a list of paths, not {shown(paths)}")
            return None
    known = {*_KEYS_OF[kind]} - {*_NAMING}
    settings = {key: value for key, value in given.items() if key in known}
    try:
        if "fallback" in given:
            settings["fallback"] = _named(given, "fallback", registry)
        return _made(kind, given, settings, registry)
    except SettingError as error:
        (problems.at(error.key) if error.key else problems).add(error.words)
    except (TypeError, ValueError) as error:  # a class of the program's own may raise them
        problems.add(str(error))
    return None


def _made(
    kind: str, given: Mapping[str, Any], settings: dict[str, Any], registry: Registry
) -> Step:
    if "id" not in given:
        raise SettingError("", "has no id")
    name = settings.pop("id")
    if kind == "human_input":
        return HumanInputStep(name, **settings)
    if kind == "sleep":
        return SleepStep(name, **settings)
    if sum(key in given for key in ("function", "class", "step_class")) != 1:
        raise SettingError("", "needs either a function or a class")
    if "function" in given:
        return FunctionStep(name, _named(given, "function", registry), **settings)
    key = "class" if "class" in given else "step_class"
    if "module" in given:
        given = {key: f"{given['module']}:{given[key]}"}
    made = _named(given, key, registry)
    if not isinstance(made, type) or not issubclass(made, Step):
        raise SettingError(key, f"{made!r} is not a subclass of Step")
    return made(name, **settings)


def _named(given: Mapping[str, Any], key: str, registry: Registry) -> Any:
    try:
        return registry.function(given[key])
    except ValueError as error:
        raise SettingError(key, error) from None


def _inputs(step: Step, steps: Collection[str], problems: Problems) -> Template | None:
    """What a step is given; for one that a person takes, what they see."""
    if isinstance(step, HumanInputStep):
        return Template({"prompt": step.inquiry.prompt, "show": step.show}, steps, problems)
    inputs = step.inputs
    if inputs is None:
        return None
    if isinstance(inputs, list) and inputs and all(map(_names_its_source, inputs)):
        inputs = {item["name"]: item["source"] for item in inputs}
    return Template(inputs, steps, problems.at("inputs"))


def _names_its_source(item: Any) -> bool:
    pair = isinstance(item, Mapping) and set(item) == {"name", "source"}
    return pair and isinstance(item["name"], str)


def _asking(
    step: Step, inputs: Mapping[str, Template | None], parameters: Mapping[str, Any]
) -> Asking | None:
    if not isinstance(step, HumanInputStep):
        return None
    template, asked = inputs[step.id], step.inquiry
    assert template is not None

    def inquiry(state: dict[str, Any]) -> Inquiry:
        seen = template.render(Scope(state, parameters))
        try:
            return replace(asked, prompt=f"{seen['prompt']}", show=seen["show"])
        except (TypeError, ValueError) as error:  # an empty prompt, or a number without end
            raise UnresolvedError(f"the prompt of {step.id!r}", str(error)) from None

    return Asking(inquiry, None)


# --- flow


def _loop(given: Any, problems: Problems) -> Loop:
    if given is None or not problems.is_a(Mapping, given, "a mapping"):
        return Loop()
    problems.keys(given, Loop._fields)
    for key in Loop._fields:
        value = given.get(key)
        if value is None and (key not in given or key != "max_iterations"):
            continue
        whole = key == "max_iterations"
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not (value > 0 if whole else 0 <= value <= MAX_SECONDS):
            problems.at(key).add(f"must be a number above 0, but not huge, not {shown(value)}")
    return Loop(**{key: given[key] for key in Loop._fields if given.get(key) is not None})


def _flow(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems
) -> tuple[str, dict[str, tuple[Path, ...]]]:
    nothing: tuple[str, dict[str, tuple[Path, ...]]] = ("", {})
    if not problems.is_a(Mapping, given, "a mapping with start_at and paths"):
        return nothing
    problems.keys(given, ("start_at", "paths"))
    if not steps:
        return nothing  # that is a problem already
    start, listed = given.get("start_at"), given.get("paths", [])
    problems.at("start_at").one_of(steps, start, "step")
    problems = problems.at("paths")
    if not problems.is_a((list, tuple), listed, "a list"):
        return nothing
    if len(listed) > MAX_PATHS:
        problems.add(f"there are {len(listed):,}; at most {MAX_PATHS:,}")
        return nothing
    paths: dict[str, list[Path]] = {}
    for index, item in enumerate(listed):
        path = _path(item, steps, registry, problems.at(index))
        if path is None:
            continue
        ways = paths.setdefault(path.source, [])
        if ways and ways[-1].condition is ALWAYS:
            never = f"is never tried: one before it always leaves {path.source!r}"
            problems.at(index).add(never)
        ways.append(path)
    return str(start), {source: tuple(ways) for source, ways in paths.items()}


def _path(
    given: Any, steps: Collection[str], registry: Registry, problems: Problems
) -> Path | None:
    if not problems.is_a(Mapping, given, "a mapping with from and to"):
        return None
    problems.keys(given, ("from", "to", "condition"))
    source, to = given.get("from"), given.get("to")
    fine = problems.at("from").one_of(steps, source, "step")
    targets = list(to) if isinstance(to, list | tuple) else [to]
    known = (*steps, *ENDS) if len(targets) == 1 else tuple(steps)
    for target in targets:
        if not isinstance(target, str) or target not in known:
            hint: object = Nearest(target, known)
            if target in ENDS:
                hint = ": what runs side by side can't begin with an end"
            problems.at("to").add(f"{shown(target)} is not a step", hint)
            fine = False
    if not targets or (fine and len(set(targets)) < len(targets)):
        problems.at("to").add("must name at least one step, and each once")
        fine = False
    condition = condition_of(given.get("condition"), steps, registry, problems.at("condition"))
    return Path(str(source), tuple(targets), condition) if fine else None


def _check_ends(plan: PipelinePlan, problems: Problems) -> None:
    """Every step leads to an end, and no run reaches the same step twice at once."""
    ending, reached = plan.leading_to_end(), plan.reachable()
    for index, name in enumerate(plan.nodes):
        here = problems.at("steps", index)
        if name not in plan.paths:
            here.add(f"no path leaves {name!r}: add one to 'end' or to another step")
        elif name not in ending:
            here.add(f"there is no way from {name!r} to an end")
        if name not in reached:
            here.add(f"{name!r} can't be reached from {plan.entry!r}")
    if problems:
        return
    for ways in plan.paths.values():
        for way in ways:
            if len(way.targets) > 1:
                _check_join(plan, way, problems.at("flow", "paths"))


def _check_join(plan: PipelinePlan, way: Path, problems: Problems) -> None:
    join = plan.join_of(way.targets)
    by: dict[str, str] = {way.source: way.source}
    for target in way.targets:
        for name in plan.before_join(target, join):
            if name in by:
                where = "" if join == END else f", though they join at {join!r} only"
                problems.add(
                    f"{way.source!r} leads to {', '.join(map(repr, way.targets))} side by side, and "
                    f"both {by[name]!r} and {target!r} may reach {name!r}{where}: "
                    "every path of theirs must lead there, or only one's",
                )
                return
            by[name] = target
