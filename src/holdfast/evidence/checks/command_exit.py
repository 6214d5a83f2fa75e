"""command_exit: a command that ran ended with this exit code. It is never run again.

    expected = {"exit_code": 0}
    metadata = {"command": ["make", "report"]}       for people, and to tell claims apart

What it is compared with was written down when the command ran: by holdfast itself, which puts it
into `metadata["recorded"]` (see `command_evidence`), or else by the program, as
`snapshot["exit_code"]` in the state saved with the claim. Without either nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.evidence.checks.fields import known_only, required
from holdfast.evidence.claims import Evidence
from holdfast.evidence.context import Context
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict, error, failed, inconclusive, verified


def admit(evidence: Evidence, policy: Policy) -> int:
    """The exit code claimed."""
    expected = evidence.expected
    known_only(evidence, expected, "exit_code")
    return required(evidence, expected, "exit_code", int)


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if another code was recorded, or the command did not end; INCONCLUSIVE if none was."""
    claimed = admit(evidence, context.policy)
    recorded: Any = evidence.metadata.get("recorded")
    where = "holdfast recorded"
    if recorded is None:
        recorded, where = context.snapshot, "the snapshot holds"
    if not isinstance(recorded, Mapping) or "exit_code" not in recorded:
        return inconclusive("no exit code was recorded when the command ran")
    code = recorded["exit_code"]
    if code is None:
        return failed("the command did not end by itself")
    if type(code) is not int:
        return error(f"{where} {type(code).__name__} as exit_code, which is no exit code")
    return verified() if code == claimed else failed(f"{where} exit code {code}, not {claimed}")
