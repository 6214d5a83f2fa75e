"""Sealed journals that somebody without the key altered: refused in words, with the key and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from tests.damage.lives import large
from tests.effort import examples
from tests.hostile.looking import look, undocumented
from tests.hostile.test_forged import KEYS, plain

RUN = "sealed"
RING = hf.Keyring({"2026": bytes(range(32))})


@pytest.fixture(scope="module")
def journals() -> dict[str, list[Entry]]:
    store = MemoryStore()
    with hf.SyncCheckpointer(store, key=RING) as cp:
        for number in range(3):
            cp.save(RUN, large(number), step="s", owner="ann", metadata={"n": number})
    return {name: store.read(name) for name in store._journals}


@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.one_of(
        st.tuples(st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9)),
        st.dictionaries(st.sampled_from(["sealed", *KEYS]), plain, min_size=1, max_size=2),
    ),
    st.booleans(),
)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_an_altered_sealed_entry_is_refused_in_words(
    journals: dict[str, list[Entry]],
    tmp_path: Path,
    journal: int,
    place: int,
    change: Any,
    has_key: bool,
) -> None:
    chosen = sorted(journals)[journal % len(journals)]
    store = MemoryStore()
    for name, entries in journals.items():
        made = list(entries)
        if name == chosen:
            at = place % len(made)
            made[at] = _altered(made[at], change)
        store.append(made)
    assert undocumented(look(store, RUN, tmp_path, key=RING if has_key else None)) == []


def _altered(entry: Entry, change: Any) -> Entry:
    if isinstance(change, dict):
        return entry._replace(meta=json.dumps(json.loads(entry.meta or "{}") | change))
    where, length, insert = change
    body = bytearray(entry.body)
    at = int(where * len(body))
    body[at : at + length] = insert
    return entry._replace(body=bytes(body))
