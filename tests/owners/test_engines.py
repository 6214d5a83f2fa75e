"""No method of an engine that is bound to an owner tells of another's runs, or does anything to one.

Every public name of the class is in `CALLS`: a new method fails until it is tried here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.owners.conftest import Two, in_memory
from tests.owners.world import THREAD, Asked, later, part, talk, told

Call = Callable[[hf.Engine, Asked], Any]

FLOWS = [talk, later, part]


def followed(engine: hf.Engine, run_id: str, flow: Any = None) -> Any:
    """What a handle tells of a run."""
    handle = engine.get(run_id, flow)
    return [
        told(lambda: engine.status_sync(handle.id)),
        told(lambda: engine.outcome_sync(handle.id, timeout=5)),
    ]


def worked(engine: hf.Engine, of: Asked) -> Any:
    heard: list[Any] = []
    engine.work_sync(talk, later, part, until_idle=True, listener=heard.append)
    return heard


CALLS: dict[str, list[Call]] = {
    "status": [lambda engine, of: (engine.status_sync(of.asks), of.canary)],
    "outcome": [lambda engine, of: engine.outcome_sync(of.done, timeout=5)],
    "get": [lambda engine, of: followed(engine, of.done, later)],
    "mermaid": [lambda engine, of: (engine.mermaid_sync(of.asks), of.canary)],
    "questions": [
        lambda engine, of: engine.questions_sync(),
        lambda engine, of: engine.questions_sync(of.asks),
    ],
    "apply_deadlines": [
        lambda engine, of: engine.apply_deadlines_sync(),
        lambda engine, of: engine.apply_deadlines_sync(of.asks),
    ],
    "orphans": [lambda engine, of: engine.orphans_sync()],
    "workers": [lambda engine, of: engine.workers_sync()],
    "verify_with_workers": [
        lambda engine, of: (engine.verify_with_workers_sync(of.done, within=0.01), of.canary)
    ],
    "dry_run": [lambda engine, of: engine.dry_run_sync(run_id=of.asks)],
    "run": [
        lambda engine, of: (
            engine.run_sync(later(of.words), run_id=of.done, resume=True),
            of.canary,
        ),
        lambda engine, of: engine.run_sync(talk("?"), thread_id=THREAD, resume=True),
        lambda engine, of: engine.run_sync(later("mine"), run_id=of.saved),
        lambda engine, of: engine.run_sync(later("mine"), owner=of.owner),
    ],
    "start": [lambda engine, of: engine.start_sync(later("mine"), run_id=of.due, resume=True)],
    "stream": [
        lambda engine, of: engine.stream_sync(talk("?"), thread_id=THREAD, resume=True),
        lambda engine, of: engine.stream_sync(later(of.words), run_id=of.done, resume=True),
    ],
    "answer": [lambda engine, of: engine.answer_sync(of.asks, "mine")],
    "pause": [lambda engine, of: engine.pause_sync(of.asks)],
    "submit_resume": [lambda engine, of: engine.submit_resume_sync(of.asks)],
    "resume": [
        lambda engine, of: engine.resume_sync(of.asks),
        lambda engine, of: engine.resume_sync(of.asks, flow=talk, take_over=True),
        lambda engine, of: engine.resume_sync(of.done, flow=later, replay=True),
        lambda engine, of: engine.resume_sync(of.asks, owner=of.owner),
    ],
    "resume_stream": [lambda engine, of: engine.resume_stream_sync(of.due, flow=later)],
    "submit": [
        lambda engine, of: engine.submit_sync(later(of.words), run_id=of.due),
        lambda engine, of: engine.submit_sync(later("mine"), owner=of.owner),
    ],
    "recover": [lambda engine, of: engine.recover_sync(talk, later, wait=False)],
    "work": [worked],
    "cancel": [
        lambda engine, of: engine.cancel_sync(of.asks),
        lambda engine, of: engine.cancel_sync(of.due),
    ],
    "checkpointer": [lambda engine, of: engine.checkpointer],
    "close": [],
}


def test_every_method_is_tried() -> None:
    names = {name for name in dir(hf.Engine) if not name.startswith("_")}
    assert {name.removesuffix("_sync") for name in names} == CALLS.keys()


def noticed(two: Two, owner: str | None, names: Iterable[str] = CALLS) -> list[str]:
    """The methods that told of another's runs, or changed one."""
    found = []
    before = two.untouched()
    for name in names:
        for call in CALLS[name]:
            bob = Asked(two.bob)
            heard: list[Any] = []
            with hf.Engine(two.store, owner=owner, flows=FLOWS, listeners=[heard.append]) as engine:
                text = told(lambda: call(engine, bob))  # noqa: B023
            if two.bob.among(text + repr(heard), {*bob.named, *bob.given}):
                found.append(f"{name} tells {text} {heard}")
            if two.untouched() != before:
                found.append(f"{name} changes something")
                before = two.untouched()
    return found


def test_no_method_tells_or_does_anything_to_another_owner(two: Two) -> None:
    assert noticed(two, "ann") == []
    with hf.Engine(two.store, owner="ann", flows=FLOWS) as engine:  # Ann's own was executed
        assert engine.outcome_sync(two.ann.due, timeout=5) == two.ann.words


def test_the_same_calls_without_a_binding_are_noticed(tmp_path: Path) -> None:
    quiet = {"apply_deadlines", "orphans", "workers", "recover", "dry_run", "submit_resume"}
    tried = {name for name in CALLS if CALLS[name]} - quiet - {"checkpointer"}
    unnoticed = [name for name in tried if not noticed(in_memory(tmp_path), None, [name])]
    assert unnoticed == []
