"""network_reachable: a TCP port answers.

expected = {"host": "db.example.org", "port": 5432}
"""

from __future__ import annotations

import errno
import socket
from typing import Final

from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.world.addresses import NoAnswerError, admit_host, connect

_UNREACHABLE: Final = frozenset(
    [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ECONNRESET]
)


def admit(evidence: Evidence, policy: Policy) -> tuple[str, int]:
    """The host and the port claimed."""
    fields = Fields(evidence, "host", "port")
    return admit_host(fields.required("host", str), fields.required("port", int), policy)


def subject(evidence: Evidence) -> str:
    """The host and the port."""
    expected = evidence.expected
    return f"host:{expected['host'].rstrip('.').lower()}:{int(expected['port'])}"


def facts(evidence: Evidence) -> dict[str, object]:
    """That it answers."""
    return {"reachable": True}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if it refuses or does not answer; INCONCLUSIVE if the name could not be resolved now."""
    host, port = admit(evidence, context.policy)
    try:
        connect(host, port, context).close()
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
            return failed(f"there is no host {host}")
        return inconclusive(f"{host} could not be resolved: {error.strerror}", transient=True)
    except TimeoutError:
        raise
    except OSError as error:
        why = f"{host}:{port}: {error.strerror or error}"
        if isinstance(error, NoAnswerError) or error.errno in _UNREACHABLE:
            return failed(why)
        return inconclusive(why, transient=True)
    return verified()
