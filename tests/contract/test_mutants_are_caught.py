from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.contract import StoreContract, check_store

from .mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_store_fails_the_contract(mutant: type[Store]) -> None:
    assert next(_failures(mutant), None) is not None


def test_a_sound_store_passes_it() -> None:
    assert list(_failures(MemoryStore)) == []


def _failures(make: Callable[[], Store]) -> Iterator[str]:
    """The contract's tests that fail, found as pytest would find them, in their order."""
    names = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert len(names) > 40
    for name in names:
        if _fails(getattr(StoreContract(), name), make()):
            yield name


def _fails(test: Callable[..., None], store: Store) -> bool:
    given: dict[str, object] = {"store": store, "open_store": lambda: store}
    wanted = inspect.signature(test).parameters
    try:
        test(**{name: given[name] for name in wanted})
        if "store" in wanted:
            assert check_store(store) == []
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any failure is a catch
        return True
    return False
