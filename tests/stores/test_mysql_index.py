"""The heads index in MySQL: made for older stores, repaired, and its statistics added up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from holdfast import open_store
from holdfast.store import RunFilter
from holdfast.stores.mysql import index
from holdfast.stores.mysql.store import MySQLStore
from holdfast.testing.contract import check_store, entry
from holdfast.testing.invariants import tombstone
from tests.servers import mariadb

LABELS = '{"labels":{"team":"blue"}}'


@pytest.fixture
def url() -> str:
    return mariadb.new_url()


@pytest.fixture
def store(url: str) -> Iterator[MySQLStore]:
    opened = open_store(url)
    assert isinstance(opened, MySQLStore)
    with closing(opened) as store:
        yield store
        assert check_store(store) == []


def fill(store: MySQLStore) -> None:
    for number in range(4):
        store.append([entry(f"run-{number}", 0, kind="open", flow="f", meta=LABELS)])
    store.append([entry("run-1", 1, flow="f", status="failed")])
    store.erase(tombstone("run-2", 1))


def test_a_database_without_an_index_gets_one_when_it_is_opened(
    url: str, store: MySQLStore
) -> None:
    fill(store)
    told = store.tally(0, 1 << 61)
    for table in ("heads", "labels", "tally_sums", "tally_new"):
        mariadb.sql(url, f"DROP TABLE holdfast_run_{table}")
    mariadb.sql(url, "DROP VIEW holdfast_run_tally")
    mariadb.sql(url, "ALTER TABLE holdfast_entries COMMENT = 'holdfast schema 1'")
    with closing(open_store(url)) as again:
        assert again.counts() == {"open": 2, "failed": 1}
        assert len(again.listed(RunFilter(labels=("team=blue",)))) == 3
        assert {each.what for each in again.tally(0, 1 << 61)} == {each.what for each in told}
        assert check_store(again) == []


def test_statistics_are_added_up_now_and_then(
    url: str, store: MySQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    before, counts = store.tally(0, 1 << 61), store.counts()
    assert mariadb.sql(url, "SELECT 1 FROM holdfast_run_tally_new")
    monkeypatch.setattr(index, "FOLD_EVERY", 1)
    store.append([entry("run-1", 2, flow="f", status="failed", term=1)])
    assert not mariadb.sql(url, "SELECT 1 FROM holdfast_run_tally_new")
    assert store.tally(0, 1 << 61) == before
    assert store.counts() == counts


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM holdfast_run_heads WHERE run = 'run-1'",
        "UPDATE holdfast_run_heads SET status = 'paused'",
        "UPDATE holdfast_run_heads SET run = 'nobody' WHERE run = 'run-0'",
        "DELETE FROM holdfast_run_tally_new",
    ],
)
def test_a_wrong_index_is_found_and_repaired(url: str, store: MySQLStore, damage: str) -> None:
    fill(store)
    mariadb.sql(url, damage)
    assert store.rebuild(write=False) > 0
    assert store.rebuild() > 0
    assert store.rebuild() == 0
    assert store.counts() == {"open": 2, "failed": 1}
