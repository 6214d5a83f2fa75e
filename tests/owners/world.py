"""Two owners in one store, who use the same names wherever two may: what each has, and a look at
all of it from outside.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.kernel.reader import all_runs
from holdfast.manager import CheckpointManager
from holdfast.model import (
    ALIASES,
    HIDDEN,
    THREADS,
    VERDICTS,
    Entry,
    alias_journal,
    thread_journal,
    verdict_journal,
)
from holdfast.store import RunFilter, Store
from holdfast.workflow import ask, step, workflow

THREAD: Final = "the-same-thread"
ALIAS: Final = "the-same-alias"
STEP: Final = "say"
TYPE: Final = "tool_executed"
KINDS: Final = ("saved", "asks", "due", "done", "task", "begun")


@step
def say(words: str) -> str:
    return words


@workflow
async def part(words: str) -> str:
    return await say(words)


@workflow
async def talk(words: str) -> str:
    await part(words)
    return f"{words}: {await ask(words, name='question')}"


@workflow
async def later(words: str) -> str:
    return await say(words)


@dataclass(frozen=True)
class Owned:
    """What one owner has in the store."""

    owner: str
    words: str  # in every state, result, question and claim
    saved: str  # a run that was saved by hand, with two checkpoints
    asks: str  # a run that waits for an answer, with a child run
    due: str  # a run that was submitted
    done: str  # a run that is completed
    task: str  # a task, whose checkpoint has the alias
    begun: str  # a step of it that is in flight

    @property
    def runs(self) -> tuple[str, ...]:
        return self.saved, self.asks, self.due, self.done, self.task

    def among(self, text: str, but: Iterable[str] = ()) -> list[str]:
        """What a text tells of this owner, besides what it was asked for."""
        found = [self.words, f"{self.asks}//", *self.runs]
        return [one for one in found if one in text and one not in but]


def fill(store: Store, owner: str, files: Path) -> Owned:
    """Give an owner one of everything."""
    key = secrets.token_hex(4)
    words = f"canary{key}"
    saved, asks, due, done, task = (f"{letter}-{key}" for letter in "saudt")
    owned = Owned(owner, words, saved, asks, due, done, task, begun="")
    with hf.SyncCheckpointer(store, owner=owner) as cp:
        labels = {"team": "blue", "about": words}
        for n in range(2):
            state, said = {"words": words, "n": f"{words} {n}"}, {"about": words}
            cp.save(owned.saved, state, step=STEP, thread_id=THREAD, metadata=said)
        with hf.Engine(cp, flows=[talk, later, part]) as engine:
            with suppress(hf.RunPausedError):
                engine.run_sync(talk(words), run_id=owned.asks, thread_id=THREAD, labels=labels)
            engine.run_sync(later(words), run_id=owned.done, labels=labels)
            engine.submit_sync(later(words), run_id=owned.due, labels=labels)
        evidence = files / f"{words}.txt"
        evidence.write_text(words)
        with CheckpointManager(cp, base_path=files) as manager:
            claim = Evidence("artifact_exists", words, {"path": evidence.name})
            first = manager.begin_step(owned.task, TYPE, {"words": words})
            manager.commit_step(first, EvidencePack([claim]), ALIAS)
            begun = manager.begin_step(owned.task, TYPE, {"words": words})
    owned = replace(owned, begun=begun)
    stored = all_of(store, owned)
    assert {*owned.runs, alias_journal(ALIAS, owner), verdict_journal(owned.task)} <= stored.keys()
    assert len(stored[thread_journal(THREAD)]) == 2
    return owned


def all_of(store: Store, owned: Owned) -> dict[str, Any]:
    """Every byte that the store has of an owner, and what its index says."""
    found: dict[str, Any] = {}
    heads = [*all_runs(store), *all_runs(store, RunFilter(prefix=HIDDEN))]
    for head in heads:
        entries = store.read(head.run)
        if not head.run.startswith(HIDDEN):
            if head.owner == owned.owner:
                found[head.run] = entries, store.row(head.run)
        elif head.run.startswith(THREADS):
            found[head.run] = [e for e in entries if e.owner == owned.owner]
        elif head.run.startswith((VERDICTS, ALIASES)) and _is_about(head, owned):
            found[head.run] = entries
    return found


def _is_about(head: Entry, owned: Owned) -> bool:
    named = head.run.removeprefix(VERDICTS)
    return named in owned.runs or head.run == alias_journal(ALIAS, owned.owner)


class Asked:
    """What an owner has, and which of it was asked for: that may be told again."""

    def __init__(self, of: Owned) -> None:
        self._of = of
        self.named: set[str] = set()
        self.given: set[str] = set()  # words that were said to the store, such as inputs
        self.canary = of.words  # to be returned where a call tells what it must not

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name == "words":
            self.given.add(found)
        elif name in KINDS:
            self.named |= {found, found.partition("@")[0]}
        elif name == "runs":
            self.named |= {*found}
        return found


def told(call: Callable[[], Any]) -> str:
    """All that somebody learns who makes a call: what it returns, or what it raises."""
    try:
        return _text(call())
    except (hf.HoldfastError, ValueError, TypeError, LookupError, TimeoutError) as error:
        notes = getattr(error, "__notes__", [])
        return f"{error!r} {error} {vars(error)} {notes} {error.__cause__!r} {error.__context__!r}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{_text(name)} {_text(one)}" for name, one in value.items())
    if isinstance(value, Iterator | list | set):
        return " ".join(map(_text, value))
    own = [
        getattr(value, name) for name in ("state", "snapshot", "metadata") if hasattr(value, name)
    ]
    return " ".join([repr(value), str(value), *map(repr, own)])
