"""This process, and its presence in each store that it uses."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.process import Identity, this_process
from holdfast.kernel.core import Core
from holdfast.kernel.owner_view import owner_view
from holdfast.kernel.store_id import known_store_id, store_id
from holdfast.kernel.store_view import real_store
from holdfast.logs import logger
from holdfast.seams import on_fork
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run

log = logger()

_PAUSE: Final = 1.0  # seconds, after a beat failed in an unexpected way, or without a lease


class Process:
    """A process and its presence in each store: this one, or one that a test simulates."""

    def __init__(
        self,
        identify: Callable[[], Identity] = this_process,
        start_beating: Callable[[Presence], None] | None = None,
    ) -> None:
        self._identify = identify
        self.start_beating = start_beating or _beat_in_thread
        self._presences: dict[str, Presence] = {}
        self._names: WeakKeyDictionary[Store, str] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self.nonce = ""
        self.begun = 0  # runs that were to be executed here so far
        on_fork(self._after_fork)

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        return self._identify()

    def presence(self, core: Core) -> Presence:
        """This process in the store of a core. The first call may write the store's id. Blocks."""
        name = self._name(core) or store_id(core)
        with self._lock:
            self.nonce = self.nonce or core.journals.new_birth()
            found = self._presences.get(name)
            if found is None:
                found = self._presences[name] = Presence(self)
            return found

    def presence_at_hand(self, core: Core) -> Presence | None:
        """This process in the store of a core, if it is known without asking the store."""
        name = self._names.get(real_store(core.journals.store))
        return None if name is None else self._presences.get(name)

    def known_presence(self, core: Core) -> Presence | None:
        """This process in the store of a core, if it was ever there. Blocks, and writes nothing."""
        name = self._name(core)
        return None if name is None else self._presences.get(name)

    def _name(self, core: Core) -> str | None:
        """What the store is called, however it was opened: random, and kept in it."""
        store = real_store(core.journals.store)
        name = self._names.get(store)
        if name is None and store.inline and not store.shared:
            name = f"memory {id(store)}"
        elif name is None:
            name = known_store_id(core.journals)
        if name is not None:
            self._names[store] = name
        return name

    def end(self) -> None:
        """The process ends: others need not wait for it."""
        for presence in list(self._presences.values()):
            presence.end()

    def _after_fork(self) -> None:
        for presence in self._presences.values():
            presence.disown()
        self._lock = threading.Lock()
        self._presences = {}
        self.nonce = ""


def _beat_in_thread(presence: Presence) -> None:
    """Beat in one thread, and watch the lease in another: the store may keep a beat waiting."""
    over = threading.Event()

    def beat() -> None:
        wait: float | None = 0.0
        while wait is not None:
            presence.wait_for_bell(wait)
            try:
                wait = presence.tick()
            except Exception:
                log.exception("a beat failed in an unexpected way")
                wait = _PAUSE
        over.set()

    threading.Thread(target=beat, name="holdfast-beat", daemon=True).start()
    watch = partial(_watch_lease, presence, over)
    threading.Thread(target=watch, name="holdfast-lease", daemon=True).start()


def _watch_lease(presence: Presence, over: threading.Event) -> None:
    """Stop the runs when the lease has ended and still no beat came through: one hangs in the store.

    A process that stood still finds that its lease has ended, too: it is to beat first.
    """
    ended, wait = False, 0.0
    while not over.wait(wait):
        lease = presence.living_lease
        left = _PAUSE if lease is None else lease.left
        if ended and left <= 0:
            presence.stop_runs()
        ended = left <= 0
        wait = lease.beat.every if lease is not None and ended else left


THIS: Final = Process()
_others: WeakKeyDictionary[Core, Process] = WeakKeyDictionary()


def process_of(core: Core) -> Process:
    """The process that uses a core: this one, outside of simulations."""
    return _others.get(core, THIS) if _others else THIS


def running_here(core: Core, run_id: str) -> Run | None:
    """The run of this id in this store, if this process executes it. The first call may block."""
    presence = process_of(core).known_presence(core)
    found = None if presence is None else presence.find(run_id)
    bound = owner_view(core.journals.store)
    return found if found is None or bound is None or bound.sees(run_id) else None


def simulate(core: Core, process: Process) -> None:
    """Let a test's own process use this core."""
    _others[core] = process


atexit.register(THIS.end)
