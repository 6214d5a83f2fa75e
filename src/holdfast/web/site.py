"""One store that is served: how to read it, who may change it, and whether it can be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.flow import Flow
from holdfast.errors import CheckpointLoadError, HoldfastError, StoreUnavailableError
from holdfast.evidence import EvidenceVerifier
from holdfast.model import STORE_JOURNAL, Status
from holdfast.store import RunFilter
from holdfast.telemetry import Metrics
from holdfast.urls import masked
from holdfast.views.cancelling import request_of
from holdfast.views.commands import Commands
from holdfast.web.keeping import Kept

if TYPE_CHECKING:
    from holdfast.web.executing import Executor

_KNOWN: Final = 2.0  # seconds for which the number of questions is known
_COUNTED: Final = 100  # runs that ask, of which the questions are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `holdfast ui` was told."""

    allow_writes: bool = False
    tokens: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # by name; empty: nobody asks
    names: Sequence[str] = ()  # of the host, besides IP addresses and localhost
    flows: Sequence[Flow[Any]] = ()  # that this process may execute
    sources: Mapping[str, str] = field(default_factory=dict)
    """MODULE:NAME of flows, by name, as `--flow` was given them."""
    verifier: EvidenceVerifier | None = None  # what claims may be checked against
    keys: tuple[str, ...] = ()  # the options of commands that name the keys of the store


class Site:
    """A store, as it is served. Threads may share it."""

    def __init__(self, cp: SyncCheckpointer, where: str | None, settings: Settings) -> None:
        cp.core.journals.keep_coded()
        self.cp = cp
        self.settings = settings
        self.metrics = Metrics()
        cp.core.observe([self.metrics])
        self.executor: Executor | None = None
        """What executes the flows that were given, where runs may be changed."""
        self.lost_since: datetime | None = None
        self.since = datetime.now(UTC)
        self.kept = Kept()
        self._commands = Commands(where or cp.store.url, settings.keys).anywhere()
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._asking = ""
        self._asked_at = -_KNOWN

    @property
    def commands(self) -> Commands:
        """Commands on the same store, to be shown: whoever copies one may be in any directory."""
        return self._commands

    @property
    def name(self) -> str:
        """The store for people, without secrets."""
        return masked(self.cp.store.url)

    @property
    def short_name(self) -> str:
        """The end of the name: the file, or the database."""
        return self.name.partition("?")[0].rstrip("/").rpartition("/")[2] or self.name

    @property
    def asking(self) -> str:
        """How many questions are open, for the header of each page; empty if none is known.

        Known for a moment, as every page asks for it. Blocks, also while another thread counts.
        """
        with self._counting:
            now = time.monotonic()
            if now - self._asked_at > _KNOWN and self.lost_since is None:
                self._asked_at = now  # before: what changes meanwhile is counted again
                try:
                    self._asking = self._open_questions()
                except HoldfastError:  # the page itself reports it
                    self._asking = ""
            return self._asking

    def count_questions_again(self) -> None:
        """Some may have been asked or answered, and somebody looks at the number."""
        self._asked_at = -_KNOWN

    def _open_questions(self) -> str:
        where = RunFilter(asking=True, statuses=(Status.PAUSED.value, Status.RUNNING.value))
        found = self.cp.store.listed(where, limit=_COUNTED)
        core = self.cp.core
        number = sum(row.questions for row, head in found if request_of(core, head) is None)
        return f"{_COUNTED}+" if len(found) == _COUNTED else str(number or "")

    @contextmanager
    def noting_outages(self) -> Iterator[None]:
        """Remember since when the store can't be reached."""
        try:
            yield
        except (StoreUnavailableError, CheckpointLoadError):
            with self._lock:
                self.lost_since = self.lost_since or datetime.now(UTC)
            raise
        if self.lost_since is not None and self._answers():
            self.lost_since = None

    def _answers(self) -> bool:
        """Whether the store can be read: what was told just now may have been known before."""
        try:
            self.cp.store.read(STORE_JOURNAL, limit=1, bodies=False)
        except HoldfastError:
            return False
        return True
