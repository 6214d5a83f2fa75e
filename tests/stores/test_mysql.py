from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pymysql._auth
import pytest
from hypothesis import HealthCheck, settings
from pymysql.cursors import DictCursor

import holdfast as hf
from holdfast.errors import SchemaError, StoreError, StoreURLError
from holdfast.store import Store, WorkFailedError
from holdfast.stores.mysql.store import MySQLStore
from holdfast.testing._transacting import Effects, TransactionalStore, read_effects
from holdfast.testing.contract import (
    PersistentStoreContract,
    TransactionalContract,
    check_store,
    entry,
)
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine
from holdfast.urls import open_store
from tests import faults
from tests.effort import examples
from tests.servers import mariadb
from tests.waiting import run_process, wait_until


class TestMySQLStore(PersistentStoreContract, TransactionalContract):
    @pytest.fixture
    def url(self) -> str:
        return mariadb.new_url()

    @pytest.fixture
    def opener(self, url: str) -> Callable[[], Store]:
        return partial(open_store, url)

    @pytest.fixture
    def effects(self, store: TransactionalStore, url: str) -> Effects:
        """A change of the schema would end the transaction here."""
        with mariadb.connect(url) as db:
            db.cursor().execute("CREATE TABLE effects (n INTEGER)")
        return partial(read_effects, store)


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


def test_its_servers_settings_say_what_it_survives(store: MySQLStore) -> None:
    assert store.survives() == "power-loss"
    server = mariadb.server_url()
    try:
        mariadb.sql(server, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        assert store.survives() == "process-crash"
    finally:
        mariadb.sql(server, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def test_who_waits_for_a_run_to_be_erased_does_not_write_below_its_tombstone(
    url: str, store: MySQLStore
) -> None:
    """The row that it waited for is gone, and its place looks free."""
    with closing(open_store(url)) as other, ThreadPoolExecutor(1) as pool:
        store.append([entry("run", seq) for seq in range(3)])
        other.last("run")
        late: list[Any] = []

        def let_one_in() -> None:
            late.append(pool.submit(other.append, [entry("run", 2), entry("run", 3)]))
            waiting = (
                "SELECT 1 FROM information_schema.innodb_trx "
                "JOIN information_schema.processlist AS p ON p.id = trx_mysql_thread_id "
                "WHERE trx_state = 'LOCK WAIT' AND p.db = DATABASE()"
            )
            wait_until(lambda: mariadb.sql(url, waiting))

        with faults.at("mysql.commit.before", let_one_in):
            assert store.erase(tombstone("run", 3))
        assert late[0].result() == [False, False]
        assert [item.kind for item in store.read("run")] == ["tombstone"]


def test_a_batch_goes_in_as_many_statements_as_the_server_takes(url: str) -> None:
    """And is one transaction nevertheless."""
    with closing(open_store(url)) as store:
        assert isinstance(store, MySQLStore)
        store.last("run")
        store._packet = 20_000
        batch = [entry(f"run-{n}", 0, bytes([n]) * 9000) for n in range(7)]
        assert store.append(batch) == [True] * 7
        assert [store.last(item.run) for item in batch] == batch
        assert store.append([entry("a", 0), *batch, entry("z", 0)]) == [True, *[False] * 7, True]


def test_an_entry_that_the_server_does_not_take_says_what_to_set(url: str) -> None:
    with closing(open_store(url)) as store:
        (taken,) = mariadb.sql(url, "SELECT @@max_allowed_packet")[0]
        with pytest.raises(StoreError, match=r"max_allowed_packet .* to at least [\d,]+"):
            store.append([entry("small", 0), entry("run", 0, bytes(taken))])
        assert store.runs() == []
        assert store.append([entry("run", 0, bytes(taken - 5000))]) == [True]
        with pytest.raises(StoreError, match="max_allowed_packet"):
            store.trim(entry("run", 1), {0: bytes(taken)})
        assert len(store.read("run", bodies=False)) == 1


def test_a_schema_from_the_future_is_refused_and_left_alone(url: str) -> None:
    with closing(open_store(url)) as store:
        store.append([entry("run", 0)])
    mariadb.sql(url, "ALTER TABLE holdfast_entries COMMENT = 'holdfast schema 99'")
    with closing(open_store(url)) as store:
        for call in (lambda: store.append([entry("run", 1)]), lambda: store.last("run")):
            with pytest.raises(SchemaError, match=r"schema 99.*upgrade"):
                call()
    assert mariadb.sql(url, "SELECT count(*) FROM holdfast_entries") == [(1,)]


def test_tables_of_others_are_not_taken_for_ours(url: str) -> None:
    mariadb.sql(url, "CREATE TABLE holdfast_entries (mine text)")
    with closing(open_store(url)) as store, pytest.raises(SchemaError, match="prefix="):
        store.last("run")
    with closing(open_store(f"{url}?prefix=other_")) as store:
        assert store.append([entry("run", 0)]) == [True]
    assert mariadb.sql(url, "SELECT * FROM holdfast_entries") == []


def test_the_rights_that_the_guide_names_are_enough(url: str) -> None:
    database = url.rpartition("/")[2]
    guide = (Path(__file__).parents[2] / "docs/operate/servers.md").read_text()
    (making,) = re.findall(r"That takes (.*?)\. Afterwards", guide)
    making = making.replace("`", "").replace(" and", ",")
    (using,) = re.findall(r"GRANT (.*) ON shop", guide)

    def user(name: str, rights: str) -> str:
        mariadb.sql(url, f"CREATE USER {name}_{database}")
        mariadb.sql(url, f"GRANT {rights} ON {database}.* TO {name}_{database}")
        return url.replace("root@", f"{name}_{database}@")

    with closing(open_store(user("made", making))) as store:
        assert store.runs() == []
    with closing(open_store(user("used", using))) as store:
        assert store.append([entry("run", seq) for seq in range(3)]) == [True] * 3
        assert store.trim(entry("run", 3), {2: b"x", 1: None})
        assert store.erase(tombstone("run", 4))
        assert store.survives()
    other = open_store(f"{store.url}?prefix=other_")
    with closing(other), pytest.raises(StoreError, match="denied"):
        other.last("run")


def test_the_view_shows_checkpoints_by_the_words_of_pipelines(url: str, store: MySQLStore) -> None:
    fields: dict[str, Any] = {
        "kind": "checkpoint",
        "size": 9,
        "step": "fetch",
        "flow": "etl",
        "thread": "t-1",
    }
    meta = '{"flow_version":"2","metadata":{"user":"ann"},"step_name":"Fetch it"}'
    store.append([entry("run", 0, kind="open", size=0)])
    store.append([entry("run", 1, b"x", at=1_700_000_000_000_042, meta=meta, **fields)])
    store.append([entry("run", 2, b"xy", parent=1, status="paused", **fields)])
    store.append(
        [entry("run", 3, meta='{"metadata":{"a":"\\u0000\\ud800"}}', at=-(2**61), **fields)]
    )
    with mariadb.connect(url) as db, db.cursor(DictCursor) as cursor:
        cursor.execute("SELECT * FROM holdfast_checkpoints ORDER BY sequence")
        first, second, _ = cursor.fetchall()
    assert first["checkpoint_id"] == "run@1"
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20.000042"
    assert (first["pipeline_id"], first["pipeline_version"]) == ("etl", "2")
    assert (first["step_id"], first["step_name"], second["step_name"]) == (
        "fetch",
        "Fetch it",
        "fetch",
    )
    assert (json.loads(first["metadata"]), second["metadata"]) == ({"user": "ann"}, "{}")
    assert (first["status"], second["status"]) == ("completed", "paused")
    assert second["parent_checkpoint_id"] == "run@1"
    assert (second["thread_id"], second["stored_bytes"]) == ("t-1", 2)


@pytest.mark.parametrize(
    "wrong",
    [{"at": 1 << 70}, {"step": "\ud800"}, {"duration": float("nan")}, {"step": "x" * 5000}],
)
def test_an_entry_that_no_column_can_hold_is_an_error_of_the_store_and_leaves_nothing(
    store: MySQLStore, wrong: dict[str, Any]
) -> None:
    with pytest.raises(StoreError):
        store.append([entry("run", 0), entry("run", 1, **wrong)])
    assert store.read("run") == []


def test_no_url_or_error_shows_a_password() -> None:
    with closing(open_store("mysql://ann:hunter2@127.0.0.1:1/db")) as store:
        assert store.url == "mysql://ann:***@127.0.0.1:1/db"
        with pytest.raises(hf.StoreUnavailableError) as caught:
            store.last("run")
        assert "hunter2" not in f"{store!r} {caught.value}"
    for wrong in ("", "/db?shcema=x", "/db?connections=1", "/db?prefix=x`", "/a/b"):
        with pytest.raises(StoreURLError) as refused:
            open_store(f"mysql://ann:hunter2@127.0.0.1{wrong}")
        assert "hunter2" not in str(refused.value)


def test_a_password_that_is_wrong_is_no_outage(url: str) -> None:
    """Trying again would not help."""
    wrong = url.replace("root@", "root:wrong@")
    with closing(open_store(wrong)) as store, pytest.raises(StoreError) as caught:
        store.last("run")
    assert not isinstance(caught.value, hf.StoreUnavailableError)


def test_what_the_drivers_authentication_lacks_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MySQL's own needs it on a connection without TLS."""
    monkeypatch.setattr(pymysql._auth, "_have_cryptography", False)

    def connect() -> Any:
        pymysql._auth.sha2_rsa_encrypt(b"secret", b"salt", b"key")

    with (
        closing(MySQLStore(connect)) as store,
        pytest.raises(StoreError, match=r"'PyMySQL\[rsa\]', or use TLS"),
    ):
        store.last("run")


def test_connections_may_be_made_by_the_user(url: str) -> None:
    with closing(MySQLStore(lambda: mariadb.connect(url))) as store:
        assert store.append([entry("run", 0, b"x")]) == [True]
        assert store.read("run")[0].body == b"x"


def test_no_body_is_taken_for_sql_whatever_a_users_connection_speaks(url: str) -> None:
    """In GBK, the backslash that escapes a quote may be the half of a character."""
    body = b"A" * 70 + b"\xbf\\'), (x'00', 0, 'checkpoint', '', NULL -- "
    for charset in ("gbk", "big5", "sjis"):

        def connect(charset: str = charset) -> Any:
            db = mariadb.connect(url)
            db.set_character_set(charset)
            return db

        written: list[Any] = []

        def work(cursor: Any, written: list[Any] = written) -> None:
            cursor.execute("SELECT %s", ("\u7e17'; \u00df",))
            written.extend(cursor)

        with closing(MySQLStore(connect)) as store:
            assert store.append_with([entry(charset, 0, body)], work) == [True]
            assert store.read(charset)[0].body == body
            assert written == [("\u7e17'; \u00df",)]


def test_a_users_connection_may_have_cursors_of_its_own(url: str) -> None:
    def connect() -> Any:
        db = mariadb.connect(url)
        db.cursorclass = DictCursor
        return db

    with closing(MySQLStore(connect)) as store:
        assert store.append([entry("run", 0, b"x")]) == [True]
        assert store.read("run")[0].body == b"x"


def test_without_its_driver_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["pymysql"] = None
import holdfast
try:
    holdfast.open_store("mysql://h/db")
except holdfast.StoreURLError as error:
    print(error)
"""
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    assert "[mysql]'" in done.stdout


DENIED = [
    "BEGIN", "COMMIT", "SAVEPOINT s", "/*! COMMIT */", "SET autocommit = 0", "CREATE TABLE more (n INT)",
    "TRUNCATE TABLE mine", "LOCK TABLES mine WRITE", "# harmless\nCOMMIT",
    "SELECT 1--1; COMMIT", "SELECT 'it\\'; COMMIT -- '; COMMIT", 'SELECT "\'"; COMMIT',
    "DELETE FROM holdfast_entries", "UPDATE `holdfast_entries` SET seq = 1", "CALL something()",
]  # fmt: skip


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_not_the_users_is_refused(store: MySQLStore, statement: str) -> None:
    kept = entry("run", 0)
    store.append([kept])
    with pytest.raises(WorkFailedError) as caught:
        store.append_with([entry("new", 0)], lambda cursor: cursor.execute(statement))
    assert isinstance(caught.value.error, PermissionError)
    assert store.read("run") == [kept]
    assert store.read("new") == []


@pytest.mark.parametrize(
    "text",
    [
        "'it\\'s; commit'", '"a; commit"', '"say ""so""; commit"', "'see holdfast_entries'",
        '"see holdfast_entries"', "'x' # done; commit", "'x' -- done; commit",
    ],
)  # fmt: skip
def test_texts_and_comments_are_not_taken_for_statements(
    url: str, store: MySQLStore, text: str
) -> None:
    mariadb.sql(url, "CREATE TABLE mine (t TEXT)")
    statement = f"INSERT INTO mine SELECT {text}"
    assert store.append_with([entry("run", 0)], lambda cursor: cursor.execute(statement)) == [True]
    assert len(mariadb.sql(url, "SELECT * FROM mine")) == 1


def test_work_has_its_own_time_however_soon_answers_are_expected(url: str) -> None:
    with closing(open_store(url, answer_seconds=2, work_seconds=60)) as store:
        assert isinstance(store, MySQLStore)
        slow: Any = lambda cursor: cursor.execute("SELECT sleep(2.5)")  # noqa: E731
        assert store.append_with([entry("run", 0)], slow) == [True]


def test_work_reads_what_is_ours(store: MySQLStore) -> None:
    found: list[Any] = []

    def work(cursor: Any) -> None:
        cursor.execute("SELECT count(*) FROM holdfast_entries WHERE seq = %s", (0,))
        found.extend(cursor)

    assert store.append_with([entry("new", 0)], work) == [True]
    assert found == [(1,)]


def _new_database() -> Callable[[], Store]:
    return partial(open_store, mariadb.new_url())


TestMySQLAgainstADict = make_store_machine(_new_database).TestCase
TestMySQLAgainstADict.settings = settings(
    max_examples=examples(6),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
