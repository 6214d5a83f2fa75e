"""process_exists: the process that was seen then is still running.

    expected = {"pid": 4711, "start_time": "…"}

`start_time` is what `process_evidence(pid)` writes down. Numbers of processes are used again, so
without it nothing could be told.
"""

from __future__ import annotations

import os

from holdfast.evidence.checks.fields import known_only, refuse, required
from holdfast.evidence.claims import Evidence
from holdfast.evidence.context import Context
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import Verdict, failed, inconclusive, verified
from holdfast.kernel.processes import start_of


def admit(evidence: Evidence, policy: Policy) -> tuple[int, str]:
    """The number and the start claimed."""
    expected = evidence.expected
    known_only(evidence, expected, "pid", "start_time")
    pid = required(evidence, expected, "pid", int)
    if not 0 < pid < 1 << 31:
        raise refuse(evidence, f"{pid} is no number of a process")
    if "start_time" not in expected:
        raise refuse(
            evidence, "start_time is missing: pids are used again; use process_evidence(pid)"
        )
    return pid, required(evidence, expected, "start_time", str)


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if it has ended or another has its number; INCONCLUSIVE if the system does not say."""
    pid, start = admit(evidence, context.policy)
    try:
        found = start_of(pid, context.remaining())
    except TimeoutError:
        raise
    except (OSError, ValueError) as error:
        return inconclusive(f"process {pid}: {error}")
    if found is None:
        if _is_hidden(pid):
            return inconclusive(f"process {pid} may not be looked at")
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
