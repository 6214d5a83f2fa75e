"""process_exists: a process is still running, and still executes the same program.

    expected = {"pid": 4711, "start_time": "…", "command": "9f86d0…", "image": "60303a…"}

All are what `process_evidence(pid)` records. `start_time` distinguishes the process from a later
one with the same pid, and `image` from another program that it was replaced by (`exec`), also if
that was started by the same interpreter. The system tells the image of one's own processes only;
without it, `command`, the SHA-256 of the command line, must be the same.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.world.programs import program_of
from holdfast.kernel.processes import start_of


class ExpectedProcess(NamedTuple):
    """The claim, parsed."""

    pid: int
    start: str
    command: str
    image: str | None


def admit(evidence: Evidence, policy: Policy) -> ExpectedProcess:
    """The claim, parsed."""
    fields = Fields(evidence, "pid", "start_time", "command", "image")
    pid = fields.required("pid", int)
    if not 0 < pid < 1 << 31:
        raise fields.refuse(f"{pid} is not a pid")
    start = fields.optional("start_time", str, None)
    if start is None:
        raise fields.refuse("start_time is missing, and pids are reused; use process_evidence(pid)")
    if "command" not in fields:
        raise fields.refuse(
            "command is missing, and a process may execute another program; "
            "use process_evidence(pid)"
        )
    image = fields.sha256("image") if "image" in fields else None
    return ExpectedProcess(pid, start, fields.sha256("command"), image)


def subject(evidence: Evidence) -> str:
    """The process id."""
    return f"process:{int(evidence.expected['pid'])}"


def facts(evidence: Evidence) -> dict[str, object]:
    """Which process has the number."""
    return {"process": evidence.expected["start_time"]}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if it has ended, another has its number, or it is another program now.

    INCONCLUSIVE if the system hides it, or tells its command line alone, and that is another one:
    it may have given itself another name.
    """
    claim = admit(evidence, context.policy)
    pid = claim.pid
    try:
        found = start_of(pid, context.remaining())
        if found is None:
            if _is_hidden(pid):
                return inconclusive(f"process {pid} may not be inspected")
            return failed(f"process {pid} has ended")
        if found != claim.start:
            return failed(f"process {pid} is another one now")
        program = program_of(pid, context.remaining())
        if start_of(pid, context.remaining()) != claim.start:
            return failed(f"process {pid} has ended")
    except TimeoutError:
        raise
    except (ProcessLookupError, FileNotFoundError):
        return failed(f"process {pid} has ended")
    except (OSError, ValueError) as error:
        return inconclusive(f"process {pid}: {getattr(error, 'strerror', None) or error}")
    if claim.image is not None:
        if program.image is None:
            return inconclusive(f"what process {pid} executes may not be inspected")
        same = program.image == claim.image
        return verified() if same else failed(f"process {pid} executes another program now")
    if program.command != claim.command:
        return inconclusive(
            f"process {pid} has another command line now: it has another name, or does other work"
        )
    return verified()


def _is_hidden(pid: int) -> bool:
    """Whether it exists, but /proc is mounted so as not to show it."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
