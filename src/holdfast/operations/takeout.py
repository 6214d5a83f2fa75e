"""Exporting everything of an owner, a thread or a run to one file. Blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.errors import CheckpointNotFoundError
from holdfast.kernel.core import Core
from holdfast.kernel.store_id import known_store_id
from holdfast.operations.bundle_contents import contents
from holdfast.operations.copying import Progress, unseen
from holdfast.operations.joining import in_thread_order
from holdfast.operations.subjects import Of, heads_of, subject
from holdfast.operations.transfer import Form, write_bundle


class Exported(NamedTuple):
    """What was written to a file."""

    path: Path
    run_ids: tuple[str, ...]
    entries: int
    sha256: str  # of the file


def export_data(
    core: Core,
    path: str | os.PathLike[str],
    *,
    owner: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
    form: Form = "jsonl",
    opened: bool = False,
    progress: Progress = unseen,
) -> Exported:
    """Write everything of an owner, a thread or a run to one file, which `import_runs` reads.

    That is every run with its whole history, readable states, verdicts and child runs. Threads
    and the names given to checkpoints are made from it by an import. The last line lists the runs
    and the digest of each one's last entry, so that nothing can be missing unnoticed. If there is
    nothing of an owner or thread, the file says that. What is encrypted stays so, and needs the
    keyring; if it is to be `opened`, the file has it in the clear, too. Raises `CheckpointNotFoundError` for an
    unknown run. A damaged entry is treated as by `export_run`.
    """
    of, value = subject(owner, thread_id, run_id)
    core.journals.check_given(owner)
    if of == "run" and core.journals.head_seq(value) is None:
        raise CheckpointNotFoundError(value)
    facts = {
        "of": of,
        "id": value,
        "store": known_store_id(core.journals),
        "at": to_datetime(core.journals.clock.now()).isoformat(),
    }
    names: list[str] = []

    def all_names() -> Iterator[str]:
        while new := [name for name in _names(core, of, value) if name not in names]:
            for name in new:
                names.append(name)
                yield name

    def last_line(ends: Mapping[str, str]) -> dict[str, Any]:
        return contents(facts, ends)

    entries = write_bundle(core, all_names(), path, form, progress, last_line, opened=opened)
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Exported(Path(path), tuple(names), entries, digest)


def _names(core: Core, of: Of, value: str) -> list[str]:
    """The runs that are meant: those of threads in the order in which they joined, then the rest."""
    runs = sorted(head.run for head in heads_of(core, of, value))
    return list(dict.fromkeys([*in_thread_order(core.journals, runs), *runs]))
