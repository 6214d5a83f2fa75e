"""What happens in a simulation, seen from outside, and what must be true of it.

The world knows who really runs, and sees every access to the store. It uses nothing of the code
that decides who holds a run: only what entries say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.errors import CheckpointSaveError
from holdfast.model import FROM_OUTSIDE, HIDDEN, Entry, Kind, Status
from holdfast.stores._shared.rows import Rows
from tests.simulation.loop import CURRENT, Loop, Process

CRASHES: Final = 2  # how often a process may die in a step before the run is given up
BEATS: Final = 6  # in `dead_after` seconds
_JUST_NOW: Final = 0.5  # seconds from the look at a run to its claim, at most
SLOTS: Final = f"{HIDDEN}process{HIDDEN}"
_SLACK: Final = 2.5  # seconds, awake, from where a process could know something to where it does
_ENDED: Final = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
_HOLDS: Final = (Kind.OPEN, Kind.CLAIM)


@dataclass(slots=True)
class Tenure:
    """Who may record steps of a run: whoever opened or claimed it last."""

    process: Process
    nonce: str
    seq: int
    parent_term: int | None  # of a child run: under which claim of the parent


@dataclass(slots=True)
class Effect:
    """A step's function, as it ran once."""

    run: str
    step: str
    process: Process
    nonce: str | None  # under which it held the run
    entitled: bool  # it held the run; else someone had taken it over just before
    begun: float
    awake: float  # how long its process was, then
    stubborn: bool  # slow to stop
    ended: float | None = None
    finished: bool = False  # it was not interrupted


@dataclass(slots=True)
class RunSeen:
    """What the world saw of a run."""

    parent: str | None = None
    tenure: Tenure | None = None
    status: str = ""
    deaths: int = 0  # of its holders, since something was finished
    taken_over: float = -1.0  # when it was last taken from a living process
    changes: list[float] = field(default_factory=list)  # when it was taken, or stopped
    given_up: bool = False  # it, or a child run, after too many deaths
    results: dict[str, int] = field(default_factory=dict)  # by step: the seq
    told: dict[Process, float] = field(default_factory=dict)  # who could know that it lost the run


@dataclass(slots=True)
class Slot:
    """A process slot as it stands in the store."""

    process: Process
    nonce: str
    state: str
    beat_at: float
    every: float
    dead_after: float


class World:
    """The contents of the shared store, and the judge of what processes do with them."""

    def __init__(self, loop: Loop, *, trace: bool = False) -> None:
        self.loop = loop
        self.journals: dict[str, list[Entry]] = {}
        self.names: list[str] = []
        self.rows = Rows()
        self.outage: str | None = None  # of the whole store: "before" or "after"
        self.violations: list[str] = []
        self.trace: list[str] | None = [] if trace else None
        self.effects: dict[tuple[str, str], list[Effect]] = {}
        self.under_way: list[Effect] = []
        self.runs: dict[str, RunSeen] = {}
        self.slots: dict[str, Slot] = {}
        self.buried: dict[str, float] = {}  # by nonce
        self.given_back: set[str] = set()  # nonces
        self.looks: dict[tuple[Process, str], list[float | None]] = {}  # None: it could not look
        self.forced: list[tuple[Process, str]] = []  # who takes which run over, whoever holds it
        self.dropped: dict[Process, float] = {}  # when a task of it was last cancelled
        self.failed_at: dict[Process, float] = {}  # when it last could not reach the store
        self.unsaved: dict[tuple[Process, str], float] = {}  # when it was told so of a family
        self.places: dict[Process, str] = {}
        self.doomed: set[str] = set()  # the flows that fail

    def tell(self, text: str) -> None:
        """Something happened."""
        if self.trace is not None:
            self.trace.append(f"{self.loop.now:9.3f}  {CURRENT.get().name:<8} {text}")

    def violate(self, text: str) -> None:
        """Something happened that must not."""
        if self.loop.is_closed():
            return  # what is left is being closed
        self.violations.append(f"at {self.loop.now:.3f} s, {CURRENT.get().name} {text}")
        self.tell(f"!!! {text}")

    def lineage(self, run: str) -> Iterator[tuple[str, RunSeen]]:
        """A run, the run it is a child of, and so on."""
        name: str | None = run
        while name is not None:
            seen = self.runs.setdefault(name, RunSeen())
            yield name, seen
            name = seen.parent

    def _family(self, run: str) -> str:
        """The run that is nobody's child, by which a run and all those beside it are known."""
        return [name for name, _ in self.lineage(run)][-1]

    # --- effects

    def begin(self, run: str, step: str, *, stubborn: bool = False) -> Effect:
        """A step's function begins."""
        process = CURRENT.get()
        self.tell(f"begins {run} {step}")
        entitled = self._check_entitled(process, run, step)
        if entitled and step in self.runs[run].results:
            self.violate(f"begins {step} of {run}, whose result is recorded")
        earlier = self.effects.setdefault((run, step), [])
        for effect in earlier:
            if entitled and not self._excused(effect):
                self.violate(
                    f"begins {step} of {run}, which {effect.process} began at {effect.begun:.3f} s"
                )
        tenure = self.runs[run].tenure
        nonce = tenure.nonce if tenure is not None and tenure.process is process else None
        effect = Effect(
            run, step, process, nonce, entitled, self.loop.now, self.loop.awake(process), stubborn
        )
        earlier.append(effect)
        self.under_way.append(effect)
        return effect

    def end(self, effect: Effect, *, finished: bool = True) -> None:
        """A step's function ends."""
        effect.ended, effect.finished = self.loop.now, finished
        self.under_way.remove(effect)
        self.tell(f"{'ends' if finished else 'stops'} {effect.run} {effect.step}")

    def _excused(self, effect: Effect) -> bool:
        """Whether a step may begin although it was begun before.

        The process may have died or been buried, the run may have been taken over, the step may
        have been interrupted, or its result may have been lost in an outage or a cancelled task.
        A result can also be lost without a call of the store after the step: a save that waits
        behind others is given up at its deadline. Whoever ran the flow is told so, and the whole
        family of runs is left, whichever of them could not be saved.
        """
        if effect.process.killed or not effect.entitled:
            return True
        if effect.nonce in self.buried:
            return effect.ended is not None or self._was_frozen(effect)
        if any(seen.taken_over >= effect.begun for _, seen in self.lineage(effect.run)):
            return True
        if effect.ended is None:
            return False
        unsaved = max(
            self.failed_at.get(effect.process, -1.0),
            self.dropped.get(effect.process, -1.0),
            self.unsaved.get((effect.process, self._family(effect.run)), -1.0),
        )
        return not effect.finished or unsaved >= effect.ended

    def _was_frozen(self, effect: Effect) -> bool:
        """Whether a step that is still under way could not be stopped before its process was
        buried: it is slow to stop, or the process did not run for long."""
        loop, process = self.loop, effect.process
        slept = loop.now - effect.begun - (loop.awake(process) - effect.awake)
        return effect.stubborn or slept > _SLACK

    def _check_entitled(self, process: Process, run: str, step: str) -> bool:
        """Whoever begins a step holds its run and those above it, as far as it can know."""
        entitled = True
        for name, seen in self.lineage(run):
            tenure = seen.tenure
            if tenure is not None and tenure.process is process:
                if tenure.nonce in self.buried:
                    self.violate(f"begins {step} of {run} although it was buried")
            else:
                entitled = False
                if seen.taken_over < 0 or self._knows(process, seen):
                    holder = "nobody" if tenure is None else tenure.process
                    self.violate(f"begins {step} of {run} although {holder} holds {name}")
            if seen.parent is not None and not self._is_listed(seen.parent, name):
                self.violate(f"begins {step} of {run}, which {seen.parent} does not know of")
        return entitled

    def _knows(self, process: Process, seen: RunSeen) -> bool:
        told = seen.told.get(process)
        return told is not None and self.loop.awake(process) - told > _SLACK

    def _is_listed(self, parent: str, child: str) -> bool:
        entries = self.journals.get(parent, ())
        return any(e.kind == Kind.CHILD and facts_of(e).get("run") == child for e in entries)

    # --- runs

    def appended(
        self, process: Process, entries: Sequence[Entry], outcomes: list[bool]
    ) -> list[bool]:
        """Entries were appended, or lost."""
        for entry, won in zip(entries, outcomes, strict=True):
            self._show(entry, won)
            if entry.run.startswith(SLOTS):
                self._slot_changed(process, entry, won)
            elif not entry.run.startswith(HIDDEN):
                seen = self.runs.setdefault(entry.run, RunSeen())
                if won:
                    self._check_term(entry)
                    self._grew(process, entry, seen)
        return outcomes

    def told(self, process: Process, entries: Sequence[Entry], outcomes: list[bool]) -> None:
        """The process heard which of its entries were lost: it can know that it lost the run."""
        for entry, won in zip(entries, outcomes, strict=True):
            seen = self.runs.get(entry.run)
            if won or seen is None:
                continue
            if seen.tenure is None or seen.tenure.process is not process:
                seen.told.setdefault(process, self.loop.awake(process))

    def _grew(self, process: Process, entry: Entry, seen: RunSeen) -> None:
        """An entry of a run was appended."""
        held = seen.tenure
        if entry.kind in FROM_OUTSIDE:
            seen.status = entry.status
            return
        if entry.kind in _HOLDS and entry.status == Status.RUNNING:
            self._took(process, entry, seen)
        elif entry.kind == Kind.OPEN:
            pass  # it is submitted: for workers
        elif entry.kind in (Kind.CANCEL, Kind.PAUSE) and (held is None or self._is_gone(held)):
            pass  # nobody executes it: whoever asks for it may end or pause it
        elif held is None or held.process is not process:
            self.violate(f"appends a {entry.kind} to {entry.run}, which it does not hold")
        if entry.kind == Kind.RESULT:
            if entry.step in seen.results:
                self.violate(f"records {entry.step} of {entry.run} a second time")
            seen.results[str(entry.step)] = entry.seq
        if entry.kind == Kind.FAIL and entry.status == Status.FAILED:
            self._check_failure(entry, seen)
        if entry.kind in (Kind.RESULT, Kind.CHECKPOINT) or entry.status != Status.RUNNING:
            seen.deaths = 0
        seen.status = entry.status
        if entry.status != Status.RUNNING or entry.kind == Kind.RELEASE:
            seen.tenure = None
            seen.changes.append(self.loop.now)
            self._check_idle(process, entry)

    def _took(self, process: Process, entry: Entry, seen: RunSeen) -> None:
        """A run was opened or claimed."""
        facts, held = facts_of(entry), seen.tenure
        nonce = nonce_of(facts)
        if entry.kind == Kind.OPEN:
            parent = facts.get("parent")
            seen.parent = None if parent is None else parent.rpartition("@")[0]
        elif held is not None:
            self._check_claim(process, entry.run, held, facts.get("why"), seen)
        elif facts.get("why") == "died":
            self.violate(f"says that the holder of {entry.run} died, but it had none")
        slot = next((s for s in self.slots.values() if s.nonce == nonce), None)
        if nonce not in self.buried and (slot is None or slot.process is not process):
            self.violate(f"takes {entry.run} without a slot")
        seen.tenure = Tenure(process, nonce, entry.seq, facts.get("parent_term"))
        seen.told.pop(process, None)
        seen.changes.append(self.loop.now)

    def _check_claim(
        self, process: Process, run: str, held: Tenure, why: object, seen: RunSeen
    ) -> None:
        """A claim comes after a release, a burial or, if wanted, a take-over, and says so."""
        died = held.nonce in self.buried
        if died:
            seen.deaths += 1
        elif held.nonce in self.given_back or held.process is process:
            pass  # it left the run, which is not written yet
        elif self._is_adopted(process, held, seen):
            if any(above.taken_over >= 0 for _, above in self.lineage(run)):
                seen.taken_over = self.loop.now
        elif any((process, name) in self.forced for name, _ in self.lineage(run)):
            seen.taken_over = self.loop.now
        elif held.process.killed:
            self.violate(f"claims {run} before it buried {held.process}")
        else:
            self.violate(f"claims {run} from {held.process}, which lives")
        ended = held.process.killed and held.nonce in self.given_back  # and could not say more
        if died and why == "taken_over" and self.loop.now - self.buried[held.nonce] < _JUST_NOW:
            return  # it was examined before another process buried the holder
        if (why == "died") != died and not ended and held.process is not process:
            self.violate(
                f"claims {run} because {why}, and its holder {'died' if died else 'lives'}"
            )

    def _is_adopted(self, process: Process, held: Tenure, seen: RunSeen) -> bool:
        """Whether a child run belongs to whoever claimed its parent since it was taken."""
        above = None if seen.parent is None else self.runs[seen.parent].tenure
        return above is not None and above.process is process and above.seq != held.parent_term

    def _is_gone(self, held: Tenure) -> bool:
        return held.process.killed or held.nonce in self.buried or held.nonce in self.given_back

    def _check_failure(self, entry: Entry, seen: RunSeen) -> None:
        """Runs fail because they must, or because processes died in them again and again."""
        if seen.deaths > CRASHES:
            for _, above in self.lineage(entry.run):
                above.given_up = True
        elif entry.flow not in self.doomed and not seen.given_up:
            self.violate(f"gives {entry.run} up after {seen.deaths} deaths")

    def _check_idle(self, process: Process, entry: Entry) -> None:
        """Whoever stops executing a run executes none of its steps, nor of its child runs."""
        for effect in self.under_way:
            above = (name for name, _ in self.lineage(effect.run))
            if effect.process is process and entry.run in above:
                self.violate(f"appends a {entry.kind} to {entry.run} while {effect.step} runs")

    def _check_term(self, entry: Entry) -> None:
        journal = self.journals[entry.run]
        at = entry.seq - journal[0].seq
        own = entry.kind in (*_HOLDS, Kind.RELEASE) or (
            entry.kind not in FROM_OUTSIDE
            and entry.status != Status.RUNNING
            and (
                entry.kind not in (Kind.CHECKPOINT, Kind.BEGIN)
                or entry.status != journal[at - 1].status
            )
        )
        expected = entry.seq if own or at == 0 else journal[at - 1].term
        if entry.term != expected:
            self.violate(f"gives {entry.run}@{entry.seq} the term {entry.term}, not {expected}")

    # --- slots

    def erased(self, process: Process, tombstone: Entry, won: bool) -> bool:
        """A row was replaced, or not."""
        self._show(tombstone, won)
        if tombstone.run.startswith(SLOTS):
            self._slot_changed(process, tombstone, won)
        return won

    def _slot_changed(self, process: Process, row: Entry, won: bool) -> None:
        facts, slot = facts_of(row), self.slots.get(row.run)
        if not won:
            return
        state, nonce, now = facts["state"], facts["nonce"], self.loop.now
        if state == "buried":
            if slot is not None and slot.nonce == nonce and slot.state == "alive":
                self._check_burial(process, row.run, slot)
                slot.state = state
                self.buried[nonce] = now
            else:
                self.violate(f"buries nobody: {facts}")
            return
        if slot is not None and slot.state == "alive" and slot.nonce != nonce:
            self._check_burial(process, row.run, slot)  # which it replaces at once
            self.buried[slot.nonce] = now
        if state == "released":
            self.given_back.add(nonce)
            for effect in self.under_way:
                if effect.nonce == nonce:
                    self.violate(f"releases its slot while {effect.step} is under way")
        dead_after = float(facts["dead_after"])
        self.slots[row.run] = Slot(process, nonce, state, now, dead_after / BEATS, dead_after)

    def looked(self, process: Process, journal: str, *, failed: bool = False) -> None:
        """A process read a slot, or tried to."""
        self.looks.setdefault((process, journal), []).append(None if failed else self.loop.now)

    def failed(self, process: Process) -> None:
        """A call of the store failed."""
        self.failed_at[process] = self.loop.now

    def raised(self, error: BaseException) -> None:
        """Whoever asked for something gets an error."""
        self.tell(f"raises {error!r}"[:150])
        if isinstance(error, CheckpointSaveError):
            self.unsaved[CURRENT.get(), self._family(error.run_id)] = self.loop.now

    def _check_burial(self, process: Process, journal: str, slot: Slot) -> None:
        """Buried is who was killed in the same place, or was seen to stand still for long."""
        if self.places[process] == self.places[slot.process]:
            if not slot.process.killed:
                self.violate(f"buries {slot.process}, which lives beside it")
            return
        still = self.loop.now - slot.beat_at
        if still < slot.dead_after:
            self.violate(f"buries {slot.process} {still:.1f} s after its last beat")
        since, seen_at = self.loop.now, self.loop.now
        for look in reversed(self.looks.get((process, journal), [])):
            if look is None or seen_at - look > 2 * slot.every + _SLACK or look < slot.beat_at:
                break
            since = seen_at = look
        if self.loop.now - since < slot.dead_after - _SLACK:
            watched = self.loop.now - since
            self.violate(f"buries {slot.process} after it watched it for only {watched:.1f} s")

    def _show(self, entry: Entry, won: bool) -> None:
        if self.trace is not None:
            lost = "" if won else "LOST "
            where = f"{entry.run.replace(HIDDEN, '|')}@{entry.seq}"
            facts = {k: v for k, v in facts_of(entry).items() if k in _SHOWN}
            self.tell(f"{lost}{where} {entry.kind} {entry.status} {entry.step or ''} {facts or ''}")


_SHOWN = ("why", "holder", "state", "nonce", "run", "action", "parent", "reason", "of", "undone")


def nonce_of(facts: dict[str, Any]) -> str:
    """The nonce of the holder that an opening or a claim names."""
    parts = str(facts.get("holder")).split("|")
    return parts[1] if len(parts) > 1 else ""


def facts_of(entry: Entry) -> dict[str, Any]:
    """An entry's metadata."""
    found: dict[str, Any] = json.loads(entry.meta) if entry.meta else {}
    return found


WORLD: ContextVar[World] = ContextVar("simulated_world")
