"""What a step claims about the world: the files it read, wrote and removed, and other evidence."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.inputs import readable_hash
from holdfast.errors import ClaimFailedError, SerializeError
from holdfast.errors.base import one_line

if TYPE_CHECKING:
    from holdfast.engine.program import Task
    from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike] | Callable[..., PathLike | Iterable[PathLike]]
"""One path, several, or a function that returns them. It is called with the step's result, and with
its arguments if it has parameters for them; for files that are read, with the arguments alone."""

_SCALARS: Final = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Claiming:
    """What a step claims. A claim that is false when the step finishes fails the step."""

    outputs: tuple[Any, ...] = ()
    reads: tuple[Any, ...] = ()
    evidence: tuple[Any, ...] = ()
    removes: tuple[Any, ...] = ()
    call: tuple[Sequence[Any], Mapping[str, Any]] | None = None  # the arguments, if not the task's

    def and_also(
        self, outputs: Paths = (), reads: Paths = (), evidence: Any = (), removes: Paths = ()
    ) -> Claiming:
        """The same with more claims. Raises `TypeError` for what is no path."""
        return Claiming(
            (*self.outputs, *_several_paths("outputs", outputs)),
            (*self.reads, *_several_paths("reads", reads)),
            (*self.evidence, *_several(evidence)),
            (*self.removes, *_several_paths("removes", removes)),
            self.call,
        )

    def or_none(self) -> Claiming | None:
        """Itself; None if there is nothing to claim."""
        return self if self.outputs or self.reads or self.evidence or self.removes else None

    def refuse(self, verifier: EvidenceVerifier) -> None:
        """Raise, before the step is called, if something could never be claimed.

        `EvidencePolicyError`, `InvalidEvidenceError` or `TypeError`. No file is looked at.
        """
        from holdfast.evidence.world.paths import locate

        for said in (*self.outputs, *self.reads, *self.removes):
            if not callable(said):
                locate(os.fspath(said), verifier.policy)
        claims, packs = _given([one for one in self.evidence if not callable(one)], verifier)
        for pack in _together(claims, packs):
            verifier.refuse_unverifiable(pack)

    def before(self, verifier: EvidenceVerifier, task: Task) -> list[Evidence]:
        """The files that the step is about to read, as they are now. Blocks."""
        args, kwargs = self.call or (task.args, task.kwargs)
        paths = _paths(one(*args, **kwargs) if callable(one) else one for one in self.reads)
        return [claim for path in paths for claim in _files(path, verifier, task.name, "read")]

    def after(
        self,
        verifier: EvidenceVerifier,
        task: Task,
        value: Any,
        read: Sequence[Evidence],
        said: Sequence[Any],
        recorded: Callable[[], Any],
        left: Callable[[Sequence[Evidence]], Sequence[Evidence]] = lambda claims: (),
    ) -> dict[str, Any]:
        """The claims for the `meta` of the finished step's entry. Blocks.

        `read` is what `before` returned, `said` what the step itself claimed while it ran, and
        `recorded` returns what will be recorded of it. Files are claimed as they are. Other
        evidence is checked right away, unless the step still has a transaction to commit: raises
        `ClaimFailedError` if it is false, or can't be checked. So does what is false now of the
        rest of earlier claims on the same things: `left` finds that.
        """
        from holdfast.evidence import Evidence
        from holdfast.evidence.checks import refuse_shared_exit_code
        from holdfast.evidence.trust.rule import Claim, Replaced
        from holdfast.evidence.trust.storing import evidence_meta

        args, kwargs = self.call or (task.args, task.kwargs)

        def called(one: Any) -> Any:
            if not callable(one):
                return one
            return one(value, *args, **kwargs) if _wants_arguments(one) else one(value)

        paths = _paths([called(one) for one in self.outputs])  # `map` would end at a StopIteration
        wrote = [claim for path in paths for claim in _files(path, verifier, task.name, "wrote")]
        gone = [
            Evidence("artifact_exists", f"{path} is gone", {"path": path, "type": "absent"})
            for path in _paths([called(one) for one in self.removes])
        ]
        given, packs = _given([*(called(one) for one in (*self.evidence, *said)), *gone], verifier)
        newer = Replaced(Claim(one, frozenset(one.facts)) for one in (*wrote, *given))
        kept = [one for one in read if any(newer.left(0, [Claim(one, frozenset(one.facts))]))]
        every = _together((*kept, *wrote, *given), packs)
        refuse_shared_exit_code(claim for pack in every for claim in pack.evidence_list)
        for pack in every:
            verifier.refuse_unverifiable(pack)
        if task.policy.commit is None:
            _check(verifier, task, recorded, _together(given, packs))
            stale = left([claim for pack in every for claim in pack.evidence_list])
            if stale:
                raise ClaimFailedError(task.name, tuple(stale), left=True)
        return evidence_meta(*every) if every else {}


def inputs_of(task: Task) -> str | None:
    """A hash of what a step was called with; None if that can't be hashed."""
    try:
        return readable_hash([list(task.args), dict(task.kwargs)])
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
    packs: Sequence[EvidencePack],
) -> None:
    from holdfast.evidence.checks import needs_snapshot

    claims = [claim for pack in packs for claim in pack.evidence_list]
    if not claims:
        return
    snapshot = None
    if any(needs_snapshot(claim) for claim in claims):
        found = recorded()
        snapshot = found if isinstance(found, dict) else None
    verifier.check(claims, snapshot=snapshot)
    failed = [pack for pack in packs if not _may_hold(pack)]
    against = [claim for pack in failed for claim in pack.evidence_list if not claim.verified]
    if against:
        raise ClaimFailedError(task.name, tuple(against))


def _may_hold(pack: EvidencePack) -> bool:
    """Whether as many claims are verified as it requires, or can be checked only elsewhere."""
    claims = pack.evidence_list
    return sum(claim.verified or claim.is_elsewhere for claim in claims) >= pack.required


def _given(
    said: Sequence[Any], verifier: EvidenceVerifier
) -> tuple[list[Evidence], list[EvidencePack]]:
    """Copies of the claims that must all verify, and of the packs, which say how many must."""
    from holdfast.evidence import Evidence, EvidencePack
    from holdfast.evidence.world.bases import base_of, with_base

    base = base_of(verifier.policy)
    claims: dict[str, Evidence] = {}
    packs: list[EvidencePack] = []
    for part in (part for one in said for part in _several(one)):
        if isinstance(part, Evidence):  # verdicts are shown on a copy
            claim = with_base(part, base)
            claims[claim.digest] = claim
        elif isinstance(part, EvidencePack):
            based = [with_base(claim, base) for claim in part.evidence_list]
            packs.append(replace(part, evidence_list=based))
        else:
            raise TypeError(f"evidence must be Evidence or an EvidencePack, not {part!r}")
    return list(claims.values()), packs


def _together(claims: Iterable[Evidence], packs: Sequence[EvidencePack]) -> list[EvidencePack]:
    """The packs, behind one of the claims that must all verify, each once."""
    from holdfast.evidence import EvidencePack

    different = {claim.digest: claim for claim in claims}
    return [*([EvidencePack(tuple(different.values()))] if different else []), *packs]


def _several_paths(name: str, said: Any) -> tuple[Any, ...]:
    paths = _several(said)
    for one in paths:
        if not callable(one) and not isinstance(one, str | os.PathLike):
            raise TypeError(f"{name} must be paths, or a function that returns them, not {one!r}")
    return paths


def _several(said: Any) -> tuple[Any, ...]:
    if said is None or (type(said) is tuple and not said):
        return ()
    if isinstance(said, str | os.PathLike) or callable(said) or not isinstance(said, Iterable):
        return (said,)
    return tuple(said)


def _wants_arguments(fn: Callable[..., Any]) -> bool:
    """Whether it requires more than one argument: `lambda result, n=n` requires one."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in variadic]
    return len(needed) > 1


def _paths(said: Iterable[Any]) -> list[str]:
    return [os.fspath(path) for one in said for path in _several(one)]


def _files(path: str, verifier: EvidenceVerifier, step: str, how: str) -> list[Evidence]:
    from holdfast.evidence import files_evidence, verified
    from holdfast.evidence.world.bases import base_of, with_base

    try:
        found = files_evidence(path, policy=verifier.policy)
    except FileNotFoundError as error:
        words = f"step {step!r} claims that it {how} {one_line(path)}, but there is no such file"
        if any(sign in path for sign in "*?["):
            words += "; glob patterns are not expanded: pass a function that returns the files"
        raise FileNotFoundError(words) from error
    base = base_of(verifier.policy)
    claims = [with_base(claim, base) for claim in found]
    for claim in claims:  # it was just seen
        claim.judge(verified()._replace(evidence=claim.digest))
    return claims
