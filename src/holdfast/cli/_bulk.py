"""Many runs that one command executes: a few at a time, and what came of each."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from holdfast.cli import _show
from holdfast.cli._claims import Allowed
from holdfast.cli._session import Session
from holdfast.engine.engine import Engine
from holdfast.engine.flow import Flow
from holdfast.errors import RunActiveError, RunCancelledError, RunPausedError
from holdfast.views.errors import as_options
from holdfast.views.values import plain


def open_engine(session: Session, flows: Sequence[Flow[Any]], allowed: Allowed) -> Engine:
    """An engine on the session's store that knows these flows."""
    return Engine(
        session.url,
        owner=session.owner,
        flows=flows,
        verifier=allowed.verifier(),
        **session.engine(),
    )


async def resume_all(
    engine: Engine, runs: Sequence[str], at_once: int, advance: Callable[[], None]
) -> dict[str, Any]:
    """Resume these runs, so many at a time; the result or error of each, by id."""
    places = asyncio.Semaphore(at_once)
    came: dict[str, Any] = {}

    async def resume(run_id: str) -> None:
        async with places:
            try:
                came[run_id] = await engine.resume(run_id)
            except Exception as error:  # noqa: BLE001 - the others are continued
                came[run_id] = error
            advance()

    await asyncio.gather(*map(resume, runs))
    return came


def note_of(row: Mapping[str, Any], advice: Collection[str]) -> str | None:
    """What a table says of a run; of `advice` only what was done, since the rest is below it."""
    told: str | None = row["error"]
    return told.partition(":")[0] if told and told in advice else told


def draw_advice(rows: Sequence[Mapping[str, Any]], advice: Collection[str]) -> None:
    """Say below a table, once, what to do about its rows."""
    for told in advice:
        if any(row["error"] == told for row in rows):
            _show.explain(_show.cell(told, "yellow"))


def outcome(run_id: str, came: Mapping[str, Any]) -> dict[str, Any]:
    """What came of a run, as commands show it; nothing if it was not executed."""
    if run_id not in came:
        return {}
    result = came[run_id]
    if isinstance(result, RunPausedError):
        return {"status": "paused", "error": str(result)}
    if isinstance(result, RunCancelledError):
        return {"status": "cancelled", "error": None}
    if isinstance(result, RunActiveError):  # by another process
        return {"status": result.status, "error": str(result)}
    if isinstance(result, BaseException):
        return {"status": "failed", "error": as_options(plain(result))}
    return {"status": "completed", "error": None, "result": plain(result)}
