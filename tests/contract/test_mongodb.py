"""MongoDB has no server that tests could install here: mongomock stands in for it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import RLock
from typing import Any

import mongomock
import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.model import stub
from holdfast.store import Store
from holdfast.stores.mongodb import MongoDBStore
from holdfast.testing.contract import StoreContract, check_store, entry
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine

_ONE_AT_A_TIME = RLock()
"""A server does one thing at a time to a document; its stand-in does not by itself."""


class SmallDocuments(MongoDBStore):
    """Copies entries out and gives bodies places of their own all the time."""

    inline_bytes = 8
    heavy_bytes = 400
    crowded = 3

    @contextmanager
    def _translated(self, run: str | None = None) -> Iterator[None]:
        with _ONE_AT_A_TIME, super()._translated(run):
            yield


def new_opener() -> Callable[[], Store]:
    return partial(SmallDocuments, mongomock.MongoClient())


class TestMongoDBStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        return new_opener()


TestMongoDBAgainstADict = make_store_machine(new_opener).TestCase
TestMongoDBAgainstADict.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def leftovers(client: Any) -> list[str]:
    rows = [*client.holdfast.holdfast_bodies.find(), *client.holdfast.holdfast_entries.find()]
    return [row["_id"] for row in rows]


def test_what_is_trimmed_or_erased_gives_its_room_back() -> None:
    client: Any = mongomock.MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", seq, b"x" * 100) for seq in range(10)])
    store.append([entry("run", 10, b"x" * 100)])
    assert len(leftovers(client)) > 15
    store.trim(entry("run", 11), drop=range(11))
    assert not [name for name in leftovers(client) if "-100" in name]
    store.erase(tombstone("run", 12))
    assert leftovers(client) == []


class Crash(BaseException):
    """What a killed process would look like from here."""


@pytest.mark.parametrize("count", range(12))
def test_whatever_a_crash_leaves_half_done_is_finished_by_the_next_writer(count: int) -> None:
    """Killed at its n-th write, wherever that is: each operation happened or it did not."""
    client: Any = mongomock.MongoClient()
    left = count

    class Mortal(SmallDocuments):
        def _in(self, collection: str) -> Any:
            nonlocal left
            made = super()._in(collection)
            if sys._getframe(1).f_code.co_name in ("_put", "_delete", "_delete_blob", "_swap"):
                left -= 1
                if left < 0:
                    raise Crash
            return made

    healthy = SmallDocuments(client)
    before = [entry("run", seq, b"x" * 20) for seq in range(7)]
    healthy.append(before)
    mortal = Mortal(client)
    marker = entry("run", 7, kind="trim")
    bodies = {1: b"y" * 20, 5: b"z"}
    with suppress(Crash):
        mortal.trim(marker, rewrite=bodies, drop=[0, 6])
    after = [
        stub(item) if item.seq in (0, 6) else item._replace(body=bodies.get(item.seq, item.body))
        for item in before
    ]
    assert healthy.read("run") in (before, [*after, marker])
    assert check_store(healthy) == []
    left = count
    done = healthy.read("run")
    grave = tombstone("run", 8)
    with suppress(Crash):
        Mortal(client).erase(grave)
    assert healthy.read("run") in (done, [grave])
    done = healthy.read("run")
    assert healthy.append([entry("run", 9, b"next")]) == [True]
    assert healthy.read("run")[:-1] == done
    assert check_store(healthy) == []


def test_a_copy_that_comes_late_brings_nothing_back() -> None:
    """A writer that slept while others trimmed what it was about to copy out."""
    client: Any = mongomock.MongoClient()
    awake, asleep = SmallDocuments(client), SmallDocuments(client)
    awake.append([entry("run", seq, b"secret") for seq in range(5)])
    document = asleep._document("run")
    awake.trim(entry("run", 5), drop=range(5))
    asleep._lightened("run", document)
    for seq in range(6, 12):
        awake.append([entry("run", seq)])
    assert [item.body for item in awake.read("run")] == [b""] * 12
    awake.erase(tombstone("run", 12))
    asleep._lightened("run", document)
    assert [item.seq for item in awake.read("run")] == [12]
    assert check_store(awake) == []


def test_an_unknown_server_is_an_outage_and_its_password_a_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.stores.mongodb.CONNECT_MILLISECONDS", 50)
    with closing(hf.open_store("mongodb://me:secret-word@127.0.0.1:9/db?prefix=p")) as store:
        for call in (
            lambda: store.append([entry("run", 0)]),
            lambda: store.last("run"),
            store.survives,
        ):
            with pytest.raises(hf.StoreUnavailableError) as caught:
                call()
            assert "secret-word" not in str(caught.value) + store.url
