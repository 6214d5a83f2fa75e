"""Walking flows for the engine: from step to step, and side by side where the flow forks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.engine.people.questions import FAIL
from holdfast.engine.program import Migrated, Program, Ready, Record, Stored, Task
from holdfast.engine.resume.history import History
from holdfast.engine.walking import versions
from holdfast.engine.walking.plan import Plan
from holdfast.errors import FlowChangedError, LoopLimitError, StepFailedError, UnansweredError
from holdfast.migrations import Migrations
from holdfast.model import CARRY_STATE, Entry, Kind, Status, checkpoint_id

_new: Final = tuple.__new__  # at half the price of a constructor: every step makes one
MERGE: Final = ">merge"
"""What the names of entries end with that record where branches met."""


class Walk:
    """One way through the flow: the main one, or a branch up to where branches meet."""

    def __init__(self, state: Stored, path: str = "", fork: Fork | None = None, name: str = ""):
        self.state = state
        self.path = path
        self.fork = fork
        self.name = name  # of a branch: its first node
        self.visits: dict[str, int] = {}  # how often it visited each node
        self.at_hand: Any = None  # the state, revived, for the next node alone
        self.before: tuple[str, ...] = ()  # the steps that led to where it stands
        self.since: dict[str, int] = {}  # when it first visited nodes, if there is a limit


class Fork:
    """Branches under way, and those that have arrived at the join."""

    def __init__(self, walk: Walk, key: str, join: str, targets: list[str]) -> None:
        self.walk = walk  # the one that forked, and continues at the join
        self.key = key
        self.join = join
        self.targets = targets
        self.arrived: dict[str, tuple[Walk, str]] = {}  # by branch: where it arrived

    @property
    def merge_key(self) -> str:
        """What the outcome of all branches together is recorded under."""
        return f"{self.key}{MERGE}"


class WalkingProgram(Program):
    """One execution of a flow that goes from node to node.

    What a node is given, what its outcome makes of the state, where it leads and how branches are
    joined is for the front door to say: see the abstract methods.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.flow = plan.info
        self.run_id = ""
        self._walks: list[
            tuple[Walk, list[str], str]
        ] = []  # to be continued: where to, and after what
        self._busy: dict[str, tuple[Walk, Fork | None]] = {}
        self._next: dict[str, list[str]] = {}
        self._recorded: dict[str, tuple[Stored, list[str]]] = {}
        self._steps = 0
        self._notes: list[Record] = []  # questions, and what else came up, that are to be recorded
        self._asked: dict[str, tuple[Walk, str]] = {}  # by key: who waits for an answer, and where
        self._known: set[str] = set()  # what was asked before
        self._answers: dict[str, Any] = {}
        self._end: Stored | None = None
        self._at_end: Any = None  # the same, revived, if that was for a node that did not come
        self._main: Walk | None = None
        self._restored: tuple[Entry | None, Stored] | None = None

    # --- what a front door says

    def guard(self, walk: Walk, name: str) -> None:
        """Raise `LoopLimitError` if a walk reached a node once too often."""
        if self._steps + len(self._busy) >= self._plan.max_steps:
            raise LoopLimitError(self.run_id, name, self._plan.max_steps)

    @abstractmethod
    def task(self, walk: Walk, key: str, name: str) -> Task | None:
        """The task of the node that a walk reached; None if it has to wait."""

    @abstractmethod
    def seen(self, walk: Walk) -> Any:
        """The walk's state as the flow's own code is to see it; another copy each time."""

    @abstractmethod
    def outcome(self, walk: Walk, task: Task, value: Any) -> Any:
        """What is recorded of a value that a task returned: a state, or in a branch its part."""

    @abstractmethod
    def targets(self, walk: Walk, task: Task, recorded: Any) -> list[str]:
        """Where to go after a node."""

    def undecided(self, walk: Walk, after: str) -> list[str]:
        """Where to go after a node that could not say so when it was done. Raises if it still can't."""
        raise NotImplementedError(f"{self.flow.name} always says where to go after {after!r}")

    def moved(self, walk: Walk, name: str, stored: Stored) -> Stored:
        """The walk's state after a node, of which this was recorded."""
        return stored

    @abstractmethod
    def join(self, fork: Fork) -> Task | None:
        """All branches have arrived: what is to be executed to join them, if anything."""

    def facts(self, walk: Walk) -> dict[str, Any]:
        """What a whole state's entry says beside it: what the walk has behind it."""
        if not self._plan.loops:
            return {}
        visits = {name: count for name, count in walk.visits.items() if name in self._plan.loops}
        return {"visits": visits} if visits else {}

    def values_of(
        self, history: History, base: Entry | None, results: Sequence[Entry]
    ) -> list[Stored]:
        """What branches recorded since a whole state, as this version has it."""
        return [versions.state_of(self._plan, history, entry) for entry in results]

    def remember(self, walk: Walk, meta: Meta, node: str) -> None:
        """Restore what `facts` recorded after a node."""
        walk.visits = versions.visits_of(self._plan, meta)

    # --- Program

    @property
    def migrations(self) -> Migrations | None:
        return self._plan.migrate

    def check(self, history: History) -> None:
        versions.check(self._plan, history)

    def restored_from(self, history: History) -> Migrated:
        assert self._restored is not None, "it was restored"
        base, state = self._restored
        entry = history.opening if base is None else base
        version = history.meta(entry).flow_version or self._plan.version
        name = checkpoint_id(history.run, entry.seq)
        return Migrated(name, version, history.stored(entry).value(), state.value())

    def migrated_inputs(self, history: History) -> Any:
        return versions.inputs_of(self._plan, history)

    def begin(self, run_id: str, inputs: Stored) -> None:
        self.run_id = run_id
        self._main = Walk(inputs)
        self._walks.append((self._main, [self._plan.entry], ""))

    def restore(self, history: History, *, wary: bool = False) -> int:
        self.run_id = history.run
        plan = self._plan
        base: Entry | None = None  # where the newest whole state is
        results: list[Entry] = []  # of branches, since
        meta, after = None, ""
        for entry in history.entries:
            if entry.kind == Kind.QUESTION:
                self._known.add(str(entry.step))
            elif entry.kind == Kind.ANSWER:
                self._known.discard(str(entry.step))  # where it is asked again, that is recorded
            if entry.kind not in CARRY_STATE:
                continue
            if entry.kind == Kind.RESULT:
                results.append(entry)
                self._steps = max(self._steps, (entry.step_index or 0) + 1)
            else:
                base, results = entry, []
                counted = entry.step_index is not None and entry.status != Status.FAILED
                self._steps = (entry.step_index or 0) + counted
        walk = self._main = Walk(versions.state_of(plan, history, base))
        self._restored = base, walk.state
        if base is not None:
            meta = history.meta(base)
            after = versions.node_of(plan, base, meta)
            self.remember(walk, meta, after)
        targets = versions.next_of(plan, meta)
        for entry, stored in zip(results, self.values_of(history, base, results), strict=True):
            then = versions.next_of(plan, history.meta(entry))
            self._recorded[versions.key_of(plan, entry)] = (stored, then)
        gone = [name for name in targets if name not in plan.ends and name not in plan.nodes]
        if gone:
            raise FlowChangedError(
                history.run,
                (f"{plan.node_word} {gone[0]!r}, which is next, is gone",),
                "Map it with rename=.",
            )
        self._walks.append((walk, targets, after))
        return self._steps

    def ready(self) -> Ready:
        tasks: list[Task] = []
        while self._walks:
            walk, targets, after = self._walks.pop(0)
            task = self._go(walk, targets, after)
            if task is not None:
                tasks.append(task)
        notes: Sequence[Record] = ()
        if self._notes:
            notes, self._notes = self._notes, []
        return _new(Ready, (tasks, notes, (), (), self._end is not None))

    def questions(self) -> list[str]:
        return list(self._asked)

    def answer(self, key: str, value: Any) -> None:
        self._answers[key] = value
        if key in self._asked:
            walk, name = self._asked.pop(key)
            walk.visits[name] -= 1  # it comes there once more
            self._walks.append((walk, [name], ""))

    def outcome_of(self, task: Task, value: Any) -> Any:
        return self.outcome(self._busy[task.key][0], task, value)

    def record(self, task: Task, value: Any) -> Record:
        walk, fork = self._busy[task.key]
        recorded = self.outcome(walk, task, value)
        targets = [fork.join] if fork is not None else self.targets(walk, task, recorded)
        self._next[task.key] = targets
        index, self._steps = self._steps, self._steps + 1
        facts: dict[str, Any] = {"next_steps": tuple(targets)}
        if walk.path:
            return Record(Kind.RESULT, task.key, recorded, facts, task.name, index)
        if task.name in self._plan.loops:
            facts["iteration"] = walk.visits[task.name]
        facts |= self.facts(walk)
        return Record(Kind.CHECKPOINT, task.name, recorded, facts, None, index)

    def accept(self, task: Task, value: Any, stored: Stored | None = None) -> None:
        walk, _ = self._busy.pop(task.key)
        assert stored is not None, "every step of a walk is recorded"
        walk.state = self.moved(walk, task.name, stored)
        walk.at_hand = value
        walk.before = (task.name,)
        self._walks.append((walk, self._next.pop(task.key), task.name))

    def refuse(self, task: Task, error: StepFailedError) -> Sequence[Record]:
        error.name = task.name
        raise error

    def at_failure(self, task: Task | None) -> list[Record]:
        if task is None or task.key not in self._busy:
            return []
        walk, fork = self._busy[task.key]
        if fork is not None or walk.path:
            return []  # the branches' own results say where to continue
        walk.visits[task.name] -= 1
        facts: dict[str, Any] = {"next_steps": [task.name], **self.facts(walk)}
        before = walk.state.value()
        failed = Record(Kind.CHECKPOINT, task.name, before, facts, index=self._steps)
        return [replace(failed, status=Status.FAILED)]

    # --- walking

    def _go(self, walk: Walk, targets: list[str], after: str) -> Task | None:
        """Take a walk on to its next node; None if it arrived, or has to wait for branches."""
        while True:
            if not targets:
                targets = self.undecided(walk, after)
            if len(targets) > 1:
                self._fork(walk, targets, after)
                return None
            (name,) = targets
            if name in self._plan.ends or (walk.fork is not None and name == walk.fork.join):
                return self._arrive(walk, name)
            walk.visits[name] = walk.visits.get(name, 0) + 1
            key = visit_key(walk, name)
            known = self._recorded.pop(key, None) if self._recorded else None
            if known is None:
                self.guard(walk, name)
                if self._plan.nodes[name].question is not None and key not in self._answers:
                    return self.ask(walk, key, name)
                return self.task(walk, key, name)
            stored, targets = known
            walk.state = self.moved(walk, name, stored)
            walk.before = (name,)
            after = name

    def ask(self, walk: Walk, key: str, name: str) -> Task | None:
        """Have a walk wait for the answer to its node's question; or a task that is done instead."""
        asking = self._plan.nodes[name].question
        assert asking is not None
        if key not in self._known:
            self._notes.append(asking.inquiry(self.seen(walk)).record(key, name))
            self._known.add(key)
        self._asked[key] = (walk, name)
        return None

    def answered(self, key: str) -> Any:
        """What was answered, as it is stored. Raises `UnansweredError` where nothing was, in time."""
        answer = self._answers[key]
        if answer is FAIL:
            raise UnansweredError(self.run_id, key)
        return answer

    def _fork(self, walk: Walk, targets: list[str], after: str) -> None:
        key = visit_key(walk, after)
        fork = Fork(walk, key, self._plan.join_of(targets), targets)
        walk.at_hand = None  # it continues with what the branches make of it
        for target in targets:
            branch = Walk(walk.state, f"{key}>{versions.escaped(target)}", fork, target)
            branch.before = walk.before
            self._walks.append((branch, [target], ""))

    def _arrive(self, walk: Walk, name: str) -> Task | None:
        fork = walk.fork
        if fork is None:
            self._end = walk.state
            self._at_end, walk.at_hand = walk.at_hand, None
            return None
        fork.arrived[walk.name] = walk, name
        return None if len(fork.arrived) < len(fork.targets) else self.join(fork)


def visit_key(walk: Walk, name: str) -> str:
    """Names one visit of one walk to a node: `a`, `a#2` the second time, `a>b/c` in a branch."""
    key = f"{walk.path}/{versions.escaped(name)}" if walk.path else versions.escaped(name)
    count = walk.visits.get(name, 1)
    return key if count == 1 else f"{key}#{count}"
