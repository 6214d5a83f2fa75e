from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.evidence import Evidence, EvidencePack, Verdict, VerificationStatus
from holdfast.evidence.packs import AtCommit
from holdfast.evidence.trust import rule
from holdfast.evidence.trust.rule import (
    BoundClaim,
    CheckpointClaims,
    Group,
    Pack,
    Requirement,
    Standing,
    binding,
    standings,
)

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED

PENDING = VerificationStatus.PENDING


def claim(subject: str, version: int = 0) -> Evidence:
    return Evidence("mine", subject, {"version": version}, {"subject": subject})


def pack(*subjects: str, version: int = 0, least: int | None = None) -> EvidencePack:
    claims = [claim(subject, version) for subject in subjects]
    if least is None:
        return EvidencePack(claims)
    return EvidencePack(claims, require_all=False, allow_partial=True, min_verified=least)


def branch(*packs: EvidencePack | None) -> list[CheckpointClaims]:
    return [
        CheckpointClaims(seq, (proved(given),) if given else ()) for seq, given in enumerate(packs)
    ]


def proved(given: EvidencePack) -> Pack:
    """The pack, of which every claim was verified when it was saved."""
    return Pack.of(given, AtCommit.SATISFIED)


def judged(claims: Sequence[CheckpointClaims], world: dict[str, VerificationStatus]) -> Standing:
    """How the last stands where each "subject/version" is as the world says, VERIFIED if not said."""
    return next(standings(claims, lambda asked: [verdict(c, world) for c in asked]))


def verdict(asked: BoundClaim, world: dict[str, VerificationStatus]) -> Verdict:
    name = f"{asked.evidence.description}/{asked.evidence.expected['version']}"
    return Verdict(world.get(name, VERIFIED), evidence=asked.evidence.digest)


def asked(claims: Sequence[CheckpointClaims]) -> list[str]:
    return [
        f"{c.evidence.description}/{c.evidence.expected['version']}"
        for d in binding(claims, claims[-1].seq)
        for c in d.claims
    ]


def test_the_newest_claim_on_a_subject_is_asked_and_no_other() -> None:
    claims = branch(pack("a", "b"), pack("a", version=1), None, pack("c"))
    assert asked(claims) == ["b/0", "a/1", "c/0"]
    assert asked(claims[:1]) == ["a/0", "b/0"]
    assert judged(claims, {"a/0": FAILED}).holds
    assert judged(claims, {"a/1": FAILED}).status is FAILED


def test_claims_of_one_checkpoint_on_one_subject_stand_beside_each_other() -> None:
    both = EvidencePack([claim("a", 1), claim("a", 2)])
    assert asked(branch(pack("a"), both)) == ["a/1", "a/2"]
    assert judged(branch(both), {"a/1": FAILED}).status is FAILED


def test_nothing_claimed_is_not_verified() -> None:
    assert judged(branch(None, None), {}) == Standing(1, PENDING)
    assert judged(branch(pack("a"), None), {}).holds, "what was claimed before it still counts"
    assert not judged(branch(pack("a"), None), {"a/0": FAILED}).holds


def test_checkpoints_without_claims_cost_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone_over = 0

    def counting(branch: Sequence[CheckpointClaims], of: int) -> list[Requirement]:
        nonlocal gone_over
        gone_over += len(branch)
        return binding(branch, of)

    monkeypatch.setattr(rule, "binding", counting)
    claims = branch(*[None] * 500, pack("a"), *[None] * 500)
    found = list(standings(claims, lambda asked: [verdict(c, {"a/0": FAILED}) for c in asked]))
    assert [one.status for one in found] == [FAILED] * 501 + [PENDING] * 500
    assert gone_over <= len(claims)


def test_what_was_not_checked_is_pending() -> None:
    assert judged(branch(pack("a")), {"a/0": PENDING}).status is PENDING


def test_one_failure_is_a_failure_and_one_doubt_is_a_doubt() -> None:
    claims = branch(pack("a", "b"), pack("c"))
    assert judged(claims, {"a/0": INCONCLUSIVE}).status is INCONCLUSIVE
    assert judged(claims, {"a/0": INCONCLUSIVE, "c/0": ERROR}).status is ERROR
    found = judged(claims, {"a/0": INCONCLUSIVE, "b/0": ERROR, "c/0": FAILED})
    assert found.status is FAILED
    assert [evidence.description for evidence in found.against] == ["a", "b", "c"]


def test_a_partial_pack_needs_so_many() -> None:
    claims = branch(pack("a", "b", "c", least=2))
    assert judged(claims, {"a/0": FAILED}).holds
    assert judged(claims, {"a/0": FAILED}).against == ()
    assert judged(claims, {"a/0": FAILED, "b/0": FAILED}).status is FAILED
    assert judged(claims, {"a/0": FAILED, "b/0": INCONCLUSIVE}).status is INCONCLUSIVE
    assert judged(claims, {"a/0": INCONCLUSIVE, "b/0": INCONCLUSIVE}).status is INCONCLUSIVE


def test_what_was_superseded_in_a_partial_pack_counts_as_kept() -> None:
    claims = branch(pack("a", "b", "c", least=2), pack("a", version=1))
    assert judged(claims, {"b/0": FAILED}).holds
    assert judged(claims, {"b/0": FAILED, "c/0": FAILED}).status is FAILED
    assert asked(branch(pack("a", "b", least=1), pack("a", version=1))) == ["a/1"]


def test_a_walk_checks_each_claim_once_and_only_as_far_as_it_goes() -> None:
    claims = branch(pack("a"), pack("b"), pack("a", version=1), pack("c"))
    looked: list[str] = []

    def check(wanted: Sequence[BoundClaim]) -> list[Verdict]:
        found = [verdict(one, {"c/0": FAILED, "a/1": FAILED}) for one in wanted]
        looked.extend(
            f"{one.evidence.description}/{one.evidence.expected['version']}" for one in wanted
        )
        return found

    walk = standings(claims, check)
    assert next(walk) == Standing(3, FAILED, (claim("a", 1), claim("c")))
    assert looked == ["b/0", "a/1", "c/0"]
    assert next(walk).status is FAILED
    assert looked == ["b/0", "a/1", "c/0"]
    assert next(walk) == Standing(1, VERIFIED)
    assert looked == ["b/0", "a/1", "c/0", "a/0"]
    assert [found.seq for found in standings(claims, check, lambda seq: seq in (0, 2))] == [2, 0]


packs = st.one_of(
    st.none(),
    st.builds(
        lambda names, version, share: pack(
            *names, version=version, least=None if share is None else 1 + share % len(names)
        ),
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
        st.integers(0, 3),
        st.none() | st.integers(0, 5),
    ),
)
worlds = st.dictionaries(
    st.builds("{}/{}".format, st.sampled_from("abcd"), st.integers(0, 3)),
    st.sampled_from([VERIFIED, FAILED, INCONCLUSIVE, ERROR]),
)


def holds_by_the_book(
    claims: Sequence[CheckpointClaims], world: dict[str, VerificationStatus]
) -> bool:
    """The rule as one says it, for each subject by itself."""
    made = [(seq, pack) for seq, packs, _ in claims for pack in packs]
    newest = {c.evidence.subject: seq for seq, pack in made for c in pack.claims}
    for seq, pack in made:
        kept = [
            newest[c.evidence.subject] > seq
            or verdict(BoundClaim(seq, c.evidence, c.facts), world).status is VERIFIED
            for c in pack.claims
        ]
        if sum(kept) < pack.required:
            return False
    return bool(newest)


@given(st.lists(packs, min_size=1, max_size=6), worlds)
def test_it_is_the_rule(
    given: list[EvidencePack | None], world: dict[str, VerificationStatus]
) -> None:
    claims = branch(*given)
    found = judged(claims, world)
    assert found.holds is holds_by_the_book(claims, world)
    assert bool(found.against) is (not found.holds and any(given))


@given(st.lists(packs, min_size=1, max_size=6), worlds)
def test_failed_means_that_no_answer_to_what_is_open_could_help(
    given: list[EvidencePack | None], world: dict[str, VerificationStatus]
) -> None:
    claims = branch(*given)
    best = {
        name: VERIFIED if status in (INCONCLUSIVE, ERROR) else status
        for name, status in world.items()
    }
    if any(given):
        assert (judged(claims, world).status is FAILED) is (not judged(claims, best).holds)


@given(st.lists(packs, min_size=1, max_size=6), worlds)
def test_a_walk_and_a_look_agree(
    given: list[EvidencePack | None], world: dict[str, VerificationStatus]
) -> None:
    claims = branch(*given)
    walked = list(standings(claims, lambda wanted: [verdict(one, world) for one in wanted]))
    looked = [judged(claims[:end], world) for end in range(len(claims), 0, -1)]
    assert [one[:2] for one in walked] == [one[:2] for one in looked]
    for one, other in zip(walked, looked, strict=True):
        assert set(one.against) <= set(other.against)
        assert bool(one.against) is bool(other.against)


def test_what_failed_is_not_asked_about_again_at_every_checkpoint_behind_it() -> None:
    claims = branch(*(pack(f"file {n}") for n in range(500)))
    walked = list(standings(claims, lambda wanted: [Verdict(FAILED) for _ in wanted]))
    assert [one.seq for one in walked] == list(range(500))[::-1]
    assert {one.status for one in walked} == {FAILED}


def test_a_fork_answers_for_what_was_claimed_before_it() -> None:
    groups = (pack("a"), pack("a", "b", version=1))
    inherited = [Group(-1, (proved(group),)) for group in groups]
    claims = [
        CheckpointClaims(0, (proved(pack("b", version=2)),), before=inherited),
        *branch(None, pack("c"))[1:],
    ]
    assert asked(claims) == ["a/1", "b/2", "c/0"]
    assert judged(claims, {"a/1": FAILED}).status is FAILED
    assert judged(claims, {"a/0": FAILED, "b/1": FAILED}).holds


PATHS = ("d", "d/a", "d/e", "d/e/b", "d2", "/d/a")
KINDS = ("file", "absent")


def artifact(path: str, kind: str, n: int) -> Evidence:
    return Evidence("artifact_exists", f"{n}", {"path": path, "type": kind})


def answers(newer: tuple[str, str], older: tuple[str, str]) -> bool:
    """Whether a newer claim on a path settles what an older one said: nothing is in a file."""
    (path, kind), (before, was) = newer, older
    return (
        path == before
        or (was != "absent" and before.startswith(f"{path}/"))
        or (kind != "absent" and path.startswith(f"{before}/"))
    )


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(KINDS)), max_size=8))
def test_what_is_gone_answers_for_what_was_in_it_and_the_other_way_round(
    said: list[tuple[str, str]],
) -> None:
    claims = branch(*(EvidencePack([artifact(*one, n)]) for n, one in enumerate(said)))
    expected = [
        str(n)
        for n, one in enumerate(said)
        if not any(answers(newer, one) for newer in said[n + 1 :])
    ]
    needed = binding(claims, len(claims) - 1)
    assert [c.evidence.description for d in needed for c in d.claims] == expected
