"""What is wrong with a store, and what to do about it."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.resume.activity import is_for_workers
from holdfast.engine.resume.recovery import Orphan, survey
from holdfast.engine.working.listing import list_workers
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.errors.base import one_line
from holdfast.heads import RunHead
from holdfast.model import Status
from holdfast.operations.forget_record import records
from holdfast.operations.spreading import beside
from holdfast.project import project_settings, unknown_settings
from holdfast.retention import Retention
from holdfast.store import PAGE
from holdfast.stores._shared.access import risks
from holdfast.urls import local_path
from holdfast.views import runs, words
from holdfast.views.commands import PLACEHOLDER, Commands, led_by, meaning
from holdfast.views.continuing import flow_options
from holdfast.views.rescue import rescue
from holdfast.views.spreading import Progress, check_all, number_of_runs, unseen

_FIXED_SQLITE: Final = (3, 51, 3)
_ARTICLE: Final = {"owner": "an owner", "thread": "a thread", "run": "a run"}
_MANY_CHECKPOINTS: Final = 100_000
_MANY_BYTES: Final = 1_000_000_000
_LISTED: Final = 20  # flows without a worker
_DAMAGED: Final = 5  # damaged runs, and
_NAMED: Final = 3  # problems of one, unless every one is wanted
_SURVIVES: Final = {"power-loss": "a power loss", "process-crash": "a crash of the process"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    status: str  # ok, warning, error
    found: str
    advice: str = ""
    command: str = ""  # what the advice comes to here, if that is one command


class Examination(NamedTuple):
    """How a store is examined."""

    commands: Commands
    quick: bool = False  # not every run is read in search of damage
    repair: bool = False  # the index is made anew where it is wrong: the only thing that writes
    every: bool = True  # name all orphans and problems, not the first ones
    workers: int = 4  # runs that are read at a time
    progress: Progress = unseen


def examine(cp: SyncCheckpointer, how: Examination) -> list[Finding]:
    """Whether a store can be reached, what it survives, what is orphaned or damaged in it."""
    findings = [Finding("store", "ok", f"{cp.store.url} can be opened, and its schema is ours")]
    findings += _settings()
    findings += _access(cp)
    findings += _durability(cp)
    findings += _sqlite(cp)
    contents = list(_contents(cp, how))  # first: whether the index tells which runs are orphaned
    findings += _despite_damage("orphans", _orphans(cp, how, _is_index_wrong(contents)))
    findings += _despite_damage("workers", _unattended(cp, how))
    findings += _despite_damage("forgetting", _half_forgotten(cp))
    findings += contents
    findings += _amount(cp)
    return findings


def _despite_damage(what: str, found: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of a check. If it meets a damaged entry that it needs, the last one says so."""
    try:
        yield from found
    except CheckpointCorruptedError as error:
        yield Finding(what, "error", f"this check is incomplete: {one_line(str(error))}")


def document(findings: list[Finding]) -> dict[str, Any]:
    """As `holdfast doctor --json` has it."""
    ok = all(finding.status != "error" for finding in findings)
    return {"ok": ok, "findings": [finding._asdict() for finding in findings]}


def _settings() -> Iterator[Finding]:
    for line in unknown_settings(project_settings()[1]):
        yield Finding("settings", "warning", line, "Correct it in pyproject.toml.")
    try:
        policies = Retention.configured()
    except ValueError as error:
        yield Finding("retention", "error", str(error), "Nothing is deleted until it is corrected.")
    else:
        if policies:
            applied = "holdfast worker applies them; to see what would go: holdfast prune --dry-run"
            named = words.plural(len(policies), "retention policy")
            yield Finding("retention", "ok", f"{named} in pyproject.toml; {applied}")


def _access(cp: SyncCheckpointer) -> Iterator[Finding]:
    """Who else can read and write a store on this disk; what everyone could change is not opened."""
    path = local_path(cp.store.url)
    if path is None:
        return
    found = list(risks(path))
    for risk in found:
        status = "warning" if risk.level == "warned" else "ok"
        yield Finding("access", status, risk.what, f"{risk.way_out[:1].upper()}{risk.way_out[1:]}.")
    if not found:
        yield Finding("access", "ok", "nobody else can read or write it")


def _durability(cp: SyncCheckpointer) -> Iterator[Finding]:
    survives = cp.store.survives()
    found = f"what was saved survives {_SURVIVES.get(survives, 'nothing')}"
    if survives == "power-loss":
        yield Finding("durability", "ok", found)
    else:
        yield Finding(
            "durability",
            "warning",
            found,
            f"To survive a power loss, {cp.store.lasting}. To require it, add survives=power-loss "
            "to the URL.",
        )


def _sqlite(cp: SyncCheckpointer) -> Iterator[Finding]:
    if not cp.store.url.startswith("sqlite:"):
        return
    if sqlite3.sqlite_version_info < _FIXED_SQLITE:
        yield Finding(
            "SQLite",
            "warning",
            f"{sqlite3.sqlite_version} has a rare bug, fixed in 3.51.3: two processes that write to "
            "one file can damage it",
            "For several writing processes, use a Python with a newer SQLite, or PostgreSQL.",
        )
    else:
        yield Finding("SQLite", "ok", sqlite3.sqlite_version)


def _orphans(cp: SyncCheckpointer, how: Examination, index_wrong: bool) -> Iterator[Finding]:
    seen = survey(cp.core)
    if index_wrong:
        seen += _unlisted({orphan.run_id for orphan in seen}, cp)
    found = [orphan for orphan in seen if not orphan.undecided]
    dead = [orphan for orphan in found if not orphan.answered]
    undecided = [orphan for orphan in seen if orphan.undecided]
    recover = how.commands.line("recover", None, *flow_options(None))
    if undecided:
        yield Finding(
            "orphans",
            "warning",
            f"{words.plural(len(undecided), 'run')} executed by processes on other "
            "machines, which may be dead",
            _explained("Find out, and continue those that are, with:", recover, undecided),
            recover,
        )
    elif not dead:
        yield Finding("orphans", "ok", "every running run has a living process")
    if how.every:
        yield from (_orphan(orphan, how) for orphan in dead)
    else:
        yield from _grouped_orphans(dead, how, index_wrong)
    answered = [orphan for orphan in found if orphan.answered]
    if answered:
        yield Finding(
            "answers",
            "warning",
            f"{words.plural(len(answered), 'run')} waited for an answer, now given: "
            f"{words.some(one.run_id for one in answered)}",
            _explained(
                f"Start your program again, or continue {_them(answered)} with:", recover, answered
            ),
            recover,
        )


def _them(found: Sequence[Orphan]) -> str:
    return "it" if len(found) == 1 else "them"


def _explained(lead: str, command: str, found: Sequence[Orphan]) -> str:
    """A command that continues these runs, with what to put for its placeholder."""
    flows = {orphan.flow for orphan in found}
    flow = flows.pop() if len(flows) == 1 else None
    return led_by(lead, command, meaning(command, flow))


def _unlisted(known: Collection[str], cp: SyncCheckpointer) -> Iterator[Orphan]:
    """Orphans that the index does not know to be under way, as their journals say."""
    for run in cp.iter_runs(roots=True):
        word, facts = runs.doing(cp, run)
        if word == runs.ORPHANED and run.run_id not in known:
            holder = facts["holder"] or "unknown"
            yield Orphan(run.run_id, run.flow, run.step, holder, run.updated_at, answered=False)


def _orphan(orphan: Orphan, how: Examination) -> Finding:
    command = how.commands.resume(orphan.run_id)
    return Finding(
        "orphan",
        "error",
        f"{orphan.run_id} ({orphan.flow}): {runs.nobody(orphan.holder)}; its last entry was "
        f"recorded {words.ago(orphan.since)}",
        led_by("Continue it with:", command, meaning(command, orphan.flow)),
        command,
    )


def _grouped_orphans(
    dead: Sequence[Orphan], how: Examination, index_wrong: bool
) -> Iterator[Finding]:
    """One finding for all orphans of a flow."""
    first = "Make the index anew, which `recover` needs: see below. " if index_wrong else ""
    by_flow: dict[str | None, list[Orphan]] = {}
    for orphan in dead:
        by_flow.setdefault(orphan.flow, []).append(orphan)
    command = how.commands.line("recover", None, *flow_options(None))
    for flow, found in by_flow.items():
        count = words.plural(len(found), "run")
        have = "has" if len(found) == 1 else "have"
        yield Finding(
            "orphans",
            "error",
            f"{count} of {flow!r} {have} no living process: {words.some(one.run_id for one in found)}",
            _explained(
                f"{first}Start your program again, or continue {_them(found)} with:", command, found
            ),
            command,
        )


def _unattended(cp: SyncCheckpointer, how: Examination) -> Iterator[Finding]:
    """Runs that are due, and for which there is no worker."""
    workers = [worker for worker in list_workers(cp.core) if worker.state != "dead"]
    attended = {flow for worker in workers for flow in worker.flows}
    due = cp.store.due(cp.core.journals.clock.now(), limit=PAGE)
    alone = [head for head in due if head.flow not in attended and head.parent is None]
    waiting = Counter(head.flow for head in alone if _is_theirs(cp, head))
    least = "at least " if len(due) == PAGE else ""
    start = how.commands.line("worker", None, f"--flow={PLACEHOLDER}")
    for flow, count in waiting.most_common(_LISTED):
        yield Finding(
            "workers",
            "warning",
            f"{least}{words.plural(count, 'run')} of {flow!r} should be executed, and no worker is there",
            led_by("Start one:", start, meaning(start, flow)),
            start,
        )


def _is_theirs(cp: SyncCheckpointer, head: RunHead) -> bool:
    """Whether workers alone continue a run; what its program left is among the orphans."""
    try:
        return head.status != Status.RUNNING or is_for_workers(cp.core, head.run)
    except (CheckpointCorruptedError, KeyMissingError):  # another finding says it
        return True


def _contents(cp: SyncCheckpointer, how: Examination) -> Iterator[Finding]:
    """What is damaged; meanwhile, unless it is repaired, another process reads the index."""
    check_index = partial(cp.store.rebuild, write=how.repair)
    processes = 1 if how.quick or how.repair else how.workers
    with beside(cp.core.journals.store, check_index, processes=processes) as wrong:
        if not how.quick:
            yield from _damage(cp, how)
        if how.repair or not how.quick:
            yield from _index(wrong(), how)


def _damage(cp: SyncCheckpointer, how: Examination) -> Iterator[Finding]:
    damaged, count = [], 0
    with how.progress("reading", number_of_runs(cp)) as advance:
        for integrity, _ in check_all(cp, workers=how.workers):
            if not integrity.ok:
                damaged.append(integrity)
            count += 1
            advance()
    if not damaged:
        found = f"{words.plural(count, 'run')}, every byte as it was written"
        yield Finding("damage", "ok", found)
    for integrity in damaged if how.every else damaged[:_DAMAGED]:
        named = integrity.problems[: None if how.every else _NAMED]
        more = len(integrity.problems) - len(named)
        problems = "; ".join(map(str, named)) + (f"; and {more:,} more" if more else "")
        way = rescue(how.commands, cp, integrity)
        yield Finding("damage", "error", problems, str(way), way.command)
    if len(damaged) > _DAMAGED and not how.every:
        others = words.some(integrity.run_id for integrity in damaged[_DAMAGED:])
        every = how.commands.line("doctor", None, "--json")
        yield Finding(
            "damage", "error", f"and {len(damaged) - _DAMAGED:,} other runs: {others}",
            f"What to do about each: {every}", every,
        )  # fmt: skip


def _index(wrong: int, how: Examination) -> Iterator[Finding]:
    rows = words.plural(wrong, "row")
    if not wrong:
        yield Finding("index", "ok", "lists of runs show what their journals say")
    elif how.repair:
        yield Finding("index", "ok", f"{rows} of the index of runs made anew")
    else:
        repair = how.commands.line("doctor", None, "--repair")
        yield Finding(
            "index",
            "warning",
            f"{rows} of the index of runs {'is' if wrong == 1 else 'are'} not what the runs say; lists "
            "and counts may be wrong",
            f"Make {'it' if wrong == 1 else 'them'} anew: {repair}",
            repair,
        )


def _is_index_wrong(findings: Iterable[Finding]) -> bool:
    return any(one.what == "index" and one.status != "ok" for one in findings)


def _half_forgotten(cp: SyncCheckpointer) -> Iterator[Finding]:
    for record in records(cp.core, status=Status.OPEN):
        when = to_datetime(record.began).astimezone().isoformat(" ", "minutes")
        yield Finding(
            "forgetting",
            "warning",
            f"forgetting of {_ARTICLE[record.header['of']]} was begun, and not finished, on {when}",
            "Do it again; the rest is deleted, and the receipt covers all: holdfast forget.",
        )


def _amount(cp: SyncCheckpointer) -> Iterator[Finding]:
    totals = cp.stats()
    number = sum(cp.count_runs().values())  # also of those that have no checkpoint yet
    counts = (words.plural(number, "run"), words.plural(totals.checkpoints, "checkpoint"))
    found = f"{', '.join(counts)}; their states take {words.size(totals.stored_bytes)}"
    file = _file_size(cp)
    found += f", the file {words.size(file)}" if file else ""
    if totals.checkpoints > _MANY_CHECKPOINTS or totals.stored_bytes > _MANY_BYTES:
        yield Finding(
            "size",
            "warning",
            found,
            "To see what could be deleted: holdfast prune --older-than 30d --dry-run; to have it "
            "done: Checkpointer(retention=Retention(...)), or [[tool.holdfast.retention]] in "
            "pyproject.toml.",
        )
    else:
        yield Finding("size", "ok", found)


def _file_size(cp: SyncCheckpointer) -> int:
    """Bytes of a store that is one file, with SQLite's log; 0 for any other."""
    path = local_path(cp.store.url)
    if path is None or not path.is_file():
        return 0
    size = path.stat().st_size
    with suppress(FileNotFoundError):
        size += path.with_name(f"{path.name}-wal").stat().st_size
    return size
