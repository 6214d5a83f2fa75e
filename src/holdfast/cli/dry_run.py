"""`holdfast dry-run`: which runs would resume with the code as it is now."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _flows, _options, _show
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.engine import Engine
from holdfast.migrations import Migrations
from holdfast.operations.dry_run import DryRun
from holdfast.views import words
from holdfast.views.runs import doing

_KEYS: Final = 5  # that a row names


@as_command(
    "holdfast dry-run --flow shop.orders:fulfil",
    "holdfast dry-run order-17 --flow shop.orders:fulfil",
    "holdfast dry-run --migrations shop.carts:migrations --prefix cart-",
    "holdfast dry-run --json | jq 'select(.resumes | not)'",
)
@run_argument(required=False)
@_options.flows
@option(
    "--migrations MODULE:NAME",
    "Instead of a flow: what a program of yours gives to `load` or a manager as `migrate`.",
)
@option("--prefix TEXT", "With --migrations: only runs whose id begins with this.", default="")
def command(
    session: Session,
    run: str | None,
    flows: tuple[str, ...],
    migrations: str | None,
    prefix: str,
) -> None:
    """Say which unfinished runs would resume with the code as it is now.

    Of RUN, or of all unfinished runs of the given flows, or of those in pyproject.toml. Each run is
    restored with the new code, its state is migrated, and its flow is asked what is next: a
    workflow's own code is replayed. No step is executed, no claim is checked, nothing is written.

    VERSION says of which version the state is, and of which the code. CHANGES names the keys that
    migrations add (+), remove (-) or change (~), without values. Below it is said why a run would
    not resume. Exits with 1 if one would not.

    With --migrations, of runs that no flow executes: those that a program saves itself, and tasks.
    """
    if migrations is None and prefix:
        raise click.UsageError("--prefix goes with --migrations")
    with session.opened() as cp:
        run_id = None if run is None else find_run(cp, run).run_id
    if migrations is not None:
        found = _tell(session, _migrated(session, migrations, run_id, prefix))
    else:
        found = _tell(session, _resumed(session, flows, run_id))
    if not session.json:
        _draw(found, _statuses(session, found))
    if any(not one.ok for one in found):
        raise SystemExit(Exit.FAILED)


def _migrated(
    session: Session, migrations: str, run_id: str | None, prefix: str
) -> Iterator[DryRun]:
    declared = _flows.declared(migrations, Migrations)
    with SyncCheckpointer(session.url, owner=session.owner, **session.guards()) as cp:
        yield from cp.dry_run(declared, run_id=run_id, prefix=prefix)


def _resumed(session: Session, flows: tuple[str, ...], run_id: str | None) -> Iterator[DryRun]:
    known = [named.flow for named in _flows.load_all(flows)]
    if not known:
        raise click.UsageError(_flows.NAME_IT)
    keys = session.guards()
    with Engine(session.url, flows=known, owner=session.owner, **keys) as engine:
        yield from engine.dry_run_sync(run_id=run_id)


def _tell(session: Session, looked: Iterator[DryRun]) -> list[DryRun]:
    """All of them; with --json, each is printed when it is known."""
    listed: list[DryRun] = []
    for one in looked:
        listed.append(one)
        if session.json:
            click.echo(_show.to_json(document(one)))
    return listed


def document(one: DryRun) -> dict[str, Any]:
    """What is known of a run, for programs. Values are left out: they may be private."""
    fields = one._asdict()
    changes = [{"op": change.op, "path": change.pointer} for change in one.changes]
    return fields | {"changes": changes, "resumes": one.ok}


def _statuses(session: Session, found: list[DryRun]) -> dict[str, str]:
    """By run: the status that `runs` shows."""
    with session.opened() as cp:
        infos = filter(None, (cp.run(one.run_id) for one in found))
        return {info.run_id: doing(cp, info)[0] for info in infos}


def _draw(found: list[DryRun], statuses: Mapping[str, str]) -> None:
    if not found:
        _show.say("no unfinished runs")
        return
    _show.table(
        ("RUN", "STATUS", "VERSION", "RESUMES", "CHANGES"),
        [
            (
                one.run_id,
                _show.word(statuses.get(one.run_id, one.status)),
                _versions(one),
                _show.cell("yes", "green") if one.ok else _show.cell("no", "red"),
                _summary(one),
            )
            for one in found
        ],
    )
    why: dict[str, list[str]] = {}
    for one in found:
        if one.error is not None:
            why.setdefault(one.error, []).append(one.run_id)
    for error, runs in why.items():
        _show.explain(_show.cell(f"{words.some(runs)}: ", "bold").add(_show.clean(error)), indent=2)
    counts = Counter(one.ok for one in found)
    _show.say(f"{counts[True]:,} of {len(found):,} would resume", "" if counts[False] else "green")


def _versions(one: DryRun) -> str:
    same = one.from_version == one.to_version
    return one.to_version if same else f"{one.from_version} → {one.to_version}"


def _summary(one: DryRun) -> str:
    more = [f"{len(one.changes) - _KEYS:,} more"] if len(one.changes) > _KEYS else []
    return ", ".join([*islice(one.keys, _KEYS), *more])
