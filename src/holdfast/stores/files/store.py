"""Journals as plain files: one directory per run, one JSON file per entry, for people to read.

An append writes and syncs a temporary file, then links it to the entry's name: link(2) fails
where the name is taken, and that is the conflict. The run's directory is synced once a batch.

A trim or erase prepares everything it will change in a directory, the *intent*, and moves that
into the run. Linking the marker is the commit; what follows is only renaming and removing, and
whoever finds an intent completes it if its marker is in place, and otherwise discards it.

Readers take no lock. They read, and read again if a trim happened meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from holdfast.changes import Change
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    SchemaError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    SyncFailedError,
)
from holdfast.model import HIDDEN, Entry, follows
from holdfast.seams import fault
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    UNREADABLE,
    Behind,
    Form,
    RunFilter,
    StoreStats,
    Survives,
    outcomes,
    runs_beaten,
    trimmed,
)
from holdfast.stores._shared.disk import sync, volatile_file_system
from holdfast.stores._shared.journals import page_of, totals
from holdfast.stores.files import changes
from holdfast.stores.files import format as form
from holdfast.stores.files import run as journal
from holdfast.stores.files.index import IndexedFileStore
from holdfast.stores.files.root import (
    Root,
    make_directory,
    open_directory,
    reason,
    remove_file,
    write_durably,
)

LOCK_SECONDS: Final = 2.0  # the writer asks again until a save's deadline
_RETRIES: Final = 100
_FOR_GOOD: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_KNOWN_RUNS: Final = 50_000


class FileStore(IndexedFileStore):
    """Journals below one directory, for any number of threads and processes of one machine.

    The directory is made if it is missing, readable by its owner only.
    """

    form: ClassVar[Form] = "readable"

    def __init__(self, path: str | os.PathLike[str], *, lock_seconds: float = LOCK_SECONDS) -> None:
        super().__init__()
        self.path = Path(path).absolute()
        self.url = f"file://{self.path}"
        self._closed = False
        # Right while nobody else has changed the store, which the lock tells us.
        self._heads: dict[str, _Head] = {}
        self._settled: set[str] = set()  # runs whose directory is known to be durable
        try:
            self._root = Root(self.path, lock_seconds)
        except (FileExistsError, NotADirectoryError) as error:
            raise SchemaError(self.url, "it is a file; name a directory") from error
        except OSError as error:
            raise self._unavailable(error) from error

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._check_open()
        if not entries:
            return []
        with self._attempt(entries) as attempt, self._root.temporary() as temp:
            files: dict[tuple[str, int], str] = {}  # of two for one place, only the first can win
            try:
                for entry in entries:
                    if (entry.run, entry.seq) not in files:
                        name = files[entry.run, entry.seq] = os.urandom(8).hex()
                        write_durably(name, form.encode(entry), temp)
                fault("file.append.temp")
                with self._locked(entries), self._root.open() as root:

                    def place(entry: Entry) -> bool:
                        won = self._link(entry, files[entry.run, entry.seq], temp, root)
                        attempt.visible = attempt.visible or won
                        return won

                    beaten = runs_beaten(behind, lambda run: self._digest(root, run))
                    won = outcomes(entries, place, beaten)
                fault("file.append.linked")
                self._sync_runs({entry.run for entry in entries})
                fault("file.append.synced")
                return won
            finally:
                for name in files.values():
                    remove_file(name, temp)

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        self._check_open()
        choose = lambda seqs: page_of(seqs, int, after, limit, newest_first)  # noqa: E731
        return [entry for entry, _ in self._snapshot(run, choose, bodies=bodies)]

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        self._check_open()
        found: list[Entry] = []
        for run in self._run_ids(where):
            if len(found) >= limit:
                break
            if run > after:
                head = self._readable(run, lambda seqs: seqs[-1:])
                found += [entry for entry, _ in head if where.matches(entry)]
        return found

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        def changed(run: int) -> dict[int, Entry]:
            return {
                seq: trimmed(journal.outline(run, marker.run, seq), changes[seq])
                for seq in journal.seqs(run)
                if seq in changes
            }

        return self._thin(marker, changed)

    def erase(self, tombstone: Entry) -> bool:
        return self._thin(tombstone, lambda run: None)

    def stats(self, run: str | None = None) -> StoreStats:
        self._check_open()
        if run is not None:
            return totals([self._snapshot(run, list, bodies=False)])
        return totals(self._readable(name, list) for name in self._run_ids(RunFilter()))

    def _readable(
        self, run: str, choose: Callable[[list[int]], list[int]]
    ) -> list[tuple[Entry, int]]:
        """Entries and the sizes of their bodies, chosen from those that can be read."""
        bad: set[int] = set()
        while True:
            try:
                return self._snapshot(
                    run, lambda seqs: choose([seq for seq in seqs if seq not in bad]), bodies=False
                )
            except CheckpointCorruptedError as error:
                if error.seq is None or error.seq in bad:
                    raise
                bad.add(error.seq)

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        with self._attempt():
            self._check_open()
            return changes.poll(self._root, mark)

    def survives(self) -> Survives:
        self._check_open()
        return "process-crash" if volatile_file_system(self.path) else "power-loss"

    def close(self) -> None:
        if not self._closed:
            self._close_index()
            self._closed = True
            self._root.close()

    # writing

    def _link(self, entry: Entry, name: str, temp: int, root: int) -> bool:
        with self._directory(root, entry.run, make=True) as run:
            if not self._is_next(entry, run):
                return False
            try:
                journal.link(name, temp, form.file_name(entry.seq), run)
            except FileExistsError:  # only where locks do not work, as on some network disks
                return False
            self._heads[entry.run] = _Head(entry.seq, journal.stamp(entry.seq, run), entry.digest)
        return True

    def _thin(self, marker: Entry, changes: Callable[[int], dict[int, Entry] | None]) -> bool:
        self._check_open()
        with (
            self._attempt([marker]) as attempt,
            self._root.temporary() as temp,
            self._locked([marker]),
            self._root.open() as root,
            self._directory(root, marker.run, make=True) as run,
        ):
            if not self._is_next(marker, run):
                return False
            journal.place_intent(marker, changes(run), temp, run)
            if marker.run not in self._settled:
                sync(root)
                self._settled.add(marker.run)
            fault("file.thin.intent")
            try:
                journal.commit(marker, run)
            except FileExistsError:  # see _link
                journal.finish(run)
                return False
            attempt.visible = True
            fault("file.thin.marked")
            journal.finish(run)
            self._heads.pop(marker.run, None)
            return True

    def _is_next(self, entry: Entry, run: int) -> bool:
        """Whether it follows the head. The remembered head may be too low: files can come back."""
        head = self._head(entry.run, run)
        if entry.seq > head.seq + 1:
            self._heads.pop(entry.run, None)
            head = self._head(entry.run, run)
        return follows(entry, head.seq)

    def _head(self, name: str, run: int) -> _Head:
        """The run's head, after completing what was interrupted. Needs the lock."""
        head = self._heads.get(name)
        if head is None or journal.stamp(head.seq, run) != head.stamp:  # lost, or another's
            journal.finish(run)
            seq = max(journal.seqs(run), default=-1)
            head = self._heads[name] = _Head(
                seq, journal.stamp(seq, run), None if seq >= 0 else b""
            )
        return head

    def _digest(self, root: int, name: str) -> bytes:
        """The digest of the run's head, empty if there is none. Needs the lock."""
        try:
            with self._directory(root, name) as run:
                head = self._head(name, run)
                if head.digest is None:
                    entry, _ = journal.load(run, name, head.seq, bodies=False)
                    head = self._heads[name] = head._replace(digest=entry.digest)
        except _NoRunError:
            return b""
        except CheckpointCorruptedError:
            return UNREADABLE
        return head.digest or b""

    def _sync_runs(self, names: set[str]) -> None:
        """Make the names durable, also of lost entries: we report another's entry as there."""
        with self._root.open() as root:
            for name in names:
                with self._directory(root, name, make=True) as run:
                    sync(run)
            if not names <= self._settled:
                # Another thread or process may have made the directory and not synced it yet.
                sync(root)
                self._settled |= names
                if len(self._settled) > _KNOWN_RUNS:
                    self._settled.clear()

    @contextmanager
    def _locked(self, entries: Sequence[Entry] = ()) -> Iterator[None]:
        with self._root.lock(count=any(e.run[:1] != HIDDEN for e in entries)) as unchanged:
            if not unchanged or len(self._heads) > _KNOWN_RUNS:
                self._heads.clear()
            yield

    @contextmanager
    def _attempt(self, entries: Sequence[Entry] = ()) -> Iterator[_Attempt]:
        """Translate errors, by how far a write of these entries came."""
        attempt = _Attempt()
        try:
            yield attempt
        except BaseException as error:
            for entry in entries:
                self._heads.pop(entry.run, None)
                self._settled.discard(entry.run)
            if attempt.visible and isinstance(error, (OSError, HoldfastError)):
                raise SyncFailedError(entries[0].run, reason(error)) from error
            if isinstance(error, HoldfastError) or not isinstance(error, OSError):
                raise
            self._check_open()
            raise self._unavailable(error) from error

    # reading

    def _snapshot(
        self, name: str, choose: Callable[[list[int]], list[int]], *, bodies: bool
    ) -> list[tuple[Entry, int]]:
        """Entries and their bodies' sizes, as of one moment.

        A trim places its intent, links its marker, changes `.thinned`, applies, removes the
        intent, in this order. If there is no intent before and after, and `.thinned` is the
        same, no trim happened in between.
        """
        with self._attempt(), self._root.open() as root:
            for _ in range(_RETRIES):
                try:
                    with self._directory(root, name) as run:
                        before = self._quiet(run)
                        found = [
                            journal.load(run, name, seq, bodies)
                            for seq in choose(journal.seqs(run))
                        ]
                        if self._quiet(run) == before:
                            return found
                except _NoRunError:
                    return []
                except FileNotFoundError:
                    continue  # erased between listing and reading
        raise StoreUnavailableError(
            f"{self.url}: {name!r} is trimmed faster than it can be read; try again"
        )

    def _quiet(self, run: int) -> bytes:
        """Complete a trim that was interrupted, or wait for it; return which was the last one."""
        while True:
            thinned = journal.last_thinned(run)
            if journal.has_intent(run):
                with self._locked():
                    journal.finish(run)
            elif journal.last_thinned(run) == thinned:
                return thinned

    def _run_ids(self, where: RunFilter) -> list[str]:
        with self._attempt(), self._root.open() as root:
            with os.scandir(root) as places:
                names = [place.name for place in places if place.is_dir(follow_symlinks=False)]
            runs = [
                journal.run_in(name, root) if form.is_cut(name) else form.run_of(name)
                for name in names
            ]
        return sorted(run for run in runs if run and where.includes(run))

    @contextmanager
    def _directory(self, root: int, run: str, *, make: bool = False) -> Iterator[int]:
        name = form.directory_name(run)
        if make and run not in self._settled:
            make_directory(name, root)
        try:
            fd = open_directory(name, root)
        except FileNotFoundError:
            raise _NoRunError from None
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise
            problem = f"{name!r} in {self.path} is not a directory; remove what is there"
            raise (
                StoreError(problem) if make else CheckpointCorruptedError(run, None, problem)
            ) from error
        try:
            yield fd
        finally:
            os.close(fd)

    def _unavailable(self, error: OSError) -> StoreError:
        kind = StoreError if error.errno in _FOR_GOOD else StoreUnavailableError
        return kind(f"{self.url}: {reason(error)}")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)


class _Head(NamedTuple):
    """The head of a run."""

    seq: int  # -1 if there is none
    stamp: journal.Stamp | None
    digest: bytes | None  # None if it was not read


class _Attempt:
    """Whether others may have seen some of a write."""

    visible = False


class _NoRunError(FileNotFoundError):
    """There is no directory for the run."""
