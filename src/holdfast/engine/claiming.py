"""What is claimed about the world when a step is finished: files it read and wrote, and more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.inputs import inputs_hash
from holdfast.errors import ClaimFailedError, SerializeError

if TYPE_CHECKING:
    from holdfast.engine.program import Task
    from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike] | Callable[[Any], PathLike | Iterable[PathLike]]
"""One path, several, or a function of the step's result that gives them."""

CALLED_WITH: Final = "called_with"
"""In the `meta` of a result that claims something: names what its step was called with."""

_SCALARS: Final = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Claiming:
    """What a step claims. What can't be claimed, because it is not there or not so, fails the step."""

    outputs: tuple[Any, ...] = ()
    reads: tuple[Any, ...] = ()
    evidence: tuple[Any, ...] = ()

    def and_also(self, outputs: Paths = (), reads: Paths = (), evidence: Any = ()) -> Claiming:
        """With more to claim."""
        return Claiming(
            (*self.outputs, *_several(outputs)),
            (*self.reads, *_several(reads)),
            (*self.evidence, *_several(evidence)),
        )

    def or_none(self) -> Claiming | None:
        """Itself, unless there is nothing to claim at all."""
        return self if self.outputs or self.reads or self.evidence else None

    def before(self, verifier: EvidenceVerifier, task: Task) -> list[Evidence]:
        """The files that the step is about to read, as they are now. Blocks."""
        paths = _paths(self.reads, None)
        return [claim for path in paths for claim in _files(path, verifier, task.name, "read")]

    def after(
        self,
        verifier: EvidenceVerifier,
        task: Task,
        value: Any,
        read: Sequence[Evidence],
        said: Sequence[Any],
        recorded: Callable[[], Any],
    ) -> dict[str, Any]:
        """What the step's entry says about the world, now that it is finished. Blocks.

        `read` is what was found `before`, `said` what the step itself claimed while it ran, and
        `recorded` gives what will be recorded of it. Files are claimed as they are. Other evidence
        is checked right away, except where the step has a transaction yet to come: raises
        `ClaimFailedError` where it is not so, or can't be told.
        """
        from holdfast.evidence import EvidencePack
        from holdfast.evidence.records import evidence_meta

        paths = _paths(self.outputs, value)
        wrote = [claim for path in paths for claim in _files(path, verifier, task.name, "written")]
        given, packs = _given((*self.evidence, *said), value)
        newer = {claim.subject for claim in (*wrote, *given)}
        kept = [claim for claim in read if claim.subject not in newer]
        claims = {claim.digest: claim for claim in (*kept, *wrote, *given)}
        if claims:
            packs.insert(0, EvidencePack(tuple(claims.values())))
        for pack in packs:
            verifier.refuse_unverifiable(pack)
        if task.policy.commit is None:
            _check(verifier, task, recorded, given, packs[1:] if claims else packs)
        return evidence_meta(*packs) if packs else {}


def inputs_of(task: Task) -> str | None:
    """Names what a step was called with; None where that can't be told."""
    try:
        return inputs_hash([list(task.args), dict(task.kwargs)])[:16]
    except (SerializeError, TypeError, ValueError):
        return None


def is_unchangeable(task: Task) -> bool:
    """Whether a step can't have changed what it was called with."""
    return all(type(part) in _SCALARS for part in (*task.args, *task.kwargs.values()))


@lru_cache(maxsize=1)
def usual_verifier() -> EvidenceVerifier:
    """What checks the claims of flows unless they are given a verifier of their own."""
    from holdfast.evidence import EvidenceVerifier

    return EvidenceVerifier()


def _check(
    verifier: EvidenceVerifier,
    task: Task,
    recorded: Callable[[], Any],
    given: Sequence[Evidence],
    packs: Sequence[EvidencePack],
) -> None:
    claims = [*given, *(claim for pack in packs for claim in pack.evidence_list)]
    if not claims:
        return
    snapshot = None
    if any("recorded" not in claim.metadata for claim in claims):  # those that bring it along
        found = recorded()
        snapshot = found if isinstance(found, dict) else None
    verifier.check(claims, snapshot=snapshot)
    against = [claim for claim in given if not claim.verified]
    for pack in packs:
        if not pack.is_verified:
            against += [claim for claim in pack.evidence_list if not claim.verified]
    if against:
        raise ClaimFailedError(task.name, tuple(against))


def _given(said: Sequence[Any], value: Any) -> tuple[list[Evidence], list[EvidencePack]]:
    """The claims that must all hold, and the packs with a rule of their own."""
    from holdfast.evidence import Evidence, EvidencePack

    claims: list[Evidence] = []
    packs: list[EvidencePack] = []
    for one in said:
        for part in _several(one(value) if callable(one) else one):
            if isinstance(part, Evidence):
                claims.append(Evidence.from_dict(part.to_dict()))  # verdicts are shown on a copy
            elif isinstance(part, EvidencePack):
                packs.append(EvidencePack.from_dict(part.to_dict()))
            else:
                raise TypeError(f"evidence must be Evidence or an EvidencePack, not {part!r}")
    return claims, packs


def _several(said: Any) -> tuple[Any, ...]:
    if said is None:
        return ()
    if isinstance(said, str | os.PathLike) or callable(said) or not isinstance(said, Iterable):
        return (said,)
    return tuple(said)


def _paths(said: Sequence[Any], value: Any) -> list[str]:
    found: list[str] = []
    for one in said:
        found += (os.fspath(path) for path in _several(one(value) if callable(one) else one))
    return found


def _files(path: str, verifier: EvidenceVerifier, step: str, how: str) -> list[Evidence]:
    from holdfast.evidence import files_evidence

    try:
        return files_evidence(path, policy=verifier.policy)
    except FileNotFoundError as error:
        words = f"step {step!r} says that {path} is {how} by it, and there is no such file"
        raise FileNotFoundError(words) from error
