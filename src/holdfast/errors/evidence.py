"""Claims that can't be used as evidence."""

from typing import Any

from holdfast.errors.base import HoldfastError, one_line


class EvidenceError(HoldfastError):
    """A claim, or a pack of claims, can't be used as evidence."""

    def __str__(self) -> str:
        return one_line(super().__str__())  # paths and descriptions may hold anything


class InvalidEvidenceError(EvidenceError, ValueError):
    """A claim that is malformed, or a pack that is empty, contradictory or unsatisfiable."""

    what: str
    reason: str


class EvidencePolicyError(EvidenceError):
    """The policy of the program that checks can never allow this claim; nothing was touched."""

    what: str
    reason: str
    _text = "{what} can't be checked here: {reason}"


class ClaimFailedError(EvidenceError):
    """A step finished, but what it claims about the world is false, or could not be checked.

    With `reads`, the step was not called: what it reads is not what was claimed of it. With `left`,
    its own claims are true, but something that was claimed earlier about the same things is not.
    """

    step: str
    evidence: tuple[Any, ...]
    reads: bool = False
    left: bool = False

    def __str__(self) -> str:
        false = [one for one in self.evidence if getattr(one, "verification_status", 0) == "failed"]
        unchecked = [claim for claim in self.evidence if claim not in false]
        parts = [
            f"{what}: {'; '.join(map(str, claims[:5]))}"
            for what, claims in (("what is false", false), ("what can't be checked", unchecked))
            if claims
        ]
        said = "; and ".join(parts)
        if self.reads:
            return (
                f"step {self.step!r} was not called, because what it reads was changed since it "
                f"was claimed; {said}. Resume the run to make it again, or claim its new content "
                "in an earlier step with outputs="
            )
        if self.left:
            return (
                f"step {self.step!r} made an earlier claim false and did not claim what is true "
                f"now; {said}. Let the step claim that, too: for a file, with outputs="
            )
        return f"step {self.step!r} claims {said}"
