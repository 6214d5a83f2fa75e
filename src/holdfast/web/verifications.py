"""Checks of runs that were asked for on a page: each in a thread, so that no page waits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.errors import HoldfastError
from holdfast.logs import logger
from holdfast.views import verifying
from holdfast.views.verifying import Report
from holdfast.web.site import Site

_log: Final = logger()
_AT_ONCE: Final = 2
_KEPT: Final = 100  # outcomes


class Verification:
    """One check: under way, or what it found."""

    def __init__(self, run_id: str, by: str | None, *, records: bool) -> None:
        self.run_id = run_id
        self.by = by
        self.records = records
        self.began = datetime.now(UTC)
        self.report: Report | None = None
        self.problem = ""

    @property
    def is_over(self) -> bool:
        """Whether there is an outcome."""
        return self.report is not None or bool(self.problem)

    @property
    def seconds(self) -> int:
        """How long ago it began."""
        return int((datetime.now(UTC) - self.began).total_seconds())


class Verifications:
    """The checks of one site, by run. At most two are under way at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Verification] = OrderedDict()
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    def of(self, run_id: str) -> Verification | None:
        """The last check of a run."""
        return self._known.get(run_id)

    def begin(self, site: Site, run_id: str, *, record: bool, by: str | None) -> Verification:
        """Check a run, unless that is under way."""
        with self._lock:
            known = self._known.get(run_id)
            if known is not None and not known.is_over:
                return known
            made = Verification(run_id, by, records=record)
            self._known[run_id] = made
            self._known.move_to_end(run_id)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        threading.Thread(
            target=self._check, args=(site, made), name="holdfast-verify", daemon=True
        ).start()
        return made

    def _check(self, site: Site, made: Verification) -> None:
        with self._turns:
            try:
                made.report = verifying.check(
                    site.cp,
                    made.run_id,
                    verifier=site.settings.verifier,
                    record=made.records,
                    by=made.by,
                )
            except HoldfastError as error:
                made.problem = str(error)
            except Exception:  # noqa: BLE001 - else the page would wait forever
                _log.exception("checking %s failed", made.run_id)
                made.problem = "the check broke; the log of `holdfast ui` has more"


_OF_SITES: WeakKeyDictionary[Site, Verifications] = WeakKeyDictionary()


def verifications(site: Site) -> Verifications:
    """The checks of a site."""
    return _OF_SITES.setdefault(site, Verifications())
