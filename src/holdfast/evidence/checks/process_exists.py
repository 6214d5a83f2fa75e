"""process_exists: a process is still running.

    expected = {"pid": 4711, "start_time": "…"}

`start_time` is what `process_evidence(pid)` records. It distinguishes the process from a later one with the
same pid.
"""

from __future__ import annotations

import os

from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields
from holdfast.kernel.processes import start_of


def admit(evidence: Evidence, policy: Policy) -> tuple[int, str]:
    """The pid and the start time."""
    fields = Fields(evidence, "pid", "start_time")
    pid = fields.required("pid", int)
    if not 0 < pid < 1 << 31:
        raise fields.refuse(f"{pid} is not a pid")
    start = fields.optional("start_time", str, None)
    if start is None:
        raise fields.refuse("start_time is missing, and pids are reused; use process_evidence(pid)")
    return pid, start


def subject(evidence: Evidence) -> str:
    """The process id."""
    return f"process:{int(evidence.expected['pid'])}"


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if it has ended or another has its number; INCONCLUSIVE if the system hides it."""
    pid, start = admit(evidence, context.policy)
    try:
        found = start_of(pid, context.remaining())
    except TimeoutError:
        raise
    except (OSError, ValueError) as error:
        return inconclusive(f"process {pid}: {error}")
    if found is None:
        if _is_hidden(pid):
            return inconclusive(f"process {pid} may not be inspected")
        return failed(f"process {pid} has ended")
    return verified() if found == start else failed(f"process {pid} is another one now")


def _is_hidden(pid: int) -> bool:
    """Whether it exists, but /proc is mounted so as not to show it."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
