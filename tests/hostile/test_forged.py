"""Whatever a forger stores: what looks at it raises documented errors alone, and in time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.codec.meta import Key, Meta
from holdfast.codec.values import encode
from holdfast.codec.wrapping import DELTA, READABLE, SEALED, SIGNED, ZSTD
from holdfast.model import Entry, Kind, Status
from holdfast.stores.memory import MemoryStore
from tests.damage.lives import LIVES
from tests.effort import examples
from tests.hostile.forging import Forged, forged
from tests.hostile.looking import look, undocumented
from tests.strategies import values
from tests.waiting import run_process

KEYS = [known._name for known in vars(Meta).values() if isinstance(known, Key)]
TEXTS = ["", "x", "0", "-1", "1-99999999999999", "a@1", "@", "//", "\x1b[2J", "é" * 600, "\ud800"]
NUMBERS = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**70, 1e308, 0.5]

plain = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*TEXTS, *KEYS]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


class Journals(dict[str, dict[str, list[Entry]]]):
    """By run: the entries of its journal, and of those beside it."""

    def __repr__(self) -> str:
        return f"the journals of {len(self)} runs"


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    found = Journals()
    for life in LIVES:
        store = MemoryStore()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp(life.run))
            life.make(store)
        found[life.run] = {name: store.read(name) for name in store._journals}
    return found


RAW = [
    *(
        "[",
        "null",
        "[]",
        '"x"',
        "NaN",
        '{"n": NaN}',
        '{"n": 1e999}',
        "{}",
        '{"run": "a", "run": 1}',
    ),
    *('{"\\ud800": "\\udfff"}', '{"n": ' + "1" * 5000 + "}"),
    *("[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000),
]
"""Metadata that is no object, has a key twice, no numbers, no text, or no end."""

FLAGS = [
    *(0, 0, DELTA, ZSTD, DELTA | ZSTD, READABLE),
    *(SEALED, SEALED | DELTA, SEALED | ZSTD, SIGNED, SIGNED | SEALED, SIGNED | READABLE),
]
parts = st.binary(max_size=8) | st.builds(
    lambda code, data: ormsgpack.packb(ormsgpack.Ext(code, data)),
    st.integers(1, 40),
    st.binary(max_size=20),
)
contents = (
    st.binary(max_size=60)
    | values(max_leaves=5).map(encode)
    | plain.map(lambda tree: json.dumps(tree).encode())
    | st.lists(parts, max_size=6).map(lambda all_: bytes([0x90 + len(all_)]) + b"".join(all_))
)
numbers = st.sampled_from([n for n in NUMBERS if isinstance(n, int) and n < 2**63])
texts = st.none() | st.sampled_from(TEXTS[:-1])
fields = {
    "kind": st.sampled_from([*map(str, Kind), "future", ""]),
    "status": st.sampled_from([*map(str, Status), "future", ""]),
    "entry_id": st.binary(max_size=12),
    "parent": st.none() | numbers,
    "term": numbers,
    "step_index": st.none() | numbers,
    "at": numbers,
    "duration": st.none() | st.floats(),
    "size": numbers,
    **dict.fromkeys(["step", "type", "flow", "thread", "owner"], texts),
}

Edit = tuple[str, Any]
edits: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(
        st.just("keys"), st.dictionaries(st.sampled_from(KEYS), plain, min_size=1, max_size=3)
    ),
    st.tuples(st.just("raw"), st.sampled_from(RAW) | st.text()),
    st.tuples(
        st.just("state"),
        st.tuples(
            contents,
            st.sampled_from(FLAGS),
            st.sampled_from([None, None, 0, 1, 5000, 2**40, 2**62]),
        ),
    ),
    st.sampled_from(sorted(fields)).flatmap(lambda name: st.tuples(st.just(name), fields[name])),
)


def edited(one: Forged, edit: Edit) -> Forged:
    what, to = edit
    match what:
        case "keys":
            return one.with_fields(meta=json.dumps(json.loads(one.entry.meta or "{}") | to))
        case "raw":
            return one.with_fields(meta=to)
        case "state":
            return one.with_state(*to)
        case name:
            return one.with_fields(**{name: to})


@given(st.sampled_from([life.run for life in LIVES]), st.integers(0, 5), st.integers(0, 30), edits)
@example("back", 0, 1, ("duration", 1.8e302))
@example("back", 0, 1, ("duration", -1.8e302))
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_forged_entry_is_shown_or_refused_in_words(
    journals: Journals,
    tmp_path: Path,
    run: str,
    journal: int,
    place: int,
    edit: Edit,
) -> None:
    store = MemoryStore()
    chosen = sorted(journals[run])[journal % len(journals[run])]
    for name, entries in journals[run].items():
        seq = entries[place % len(entries)].seq if name == chosen else -1
        store.append(
            forged(entries, lambda one: edited(one, edit) if one.entry.seq == seq else one)  # noqa: B023
        )
    assert undocumented(look(store, run, tmp_path)) == []


def test_a_few_bytes_that_ask_for_gigabytes_do_not_get_them() -> None:
    command = [sys.executable, "-m", "tests.hostile.bombs"]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # else each thread reserves 64 MB
    done = run_process(command, check=False, capture_output=True, cwd=root, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problems"] == []
