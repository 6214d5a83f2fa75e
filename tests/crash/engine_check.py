"""Did the engine keep its word? What steps and events noted, held against the journals.

lost        acknowledged, or recorded once, and gone or changed
again       executed although it was acknowledged or recorded, or twice by one worker
key         an idempotency key that is not the same in all attempts, or not the step's own
attempt     a count of attempts that began anew
decision    made again
undo        not undone, undone again, or in another order than backwards
answer      lost, recorded twice, or given to another question
status      not what the run is doing
result      not what an undisturbed run comes to
journal     seqs not dense, digests broken, something recorded twice
owner       written by a worker that had lost the run
error       a worker failed with something it should not have
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import holdfast as hf
from holdfast.model import Kind, Status
from tests.crash import engine_flows as flows
from tests.crash.engine_worker import mark_of
from tests.crash.history import Line, Violation

IN_ORDER = {
    "add", "flaky", "heads", "tails", "build", "pay", "tell", "three", "first", "second",
    "begin", "turn", "toss", "end",
}  # fmt: skip
"""Steps that nothing else runs beside: no attempt of theirs may be miscounted."""

UNFINISHED = (Status.RUNNING, Status.PAUSED)


class Written(NamedTuple):
    """One entry of a journal."""

    seq: int
    kind: str
    step: str
    status: str
    meta: dict[str, Any]
    value: Any


class Journal(NamedTuple):
    """What is stored of one run."""

    entries: list[Written]
    problems: list[str]

    @property
    def status(self) -> str:
        return self.entries[-1].status

    def of(self, *kinds: Kind) -> list[Written]:
        return [entry for entry in self.entries if entry.kind in kinds]

    @property
    def undone(self) -> list[str]:
        return [e.step for e in self.of(Kind.DECISION) if "undone" in e.meta]

    @property
    def to_undo(self) -> list[str]:
        """The keys of the undos to be done, in their order."""
        return [f"undo/{e.step}" for e in reversed(self.of(Kind.RESULT)) if e.meta.get("undo")]

    @property
    def recorded(self) -> dict[str, str | None]:
        """The finished steps and their marks."""
        found = {e.step: mark_of(e.value) for e in self.of(Kind.RESULT)}
        for entry in self.of(Kind.CHECKPOINT):
            found[entry.value["seen"][-1]] = mark_of(entry.value)
        return found

    @property
    def result(self) -> Any:
        ends = self.of(Kind.COMPLETE)
        return ends[-1].value if ends else None


def dump(url: str) -> dict[str, Journal]:
    """Every run in the store, as one who opens it only now finds it."""
    store = hf.open_store(url)
    with hf.SyncCheckpointer(store, deadline=5) as checkpointer:
        journals = checkpointer.core.journals
        found = {}
        for run in checkpointer.runs(limit=5000):
            entries = []
            for entry in journals.entries(run.run_id, bodies=True):
                value = None
                if entry.size:
                    encoding = journals.chain(entry.run, entry.seq, entry).encoding
                    value = journals.decode(encoding)
                entries.append(
                    Written(
                        entry.seq, entry.kind, str(entry.step or ""), entry.status,
                        json.loads(entry.meta or "{}"), value,
                    )
                )  # fmt: skip
            problems = [str(problem) for problem in checkpointer.verify(run.run_id).problems]
            found[run.run_id] = Journal(entries, problems)
    store.close()
    return found


def snapshot(journals: dict[str, Journal]) -> Line:
    """What is recorded now, as a line of the notes: none of it may be done again."""
    return {
        "what": "recorded",
        "steps": {run: journal.recorded for run, journal in journals.items()},
        "undone": {run: journal.undone for run, journal in journals.items()},
        "status": {run: journal.status for run, journal in journals.items()},
    }


Key = tuple[str, str]


class _Checker:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.acks: dict[Key, str | None] = {}
        self.recorded: dict[Key, str | None] = {}
        self.begun: dict[Key, list[Line]] = defaultdict(list)
        self.done: dict[str, Line] = {}
        self.by_worker: Counter[tuple[int, Key]] = Counter()
        self.keys: dict[str, Key] = {}
        self.fixed: dict[Key, str] = {}
        self.decided: dict[Key, tuple[int, str]] = {}
        self.undoing: dict[tuple[int, str], str] = {}  # the undo a worker did last
        self.started: set[str] = set()
        self.answered: dict[Key, list[str]] = defaultdict(list)
        self.answering: dict[str, Key] = {}

    def wrong(self, what: str, run: str, detail: str) -> None:
        self.violations.append(Violation(what, run, detail))

    def read(self, lines: Iterable[Line]) -> None:
        for line in lines:
            read = getattr(self, "_" + line["what"].replace(" ", "_"), None)
            if read is not None:
                read(line, (line.get("run", ""), line.get("step", "")))

    def _begin(self, line: Line, key: Key) -> None:
        run, step = key
        if key in self.recorded or key in self.acks:
            self.wrong("again", run, f"{step} was finished, and is executed by {line['pid']}")
        self.by_worker[line["pid"], key] += 1
        if self.by_worker[line["pid"], key] > 1:
            self.wrong("again", run, f"{step} is executed twice by {line['pid']}")
        earlier = self.begun[key]
        if self.keys.setdefault(line["key"], key) != key or (
            earlier and earlier[0]["key"] != line["key"]
        ):
            self.wrong("key", run, f"{step} has the idempotency key {line['key']}")
        counts = step.split("#")[0] in IN_ORDER
        if counts and earlier and earlier[-1]["attempt"] >= line["attempt"]:
            self.wrong("attempt", run, f"{step}: {line['attempt']} after {earlier[-1]['attempt']}")
        earlier.append(line)
        for (of, name), (pid, value) in self.decided.items():
            if of == run and pid == line["pid"]:
                self.fixed.setdefault((of, name), value)
        before = self.undoing.pop((line["pid"], run), None)
        if before is not None and step.startswith("undo/"):
            self.recorded[run, before] = None  # the next is undone: this must be known

    def _raised(self, line: Line, key: Key) -> None:
        self.by_worker[line["pid"], key] -= 1

    def _done(self, line: Line, key: Key) -> None:
        self.done[line["mark"]] = line
        if key[1].startswith("undo/"):
            self.undoing[line["pid"], key[0]] = key[1]

    def _ack(self, line: Line, key: Key) -> None:
        self.acks[key] = line["mark"]

    def _decided(self, line: Line, key: Key) -> None:
        value = line["value"]
        if self.fixed.get(key, value) != value:
            self.wrong("decision", key[0], f"{key[1]} was {self.fixed[key]} and is now {value}")
        self.decided[key] = (line["pid"], value)

    def _started(self, line: Line, key: Key) -> None:
        self.started.add(key[0])

    def _answering(self, line: Line, key: Key) -> None:
        self.answering[line["value"]] = key

    def _answered(self, line: Line, key: Key) -> None:
        self.answered[key].append(line["value"])

    def _recorded(self, line: Line, _: Key) -> None:
        for run, steps in line["steps"].items():
            for step, mark in steps.items():
                if self.recorded.setdefault((run, step), mark) != mark:
                    self.wrong("lost", run, f"the recorded result of {step} changed")
            for step in line["undone"][run]:
                self.recorded[run, step] = None
        for run, step in self.recorded:
            kept = line["steps"].get(run, {}), line["undone"].get(run, [])
            if not any(step in part for part in kept) and not step.startswith("undo/"):
                self.wrong("lost", run, f"{step} was recorded and is gone")
        for run in self.started - set(line["status"]):
            self.wrong("lost", run, "the whole run is gone")

    # --- the end

    def finish(self, journals: dict[str, Journal]) -> None:
        for (run, step), mark in self.acks.items():
            journal = journals.get(run)
            if journal is None or step not in journal.recorded:
                self.wrong("lost", run, f"{step} was acknowledged, and is not recorded")
            elif journal.recorded[step] != mark:
                self.wrong("lost", run, f"{step} was acknowledged with another result")
        for run, journal in journals.items():
            self._journal(run, journal)
            self._answers(run, journal)
            self._undone(run, journal)
            if journal.status == Status.COMPLETED:
                self._result(run, journal)
        for value, (run, question) in self.answering.items():
            held = [e.step for e in journals[run].of(Kind.ANSWER) if e.value == value]
            sure = value in self.answered[run, question]
            if held not in ([question], []) or (sure and not held):
                self.wrong("answer", run, f"to {question}, recorded for {held}")

    def _journal(self, run: str, journal: Journal) -> None:
        for problem in journal.problems:
            self.wrong("journal", run, problem)
        if [entry.seq for entry in journal.entries] != list(range(len(journal.entries))):
            self.wrong("journal", run, "its seqs are not dense")
        once = [
            (e.kind, e.step)
            for e in journal.of(Kind.RESULT, Kind.DECISION, Kind.QUESTION, Kind.ANSWER, Kind.OPEN)
        ]
        for (kind, step), count in Counter(once).items():
            if count > 1:
                self.wrong("journal", run, f"{kind} {step} is recorded {count} times")
        for step, mark in journal.recorded.items():
            made = self.done.get(mark or "")
            if mark is not None and (made is None or (made["run"], made["step"]) != (run, step)):
                self.wrong("result", run, f"{step} is recorded with what nobody made")
        ends = [e for e in journal.entries if e.status not in UNFINISHED]
        if len(ends) > 1:
            self.wrong("status", run, f"it ended {len(ends)} times")

    def _answers(self, run: str, journal: Journal) -> None:
        given = {e.step: e.value for e in journal.of(Kind.ANSWER)}
        result = journal.result
        if isinstance(result, dict) and result.get("answers", given) != given:
            self.wrong("answer", run, f"{given} became {result['answers']}")

    def _undone(self, run: str, journal: Journal) -> None:
        undone = journal.undone
        if journal.status in (Status.CANCELLED, Status.FAILED) or undone:
            wanted = journal.to_undo
            over = journal.status not in UNFINISHED
            if undone != wanted[: None if over else len(undone)]:
                self.wrong("undo", run, f"{undone}, not {wanted}")
        first = [step for (of, step) in self.begun if of == run and step.startswith("undo/")]
        if first != journal.to_undo[: len(first)]:
            self.wrong("undo", run, f"begun in the order {first}, not {journal.to_undo}")
        done = {line["step"] for line in self.done.values() if line["run"] == run}
        for step in undone:
            if step not in done:
                self.wrong("undo", run, f"{step} is recorded, and was not done")

    def _result(self, run: str, journal: Journal) -> None:
        flow = journal.entries[0].meta
        result = journal.result
        ways = {step for (of, step) in self.begun if of == run and step in ("heads", "tails")}
        if len(ways) > 1:
            self.wrong("decision", run, "it went both ways")
        if isinstance(result, dict) and "decided" in result:
            for name, value in result["decided"].items():
                if self.decided.get((run, name), (0, ""))[1] != repr(value):
                    self.wrong("decision", run, f"{name} came out as {value!r}")
        if isinstance(result, dict) and "way" in result:
            n = journal.entries[0].value["n"]
            wanted = flows.everything_comes_to(n, result["decided"]["rounds"])
            wrong = {k: result[k] for k, v in wanted.items() if result[k] != v}
            if wrong or {result["way"]} != ways:
                self.wrong("result", run, f"{wrong} {ways}")
        if "shape" in flow:
            seen = journal.of(Kind.CHECKPOINT)[-1].value["seen"]
            wanted_nodes = [*flows.TRIP, *ways, "end"]
            if seen != wanted_nodes:
                self.wrong("result", run, f"went {seen}")


def check(
    lines: list[Line],
    journals: dict[str, Journal],
    *,
    least_acks: int = 0,
    least_kills: int = 0,
    ends: tuple[str, ...] = (),
    errors: tuple[str, ...] = (),
) -> list[Violation]:
    """Every promise that was not kept.

    `ends` are the statuses that runs must have come to, and `errors` what a worker may have
    stopped with. Too few acknowledged steps or kills are a violation, too.
    """
    checker = _Checker()
    checker.read(lines)
    checker.finish(journals)
    for run, journal in journals.items():
        if ends and "/" not in run and journal.status not in ends:
            checker.wrong("status", run, f"is {journal.status}")
    for line in lines:
        if line["what"] == "stopped" and errors and line["how"] not in errors:
            checker.wrong("error", line["run"], f"{line['how']}: {line.get('error')}")
    kills = sum(line["what"] == "killed" for line in lines)
    acks = sum(line["what"] == "ack" for line in lines)
    if kills < least_kills or acks < least_acks:
        checker.wrong("proof", "", f"only {kills} kills and {acks} acknowledged steps")
    return checker.violations


def owners(lines: list[Line], journals: dict[str, Journal]) -> list[Violation]:
    """Which entries were written by a worker after another had taken the run over."""
    by = {line["mark"]: line["pid"] for line in lines if line["what"] == "done"}
    found = []
    for run, journal in journals.items():
        owner: dict[int, set[int]] = defaultdict(set)
        claims = 0
        for entry in journal.entries:
            claims += entry.kind == Kind.CLAIM
            mark = mark_of(entry.value) if entry.kind == Kind.RESULT else None
            if mark in by:
                owner[claims].add(by[mark])
        found += [
            Violation("owner", run, f"{sorted(pids)} both wrote after claim {claim}")
            for claim, pids in owner.items()
            if len(pids) > 1
        ]
        found += [
            Violation("owner", run, f"{a & b} wrote after losing the run")
            for (_, a), (_, b) in pairwise(sorted(owner.items()))
            if a & b
        ]
    return found
