"""How a state of an older version becomes one of the version that the code has now."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.codec import values
from holdfast.errors import MigrationError, ReviveError, SerializeError, StateTooLargeError
from holdfast.revealed import scrubbed

Change = Callable[[Any], Any]
"""Makes a state of the next version from one of an older version. Both are plain data."""

C = TypeVar("C", bound=Change)

FIRST: Final = 1
"""The version of what was saved without one."""


class Place(NamedTuple):
    """Where a state is recorded: errors name it."""

    run_id: str = ""
    checkpoint_id: str = ""


class Migrations:
    """Turns states of older versions into those of `version`, one version at a time.

        orders = hf.Migrations(version=3)

        @orders.state(from_version=1)
        def in_cents(state):
            return {**state, "cents": round(100 * state["price"])}

    A function that is declared for version 1 makes a state of version 2 from one of version 1. It
    is given plain data, as it was stored, and returns what can be stored. It is called whenever an
    older state is read, so it must return the same for the same state, and do nothing else.

    `{1: change}` as the second argument declares `change` for version 1; `{1: None}` says that
    version 2 takes states of version 1 as they are.
    """

    def __init__(self, version: int, states: Mapping[int, Change | None] | None = None) -> None:
        self._version = _number("version", version)
        self._states: dict[int, Change | None] = {}
        self._inputs: dict[int, Change] = {}
        for old, change in (states or {}).items():
            self._check(old, change, self._states)
            self._states[old] = change

    @property
    def version(self) -> int:
        """The version that states have after all migrations: that of the code."""
        return self._version

    @property
    def changes_inputs(self) -> bool:
        """Whether it says what becomes of inputs, apart from states."""
        return bool(self._inputs)

    def state(self, *, from_version: int) -> Callable[[C], C]:
        """Declare what makes a state of the next version: `@orders.state(from_version=1)`.

        Of a workflow, the state is its results by step.
        """
        return self._declare(from_version, self._states)

    def inputs(self, *, from_version: int) -> Callable[[C], C]:
        """Declare what makes the inputs of a workflow's next version, by name.

        A graph or pipeline begins with a state: `state` migrates it.
        """
        return self._declare(from_version, self._inputs)

    def migrate(self, state: Any, *, from_version: int) -> Any:
        """A state of an older version as one of this version; for tests of your own, for example.

        Raises `MigrationError`.
        """
        return self.migrated(state, _number("from_version", from_version))

    def __repr__(self) -> str:
        known = sorted({*self._states, *self._inputs})
        return f"<Migrations to version {self._version} from {', '.join(map(str, known))}>"

    # --- for the front doors

    def admits(self, version: object) -> bool:
        """Whether states of this version can become states of the present one."""
        return self._refusal(version) is None

    def check(self, version: object, place: Place = Place()) -> int:
        """The version, as a number. Raises `MigrationError` if states of it can't be migrated."""
        refusal = self._refusal(version)
        if refusal is not None:
            raise self.error(version, *refusal, place)
        return whole(version)

    def migrated(
        self,
        state: Any,
        version: object,
        place: Place = Place(),
        stored_form: Callable[[Any], Any] = lambda value: values.decode(values.encode(value)),
        *,
        until: int | None = None,
    ) -> Any:
        """A state of this version, or of the one `until` it, from an older one.

        Raises `MigrationError`.

        Between two functions it takes the form that it would have if it had been saved in between.
        """
        last = self._version if until is None else until
        for old in range(self.check(version, place), last):
            state = self._changed(self._states.get(old), state, old, place, stored_form)
        return state

    def next_results(
        self, results: dict[str, Any], old: int, place: Place, stored_form: Callable[[Any], Any]
    ) -> dict[str, Any] | None:
        """A workflow's results by step in the next version; None if it takes them as they are."""
        change = self._states.get(old)
        if change is None:
            return None
        changed = self._changed(change, results, old, place, stored_form)
        if isinstance(changed, dict) and all(isinstance(key, str) for key in changed):
            return changed
        reason = f"{_name(change)} returned {_kind(changed)}, not a dict of results by step"
        raise self.error(old, reason, "Correct it.", place)

    def migrated_inputs(
        self,
        inputs: dict[str, Any],
        version: object,
        place: Place,
        stored_form: Callable[[Any], Any],
    ) -> dict[str, Any]:
        """A workflow's inputs by name in this version. Raises `MigrationError`."""
        given: Any = inputs
        for old in range(self.check(version, place), self._version):
            change = self._inputs.get(old)
            given = self._changed(change, given, old, place, stored_form)
            if change is not None and not isinstance(given, dict):
                reason = f"{_name(change)} returned {_kind(given)}, not a dict of inputs by name"
                raise self.error(old, reason, "Correct it.", place)
        return dict(given)

    def error(
        self, version: object, reason: str, advice: str, place: Place = Place()
    ) -> MigrationError:
        """The error that says why a state of this version can't be migrated."""
        return MigrationError(
            place.run_id, (reason,), advice, place.checkpoint_id, str(version), self._version
        )

    # --- inside

    def _declare(self, from_version: int, table: dict[int, Any]) -> Callable[[C], C]:
        def declare(change: C) -> C:
            self._check(from_version, change, table)
            table[from_version] = change
            return change

        self._check(from_version, None, table)
        return declare

    def _check(self, old: object, change: object, table: Mapping[int, object]) -> None:
        number = _number("from_version", old)
        if number >= self._version:
            raise ValueError(
                f"from_version={number} is not below version {self._version}, to which these "
                "migrations lead: raise version= first"
            )
        if number in table:
            raise ValueError(f"two migrations lead from version {number} to {number + 1}")
        if change is not None and not callable(change):
            raise TypeError(f"a migration is a function of a state, not {change!r}")
        if inspect.iscoroutinefunction(change) or inspect.isgeneratorfunction(change):
            raise TypeError(f"a migration is a plain def, and {_name(change)} is not")

    def _refusal(self, version: object) -> tuple[str, str] | None:
        """Why states of this version can't be migrated, and what to do."""
        number = whole(version)
        if number < 0:
            return (
                f"version {version} is no whole number, and migrations go from one to the next",
                "Use the code that recorded it, or fork it and continue with a state of your own.",
            )
        if number > self._version:
            return (
                f"it is of version {number}, and this code knows versions up to {self._version}",
                "Use the newer code.",
            )
        for old in range(number, self._version):
            if old not in self._states and old not in self._inputs:
                return (
                    f"there is no migration from version {old} to {old + 1}",
                    f"Declare it: @migrations.state(from_version={old}).",
                )
        return None

    def _changed(
        self,
        change: Change | None,
        state: Any,
        old: int,
        place: Place,
        stored_form: Callable[[Any], Any],
    ) -> Any:
        if change is None:
            return state
        name, advice = _name(change), "Correct it; nothing was changed."
        try:
            made = change(state)
        except Exception as error:
            words = scrubbed(f"{type(error).__name__}: {error}".removesuffix(": "))
            raise self.error(old, f"{name} raised {words}", advice, place) from error
        if made is None:
            raise self.error(old, f"{name} returned nothing", "Return the new state.", place)
        try:
            return stored_form(made)
        except (SerializeError, ReviveError, StateTooLargeError) as error:
            reason = f"what {name} returned can't be stored: {error}"
            raise self.error(old, reason, advice, place) from error


def whole(version: object) -> int:
    """A version as a number; -1 if it is none, and `FIRST` if there is none."""
    if version is None:
        return FIRST
    text = str(version)
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        return -1
    return int(text) if str(int(text)) == text else -1


def misfit(error: ReviveError) -> str:
    """Where data does not have its type, and why."""
    return f"{error.path}: {error.reason}"


def version_of(version: object, migrations: Migrations | None) -> str:
    """The version of a flow: what it says, or that of its migrations. Raises `ValueError`."""
    if migrations is None:
        return str(FIRST if version is None else version)
    given: object = migrations
    if not isinstance(given, Migrations):
        raise TypeError(f"migrate takes hf.Migrations(version=...), not {given!r}")
    if version is not None and str(version) != str(migrations.version):
        raise ValueError(
            f"version={version!r} is not the version {migrations.version} of its migrations: "
            "leave it out"
        )
    return str(migrations.version)


def refuse_inputs(migrations: Migrations | None, flow: str) -> Migrations | None:
    """The migrations of a flow that begins with a state. Raises `ValueError` for those of inputs."""
    if migrations is not None and getattr(migrations, "changes_inputs", False):
        raise ValueError(
            f"a {flow} begins with a state: declare what becomes of it with "
            "@migrations.state(...), not with @migrations.inputs(...)"
        )
    return migrations


def _number(what: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{what} must be an int, such as 1, 2, 3, not {given!r}")
    if not 0 <= given < 2**63:
        raise ValueError(f"{what} must be 0 or more, and fit into 64 bits, not {given}")
    return given


def _name(change: object) -> str:
    name = getattr(change, "__name__", type(change).__name__)
    return "the migration" if name == "<lambda>" else f"{name}()"


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
