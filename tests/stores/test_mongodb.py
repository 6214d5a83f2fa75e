"""MongoDB has no server that tests could install here: mongomock stands in for it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.model import stub
from holdfast.store import Store
from holdfast.stores.mongodb import MongoDBStore
from holdfast.testing.contract import StoreContract, check_store, entry
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine
from tests.effort import examples
from tests.servers.mongodb import MongoClient

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
    return partial(SmallDocuments, MongoClient())


class TestMongoDBStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        return new_opener()


TestMongoDBAgainstADict = make_store_machine(new_opener).TestCase
TestMongoDBAgainstADict.settings = settings(
    max_examples=examples(6),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def leftovers(client: Any) -> list[str]:
    rows = [*client.holdfast.holdfast_bodies.find(), *client.holdfast.holdfast_entries.find()]
    return [row["_id"] for row in rows]


def test_what_is_trimmed_or_erased_gives_its_room_back() -> None:
    client: Any = MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", seq, b"x" * 100) for seq in range(10)])
    store.append([entry("run", 10, b"x" * 100)])
    assert len(leftovers(client)) > 15
    store.trim(entry("run", 11), dict.fromkeys(range(11)))
    assert not [name for name in leftovers(client) if "-100" in name]
    store.erase(tombstone("run", 12))
    assert leftovers(client) == []


class Crash(BaseException):
    """What a killed process would look like from here."""


@pytest.mark.parametrize("count", range(12))
def test_whatever_a_crash_leaves_half_done_is_finished_by_the_next_writer(count: int) -> None:
    """Killed at its n-th write, wherever that is: each operation happened or it did not."""
    client: Any = MongoClient()
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
        mortal.trim(marker, bodies | dict.fromkeys([0, 6]))
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
    assert healthy.append([entry("run", done[-1].seq + 1, b"next")]) == [True]
    assert healthy.read("run")[:-1] == done
    assert check_store(healthy) == []


def test_a_copy_that_comes_late_brings_nothing_back() -> None:
    """A writer that slept while others trimmed what it was about to copy out."""
    client: Any = MongoClient()
    awake, asleep = SmallDocuments(client), SmallDocuments(client)
    awake.append([entry("run", seq, b"secret") for seq in range(5)])
    document = asleep._document("run")
    awake.trim(entry("run", 5), dict.fromkeys(range(5)))
    asleep._lightened("run", document)
    for seq in range(6, 12):
        awake.append([entry("run", seq)])
    assert [item.body for item in awake.read("run")] == [b""] * 12
    awake.erase(tombstone("run", 12))
    asleep._lightened("run", document)
    assert [item.seq for item in awake.read("run")] == [12]
    assert check_store(awake) == []


def test_a_writer_that_is_behind_brings_nothing_erased_back() -> None:
    client: Any = MongoClient()
    ahead, behind = SmallDocuments(client), SmallDocuments(client)
    behind.append([entry("run", seq, b"secret") for seq in range(3)])
    assert ahead.erase(tombstone("run", 3))
    assert behind.append([entry("run", 3, b"late")]) == [False]
    assert leftovers(client) == []


def test_a_writer_that_is_behind_brings_nothing_trimmed_back() -> None:
    client: Any = MongoClient()
    ahead, behind = SmallDocuments(client), SmallDocuments(client)
    behind.append([entry("run", seq, b"secret") for seq in range(3)])
    assert ahead.trim(entry("run", 3), dict.fromkeys(range(3)))
    assert behind.append([entry("run", 3, b"late")]) == [False]
    assert b"secret" not in [row["b"] for row in client.holdfast.holdfast_entries.find()]
    assert [item.body for item in ahead.read("run")] == [b""] * 4


@pytest.mark.parametrize("change", ["trim", "erase"])
def test_copies_of_a_save_that_was_never_finished_go_with_what_they_copied(change: str) -> None:
    client: Any = MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", seq, b"secret") for seq in range(3)])
    store._lightened("run", store._document("run"))
    if change == "trim":
        assert store.trim(entry("run", 3), dict.fromkeys(range(3)))
    else:
        assert store.erase(tombstone("run", 3))
    assert b"secret" not in [row["b"] for row in client.holdfast.holdfast_entries.find()]


@pytest.mark.parametrize("change", ["trim", "erase"])
@pytest.mark.parametrize("count", [1, 4])
def test_a_large_body_that_could_not_be_removed_is_removed_by_the_next_writer(
    change: str, count: int
) -> None:
    client: Any = MongoClient()

    class Clumsy(SmallDocuments):
        def _delete_blob(self, run: str, name: str) -> None:
            raise hf.StoreUnavailableError("cut")

    healthy = SmallDocuments(client)
    healthy.append([entry("run", seq, b"a large secret") for seq in range(count)])
    healthy.append([entry("run", count)])
    marker = entry("run", count + 1, kind="trim")
    if change == "trim":
        assert Clumsy(client).trim(marker, dict.fromkeys(range(count)))
    else:
        assert Clumsy(client).erase(tombstone("run", count + 1))
    assert healthy.append([entry("run", count + 2)]) == [True]
    assert client.holdfast.holdfast_bodies.count_documents({}) == 0


def test_a_body_of_which_a_part_is_missing_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.stores.mongodb._PART", 4)
    client: Any = MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", 0, b"0123456789abcdef")])
    last = max(row["_id"] for row in client.holdfast.holdfast_bodies.find())
    client.holdfast.holdfast_bodies.delete_one({"_id": last})
    with pytest.raises(hf.CheckpointCorruptedError, match="missing"):
        store.read("run")


def test_two_threads_that_trim_one_run_do_not_disturb_each_other() -> None:
    class Raced(SmallDocuments):
        def _replace(self, run: str, old: Any, new: Any) -> bool:
            done = super()._replace(run, old, new)
            if done:
                super()._replace(run, old, new)  # as a thread does that is a version behind
            return done

    store = Raced(MongoClient())
    store.append([entry("run", seq) for seq in range(11)])
    assert store.trim(entry("run", 11, kind="trim"), {1: None})
    assert store._document("run").settled


JUNK: list[Any] = [
    None, 5, "text", b"", b"junk", b"5 junk", b"9" * 5000 + b" x", ormsgpack.packb([1] * 11),
    ormsgpack.packb(["x"] * 11), ormsgpack.packb([1, 1, "x", 0, 0, [], [], [], 0, -1, []]),
    ormsgpack.packb([1, 1, 0, 0, 0, [[0, 0, b"", b"", "../x"]], [], [], 0, -1, []]),
    ormsgpack.packb([1, 1, 0, 0, 0, [[0, 0, b"x", b"", ""]], [], [], 0, -1, []]),
]  # fmt: skip


@pytest.mark.parametrize("junk", JUNK)
def test_documents_that_others_wrote_are_damaged_and_nothing_worse(junk: Any) -> None:
    client: Any = MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", seq, b"x" * 20) for seq in range(5)])
    store.append([entry("run", 5)])
    for collection, field in (("entries", "f"), ("entries", "o"), ("runs", "t"), ("runs", "d")):
        if (field, junk) in (("f", b""), ("o", "")):
            continue
        rows = client.holdfast[f"holdfast_{collection}"]
        kept = rows.find_one()
        rows.update_one({"_id": kept["_id"]}, {"$set": {field: junk}})
        with pytest.raises(hf.CheckpointCorruptedError):
            store.runs() if field == "t" else store.read("run")
        rows.update_one({"_id": kept["_id"]}, {"$unset": {field: 1}})
        with pytest.raises(hf.CheckpointCorruptedError):
            store.runs() if field == "t" else store.read("run")
        rows.replace_one({"_id": kept["_id"]}, kept)
    assert len(store.read("run")) == 6


def test_a_run_that_a_newer_holdfast_has_saved_to_is_refused_and_others_are_not() -> None:
    client: Any = MongoClient()
    store = MongoDBStore(client)
    store.append([entry("run", 0)])
    rows = client.holdfast.holdfast_runs
    document = ormsgpack.unpackb(rows.find_one()["d"])
    newer = {"v": document[1] + 1, "d": ormsgpack.packb([3, *document[1:], "more"])}
    rows.update_one({"_id": "run"}, {"$set": newer})
    for call in (lambda: store.append([entry("run", 1)]), lambda: store.read("run")):
        with pytest.raises(hf.SchemaError, match=r"schema 3.*upgrade"):
            call()
    assert rows.find_one()["d"] == newer["d"]
    assert store.append([entry("other", 0)]) == [True]


@pytest.mark.parametrize(
    "wrong",
    [{"owner": 5}, {"status": None}, {"at": "x"}, {"parent": "p"}, {"size": "big"}, {"kind": 3},
     {"digest": "d"}],
)  # fmt: skip
def test_fields_of_the_wrong_type_are_damage(wrong: dict[str, Any]) -> None:
    store = SmallDocuments(MongoClient())
    store.append([entry("run", 0), entry("run", 1, term=0)._replace(**wrong)])
    for call in (lambda: store.read("run"), store.runs, lambda: store.stats("run")):
        with pytest.raises(hf.CheckpointCorruptedError, match=next(iter(wrong))):
            call()


def test_a_trim_that_is_too_much_at_once_says_so_and_does_nothing() -> None:
    class Tiny(SmallDocuments):
        document_bytes = 5000

    store = Tiny(MongoClient())
    store.append([tombstone("run", 5_000_000)])
    assert store.trim(entry("run", 5_000_001), dict.fromkeys(range(4000)))
    with pytest.raises(hf.StoreError, match="prune fewer checkpoints at a time"):
        store.trim(entry("run", 5_000_002), dict.fromkeys(range(0, 4_000_000, 1000)))
    assert [item.seq for item in store.read("run")] == [5_000_000, 5_000_001]


@pytest.mark.parametrize(("option", "seconds"), [("", 30), ("?socketTimeoutMS=7000", 7)])
def test_nobody_waits_for_an_answer_for_ever(option: str, seconds: float) -> None:
    with closing(MongoDBStore(f"mongodb://127.0.0.1:9/db{option}")) as store:
        assert store._database().client.options.pool_options.socket_timeout == seconds


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


@pytest.mark.parametrize("left", [0, 2])
def test_a_document_that_goes_back_in_time_is_not_gone_on_from(left: int) -> None:
    """As after a failover to a member that lagged; the store still knows the newer one."""
    client: Any = MongoClient()
    store = MongoDBStore(client)
    runs = client["holdfast"]["holdfast_runs"]
    for seq in range(2):
        store.append([entry("run", seq)])
    older = runs.find_one({"_id": "run"})
    store.append([entry("run", 2)])
    runs.delete_one({"_id": "run"})
    if left:
        runs.insert_one(older)
    assert store.append([entry("run", 3)]) == [False]
    assert store.append([entry("run", 3), entry("run", 4)]) == [False, False]
    assert store.append([entry("run", left)]) == [True]
    assert [item.seq for item in store.read("run")] == list(range(left + 1))
    assert check_store(store) == []


def test_what_others_wrote_since_a_document_went_back_in_time_is_kept() -> None:
    """Nobody who knows the lost one takes theirs for it, though it is as long."""
    client: Any = MongoClient()
    store, other = MongoDBStore(client), MongoDBStore(client)
    runs = client["holdfast"]["holdfast_runs"]
    store.append([entry("run", 0, b"kept")])
    older = runs.find_one({"_id": "run"})
    store.append([entry("run", 1, b"lost")])
    runs.replace_one({"_id": "run"}, older)
    assert other.append([entry("run", 1, b"theirs")]) == [True]
    store.append([entry("run", 2)])
    assert [item.body for item in other.read("run", limit=2)] == [b"kept", b"theirs"]


def test_a_store_without_an_index_gets_one_when_it_is_first_asked() -> None:
    client: Any = MongoClient()
    store = SmallDocuments(client)
    for number in range(4):
        store.append([entry(f"run-{number}", seq, flow="f") for seq in range(3)])
    store.erase(tombstone("run-3", 3))
    as_before_the_index(client)
    assert SmallDocuments(client).append([entry("run-0", 3, status="failed", flow="f")]) == [True]
    for asked in (SmallDocuments(client), SmallDocuments(client)):
        assert asked.counts() == {"failed": 1, "open": 2}
        assert [row.opened for row, _ in asked.listed()] == [1_700_000_000_000_000] * 3
        assert check_store(asked) == []


@pytest.mark.parametrize("change", ["save", "trim", "erase", "settle"])
def test_a_run_from_before_the_index_gets_its_row_with_its_next_change(change: str) -> None:
    client: Any = MongoClient()
    SmallDocuments(client).append([entry("run", 0), entry("run", 1, status="failed")])
    as_before_the_index(client)
    store = SmallDocuments(client)
    store._say_complete()
    if change == "save":
        store.append([entry("run", 2, term=1, status="failed")])
    elif change == "trim":
        store.trim(entry("run", 2, term=1, status="failed", kind="trim"), {0: None})
    elif change == "settle":
        document = store._document("run")
        store._replace("run", document, replace(document, version=5))
    else:
        store.erase(tombstone("run", 2))
    assert check_store(store) == []


def as_before_the_index(client: Any) -> None:
    """Take the rows away, and let documents be as an older holdfast wrote them."""
    runs = client.holdfast.holdfast_runs
    for row in list(runs.find()):
        _, *fields, _ = ormsgpack.unpackb(row["d"])
        changes = {"$set": {"d": ormsgpack.packb([1, *fields])}, "$unset": {"h": 1}}
        runs.update_one({"_id": row["_id"]}, changes)
    client.holdfast.holdfast_hours.drop()


def test_a_wrong_row_is_found_and_repaired() -> None:
    client: Any = MongoClient()
    store = SmallDocuments(client)
    store.append([entry("run", 0), entry("other", 0)])
    assert store.rebuild(write=False) == 0
    for wrong in (None, 5, {"o": 1}, {"o": "x"}):
        client.holdfast.holdfast_runs.update_one({"_id": "run"}, {"$set": {"h": wrong}})
        assert store.rebuild(write=False) == 1
        assert store.rebuild() == 1
        assert store.rebuild() == 0
        assert check_store(store) == []


def test_a_save_does_not_depend_on_statistics() -> None:
    class Uncounted(SmallDocuments):
        def _add(self, hour: int, flow: str, numbers: Any) -> None:
            raise hf.StoreUnavailableError("cut")

    store = Uncounted(MongoClient())
    assert store.append([entry("run", 0)]) == [True]
    assert store.tally(0, 1 << 60) == []
    assert store.counts() == {"open": 1}
