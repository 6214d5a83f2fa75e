from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

import holdfast as hf
from holdfast.changes import ANY_RUN, Change, Notifying, Watch
from holdfast.errors import SchemaError, StoreError, StoreURLError
from holdfast.kernel.watching import SyncChanges
from holdfast.model import HIDDEN, process_journal
from holdfast.store import Store, WorkFailedError
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.contract import (
    PersistentStoreContract,
    StoreContract,
    TransactionalContract,
    check_store,
    entry,
)
from holdfast.testing.invariants import tombstone
from holdfast.testing.machine import make_store_machine
from holdfast.urls import open_store
from tests import faults
from tests.effort import examples
from tests.servers import postgres
from tests.servers.pgbouncer import PgBouncer
from tests.waiting import PATIENCE, in_time, run_process, wait_until


class TestPostgresStore(PersistentStoreContract, TransactionalContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(open_store, postgres.new_url())


class TestWithAPoolOfTheUsers(StoreContract, TransactionalContract):
    """Whatever its connections are set to."""

    @pytest.fixture
    def open_store(self) -> Iterator[Callable[[], Store]]:
        url, name = split(postgres.new_url())
        kwargs: dict[str, Any] = {"row_factory": dict_row, "options": f"-csearch_path={name}"}
        with ConnectionPool(url, kwargs=kwargs, min_size=1, max_size=8, open=True) as pool:
            yield lambda: PostgresStore(pool, schema=name)
            with pool.connection() as db:
                assert not db.autocommit
                assert isinstance(db.execute("SELECT 1 AS n").fetchone(), dict)


class TestThroughPgBouncer(StoreContract):
    """In transaction mode nothing of a session may be counted on."""

    @pytest.fixture
    def url(self) -> str:
        server, name = split(postgres.new_url())
        return PgBouncer.shared().through(f"{server}?schema={name}")

    @pytest.fixture
    def open_store(self, url: str) -> Callable[[], Store]:
        return partial(open_store, url)

    def test_work_is_done_in_one_transaction(self, url: str, store: PostgresStore) -> None:
        table = f"{split(url)[1]}.mine"
        sql(postgres.server_url(), f"CREATE TABLE {table} (n int)")

        def work(cursor: Any) -> None:
            cursor.execute(f"INSERT INTO {table} VALUES (%s)", (len(store.read("run")),))

        with ThreadPoolExecutor(3) as pool:  # and one of the four sessions for the read
            found = pool.map(lambda n: store.append_with([entry("run", 0)], work), range(8))
            assert sorted(found) == [[False]] * 7 + [[True]]
        assert sql(postgres.server_url(), f"SELECT n FROM {table}") == [(0,)]


def split(url: str) -> tuple[str, str]:
    """A URL without its options, and the schema that they name."""
    server, _, options = url.partition("?schema=")
    return server, options.partition("&")[0]


def sql(url: str, statement: str) -> list[Any]:
    with psycopg.connect(split(url)[0], autocommit=True) as db:
        cursor = db.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def url() -> str:
    return postgres.new_url()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = open_store(url)
    assert isinstance(opened, PostgresStore)
    with closing(opened) as store:
        yield store
        assert check_store(store) == []


def test_its_own_settings_say_what_it_survives(url: str) -> None:
    for setting, expected in [
        ("", "power-loss"),
        ("synchronous_commit=local", "power-loss"),
        ("synchronous_commit=off", "process-crash"),
    ]:
        asked = url.replace("options=", f"options=-c{setting}%20" if setting else "options=")
        with closing(open_store(asked)) as store:
            assert store.survives() == expected


@pytest.mark.parametrize("seqs", [(2,), (2, 3), (2, 4)])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_who_waits_for_a_run_to_be_erased_does_not_write_below_its_tombstone(
    url: str, isolation: str, seqs: tuple[int, ...]
) -> None:
    """The row that it waited for is gone, and its place looks free."""
    isolation = isolation.replace(" ", "%5C%20")
    asked = url.replace("options=", f"options=-cdefault_transaction_isolation={isolation}%20")
    late_ones = f"{asked}&application_name={split(url)[1]}"
    with closing(open_store(asked)) as store, closing(open_store(late_ones)) as other:
        store.append([entry("run", seq) for seq in range(3)])
        other.last("run")
        with ThreadPoolExecutor(1) as pool:

            def let_one_in() -> None:
                late.append(pool.submit(other.append, [entry("run", seq) for seq in seqs]))
                wait_until(lambda: sql(url, waiting))

            late: list[Any] = []
            waiting = (
                "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) "
                f"WHERE NOT granted AND application_name = '{split(url)[1]}'"
            )
            with faults.at("postgres.commit.before", let_one_in):
                assert store.erase(tombstone("run", 3))
            assert late[0].result() == [False] * len(seqs)
        assert [item.kind for item in store.read("run")] == ["tombstone"]


def test_a_lock_that_is_not_had_in_time_is_asked_for_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = url.replace("options=", "options=-clock_timeout=50%20")
    with closing(open_store(asked)) as store, psycopg.connect(split(url)[0]) as other:
        store.append([entry("run", 0)])
        table = f"{split(url)[1]}.entries"
        other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
        pauses: list[float] = []

        def let_go(seconds: float) -> None:
            pauses.append(seconds)
            other.rollback()

        monkeypatch.setattr("holdfast.stores._shared.sql.time", SimpleNamespace(sleep=let_go))
        assert store.append([entry("run", 1), entry("run", 2)]) == [True, True]
        assert len(pauses) == 1
        assert len(store.read("run")) == 3


def test_an_append_does_not_scan_the_table_even_while_it_is_small(url: str) -> None:
    """A session would go on doing so, with the plan that it keeps, when it is large."""
    _, name = split(url)

    def scans_after_appending(seq: int) -> list[Any]:
        with closing(open_store(f"{url}&application_name={name}")) as store:
            store.append([entry("run", seq)])
        mine = f"SELECT FROM pg_stat_activity WHERE application_name = '{name}'"
        wait_until(lambda: not sql(url, mine))  # what it did counts when it is gone
        return sql(
            url,
            f"SELECT seq_scan FROM pg_stat_user_tables WHERE relid = '{name}.entries'::regclass",
        )

    before = scans_after_appending(0)
    sql(url, f"ANALYZE {name}.entries")
    assert scans_after_appending(1) == before


def test_a_schema_from_the_future_is_refused_and_left_alone(url: str) -> None:
    _, name = split(url)
    with closing(open_store(url)) as store:
        store.append([entry("run", 0)])
    sql(url, f"COMMENT ON TABLE {name}.entries IS 'holdfast schema 99'")
    with closing(open_store(url)) as store:
        for call in (lambda: store.append([entry("run", 1)]), lambda: store.last("run")):
            with pytest.raises(SchemaError, match=r"schema 99.*upgrade"):
                call()
    assert sql(url, f"SELECT count(*) FROM {name}.entries") == [(1,)]


def test_tables_of_others_are_not_taken_for_ours(url: str) -> None:
    _, name = split(url)
    sql(url, f"CREATE TABLE {name}.entries (mine text)")
    with closing(open_store(url)) as store, pytest.raises(SchemaError, match="schema="):
        store.last("run")
    assert sql(url, f"SELECT * FROM {name}.entries") == []


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_the_schema_is_made_once_whatever_the_usual_isolation(url: str, isolation: str) -> None:
    """Whoever waited for its turn would else see what was there before it waited."""
    isolation = isolation.replace(" ", "%5C%20")
    asked = url.replace("options=", f"options=-cdefault_transaction_isolation={isolation}%20")

    def use(number: int) -> list[bool]:
        with closing(open_store(asked)) as store:
            return store.append([entry(f"run-{number}", 0)])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use, range(4))) == [[True]] * 4


def test_who_may_not_make_tables_uses_those_that_are_there(url: str) -> None:
    _, name = split(url)
    guide = (Path(__file__).parents[2] / "docs/operate/servers.md").read_text()
    with closing(open_store(url)) as store:
        store.append([entry("run", 0)])
    role = f"role_{name}"
    sql(url, f"CREATE ROLE {role} LOGIN")
    with closing(open_store(url.replace("postgres:secret@", f"{role}@"))) as store:
        with pytest.raises(StoreError, match="permission denied"):
            store.last("run")
        sql(url, f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {name} FROM PUBLIC")
        grants = re.findall("GRANT (.+) SCHEMA holdfast TO app;", guide)
        assert len(grants) == 3
        for rights in grants:
            sql(url, f"GRANT {rights} SCHEMA {name} TO {role}")
        assert store.append([entry("run", 1)]) == [True]
        with _watch(store) as watch:
            assert store.append([entry("other", 0)]) == [True]
            assert _runs(watch.wait(10)) == {"other"}
        assert store.erase(tombstone("run", 2))


def test_the_view_shows_checkpoints_by_the_words_of_pipelines(
    url: str, store: PostgresStore
) -> None:
    fields = {"kind": "checkpoint", "size": 9, "step": "fetch", "flow": "etl", "thread": "t-1"}
    meta = '{"flow_version":"2","metadata":{"user":"ann"},"step_name":"Fetch it"}'
    store.append([entry("run", 0, kind="open", size=0)])
    store.append([entry("run", 1, b"x", at=1_700_000_000_000_042, meta=meta, **fields)])
    store.append([entry("run", 2, b"xy", parent=1, status="paused", **fields)])
    with psycopg.connect(split(url)[0], row_factory=dict_row) as db:
        query = f"SELECT * FROM {split(url)[1]}.checkpoints ORDER BY sequence"
        first, second = db.execute(query.encode()).fetchall()
    assert first["checkpoint_id"] == "run@1"
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20.000042+00:00"
    assert (first["pipeline_id"], first["pipeline_version"]) == ("etl", "2")
    assert (first["step_id"], first["step_name"], second["step_name"]) == (
        "fetch",
        "Fetch it",
        "fetch",
    )
    assert (first["metadata"], second["metadata"]) == ('{"user":"ann"}', "{}")
    assert (first["status"], second["status"]) == ("completed", "paused")
    assert second["parent_checkpoint_id"] == "run@1"
    assert (second["thread_id"], second["stored_bytes"]) == ("t-1", 2)


def test_a_text_that_postgresql_cannot_show_does_not_hide_the_others(
    url: str, store: PostgresStore
) -> None:
    for seq, text in enumerate(["\\u0000", "\\ud800", "\\u00e9 is fine"]):
        meta = f'{{"step_name":"{text}","metadata":{{"a":"{text}"}}}}'
        store.append(
            [entry("run", seq, kind="checkpoint", size=1, meta=meta, step="s", at=-(2**61))]
        )
    shown = sql(
        url, f"SELECT step_name, metadata FROM {split(url)[1]}.checkpoints ORDER BY sequence"
    )
    assert shown == [("s", "{}"), ("s", "{}"), ("é is fine", '{"a":"\\u00e9 is fine"}')]


@pytest.mark.parametrize("wrong", [{"step": "a\x00b"}, {"at": 1 << 70}, {"step": "\ud800"}])
def test_an_entry_that_no_column_can_hold_is_an_error_of_the_store_and_leaves_nothing(
    store: PostgresStore, wrong: dict[str, Any]
) -> None:
    with pytest.raises(StoreError):
        store.append([entry("run", 0), entry("run", 1, **wrong)])
    assert store.read("run") == []


@pytest.mark.parametrize("wrong", ["//nobody_here:pw@", "/no_such_database?"])
def test_a_server_that_refuses_is_no_outage(wrong: str, url: str) -> None:
    """Nobody waits for it until the deadline."""
    found = re.sub(r"//[^@/]*@" if "@" in wrong else r"/\w+\?", wrong, url, count=1)
    with (
        closing(open_store(found)) as store,
        pytest.raises(StoreError, match="does not exist") as e,
    ):
        store.last("run")
    assert not isinstance(e.value, hf.StoreUnavailableError)


def test_no_url_or_error_shows_a_password() -> None:
    for where in (
        "postgresql://ann:hunter2@127.0.0.1:1/db",
        "postgres://ann:hunter2@127.0.0.1:1/db?sslmode=disable",
        "postgresql://127.0.0.1:1/db?user=ann&password=hunter2",
    ):
        with closing(open_store(where)) as store:
            assert store.url == "postgresql://ann:***@127.0.0.1:1/db?schema=holdfast"
            with pytest.raises(hf.StoreUnavailableError) as caught:
                store.last("run")
            assert "hunter2" not in f"{store!r} {caught.value}"
    with closing(PostgresStore("host=h port=5 user=ann password=hunter2 dbname=db")) as store:
        assert store.url == "postgresql://ann:***@h:5/db?schema=holdfast"


@pytest.mark.parametrize(
    "where",
    ["postgresql://h/db?shcema=x", "postgresql://h/db?schema=Robert'--",
     "postgresql://h/db?connections=many", "postgresql://h/db?connections=1"],
)  # fmt: skip
def test_a_url_that_means_nothing_is_refused_at_once(where: str) -> None:
    with pytest.raises(StoreURLError):
        open_store(where)


def test_without_its_driver_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
import holdfast
try:
    holdfast.open_store("postgresql://h/db")
except holdfast.StoreURLError as error:
    print(error)
"""
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    assert "[postgres]'" in done.stdout


DENIED = [
    "BEGIN", "START TRANSACTION", "commit", "  END", "ROLLBACK", "ABORT", "SAVEPOINT s",
    "/* harmless */ COMMIT", "-- harmless\nCOMMIT", "SELECT 1; COMMIT", "(COMMIT", ";;COMMIT",
    "PREPARE TRANSACTION 'x'", "SET search_path = x", "SET SESSION x = 1", "RESET ALL",
    "DISCARD ALL", "LISTEN x",
    "DELETE FROM {schema}.entries", 'UPDATE "{schema}" . "entries" SET seq = 1',
    "WITH gone AS (DELETE FROM {schema}.entries RETURNING 1) SELECT 1", "DROP TABLE {schema}.entries",
]  # fmt: skip


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_not_the_users_is_refused(url: str, store: PostgresStore, statement: str) -> None:
    kept = entry("run", 0)
    store.append([kept])
    with pytest.raises(WorkFailedError) as caught:
        store.append_with(
            [entry("new", 0)], lambda cursor: cursor.execute(statement.format(schema=split(url)[1]))
        )
    assert isinstance(caught.value.error, PermissionError)
    assert store.read("run") == [kept]
    assert store.read("new") == []


def test_a_composed_statement_is_looked_at_too(store: PostgresStore) -> None:
    composed = psycopg.sql.SQL("{} 1; COMMIT").format(psycopg.sql.SQL("SELECT"))
    with pytest.raises(WorkFailedError) as caught:
        store.append_with([entry("new", 0)], lambda cursor: cursor.execute(composed))
    assert isinstance(caught.value.error, PermissionError)


ALLOWED = [
    "SELECT 'x; COMMIT'", "SELECT $$ ; COMMIT $$", "SELECT 1 -- ; COMMIT", "SET LOCAL work_mem = '5MB'",
    "CREATE TABLE mine (begin_at int, entries text)", "SELECT count(*) FROM {schema}.entries",
    "DO $$ BEGIN NULL; END $$", "SELECT 1 AS \"end\"",
]  # fmt: skip


@pytest.mark.parametrize("statement", ALLOWED)
def test_what_is_the_users_is_theirs(url: str, store: PostgresStore, statement: str) -> None:
    text = statement.format(schema=split(url)[1])
    assert store.append_with([entry("new", 0)], lambda cursor: cursor.execute(text)) == [True]


@pytest.mark.parametrize("slow", ["SELECT pg_sleep(60)", ""])
def test_work_that_takes_too_long_is_undone(url: str, slow: str) -> None:
    with closing(open_store(url, work_seconds=0.2)) as store:
        assert isinstance(store, PostgresStore)

        def work(cursor: Any) -> None:
            cursor.execute(slow) if slow else threading.Event().wait(0.5)

        with pytest.raises(WorkFailedError) as caught:
            store.append_with([entry("run", 0)], work)
        assert isinstance(caught.value.error, TimeoutError)
        assert store.read("run") == []


def test_work_has_its_own_time_however_soon_answers_are_expected(url: str) -> None:
    with closing(open_store(url, answer_seconds=2, work_seconds=60)) as store:
        assert isinstance(store, PostgresStore)
        slow: Any = lambda cursor: cursor.execute("SELECT pg_sleep(2.5)")  # noqa: E731
        assert store.append_with([entry("run", 0)], slow) == [True]


def test_a_constraint_of_the_users_that_fails_at_the_end_is_no_other_writer(
    url: str, store: PostgresStore
) -> None:
    sql(url, "CREATE TABLE public.once (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    sql(url, "INSERT INTO public.once VALUES (1)")
    try:
        with pytest.raises(WorkFailedError) as caught:
            store.append_with(
                [entry("run", 0)],
                lambda cursor: cursor.execute("INSERT INTO public.once VALUES (1)"),
            )
        assert isinstance(caught.value.error, psycopg.errors.UniqueViolation)
        assert store.read("run") == []
        assert store.append([entry("run", 0)]) == [True]
    finally:
        sql(url, "DROP TABLE public.once")


def test_whoever_watches_is_told_of_appends_by_others(url: str, store: PostgresStore) -> None:
    with _watch(store) as watch, closing(open_store(url)) as other:
        assert watch.wait(0) == []
        assert other.erase(tombstone(process_journal(0), 0))
        other.append([entry(HIDDEN + "h", 0), entry("b", 0), entry("b", 1, status="paused")])
        assert watch.wait(60) == [Change("b", 1, "paused")]
        other.append([entry("a", 0), entry("c", 0)])
        told = _runs(watch.wait(60))
        while told != {"a", "c"}:
            more = _runs(watch.wait(60))
            assert more
            told |= more
        other.erase(tombstone("b", 2))
        assert watch.wait(60) == [Change("b", 2, "deleted")]
    assert sql(url, f"SELECT * FROM {split(url)[1]}.watchers") == []


def test_watching_goes_on_after_the_server_cut_the_connection(
    url: str, store: PostgresStore
) -> None:
    with hf.SyncCheckpointer(store) as cp, cp.watch() as every, cp.watch("run") as one, in_time():
        assert every.wait() == [ANY_RUN]
        for n in (1, 2):
            postgres.cut_connections(url)
            assert every.wait() == [ANY_RUN]
            with closing(open_store(url)) as other:
                other.append([entry("run", n - 1)])
            assert one.wait() == [Change("run", n - 1, "open")]
            assert every.wait()[-1].run_id in (None, "run")


def test_what_was_begun_before_somebody_watched_is_told_when_it_is_committed(
    url: str, store: PostgresStore
) -> None:
    """Its writer found that nobody watches, and will not notify."""
    seen: list[list[Change]] = []
    with closing(open_store(url)) as other, hf.SyncCheckpointer(store) as cp, in_time():
        assert isinstance(other, PostgresStore)

        def watch_meanwhile(_: object) -> None:
            changes = cp.watch()
            seen.append(changes.wait())
            watching.append(changes)

        watching: list[SyncChanges] = []
        assert other.append_with([entry("run", 0)], watch_meanwhile) == [True]
        assert seen == [[ANY_RUN]]
        assert watching[0].wait(PATIENCE) == [ANY_RUN]


def test_a_watcher_that_is_cut_off_is_told_so_and_the_next_one_clears_up_after_it(
    url: str, store: PostgresStore
) -> None:
    store.append([entry("run", 0)])
    with _watch(store) as cut:
        postgres.cut_connections(url)
        with pytest.raises(hf.StoreUnavailableError):
            cut.wait(60)
    with _watch(store):
        assert len(sql(url, f"SELECT * FROM {split(url)[1]}.watchers")) == 1


def _watch(store: Store) -> Watch:
    assert isinstance(store, Notifying)
    watch = store.watch()
    assert watch is not None
    return watch


def _runs(changes: Sequence[Change]) -> set[str | None]:
    return {change.run_id for change in changes}


def _new_schema() -> Callable[[], Store]:
    return partial(open_store, postgres.new_url())


TestPostgresAgainstADict = make_store_machine(_new_schema).TestCase
TestPostgresAgainstADict.settings = settings(
    max_examples=examples(6),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
