"""Sessions and transactions on an SQL server, the same for every driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from holdfast.errors import HoldfastError, OutcomeUnknownError, StoreClosedError, StoreError
from holdfast.seams import fault
from holdfast.stores._shared.errors import Translated
from holdfast.stores._shared.pool import Connection, Pool


class Session(Protocol):
    """What takes statements."""

    def execute(self, statement: Any, /) -> object:
        """Run one statement."""


C = TypeVar("C", bound=Connection)
Lent = TypeVar("Lent", covariant=True)
S = TypeVar("S", bound=Session)


class Lender(Protocol[Lent]):
    """A pool: our own, or one that the user made, such as psycopg_pool's ConnectionPool."""

    def connection(self) -> AbstractContextManager[Lent]:
        """Lend a connection."""


class Connections(ABC, Generic[C, S]):
    """Sessions on connections from our own pool or the user's, with every error translated.

    Before the first session, `prepare` makes the schema if it is missing. `recheck` raises
    `SchemaError` if a newer holdfast has changed it since, so that our statements fail.
    """

    name: ClassVar[str]
    begin: ClassVar[str]
    driver_error: ClassVar[type[Exception]]

    def __init__(
        self,
        url: str,
        pool: Lender[C],
        prepare: Callable[[S], None],
        recheck: Callable[[S], object],
    ) -> None:
        self.url = url
        self.translated = Translated(url, self.driver_error, self._translate)
        self._pool = pool
        self._prepare: Callable[[S], None] | None = prepare
        self._recheck = recheck
        self._closed = False

    @abstractmethod
    def _on(self, db: C) -> AbstractContextManager[S]:
        """A session on a connection, in which every statement is its own transaction."""

    @abstractmethod
    def _rests(self, db: C) -> bool:
        """Whether the connection is open, and not in a transaction."""

    @abstractmethod
    def _is_lost(self, session: S) -> bool:
        """Whether the session's connection is closed."""

    @abstractmethod
    def _translate(self, error: Any) -> HoldfastError:
        """The driver's error as one of ours."""

    def check_open(self) -> None:
        """Raise `StoreClosedError` once it is closed."""
        if self._closed:
            raise StoreClosedError(self.url)

    def close(self) -> None:
        """Close our own connections; the user closes a pool of the user's."""
        self._closed = True
        if isinstance(self._pool, Pool):
            self._pool.close()

    @contextmanager
    def session(self, *, prepared: bool = True, pool: Lender[C] | None = None) -> Iterator[S]:
        """A session in which every statement is its own transaction."""
        self.check_open()
        with self.translated, (pool or self._pool).connection() as db, self._on(db) as session:
            prepare = self._prepare if prepared else None  # another thread may unset it
            if prepare is not None:
                prepare(session)
                self._prepare = None
            try:
                yield session
            except self.driver_error as error:
                if type(self._translate(error)) is StoreError and self._rests(db):
                    self._recheck(session)
                raise

    @contextmanager
    def transaction(self, run: str) -> Iterator[S]:
        """A session in a transaction, which is committed at the end or rolled back."""
        with self.session() as session:
            session.execute(self.begin)
            try:
                yield session
                fault(f"{self.name}.commit.before")
            except BaseException as error:
                with suppress(self.driver_error):
                    if isinstance(error, Exception):
                        session.execute("ROLLBACK")
                raise
            with self.committing(session, run):
                self._commit(session)
            fault(f"{self.name}.commit.after")

    def _commit(self, session: S) -> None:
        session.execute("COMMIT")

    @contextmanager
    def committing(self, session: S, run: str) -> Iterator[None]:
        """Around a statement that commits: if the connection breaks, the outcome is unknown."""
        try:
            yield
        except self.driver_error as error:
            if self._is_lost(session):
                raise OutcomeUnknownError(run, str(self._translate(error))) from error
            raise
