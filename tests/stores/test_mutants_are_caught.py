from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import StoreClosedError
from holdfast.model import Entry
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.testing._transacting import make_effects
from holdfast.testing.contract import StoreContract, TransactionalContract, check_store

from .mutants import MUTANTS, TRANSACTIONAL_MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_store_fails_the_contract(mutant: type[Store]) -> None:
    assert next(_failures(StoreContract, partial(_always, mutant)), None) is not None


def test_a_store_that_damages_large_entries_is_caught_at_once_on_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With CI in the environment, pytest shows every difference, however long that takes."""
    monkeypatch.setenv("CI", "true")

    class CutsIds(MemoryStore):
        def _append(self, entry: Entry) -> bool:
            return super()._append(entry._replace(entry_id=entry.entry_id[:-1]))

    store = CutsIds()
    assert _fails(StoreContract().test_a_body_of_ten_megabytes_comes_back, lambda: store)


def test_a_sound_store_passes_it() -> None:
    assert list(_failures(StoreContract, partial(_always, MemoryStore))) == []


@pytest.mark.parametrize("mutant", TRANSACTIONAL_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_store_with_broken_transactions_fails_their_contract(
    mutant: type[SQLiteStore], tmp_path: Path
) -> None:
    new = partial(_in_a_new_file, mutant, tmp_path, count())
    assert next(_failures(TransactionalContract, new), None) is not None


def test_a_store_with_sound_ones_passes_it(tmp_path: Path) -> None:
    new = partial(_in_a_new_file, SQLiteStore, tmp_path, count())
    assert list(_failures(TransactionalContract, new)) == []


Opener = Callable[[], Store]


def _always(make: Opener) -> Opener:
    store = make()
    return lambda: store


def _in_a_new_file(make: type[SQLiteStore], directory: Path, numbers: Iterator[int]) -> Opener:
    return partial(make, directory / f"{next(numbers)}.db", survives="process-crash")


def _failures(contract: type, new: Callable[[], Opener]) -> Iterator[str]:
    """The contract's tests that fail, found as pytest would find them, in their order."""
    names = [name for name in dir(contract) if name.startswith("test_")]
    assert len(names) > (40 if contract is StoreContract else 12)
    for name in names:
        if _fails(getattr(contract(), name), new()):
            yield name


def _fails(test: Callable[..., None], open_store: Opener) -> bool:
    wanted = inspect.signature(test).parameters
    store = open_store()
    given: dict[str, object] = {"store": store, "open_store": open_store}
    if "effects" in wanted:
        given["effects"] = make_effects(store)  # type: ignore[arg-type]
    try:
        test(**{name: given[name] for name in wanted})
        if "store" in wanted:
            assert check_store(store) == []
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any failure is a catch
        return True
    finally:
        with suppress(StoreClosedError):
            store.close()
    return False
