"""Checkpoints as a table for other tools: JSON Lines, Parquet or DuckDB. Everything here blocks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.checkpoint import Checkpoint
from holdfast.codec import readable
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_live
from holdfast.kernel.playback import Playback
from holdfast.model import Entry
from holdfast.operations.copying import Progress, named_runs, unseen
from holdfast.operations.private_files import replacing

COLUMNS: Final = {
    "checkpoint_id": "VARCHAR", "run_id": "VARCHAR", "sequence": "BIGINT",
    "parent_checkpoint_id": "VARCHAR", "step_id": "VARCHAR", "step_name": "VARCHAR",
    "step_index": "BIGINT", "checkpoint_type": "VARCHAR", "status": "VARCHAR",
    "timestamp": "TIMESTAMPTZ", "duration": "DOUBLE", "pipeline_id": "VARCHAR",
    "pipeline_version": "VARCHAR", "thread_id": "VARCHAR", "owner_id": "VARCHAR",
    "metadata": "VARCHAR", "state_bytes": "BIGINT", "stored_bytes": "BIGINT", "digest": "VARCHAR",
    "state": "VARCHAR",
}  # fmt: skip
"""The columns and their types; `metadata` and `state` are JSON."""

_BATCH: Final = 500

Row = dict[str, Any]
Add = Callable[[Row], None]


def export_checkpoints(
    core: Core,
    path: str | os.PathLike[str],
    *,
    run_ids: Iterable[str] | None = None,
    states: bool = True,
    progress: Progress = unseen,
) -> int:
    """Write a row for every checkpoint of some runs, or of all, to a file; returns how many.

    The file's suffix chooses its form: `.jsonl`, `.parquet`, or `.duckdb` with a table
    `checkpoints`. The last two need the extra `duckdb`. It appears whole or not at all; one that is
    there already is replaced. Without `states` only what is known about them is written. `progress`
    is called with the id of each run. To read runs back, use `export_run` or `copy_to` instead.

    Raises `CheckpointNotFoundError`, and `CheckpointCorruptedError` rather than export damage.
    """
    if isinstance(run_ids, str):
        raise TypeError("run_ids must be a list of ids; for one run give a list of one")
    target = Path(path).absolute()
    writer = _WRITERS.get(target.suffix)
    if writer is None:
        raise ValueError(f"{target.name}: the name must end in {', '.join(_WRITERS)}")
    names = named_runs(core, run_ids)
    count = 0
    with replacing(target) as partial, writer(partial) as add:
        for name in names:
            playback = Playback(core.journals)
            for entry in filter(is_live, core.journals.entries(name, bodies=True)):
                encoding = playback.encoding(entry) if states and entry.size else b""
                if encoding is not None:  # else it was deleted meanwhile
                    add(_row(core, entry, encoding))
                    count += 1
            progress(name)
    return count


def _row(core: Core, entry: Entry, encoding: bytes) -> Row:
    checkpoint = Checkpoint(entry, encoding, core.journals.decode_data)
    state = {"state": readable.to_json(checkpoint.state)} if encoding else {}
    return state | {
        "checkpoint_id": checkpoint.checkpoint_id,
        "run_id": entry.run,
        "sequence": entry.seq,
        "parent_checkpoint_id": checkpoint.parent_id,
        "step_id": entry.step,
        "step_name": checkpoint.step_name,
        "step_index": entry.step_index,
        "checkpoint_type": entry.type,
        "status": checkpoint.status,
        "timestamp": checkpoint.created_at.isoformat(),
        "duration": entry.duration,
        "pipeline_id": entry.flow,
        "pipeline_version": checkpoint.flow_version,
        "thread_id": entry.thread,
        "owner_id": entry.owner,
        "metadata": checkpoint.meta.metadata or {},
        "state_bytes": entry.size,
        "stored_bytes": len(entry.body),
        "digest": entry.digest.hex(),
    }


@contextmanager
def _json_lines(path: Path) -> Iterator[Add]:
    with path.open("x") as file:
        yield lambda row: print(json.dumps(row), file=file)


@contextmanager
def _duckdb(path: Path) -> Iterator[Add]:
    from holdfast.stores.duckdb.store import connect

    columns = ", ".join(f"unnest(?::{kind}[])" for kind in COLUMNS.values())
    insert = f"INSERT INTO checkpoints SELECT {columns}"
    batch: list[Row] = []

    def flush() -> None:
        if batch:
            db.execute(insert, [[_cell(row, name) for row in batch] for name in COLUMNS])
            batch.clear()

    def add(row: Row) -> None:
        batch.append(row)
        if len(batch) >= _BATCH:
            flush()

    with connect(path) as db:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        db.execute(f"CREATE TABLE checkpoints ({columns})")
        yield add
        flush()


@contextmanager
def _parquet(path: Path) -> Iterator[Add]:
    from holdfast.stores.duckdb.store import connect

    scratch = path.with_suffix(".scratch")  # on disk: there may be more of them than memory
    try:
        with _duckdb(scratch) as add:
            yield add
        target = str(path).replace("'", "''")
        with connect(scratch) as db:
            db.execute(f"COPY checkpoints TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    finally:
        scratch.unlink(missing_ok=True)


def _cell(row: Row, name: str) -> Any:
    is_json = name in ("metadata", "state") and name in row
    return json.dumps(row[name]) if is_json else row.get(name)


_WRITERS: Final = {".jsonl": _json_lines, ".parquet": _parquet, ".duckdb": _duckdb}
