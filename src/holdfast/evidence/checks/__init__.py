"""Types of evidence: one module each, imported when a claim of its type is first used.

To add a type, write a module with these functions and name it in `EvidenceType`:

- `admit(evidence, policy)` returns the claim parsed, or raises `InvalidEvidenceError` if it is
  malformed and `EvidencePolicyError` if the policy can never allow it. It reads only the claim.
- `subject(evidence)` names what the claim is about. If it raises, the claim is about nothing but
  itself.
- `check(evidence, context)` looks at the world and returns a verdict.
- `facts(evidence)`, optional: what it says of the subject, by name, each with a value that can be
  true in one way only, or None. A later claim on the subject replaces the facts of the same names
  and no others; `context.in_force(name)` says what is left to check. Without it, a claim states
  one fact, named by its type.
- `needs_snapshot(evidence)`, optional: whether `check` reads `context.snapshot`.

A program registers types of its own, each a module or an object with the same functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterable, Mapping
from contextlib import nullcontext, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import EvidencePolicyError, InvalidEvidenceError

if TYPE_CHECKING:
    from holdfast.evidence.claims import Evidence
    from holdfast.evidence.context import Context
    from holdfast.evidence.packs import EvidencePack
    from holdfast.evidence.policy import Policy
    from holdfast.evidence.verdicts import Verdict


class EvidenceType(StrEnum):
    """The built-in types, each a module of this package. A type of your own is any other string."""

    ARTIFACT_EXISTS = "artifact_exists"
    FILE_SHA256 = "file_sha256"
    COMMAND_EXIT = "command_exit"
    DB_ROW = "db_row"
    NETWORK_REACHABLE = "network_reachable"
    API_RESPONSE = "api_response"
    CONTAINER_RUNNING = "container_running"
    PROCESS_EXISTS = "process_exists"


class EvidenceTypeLike(Protocol):
    """What makes a type of evidence: what it admits, its subject, and how it is checked."""

    def admit(self, evidence: Evidence, policy: Policy, /) -> object:
        """The claim, parsed. Raises `InvalidEvidenceError` or `EvidencePolicyError`."""

    def subject(self, evidence: Evidence, /) -> str:
        """What the claim is about."""

    def check(self, evidence: Evidence, context: Context, /) -> Verdict | bool:
        """What looking at the world found."""


BUILT_IN: Final[Mapping[str, EvidenceType]] = {kind.value: kind for kind in EvidenceType}
_registered: Final[dict[str, EvidenceTypeLike]] = {}
_modules: Final[dict[str, Any]] = {}  # of built-in types, once used; each has the functions


def register_type(name: str, kind: EvidenceTypeLike) -> None:
    """Add a type of evidence to this process. Raises `ValueError` for the name of a built-in type.

    Subjects of registered types are their own: no claim of theirs replaces a built-in type's.
    """
    if name in BUILT_IN or not name:
        raise ValueError(f"{name!r} can't be registered: choose a name of your own")
    _registered[name] = kind


def type_named(name: str) -> EvidenceTypeLike | None:
    """The type of this name; None if there is none."""
    if name not in BUILT_IN:
        return _registered.get(name)
    known = _modules.get(name)
    if known is None:
        known = _modules[name] = importlib.import_module(f"{__name__}.{name}")
    return known


def subject_of(evidence: Evidence) -> str:
    """What the claim is about, as text. A malformed claim is about nothing but itself.

    The same path on two machines is two subjects. No path has a NUL in it.
    """
    name = str(evidence.evidence_type)
    kind = type_named(name)
    try:
        found = evidence.metadata["subject"] if kind is None else kind.subject(evidence)
    except Exception:  # noqa: BLE001 - what users' types raise may be anything
        found = None
    if not isinstance(found, str):
        return f"claim:{evidence.digest}"
    found = found if name in BUILT_IN else f"custom:{found}"
    if evidence.host is None:
        return found
    kind_of, _, what = found.partition(":")
    return f"{kind_of}:{evidence.host}\0{what}"


def facts_of(evidence: Evidence) -> Mapping[str, object]:
    """What the claim says of its subject, by name. A malformed claim states one fact."""
    name = str(evidence.evidence_type)
    facts = getattr(type_named(name), "facts", None)
    found: Any = None
    if facts is not None:
        with suppress(Exception):  # what users' types raise may be anything
            found = dict(facts(evidence))
    return found or {name: None}


def needs_snapshot(evidence: Evidence) -> bool:
    """Whether the state saved with the claim can matter to its check."""
    name = str(evidence.evidence_type)
    needs = getattr(type_named(name), "needs_snapshot", None)
    return name not in BUILT_IN if needs is None else needs(evidence)


def refuse_unverifiable(
    pack: EvidencePack, policy: Policy, custom: Container[str] = frozenset()
) -> None:
    """Raise if a claim of the pack could never be verified; called before it is saved.

    `InvalidEvidenceError` for one that is malformed, or of a type that is neither known here nor
    in `custom`; `EvidencePolicyError` for one that the policy can never allow. What may be looked
    at on another machine is for that one to say. Only the claims are read: no file, no name, no
    database.
    """
    refuse_shared_exit_code(pack.evidence_list)
    for evidence in pack.evidence_list:
        name = str(evidence.evidence_type)
        kind = type_named(name)
        if kind is not None:
            with suppress(EvidencePolicyError) if evidence.is_elsewhere else nullcontext():
                kind.admit(evidence, policy)
        elif name not in custom:
            raise InvalidEvidenceError(
                name, "there is no such type of evidence; register_type adds your own"
            )


def refuse_shared_exit_code(claims: Iterable[Evidence]) -> None:
    """Raise `InvalidEvidenceError` if the exit codes of several commands were not recorded.

    The state saved with the claims has one at most.
    """
    if len(_unrecorded_commands(claims)) > 1:
        raise InvalidEvidenceError(
            "command_exit",
            "one exit code in the state can't vouch for several commands; "
            "use command_evidence(result) for each",
        )


def snapshot_for(
    claims: Iterable[Evidence], snapshot: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The state to check these claims with; without its exit code if that would be for several."""
    if not isinstance(snapshot, Mapping):
        return None
    if "exit_code" not in snapshot or len(_unrecorded_commands(claims)) < 2:
        return snapshot
    return {name: value for name, value in snapshot.items() if name != "exit_code"}


def _unrecorded_commands(claims: Iterable[Evidence]) -> set[str]:
    name = EvidenceType.COMMAND_EXIT
    return {one.subject for one in claims if one.evidence_type == name and one.observed is None}
