"""command_exit: a command that ran ended with this exit code. It is never run again.

    expected = {"exit_code": 0}
    metadata = {"command": ["make", "report"]}       for people, and to tell claims apart

The exit code was recorded when the command ran: by holdfast itself, which puts it into
`metadata["recorded"]` (see `command_evidence`), or else by the program, as `snapshot["exit_code"]`
in the state saved with the claim. Without either the claim is inconclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.evidence import (
    Context,
    Evidence,
    Policy,
    Verdict,
    error,
    failed,
    inconclusive,
    verified,
)
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.claims import canonical


def admit(evidence: Evidence, policy: Policy) -> int:
    """The exit code claimed."""
    return Fields(evidence, "exit_code").required("exit_code", int)


def subject(evidence: Evidence) -> str:
    """The command, or the description where the claim does not name it."""
    return f"command:{canonical(evidence.metadata.get('command', evidence.description))}"


def needs_snapshot(evidence: Evidence) -> bool:
    """Unless holdfast recorded the exit code itself."""
    return "recorded" not in evidence.metadata


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if another code was recorded, or the command did not end; INCONCLUSIVE if none was."""
    claimed = admit(evidence, context.policy)
    recorded: Any = evidence.metadata.get("recorded")
    where = "holdfast recorded"
    if recorded is None:
        recorded, where = context.snapshot, "the snapshot has"
    if not isinstance(recorded, Mapping) or "exit_code" not in recorded:
        return inconclusive("no exit code was recorded when the command ran")
    code = recorded["exit_code"]
    if code is None:
        return failed("the command did not end by itself")
    if type(code) is not int:
        return error(f"{where} {type(code).__name__} as exit_code, not an exit code")
    return verified() if code == claimed else failed(f"{where} exit code {code}, not {claimed}")
