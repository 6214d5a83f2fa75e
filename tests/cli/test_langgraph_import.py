"""Databases of LangGraph's savers, taken over."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from langgraph.types import Command

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver, importing
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from tests.cli.conftest import Cli
from tests.cli.langgraph_databases import (
    KINDS,
    config,
    fill,
    graph,
    history,
    new_place,
    saver,
)

STORE = "sqlite:///agents.db"


@pytest.fixture
def database(cli: Cli, tmp_path: Path) -> str:
    """A database of `SqliteSaver`."""
    where = new_place(KINDS[0], tmp_path)
    with saver(KINDS[0], where) as theirs:
        fill(graph(theirs))
    return where


@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_thread_has_its_whole_history_and_continues_where_it_was(
    kind: str,
    cli: Cli,
    tmp_path: Path,
) -> None:
    where = new_place(kind, tmp_path)
    with saver(kind, where) as theirs:
        fill(graph(theirs))
        done = cli("import", "--from", kind, where, "--store", STORE, "--json")
        assert done.code == 0, done.err
        assert {one["thread_id"] for one in done.json} == {"waiting", "done"}
        with HoldfastSaver(STORE) as ours:
            for thread in ("waiting", "done"):
                assert history(graph(ours), thread) == history(graph(theirs), thread)
            answers = [
                graph(each).invoke(Command(resume="no"), config("waiting"))
                for each in (theirs, ours)
            ]
            assert answers[0] == answers[1]
            assert answers[1]["log"][-1] == "asked"


def test_only_the_threads_that_are_named_are_imported(cli: Cli, database: str) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE)
    done = cli(*given, "--thread", "done").out
    assert done == "1 thread imported with 9 checkpoints, 9 of them new\n"
    refused = cli(*given, "--thread", "nobody")
    assert (refused.code, "there is no thread 'nobody'" in refused.err) == (1, True)
    with hf.SyncCheckpointer(STORE) as cp:
        assert {run.run_id.partition("|")[0] for run in cp.runs()} == {"done"}


def test_an_import_that_is_repeated_changes_nothing(cli: Cli, database: str) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE, "--json")
    assert all(one["new"] for one in cli(*given).json)
    with hf.SyncCheckpointer(STORE) as cp:
        before = [(run.run_id, run.seq) for run in cp.runs()]
    assert not any(one["new"] for one in cli(*given).json)
    with hf.SyncCheckpointer(STORE) as cp:
        assert [(run.run_id, run.seq) for run in cp.runs()] == before


def test_an_import_that_was_interrupted_is_finished_by_another(
    cli: Cli,
    database: str,
) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE TABLE later AS SELECT * FROM checkpoints WHERE 0")
        newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'done')"
        db.execute(f"INSERT INTO later SELECT * FROM checkpoints WHERE checkpoint_id = {newest}")
        db.execute(f"DELETE FROM checkpoints WHERE checkpoint_id = {newest}")
        db.commit()
        given = ("import", "--from", KINDS[0], database, "--store", STORE, "--json")
        assert cli(*given).code == 0
        db.execute("INSERT INTO checkpoints SELECT * FROM later")
        db.commit()
    new = [one["thread_id"] for one in cli(*given).json if one["new"]]
    assert new == ["done"]
    with saver(KINDS[0], database) as theirs, HoldfastSaver(STORE) as ours:
        assert history(graph(ours), "done") == history(graph(theirs), "done")


def test_what_the_old_program_saved_since_the_last_import_is_added(
    cli: Cli,
    database: str,
) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE, "--json")
    assert cli(*given).code == 0
    with saver(KINDS[0], database) as theirs:
        app = graph(theirs)
        app.invoke(Command(resume="yes"), config("waiting"))
        again = cli(*given)
        assert again.code == 0, again.err
        assert {one["thread_id"] for one in again.json if one["new"]} == {"waiting"}
        assert not any(one["new"] for one in cli(*given).json)
        with HoldfastSaver(STORE) as ours:
            assert history(graph(ours), "waiting") == history(app, "waiting")


def test_a_database_may_be_named_by_its_url_and_is_not_the_store(cli: Cli, database: str) -> None:
    before = Path(database).read_bytes()
    url = f"sqlite:///{database}"
    for where in (database, url):
        for store in (database, url):
            refused = cli("import", "--from", KINDS[0], where, "--store", store)
            assert refused.code == 2
            assert "is both the database to import and the store" in refused.err
    assert Path(database).read_bytes() == before
    assert cli("import", "--from", KINDS[0], url, "--store", STORE).code == 0


def test_a_thread_that_went_on_in_both_places_is_refused_unchanged(
    cli: Cli,
    database: str,
) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE)
    assert cli(*given).code == 0
    with HoldfastSaver(STORE) as ours, saver(KINDS[0], database) as theirs:
        graph(ours).invoke(Command(resume="no"), config("waiting"))
        assert cli(*given).code == 0, "the store has all of the database, and more"
        before = history(graph(ours), "waiting")
        graph(theirs).invoke(Command(resume="yes"), config("waiting"))
        refused = cli(*given)
        assert refused.code == 1
        assert "has a thread 'waiting' that differs" in refused.err
        assert "imported before that: 'done'" in refused.err
        assert history(graph(ours), "waiting") == before


def test_a_thread_that_goes_on_during_its_import_is_not_mixed_with_it(
    cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE, "--thread", "done")
    assert cli(*given).code == 0
    with saver(KINDS[0], database) as theirs:
        graph(theirs).update_state(config("done"), {"log": ["there"]})
    real = importing._draft

    def draft_late(core: Core, record: importing.Record) -> Draft:
        monkeypatch.setattr(importing, "_draft", real)
        with HoldfastSaver(STORE) as ours:
            graph(ours).update_state(config("done"), {"log": ["here"]})
        return real(core, record)

    monkeypatch.setattr(importing, "_draft", draft_late)
    done = cli(*given)
    assert done.code == 1
    assert "was changed by others" in done.err
    with HoldfastSaver(STORE) as ours:
        log = graph(ours).get_state(config("done")).values["log"]
        assert (log[-1], "there" in log) == ("here", False)


def test_a_thread_that_differs_from_the_stores_is_refused_by_name(
    cli: Cli,
    database: str,
) -> None:
    given = ("import", "--from", KINDS[0], database, "--store", STORE)
    assert cli(*given).code == 0
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE checkpoints SET parent_checkpoint_id = 'x' WHERE thread_id = 'waiting'")
        db.commit()
    refused = cli(*given)
    assert refused.code == 1
    assert "has a thread 'waiting' that differs" in refused.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE checkpoints ADD COLUMN tenant TEXT", "unknown: tenant"),
        ("ALTER TABLE writes DROP COLUMN channel", "missing: channel"),
        ("DROP TABLE writes", "has no table 'writes'"),
        ("ALTER TABLE writes RENAME TO w; CREATE VIEW writes AS SELECT * FROM w", "no table"),
    ],
)
def test_an_unknown_layout_stops_the_import_before_anything_is_written(
    change: str,
    message: str,
    cli: Cli,
    database: str,
) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.executescript(change)
    refused = cli("import", "--from", KINDS[0], database, "--store", STORE)
    assert refused.code == 1
    assert message in refused.err
    assert not Path("agents.db").exists()


def test_a_newer_migration_of_postgres_stops_the_import(cli: Cli, tmp_path: Path) -> None:
    where = new_place(KINDS[1], tmp_path)
    with saver(KINDS[1], where), psycopg.connect(where, autocommit=True) as db:
        db.execute("INSERT INTO checkpoint_migrations VALUES (99)")
    refused = cli("import", "--from", KINDS[1], where, "--store", STORE)
    assert refused.code == 1
    assert "migration 99" in refused.err
    assert not Path("agents.db").exists()


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("it was unpickled",)


@pytest.mark.parametrize("kind", ["pickle", "msgpack+aes", "unheard-of"])
def test_values_that_only_code_can_read_are_refused_by_thread_and_channel(
    kind: str,
    cli: Cli,
    database: str,
) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute(
            "UPDATE writes SET type = ?, value = ? WHERE channel = '__interrupt__'",
            (kind, pickle.dumps(Bomb())),
        )
        db.commit()
    refused = cli("import", "--from", KINDS[0], database, "--store", STORE)
    assert refused.code == 1
    assert "channel '__interrupt__'" in refused.err
    assert "thread '" in refused.err
    assert not Path("agents.db").exists()


def state(**changes: Any) -> bytes:
    fields = {"v": 4, "id": "x", "ts": "now", "channel_values": {}} | changes
    return ormsgpack.packb({"channel_versions": {}, "versions_seen": {}} | fields)


NEWEST = "(SELECT max(rowid) FROM {0})"


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        ("writes SET idx", "abc", "the column idx of one of its writes is 'abc', not an integer"),
        ("writes SET value", "text", "is of the type str, not bytes"),
        ("writes SET value", b"\xc1", "is damaged"),
        ("writes SET task_id", b"\xff", "the column task_id of one of its writes is of the type b"),
        (
            "checkpoints SET parent_checkpoint_id",
            b"\xff",
            "parent_checkpoint_id is of the type byt",
        ),
        ("checkpoints SET metadata", "[1]", "its metadata is no object"),
        ("checkpoints SET metadata", '{"a":' * 900 + "1" + "}" * 900, "nested"),
        ("checkpoints SET checkpoint", "text", "checkpoints.checkpoint is of the type str, not"),
        ("checkpoints SET checkpoint", b"\x91" * 1000 + b"\x01", "its state is of the type list"),
        ("checkpoints SET checkpoint", state(), "its state is that of another checkpoint, 'x'"),
        ("checkpoints SET checkpoint", state(channel_values=[1]), "channel_values is of the type"),
        ("checkpoints SET checkpoint", state(channel_versions=[1]), "channel_versions is of the"),
        (
            "checkpoints SET checkpoint",
            state(channel_values={"messages": ormsgpack.Ext(5, b"\x90")}),
            "a value, or an object in it, is damaged",
        ),
        (
            "checkpoints SET checkpoint",
            state(channel_values={"messages": ormsgpack.Ext(0, b"\xc1")}),
            "is damaged",
        ),
    ],
)
def test_what_langgraph_cannot_have_written_is_refused_before_anything_is_written(
    change: str,
    value: Any,
    message: str,
    cli: Cli,
    database: str,
) -> None:
    table = change.partition(" ")[0]
    with closing(sqlite3.connect(database)) as db:
        db.execute(f"UPDATE {change} = ? WHERE rowid = {NEWEST.format(table)}", (value,))
        db.commit()
    refused = cli("import", "--from", KINDS[0], database, "--store", STORE)
    assert refused.code == 1
    assert message in refused.err
    assert refused.err.startswith("Error: thread '")
    assert ", checkpoint " in refused.err
    assert not Path("agents.db").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("checkpoint_writes SET blob = '\\xc1', type = 'msgpack'", "is damaged"),
        ("checkpoint_blobs SET blob = '\\xc1', type = 'msgpack'", "is damaged"),
        ("checkpoints SET checkpoint = '[]'", "its state is of the type list, not a dict"),
        (
            "checkpoints SET checkpoint = jsonb_set(checkpoint, '{id}', '7')",
            "its state is that of another checkpoint, 7",
        ),
        ("checkpoints SET metadata = '[1]'", "its metadata is no object"),
    ],
)
def test_the_same_is_refused_in_postgres(
    change: str, message: str, cli: Cli, tmp_path: Path
) -> None:
    where = new_place(KINDS[1], tmp_path)
    with saver(KINDS[1], where) as theirs:
        fill(graph(theirs))
    with psycopg.connect(where, autocommit=True) as db:
        db.execute(f"UPDATE {change}".encode())
    refused = cli("import", "--from", KINDS[1], where, "--store", STORE)
    assert refused.code == 1
    assert message in refused.err
    assert not Path("agents.db").exists()


def test_a_file_that_is_no_database_is_refused(cli: Cli) -> None:
    Path("notes.txt").write_text("Not a database, but long enough to look at." * 100)
    for name in ("notes.txt", "nothing.db"):
        refused = cli("import", "--from", KINDS[0], name, "--store", STORE)
        assert (refused.code, name in refused.err) == (1, True)
        assert "import" not in cli("runs", "--store", STORE).out
