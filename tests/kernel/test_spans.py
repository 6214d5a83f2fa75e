"""States stored as changes: to the one before, to a landmark, and what is left when some go."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import bearings, chain, envelope, values, varint
from holdfast.kernel import rewriting
from holdfast.kernel.reader import Reader
from holdfast.model import Entry
from holdfast.stores import MemoryStore
from tests.effort import examples

operations = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.integers(0, 99)),
        st.tuples(st.just("go back"), st.integers(0, 99)),
        st.tuples(st.just("delete"), st.integers(0, 99)),
        st.tuples(st.just("prune"), st.integers(1, 9)),
        st.tuples(st.just("start afresh"), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


class Counting(MemoryStore):
    """Another's entries, and how many of them were read."""

    def __init__(self, other: MemoryStore) -> None:
        super().__init__()
        for entry in other.read("run", limit=10_000):
            assert self.append([entry]) == [True]
        self.read_so_far = 0

    def read(self, run: str, **options: Any) -> list[Entry]:
        found = super().read(run, **options)
        self.read_so_far += len(found)
        return found


class Interrupted(MemoryStore):
    """Something happens before one of its reads."""

    reads_left = 0
    then: Callable[[], object]

    def read(self, run: str, **options: Any) -> list[Entry]:
        self.reads_left -= 1
        if self.reads_left == 0:
            self.then()
        return super().read(run, **options)


def grown(rng: random.Random, before: list[str]) -> list[str]:
    return [*before, *(f"{rng.getrandbits(64):x}" for _ in range(30))]


@settings(max_examples=examples(60))
@given(operations, st.integers(1, 4), st.integers(0, 3))
def test_every_checkpoint_that_is_left_can_be_loaded(
    steps: list[tuple[str, int]], links: int, spans: int
) -> None:
    """Whatever was deleted from under it, wherever the run went back to, whoever saved it."""
    store, rng = MemoryStore(), random.Random(links)
    with (
        patch.multiple(chain, MAX_LINKS=links, MAX_SPANS=spans, SMALL_STATE=64),
        patch.object(rewriting, "SMALL_STATE", 64),
    ):
        cp = hf.SyncCheckpointer(store)
        expected: dict[int, Any] = {cp.save("run", ["first"] * 40).seq: ["first"] * 40}
        state: list[str] = ["first"] * 40
        for what, number in steps:
            chosen = sorted(expected)[number % len(expected)] if expected else 0
            if what == "save" or not expected:
                state = grown(rng, state)
                expected[cp.save("run", state).seq] = state
            elif what == "go back":
                cp.rollback("run", seq=chosen)
                state = expected[chosen]
            elif what == "delete" and len(expected) > 1:
                cp.delete("run", f"run@{chosen}")
                del expected[chosen]
                current = cp.load("run")
                state = [] if current is None else current.state
            elif what == "prune":
                cp.prune("run", keep_latest=number)
                left = {info.seq for info in cp.list_checkpoints("run")}
                expected = {seq: known for seq, known in expected.items() if seq in left}
            else:
                cp = hf.SyncCheckpointer(store)
        found = {seq: cp.load("run", seq=seq) for seq in expected}
    assert {seq: ck.state for seq, ck in found.items() if ck} == expected


def test_what_is_deleted_while_a_state_is_put_together_is_no_damage() -> None:
    """What built on it was rewritten, and is read again."""
    for moment in range(1, 20):
        store = Interrupted()
        with hf.SyncCheckpointer(store) as cp, patch.object(chain, "MAX_LINKS", 3):
            for n in range(12):
                last = cp.save("run", {"n": n, "log": [f"line {i:05}" for i in range(900 + n)]})
            store.reads_left, store.then = moment, lambda: cp.prune("run", keep_latest=1)
            found = Reader(store, 1 << 30).chain("run", last.seq)
            assert values.decode(found.encoding) == last.state
        if store.reads_left > 0:
            return
    raise AssertionError("it never came to its end undisturbed")


def test_a_long_conversation_takes_space_in_proportion_to_its_length() -> None:
    rng = random.Random("chat")
    words = [f"{rng.getrandbits(20):x}" for _ in range(3000)]
    messages: list[str] = []
    sizes = {}
    with hf.SyncCheckpointer("memory://") as cp:
        for turn in range(1, 1201):
            messages.append(" ".join(rng.choices(words, k=40)))
            cp.save("chat", {"messages": messages, "turn": turn})
            if turn in (300, 1200):
                sizes[turn] = cp.stats().stored_bytes
    assert sizes[1200] < 5 * sizes[300]


def test_a_load_reads_few_entries_however_long_the_run_is() -> None:
    store, rng = MemoryStore(), random.Random("few")
    state: list[str] = []
    with hf.SyncCheckpointer(store) as cp:
        for _ in range(700):
            state = grown(rng, state)[-2000:]
            cp.save("run", state)
    counting = Counting(store)
    loaded = hf.SyncCheckpointer(counting).load("run")
    assert loaded is not None
    assert loaded.state == state
    assert counting.read_so_far <= 2 + chain.MAX_LINKS + chain.MAX_SPANS


class Asked(MemoryStore):
    """How often it was asked."""

    questions = 0

    def read(self, run: str, **options: Any) -> list[Entry]:
        self.questions += 1
        return super().read(run, **options)

    def entries_at(self, places: Any, *, bodies: bool = False) -> list[Entry]:
        before = self.questions
        found = super().entries_at(places, bodies=bodies)
        self.questions = before + 1
        return found


def test_a_load_asks_the_store_as_often_however_many_landmarks_there_are() -> None:
    for listed in (True, False):
        asked = {}
        for spans in (3, 20):
            store, rng = Asked(), random.Random("asked")
            state = grown(rng, [])
            of_span = bearings.of_span if listed else _unlisted
            with (
                patch.multiple(chain, MAX_LINKS=2, SMALL_STATE=64),
                patch.object(bearings, "of_span", of_span),
                hf.SyncCheckpointer(store) as cp,
            ):
                for _ in range(3 * spans):
                    state = grown(rng, state)
                    cp.save("run", state)
            store.questions = 0
            loaded = hf.SyncCheckpointer(store).load("run")
            assert loaded is not None
            assert loaded.state == state
            asked[spans] = store.questions
        assert (asked[3] == asked[20]) == listed


def _unlisted(seq: int, trail: Any) -> bytes:
    """The bearings of spans as the first files of this version have them."""
    out = bytearray()
    varint.put(out, seq - trail[0])
    return bytes(out) + b"\0"


def test_a_landmark_that_is_not_put_together_yet_weighs_what_it_keeps_in_memory(
    tmp_path: Path,
) -> None:
    """Its keyframe is held as it was before it was compressed."""
    store = hf.open_store(f"sqlite:///{tmp_path}/runs.db")
    with patch.multiple(chain, MAX_LINKS=2, SMALL_STATE=64), hf.SyncCheckpointer(store) as cp:
        for number in range(12):
            last = cp.save("run", {"n": number, "log": ["the same line"] * (5_000 + number)})
    found = Reader(store, 1 << 30).chain("run", last.seq)
    assert callable(found.landmark.encoding)
    assert found.landmark.key_bytes < found.landmark.key_size / 10
    assert found.weight() >= len(found.encoding) + found.landmark.key_size
    store.close()


def test_a_state_that_only_grows_is_not_stored_whole_again() -> None:
    """Spans are measured by what a keyframe would take now, not by what the first one took."""
    store, rng = MemoryStore(), random.Random("grows")
    state = [f"{rng.getrandbits(64):x}" for _ in range(300)]
    with hf.SyncCheckpointer(store) as cp, patch.object(chain, "MAX_LINKS", 5):
        for _ in range(100):
            state = [*state, *(f"{rng.getrandbits(64):x}" for _ in range(30))]
            cp.save("run", state)
    entries = store.read("run", limit=1000)
    kept = [envelope.glance(entry) for entry in entries if entry.kind == "checkpoint"]
    assert [one.is_delta for one in kept] == [False] + [True] * 99
    loaded = hf.SyncCheckpointer(store).load("run")
    assert loaded is not None
    assert loaded.state == state


def test_a_process_that_read_a_chain_goes_on_as_the_one_that_wrote_it() -> None:
    """Both know what the keyframe took, so they decide alike when another one is due."""
    stores = MemoryStore(), MemoryStore()
    for store, afresh in zip(stores, (False, True), strict=True):
        rng, cp = random.Random("alike"), hf.SyncCheckpointer(store)
        state: list[str] = []
        with patch.object(chain, "MAX_LINKS", 4):
            for _ in range(60):
                state = [*state[15:], *(f"{rng.getrandbits(64):x}" for _ in range(40))]
                cp.save("run", state)
                if afresh:
                    cp = hf.SyncCheckpointer(store)
                    cp.load("run")
    one, other = ([envelope.base(e) for e in s.read("run", limit=100)] for s in stores)
    assert one == other


def test_a_span_that_builds_on_no_landmark_does_not_spoil_later_saves() -> None:
    """No version writes such a chain, but stored bytes may say anything."""
    store, rng = MemoryStore(), random.Random(7)
    state = grown(rng, ["first"] * 2000)
    with hf.SyncCheckpointer(store) as cp:
        for _ in range(2):
            cp.save("run", state := grown(rng, state))
        tip = cp.core.journals.tip("run")
        assert tip is not None
        assert tip.chain is not None
        last = tip.chain  # a link
        landmark = last.landmark._replace(seq=tip.seq, encoding=last.encoding, proof=last.proof)
        tip.chain = last._replace(landmark=landmark)
        with patch.object(chain.Chain, "link", return_value=None):
            cp.save("run", state := grown(rng, state))
        cp.save("run", state := grown(rng, state))
    with hf.SyncCheckpointer(store) as cp, patch.object(chain.Chain, "link", return_value=None):
        assert cp.load("run").state == state  # type: ignore[union-attr]
        cp.save("run", state := grown(rng, state))
    with hf.SyncCheckpointer(store) as cp:
        assert cp.load("run").state == state  # type: ignore[union-attr]
