"""command_exit: a command that ran ended with this exit code. It is never run again.

    expected = {"exit_code": 0}
    metadata = {"command": ["make", "report"]}       to tell commands apart

The exit code was recorded when the command ran. `command_evidence` records it beside the claim,
together with the command, and it vouches for that command alone; nothing in the claim itself does.
Or else the program recorded it as `exit_code` in the state saved with the claim; that is enough for
one command of the checkpoint, the one that the state's `command` names if it has one. Without a
record the claim is inconclusive.
"""

from __future__ import annotations

from holdfast.codec.values import same
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
    """Unless the exit code was recorded beside the claim."""
    return evidence.observed is None


def facts(evidence: Evidence) -> dict[str, object]:
    """How it ended."""
    return {"exit_code": evidence.expected["exit_code"]}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if another code was recorded, or the command did not end; INCONCLUSIVE if none was."""
    claimed = admit(evidence, context.policy)
    if context.observed is not None:
        recorded, where = context.observed, f"{context.observed.get('by', 'holdfast')} recorded"
        is_other = recorded.get("command") != evidence.metadata.get("command")
    else:
        recorded, where = context.snapshot or {}, "the state has"
        named = recorded.get("command"), evidence.metadata.get("command")
        is_other = None not in named and not same(*named)
    if "exit_code" not in recorded:
        return inconclusive("no exit code was recorded when the command ran")
    if is_other:
        return inconclusive("no exit code was recorded of this command, only of another one")
    code = recorded["exit_code"]
    if code is None:
        return failed("the command did not end by itself")
    if type(code) is not int:
        return error(f"{where} {type(code).__name__} as exit_code, not an exit code")
    return verified() if code == claimed else failed(f"{where} exit code {code}, not {claimed}")
