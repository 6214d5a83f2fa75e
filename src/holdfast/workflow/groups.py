"""What `parallel` and `for_each` do at once: a part or an item each, under a key of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.engine.effects import Call
from holdfast.engine.flow import Flow
from holdfast.engine.functions import is_async
from holdfast.engine.inputs import readable_hash
from holdfast.engine.policy import PLAIN, StepPolicy
from holdfast.engine.program import Record
from holdfast.errors import SerializeError
from holdfast.model import Kind
from holdfast.workflow.combinators import ForEach, Parallel, has_steps
from holdfast.workflow.decorator import StepFunction
from holdfast.workflow.fibers import Group
from holdfast.workflow.keys import Mismatch, Scope
from holdfast.workflow.parts import given, item_result, part_name, starter
from holdfast.workflow.replay import BODY, DECISION
from holdfast.workflow.step import Step

if TYPE_CHECKING:
    from holdfast.workflow.interpreter import Interpreter


def group_of_parts(code: Interpreter, scope: Scope, effect: Parallel[Any]) -> Group:
    """The parts of a `parallel`."""
    names = effect.names or [part_name(part, effect.name) for part in effect.parts]
    keys = [scope.key(name) for name in names]
    parts = list(zip(effect.parts, keys, strict=True))
    scope.expect([k for part, k in parts if isinstance(part, Step | Call) or scope.knows(k)])
    starts = [starter(part, key) for part, key in parts]
    group = Group(starts, effect.names, effect.concurrency, _begun(code, keys), fixed=True)
    group.scope = scope
    return group


def group_of_items(code: Interpreter, scope: Scope, effect: ForEach[Any]) -> Group:
    """The same for every item of a `for_each`."""
    path = scope.key(effect.name)
    if effect.items:
        scope.expect([path])
        _check_items(code, path, effect.items)
    keys = [f"{path}[{index}]" for index in range(len(effect.items))]
    starts = [_item(code, effect, key, item) for key, item in zip(keys, effect.items, strict=True)]
    group = Group(starts, None, effect.concurrency, _begun(code, keys))
    if is_async(effect.body):
        group.body = effect.body
    return group


def _begun(code: Interpreter, keys: Sequence[str]) -> int:
    """How many parts had begun before, at least: up to the last one with a record."""
    known = (
        n for n, key in enumerate(keys, 1) if key in code.replay.found or key in code.replay.orders
    )
    return max(known, default=0)


def _check_items(code: Interpreter, group: str, items: tuple[Any, ...]) -> None:
    """Results are kept by position: they must not be given to other items after a resume."""
    key = f"{group}/items"
    try:
        described = f"{len(items)} items ({readable_hash(items)[:12]})"
    except SerializeError:
        described = f"{len(items)} items"
    known = code.known(key, DECISION)
    if known is None:
        code.notes.append(Record(Kind.DECISION, key, described, name="items"))
    elif known.value != described:
        raise Mismatch(f"{group} for {known.value}", f"{group} for {described}")


def _item(code: Interpreter, effect: ForEach[Any], key: str, item: Any) -> Callable[[], Any]:
    body = effect.body
    known = code.replay.look_up(key)
    if known is not None and known.kind == BODY:
        value = item_result(body, key, known.value)
        code.note(key, None, value, known.order)
        return lambda: (key, given(value))
    if isinstance(body, StepFunction):
        return lambda: (key, _with_options(body(item), effect.policy))
    if has_steps(body) or isinstance(body, Flow):
        return lambda: (key, body(item))
    if key in code.replay.orders or (known is not None and known.built):
        code.built.add(key)
        return lambda: (key, body(item))
    code.bodies.add(key)
    return lambda: (key, Step(effect.name, body, (item,), policy=effect.policy))


def _with_options(step: Step[Any], given: StepPolicy) -> Step[Any]:
    """A step with the options of its `for_each`, which override its own; outputs add up."""
    if given == PLAIN:
        return step
    made = step if given.claims is None else step.outputs(*given.claims.outputs)
    own = made.policy
    policy = replace(
        own,
        retry=given.retry or own.retry,
        timeout=given.timeout or own.timeout,
        executor=given.executor or own.executor,
    )
    return replace(made, policy=policy)
