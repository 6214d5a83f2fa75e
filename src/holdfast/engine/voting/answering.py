"""A worker that checks claims when others ask for it.

A request names a checkpoint and nothing else. The worker reads its claims from the journal, proves
them, and checks them within its own policy, one request after the other. So a request can make it
look at nothing that its policy does not allow, and learn no more of that than a verdict.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from typing import Final, NamedTuple

from holdfast.engine.holding.lease import Lease
from holdfast.engine.holding.presence import Presence
from holdfast.engine.voting import rows
from holdfast.engine.voting.rows import Request
from holdfast.errors import HoldfastError, StoreClosedError, StoreError
from holdfast.evidence.trust.checking import Checker
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.kernel.core import Core
from holdfast.logs import about, logger
from holdfast.model import Entry

log = logger()

_EVERY: Final = 0.5  # seconds between two looks for requests
_IN_OUTAGE: Final = 5.0


def check_verifier(verifier: EvidenceVerifier) -> None:
    """Raise `ValueError` if its policy lets claims say themselves what may be looked at."""
    if not isinstance(verifier, EvidenceVerifier):
        raise TypeError(
            "verify must be an EvidenceVerifier with a policy for the claims of others, such as "
            f"EvidenceVerifier(policy=Policy(own_word=False, hosts=[])), not {verifier!r}"
        )
    if verifier.policy.own_word or verifier.policy.hosts is None:
        raise ValueError(
            "a worker checks the claims of others only within a policy that says what may be "
            "looked at: Policy(own_word=False, roots=[...], hosts=[...]), with no hosts if none"
        )


class _Answered(NamedTuple):
    """A request that was answered here, or tried to be, and the vote if there is one."""

    id: str
    slot: int = -1
    row: Entry | None = None


class Answering:
    """Answers requests in a thread of its own, until it is told to stop."""

    def __init__(
        self, core: Core, presence: Presence, verifier: EvidenceVerifier, dead_after: float
    ) -> None:
        self._core = core
        self._presence = presence
        self._verifier = verifier
        self._dead_after = dead_after
        self._answered: dict[int, _Answered] = {}  # by the number of the request
        self._since: dict[int, tuple[str, float]] = {}  # the requests, and when they were seen
        self._stop = threading.Event()
        self._out = False  # the store could not be asked, and that was logged
        self._thread = threading.Thread(target=self._run, name="holdfast-verify", daemon=True)

    def start(self) -> None:
        """Begin to look for requests."""
        self._thread.start()

    def stop(self) -> None:
        """Answer nothing more. A check that is under way ends by itself."""
        self._stop.set()

    def look(self) -> None:
        """Answer what is asked now, and delete what is over. Raises `StoreError`. Blocks."""
        self._lease()  # others see by it that we are here to be asked
        found = rows.requests(self._core)
        self._tidy(found)
        for request in found:
            known = self._answered.get(request.number)
            if self._stop.is_set() or (known is not None and known.id == request.id):
                continue
            self._answered[request.number] = _Answered(request.id)  # once, whatever comes of it
            try:
                self._answer(request)
            except StoreError:
                raise
            except HoldfastError as error:  # of that run: it is damaged, or was deleted
                log.warning(
                    "%s@%d can't be verified: %s",
                    request.run,
                    request.seq,
                    error,
                    extra=about(request.run),
                )

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = _EVERY
            try:
                self.look()
                self._out = False
            except StoreClosedError:
                return
            except HoldfastError as error:
                if not self._out:
                    log.warning("the worker can't look for requests to verify: %s", error)
                self._out, pause = True, _IN_OUTAGE
            except Exception:
                log.exception("the worker failed to verify what it was asked to")
                pause = _IN_OUTAGE

    def _answer(self, request: Request) -> None:
        core = self._core
        checkpoint = core.journals.entry(request.run, request.seq)
        if checkpoint is None or checkpoint.digest.hex() != request.digest:
            return  # it asks about something else than there is
        checked = Checker(core, self._within(request)).verdicts(checkpoint)
        lease = self._lease()
        _, now = rows.read_request(core, request.number)
        if lease is None or now is None or now.id != request.id:
            return  # too late
        holder = self._presence.holder(lease)
        row = rows.place_vote(core, request, holder, checked)
        self._answered[request.number] = _Answered(request.id, holder.slot, row)

    def _lease(self) -> Lease | None:
        held = self._presence.lease_at_hand(self._core)
        return held or self._presence.lease(self._core, self._dead_after)

    def _within(self, request: Request) -> EvidenceVerifier:
        """The verifier, with no more time than the asker waits."""
        bounded = copy.copy(self._verifier)
        policy = bounded.policy
        bounded.policy = replace(
            policy,
            check_seconds=min(policy.check_seconds, request.within),
            total_seconds=min(policy.total_seconds, request.within),
        )
        return bounded

    def _tidy(self, found: list[Request]) -> None:
        """Delete our votes on requests that are over, and requests whose asker must have died."""
        there = {request.number: request for request in found}
        for number, known in list(self._answered.items()):
            request = there.get(number)
            if request is None or request.id != known.id:
                del self._answered[number]
                if known.row is not None:
                    rows.take_back_vote(self._core, number, known.slot, known.row)
        now = self._core.journals.clock.monotonic()
        self._since = rows.seen_since(found, self._since, now)
        for request in rows.overdue(found, self._since, now):
            rows.withdraw(self._core, request.number, request.head)
