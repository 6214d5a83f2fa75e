"""The rule by which claims decide, against a model; and broken rules, which that notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.evidence.trust import gathering, inheriting, rule
from holdfast.evidence.trust.rule import Claim, Pack, Replaced

from .claims_model import ClaimsMachine

STEPS = 12


def test_claims_decide_as_the_model_says() -> None:
    run_state_machine_as_test(ClaimsMachine, settings=settings(stateful_step_count=STEPS))


Mutate = Callable[[pytest.MonkeyPatch], None]


def a_later_claim_on_a_path_replaces_everything(patch: pytest.MonkeyPatch) -> None:
    """That a file exists switches off its digest."""
    real = Replaced.left

    def left(self: Any, seq: int, claims: Any) -> Iterator[Any]:
        known = {subject for subject, _ in self._facts}
        return real(self, seq, [c for c in claims if c.evidence.subject not in known])

    patch.setattr(Replaced, "left", left)


def what_never_held_binds_later_checkpoints(patch: pytest.MonkeyPatch) -> None:
    of = Pack.of
    patch.setattr(Pack, "of", lambda *args, **kw: of(*args, **kw)._replace(binds=True))


def own_claims_that_never_held_do_not_count(patch: pytest.MonkeyPatch) -> None:
    real = rule.binding
    patch.setattr(rule, "binding", lambda branch, of: real(branch, -1))


def claims_that_were_false_replace_others(patch: pytest.MonkeyPatch) -> None:
    real = Pack.of

    def of(*args: Any, **kw: Any) -> Pack:
        pack = real(*args, **kw)
        return pack._replace(claims=tuple(Claim(c.evidence, c.facts) for c in pack.claims))

    patch.setattr(Pack, "of", of)


def forks_forget_what_was_claimed_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inheriting, "inherited", lambda core, entry: [])


def pruning_forgets_what_was_claimed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gathering, "carried_claims", lambda *args, **how: {})


SEEDS: dict[Mutate, int] = {
    a_later_claim_on_a_path_replaces_everything: 30,
    what_never_held_binds_later_checkpoints: 0,
    own_claims_that_never_held_do_not_count: 0,
    claims_that_were_false_replace_others: 26,
    forks_forget_what_was_claimed_before: 3,
    pruning_forgets_what_was_claimed: 47,
}
"""Any finds the mistake, these within a few examples and others after hundreds."""


@pytest.mark.parametrize("mutate", SEEDS, ids=lambda mutate: mutate.__name__)
def test_a_broken_rule_is_noticed(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    once = settings(
        max_examples=2000, stateful_step_count=STEPS, phases=[Phase.generate], database=None
    )
    machine = seed(SEEDS[mutate])(type("Machine", (ClaimsMachine,), {}))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=once)
