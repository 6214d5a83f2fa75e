"""What users see of a task: its checkpoints, and its steps in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from holdfast.checkpoint import Checkpoint, to_datetime
from holdfast.codec import readable
from holdfast.errors import VerificationError
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.trust.records import NOTHING, Findings, findings
from holdfast.evidence.trust.storing import pack_of
from holdfast.evidence.verdicts import VerificationStatus
from holdfast.kernel.core import Core
from holdfast.model import checkpoint_id


class TaskCheckpoint(Checkpoint):
    """A checkpoint of a task, with its evidence and the newest verdicts on it.

    The verdicts are shown and never believed: a rollback checks again.
    """

    __slots__ = ("_findings", "_pack")

    def __init__(self, loaded: Checkpoint, findings: Findings = NOTHING) -> None:
        super().__init__(loaded.entry, b"", lambda _: loaded.state)
        self.damage = loaded.damage
        self._findings = findings
        self._pack = None if loaded.damage else pack_of(loaded)
        for claim in self._pack.evidence_list if self._pack else ():
            claim.judge(findings.verdicts.get(claim.digest))

    @property
    def checkpoint_id(self) -> str:
        """The caller's own name for it, if one was given to `commit_step`; else RUN@SEQ."""
        return self.alias or checkpoint_id(self.run_id, self.seq)

    @property
    def alias(self) -> str | None:
        """The caller's own name for it."""
        return self.meta.alias

    @property
    def task_id(self) -> str:
        """The task: the run that it belongs to."""
        return self.run_id

    @property
    def work_item_id(self) -> str | None:
        """The work item that it belongs to, if one was given."""
        return self.meta.work_item

    @property
    def checkpoint_type(self) -> str | None:
        """Its type, one of `CheckpointType`."""
        return self.type

    @property
    def sequence_number(self) -> int:
        """Grows with every checkpoint of the task; begun steps have numbers, too."""
        return self.seq

    @property
    def snapshot_data(self) -> Any:
        """The state as it was when the step was begun."""
        return self.state

    @property
    def evidence_pack(self) -> EvidencePack | None:
        """What was claimed, each claim with the newest verdict on it; None if nothing was."""
        return self._pack

    @property
    def verified(self) -> bool:
        """Whether its evidence verified when it was last checked. Not a reason to trust it now."""
        return (
            self._pack is not None
            and self._findings.status is VerificationStatus.VERIFIED
            and self._pack.is_verified
        )

    @property
    def last_verified_at(self) -> datetime | None:
        """When that was last checked, whatever the verdict."""
        return None if self._findings.at is None else to_datetime(self._findings.at)

    def to_dict(self) -> dict[str, Any]:
        """The documented JSON form, with the names of tasks and of checkpoints; see `from_dict`."""
        at = self.last_verified_at
        return super().to_dict() | {
            "task_id": self.task_id,
            "work_item_id": self.work_item_id,
            "checkpoint_type": self.checkpoint_type,
            "sequence_number": self.sequence_number,
            "snapshot_data": readable.to_json(self.state),
            "evidence_pack": None if self._pack is None else self._pack.to_dict(),
            "metadata": readable.to_json(self.metadata),
            "verified": self.verified,
            "last_verified_at": None if at is None else at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The checkpoint that `to_dict` was called on, unverified: verdicts are not believed.

        Raises `ValueError` for anything else.
        """
        try:
            name = checkpoint_id(data["run_id"], data["seq"])
        except KeyError as error:
            raise ValueError(f"not a checkpoint of a task: it has no {error}") from None
        return cls(Checkpoint.from_dict({**data, "checkpoint_id": name}))


@dataclass(frozen=True, slots=True)
class StepInFlight:
    """A step that was begun and neither committed, abandoned nor rolled back."""

    step_id: str
    task_id: str
    checkpoint_type: str | None
    work_item_id: str | None
    begun_at: datetime
    snapshot: Any
    metadata: dict[str, Any]


def checkpoints_of(core: Core, loaded: list[Checkpoint]) -> list[TaskCheckpoint]:
    """Checkpoints of one task with the newest verdicts on them. Blocks."""
    if not loaded:
        return []
    packs = [(one.entry, pack_of(one)) for one in loaded if not one.damage]
    claims = [(at, [c.digest for c in pack.evidence_list] if pack else []) for at, pack in packs]
    known = findings(core, loaded[0].run_id, claims)
    return [TaskCheckpoint(one, known.get(one.seq, NOTHING)) for one in loaded]


@contextmanager
def of_task() -> Iterator[None]:
    """Have errors advise what can be done with a task."""
    try:
        yield
    except VerificationError as error:
        error.of_task = True
        raise
