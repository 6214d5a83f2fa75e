"""Requests from other processes at any time: no finished step is lost or repeated, no answer astray."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from holdfast.model import Kind, Status
from tests.conftest import Survived
from tests.crash.engine_check import Journal, check, dump
from tests.crash.engine_harness import Notes
from tests.crash.engine_worker import ASKER
from tests.crash.harness import ForkServer, first_seed, fork_server, setting, url_of
from tests.crash.history import Line, Violation

REQUESTS = setting("HOLDFAST_REQUESTS", 150)
WORKERS, LANES, SENDERS = 2, 3, 2
WIDTH = 4  # steps that may be under way when a request comes
ERRORS = ("completed", "RunPausedError", "RunCancelledError", "RunFinishedError")
"""The last: a run that waits and has nothing to undo is cancelled by whoever asks for it."""


def race(
    server: ForkServer, place: Path, seed: int, requests: int, mutant: str = ""
) -> tuple[list[Line], list[Violation]]:
    """Have workers carry out runs while others send them requests; returns the notes and the verdict."""
    place.mkdir()
    url = url_of("sqlite", place)
    notes = Notes(place / "notes")
    job = {"url": url, "notes": str(notes.path), "mutant": mutant}
    pids = [server.start(**job, run=f"w{n}", task="race", amount=LANES) for n in range(WORKERS)]
    pids += [
        server.start(**job, run="", task="request", amount=requests // SENDERS, seed=seed + n)
        for n in range(SENDERS)
    ]
    ended = [server.wait(pid) for pid in pids]
    assert mutant or not any(ended), f"seed {seed}\n{server.errors()}"
    notes.close()
    lines, journals = notes.read(), dump(url)
    found = check(lines, journals, ends=("completed", "cancelled"), errors=ERRORS, least_acks=1)
    return lines, found + _requests(lines, journals)


def _requests(lines: list[Line], journals: dict[str, Journal]) -> list[Violation]:
    """What the requests came to. Nobody was killed: what was begun is recorded, but for a cancel."""
    found = []
    begun = Counter((n["run"], n["step"]) for n in lines if n["what"] == "begin")
    found += [
        Violation("again", run, f"{step} was executed {count} times")
        for (run, step), count in begun.items()
        if count > 1
    ]
    asked = Counter((n["run"], n["action"]) for n in lines if n["what"] == "requested")
    for run, journal in journals.items():
        wanted = [e.seq for e in journal.entries if e.meta.get("action") == "cancel"]
        if not wanted:
            found += [
                Violation("lost", run, f"{n['step']} was done, and is not recorded")
                for n in lines
                if n["what"] == "done" and n["run"] == run and n["step"] not in journal.recorded
            ]
            if journal.status == Status.CANCELLED:
                found.append(Violation("status", run, "nobody cancelled it"))
            continue
        after = [e for e in journal.of(Kind.RESULT) if e.seq > wanted[0]]
        if len(after) > WIDTH:
            found.append(Violation("status", run, f"{len(after)} steps after it was cancelled"))
        if journal.status == Status.COMPLETED and after:
            found.append(Violation("status", run, "went on, and on, after it was cancelled"))
    for (run, action), count in asked.items():
        said = [(e.meta.get("action"), e.meta.get("by")) for e in journals[run].entries]
        held = said.count((action, ASKER))
        if held != count:
            found.append(Violation("lost", run, f"{count} times {action}, recorded {held} times"))
    return found


def test_requests_raced_against_live_workers(tmp_path: Path, survived: Survived) -> None:
    seed = first_seed()
    sent = Counter[str]()
    server = fork_server("tests.crash.engine_worker")
    while sum(sent.values()) < REQUESTS or _rarest(sent) < REQUESTS // 50:
        lines, found = race(server, tmp_path / str(seed), seed, min(REQUESTS, 500))
        listed = "\n".join(map(str, found))
        assert not found, f"HOLDFAST_SEED={seed}\n{listed}"
        sent.update(n["action"] for n in lines if n["what"] == "requested")
        sent["answer"] += sum(n["what"] == "answered" for n in lines)
        seed += 1
    survived("requests", sum(sent.values()))


def _rarest(sent: Counter[str]) -> int:
    return min(sent["pause"], sent["cancel"], sent["answer"])
