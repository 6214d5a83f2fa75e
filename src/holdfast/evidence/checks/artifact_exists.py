"""artifact_exists: a file or directory exists at a path, or nothing does any more.

    expected = {"path": "out/report.md", "type": "file" | "directory" | "any" | "absent"}
    expected = {"path": "out/latest", "type": "link", "target": "report.md"}

"any" is the default. A link counts as its target; nothing is opened. With the type "link" it counts
as itself: its text is compared, wherever that leads. A path is "absent" if nothing has its name: a
link that leads nowhere is something.
"""

from __future__ import annotations

import stat
from typing import Final, NamedTuple

from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields, path_subject
from holdfast.evidence.world.bases import where_claimed
from holdfast.evidence.world.paths import Place, locate, look, look_at_name

_TYPES: Final = ("file", "directory", "link", "any", "absent")


class ExpectedArtifact(NamedTuple):
    """The claim, parsed."""

    place: Place
    kind: str
    target: str | None  # the text of a link


def admit(evidence: Evidence, policy: Policy) -> ExpectedArtifact:
    """The claim, parsed."""
    fields = Fields(evidence, "path", "type", "target")
    kind = fields.optional("type", str, "any")
    if kind not in _TYPES:
        raise fields.refuse(f"type must be one of {', '.join(_TYPES)}")
    target = fields.optional("target", str, None)
    if (kind == "link") != (target is not None):
        raise fields.refuse("a link, and nothing else, has a target")
    return ExpectedArtifact(
        locate(fields.required("path", str), policy, evidence.base), kind, target
    )


def subject(evidence: Evidence) -> str:
    """The path."""
    return path_subject(evidence.expected["path"], evidence.base)


def facts(evidence: Evidence) -> dict[str, object]:
    """Whether something exists, and what kind of thing; of a link, its text.

    What is no file has no bytes, so that settles earlier claims on them.
    """
    kind = evidence.expected.get("type", "any")
    no_bytes: dict[str, object] = {"digest": None, "size": None}
    if kind == "link":
        return {"target": evidence.expected.get("target")}
    if kind == "absent":
        return {"exists": False, "kind": None, "target": None, **no_bytes}
    if kind == "directory":
        return {"exists": True, "kind": kind, "target": None, **no_bytes}
    return {"exists": True} if kind == "any" else {"exists": True, "kind": kind}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if nothing is there, or something else; INCONCLUSIVE if it may not be read."""
    claim = context.admit(evidence, admit)
    found = _found(claim, context.policy)
    return where_claimed(found, claim.place, absent=claim.kind == "absent")


def _found(claim: ExpectedArtifact, policy: Policy) -> Verdict:
    place, kind, target = claim
    try:
        if kind in ("absent", "link"):
            _, found = look_at_name(place, policy)
        else:
            mode = look(place, policy).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return verified() if kind == "absent" else failed(f"{place.path} does not exist")
    except OSError as error:
        return inconclusive(f"{place.path}: {error.strerror or error}")
    if kind == "absent":
        return failed(f"{place.path} still exists")
    if kind == "link":
        return verified() if found == target else failed(f"{place.path} is not the link claimed")
    if kind == "file" and not stat.S_ISREG(mode):
        return failed(f"{place.path} is not a regular file")
    if kind == "directory" and not stat.S_ISDIR(mode):
        return failed(f"{place.path} is not a directory")
    return verified()
