"""Checks claims now: in parallel, to a deadline, with retries where the outcome may change."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from holdfast.errors import EvidenceError
from holdfast.errors.base import one_line
from holdfast.evidence.checks import BUILT_IN, refuse_unverifiable, snapshot_for, type_named
from holdfast.evidence.claims import Evidence
from holdfast.evidence.context import Check, Context
from holdfast.evidence.packs import EvidencePack, summary
from holdfast.evidence.parallel import MAX_WORKERS, judge_all
from holdfast.evidence.policy import Policy
from holdfast.evidence.verdicts import (
    Verdict,
    VerificationStatus,
    error,
    failed,
    inconclusive,
    verified,
)
from holdfast.evidence.world.hashing import HashCache
from holdfast.kernel.core import Core
from holdfast.logs import logger
from holdfast.seams import SYSTEM_CLOCK, Clock

Metrics = Callable[[str, VerificationStatus, float], object]
"""Called with every verdict: the claim's type, the status, the seconds it took."""

_log: Final = logger("holdfast.evidence")
_MAX_REASON: Final = 500


class EvidenceVerifier:
    """Checks claims against the world as it is now, within a policy.

    May be shared between threads; there is nothing to close. A claim is VERIFIED only if its
    check said so in time. Every call returns by the policy's `total_seconds`, and the time that
    the files take to be read at its `slowest_read`.

    `base_path` is short for a policy with that and nothing else; `attempts` is how often a check
    is tried while its verdict is INCONCLUSIVE and transient, after `backoff` seconds, then twice
    that, and so on; `metrics` is called with every verdict. With `hashes`, the `verify_` methods
    do not read a file again that looks the same. What is written through a memory map may not be
    seen then: what decides where a run resumes, or a task goes back to, never relies on it.
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str] | None = None,
        *,
        policy: Policy | None = None,
        workers: int = MAX_WORKERS,
        attempts: int = 3,
        backoff: float = 0.05,
        metrics: Metrics | None = None,
        hashes: HashCache | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        policy = policy or Policy()
        if base_path is not None:
            if policy.base_path is not None:
                raise ValueError("base_path is given twice: here and in the policy")
            policy = replace(policy, base_path=Path(base_path))
        if workers < 1 or attempts < 1:
            raise ValueError("workers and attempts must be 1 or more")
        self.policy = policy
        self.hashes = hashes
        self._workers = workers
        self._attempts = attempts
        self._backoff = backoff
        self._metrics = metrics
        self._clock = clock
        self._checks: dict[str, Check] = {}
        self._admitted: dict[Any, Any] = {}
        self._admitted_under = policy
        self._counts: Counter[tuple[str, VerificationStatus]] = Counter()
        self._lock = threading.Lock()
        self._tell: Callable[[list[str], list[Verdict]], None] | None = None

    def register_check(self, name: str, check: Check) -> None:
        """Check claims of type `name` with this, here. Raises `ValueError` for a built-in type.

        `register_type` adds a type for the whole process, with what it admits and its subject.
        Without it, `metadata["subject"]` says what a claim is about.
        """
        if name in BUILT_IN or not name:
            raise ValueError(f"{name!r} can't be registered: choose a name of your own")
        self._checks[name] = check

    def refuse_unverifiable(self, pack: EvidencePack) -> None:
        """Raise unless every claim is well formed and of a kind that the policy may allow.

        `InvalidEvidenceError` or `EvidencePolicyError`; nothing is looked at.
        """
        refuse_unverifiable(pack, self.policy, custom=self._checks)

    def verify_evidence(
        self, evidence: Evidence, *, snapshot: Mapping[str, Any] | None = None
    ) -> bool:
        """Check one claim and show the verdict on it. True if it is VERIFIED.

        `snapshot` is the state saved with the claim, for `command_exit`.
        """
        self.check([evidence], snapshot=snapshot, hashes=self.hashes)
        return evidence.verified

    def verify_evidence_pack(
        self, pack: EvidencePack, *, snapshot: Mapping[str, Any] | None = None
    ) -> bool:
        """Check every claim of the pack. True if as many are VERIFIED as it requires."""
        self.check(pack.evidence_list, snapshot=snapshot, hashes=self.hashes)
        return pack.is_verified

    def verify_multiple(
        self, evidence_list: Iterable[Evidence], *, snapshot: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Check every claim and count: total, one number by status, success_rate, all_passed."""
        claims = list(evidence_list)
        self.check(claims, snapshot=snapshot, hashes=self.hashes)
        return summary(claims)

    def check(
        self,
        evidence_list: Iterable[Evidence],
        *,
        snapshot: Mapping[str, Any] | None = None,
        hashes: HashCache | None = None,
        facts: Sequence[Collection[str] | None] | None = None,
    ) -> list[Verdict]:
        """Check every claim, show the verdicts on them, and return the verdicts in their order.

        Every file is read, unless `hashes` are given to trust. `facts` names for each claim what
        is left of it to check; None: all of it.
        """
        claims = list(evidence_list)
        if self._admitted_under is not self.policy:  # it may be narrower now
            self._admitted, self._admitted_under = {}, self.policy
        context = partial(
            Context,
            self.policy,
            snapshot=snapshot_for(claims, snapshot),
            hashes=hashes,
            clock=self._clock,
            admitted=self._admitted,
        )
        verdicts = judge_all(
            [
                partial(self._judge, claim, left)
                for claim, left in zip(claims, facts or repeat(None), strict=False)
            ],
            context,
            each=self.policy.check_seconds,
            total=self.policy.total_seconds,
            workers=self._workers,
            clock=self._clock,
        )
        verdicts = list(map(self._show, claims, verdicts))
        self._announce(claims, verdicts)
        return verdicts

    def telling(self, core: Core, run: str) -> EvidenceVerifier:
        """The same verifier, which tells the observers of a checkpointer about a run's claims."""
        if not core.observers:
            return self
        told = copy.copy(self)
        told._tell = partial(_tell_verdicts, core, run)  # noqa: SLF001 - its own class
        return told

    def stats(self) -> dict[str, Any]:
        """All verdicts so far: total, counts by status and by type, and the success rate."""
        with self._lock:
            counts = dict(self._counts)
        by_status: Counter[str] = Counter()
        by_type: dict[str, dict[str, int]] = {}
        for (kind, status), number in counts.items():
            by_status[status.value] += number
            by_type.setdefault(kind, {})[status.value] = number
        total = by_status.total()
        return {
            "total": total,
            "by_status": dict(by_status),
            "by_type": by_type,
            "success_rate": by_status["verified"] / total if total else 0.0,
        }

    def _judge(
        self, evidence: Evidence, facts: Collection[str] | None, context: Context
    ) -> Verdict:
        """Run the check, again if that may help and there is time. Never raises."""
        context.observed, context.base, context.facts = evidence.observed, evidence.base, facts
        clock = self._clock
        start, pause = clock.monotonic(), self._backoff
        for attempt in range(1, self._attempts + 1):
            status, reason, transient, *_ = self._attempt(evidence, context)
            if not transient or status is not VerificationStatus.INCONCLUSIVE:
                break
            if attempt == self._attempts or clock.monotonic() + pause >= context.deadline:
                break
            time.sleep(pause)
            pause *= 2
        reason = reason and one_line(reason[:_MAX_REASON])[:_MAX_REASON]
        seconds = clock.monotonic() - start
        return Verdict(status, reason, transient, clock.now(), seconds, attempt, evidence.digest)

    def _attempt(self, evidence: Evidence, context: Context) -> Verdict:
        if evidence.is_elsewhere:
            return inconclusive(
                f"it can be checked only on {evidence.host}: ask a worker there with "
                "`holdfast verify --worker`, or verify_with_workers"
            )
        name = str(evidence.evidence_type)
        kind = type_named(name)
        check = self._checks.get(name, None if kind is None else kind.check)
        if check is None:
            return error(f"no check is registered for type {name!r}")
        try:
            found = check(evidence, context)
        except EvidenceError as problem:
            return error(str(problem))
        except TimeoutError as problem:
            return inconclusive(str(problem) or "it took too long")
        except BaseException as problem:  # whatever a check raises says nothing about the claim
            said = f": {problem}" if name not in BUILT_IN else ""  # may quote what was found
            return error(f"the check failed: {type(problem).__name__}{said}")
        if isinstance(found, Verdict) and found.status is not VerificationStatus.PENDING:
            return found
        if isinstance(found, bool):
            return verified() if found else failed("the check returned False")
        return error(f"the check returned {type(found).__name__}, not a verdict")

    def _show(self, evidence: Evidence, verdict: Verdict) -> Verdict:
        if not verdict.evidence:  # given at a deadline, not by a check
            verdict = verdict._replace(
                at=self._clock.now(), seconds=self.policy.check_seconds, evidence=evidence.digest
            )
        evidence.judge(verdict)
        return verdict

    def _announce(self, claims: list[Evidence], verdicts: list[Verdict]) -> None:
        kinds = [str(evidence.evidence_type) for evidence in claims]
        counts = Counter(zip(kinds, (verdict.status for verdict in verdicts), strict=True))
        with self._lock:
            self._counts.update(counts)
        if self._tell is not None:
            self._tell(kinds, verdicts)
        if self._metrics is None:
            return
        for kind, verdict in zip(kinds, verdicts, strict=True):
            try:
                self._metrics(kind, verdict.status, verdict.seconds)
            except Exception:  # metrics may not change verdicts
                _log.exception("the metrics hook failed")


def _tell_verdicts(core: Core, run: str, kinds: list[str], verdicts: list[Verdict]) -> None:
    """Tell a checkpointer's observers what was found, but not why: that may quote values."""
    from holdfast.kernel.events import ClaimChecked

    for kind, verdict in zip(kinds, verdicts, strict=True):
        core.tell(ClaimChecked(run, kind, verdict.status.value, verdict.seconds))
