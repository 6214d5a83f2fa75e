"""New keys for a store that is encrypted. Everything here blocks."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from holdfast.errors import BoundOwnerError, KeyMissingError, PlaintextError
from holdfast.kernel import keyed
from holdfast.kernel.core import Core
from holdfast.keys.data_keys import DataKeys


class Rekeyed(NamedTuple):
    """What `rekey` did."""

    owners: int  # that have data keys; runs without an owner count as one
    rewrapped: int  # of these: wrapped by another key than the newest before


def rekey(core: Core, *, new_data_keys: bool = False) -> Rekeyed:
    """Wrap the data keys of a store with the newest key of the keyring.

    After that, the older keys of the ring are not needed any more. What is stored stays as it is,
    so this takes moments, however much that is. It may be stopped at any time, and started again.
    With `new_data_keys`, everything that is saved from now on has a new data key, too. Raises
    `WrongKeyError`, and `CheckpointCorruptedError` where the data keys of the store are elsewhere:
    nobody should destroy an older key then.
    """
    _refuse_bound(core)
    keys = _data_keys(core)
    with suppress(PlaintextError):  # it is only signed so far: then there are no data keys
        core.journals.cut_over.last()  # which needs one: those found here are those of this store
    owners = rewrapped = 0
    for row in keys.rows():
        owners += 1
        rewrapped += keys.rewrap(row)
        if new_data_keys and row.wrapped:
            keys.add(keys.row(row.owner))
    return Rekeyed(owners, rewrapped)


def cut_over(core: Core, *, again: bool = False) -> int:
    """Accept all that was saved without the key until now, and nothing from now on.

    For a store that was used before it got a key; a new one needs no cut-over. Stop everything
    that saves without the key first. Returns the number of journals that are accepted as they are.
    Their states stay readable for all who can read the store; those saved from now on are not.
    It happens once: called again, it does nothing, and returns 0. What was written without the key
    since then may be anybody's. With `again`, that is accepted, too: look at every such run first.
    """
    _refuse_bound(core)
    if core.journals.sealer is None:
        raise KeyMissingError("")
    core.journals.sealer.prepare(None)
    if not again:
        keyed.check_first(core.journals)
        if keyed.is_cut_over(core.journals):
            return 0
    return keyed.cut_over(core.journals)


def _refuse_bound(core: Core) -> None:
    """The keys are of all owners. Raises `BoundOwnerError` for who is bound to one."""
    if core.journals.owner is not None:
        raise BoundOwnerError(core.journals.owner, "*")


def _data_keys(core: Core) -> DataKeys:
    found = keyed.ring_keys(core.journals)
    if found is None:
        raise KeyMissingError("")
    return found
