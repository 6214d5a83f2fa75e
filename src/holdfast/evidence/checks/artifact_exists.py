"""artifact_exists: a file or directory exists at a path, or nothing does any more.

    expected = {"path": "out/report.md", "type": "file" | "directory" | "any" | "absent"}

"any" is the default. A link counts as its target; nothing is opened.
"""

from __future__ import annotations

import stat
from typing import Final

from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields, path_subject
from holdfast.evidence.world.bases import from_its_base
from holdfast.evidence.world.paths import Place, locate, look

_TYPES: Final = ("file", "directory", "any", "absent")


def admit(evidence: Evidence, policy: Policy) -> tuple[Place, str]:
    """The place and the type claimed."""
    fields = Fields(evidence, "path", "type")
    kind = fields.optional("type", str, "any")
    if kind not in _TYPES:
        raise fields.refuse(f"type must be one of {', '.join(_TYPES)}")
    return locate(fields.required("path", str), policy), kind


def subject(evidence: Evidence) -> str:
    """The path."""
    return path_subject(evidence.expected["path"])


def facts(evidence: Evidence) -> dict[str, object]:
    """What kind of thing the path leads to, if the claim says so."""
    kind = evidence.expected.get("type", "any")
    return {} if kind == "any" else {"kind": kind}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if nothing is there, or something else; INCONCLUSIVE if it may not be read."""
    place, kind = context.admit(evidence, admit)
    return from_its_base(_found(place, kind, context.policy), evidence, place)


def _found(place: Place, kind: str, policy: Policy) -> Verdict:
    try:
        mode = look(place, policy).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return verified() if kind == "absent" else failed(f"{place.path} does not exist")
    except OSError as error:
        return inconclusive(f"{place.path}: {error.strerror or error}")
    if kind == "absent":
        return failed(f"{place.path} still exists")
    if kind == "file" and not stat.S_ISREG(mode):
        return failed(f"{place.path} is not a regular file")
    if kind == "directory" and not stat.S_ISDIR(mode):
        return failed(f"{place.path} is not a directory")
    return verified()
