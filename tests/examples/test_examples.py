"""Every example is killed at several moments of every process, and comes to the same end."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from runpy import run_path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import holdfast as hf
from holdfast.cli import ui
from holdfast.seams import new_id
from tests import forks
from tests.effort import EFFORT
from tests.examples.example import ROOT, Example
from tests.servers import postgres
from tests.waiting import bounded, run_process

# Of steps that come one after the other: 1 is in the step after one that was recorded, 2 is when
# that has returned and nothing is written yet. Side by side, it is in the midst of several.
killed_in_a_step = pytest.mark.parametrize("kill_at", [1, 2] if EFFORT > 1 else [1])
killed_behind_a_step = pytest.mark.parametrize("kill_at", [1, 2] if EFFORT > 1 else [2])


def rows(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as db:
        return db.execute(query).fetchall()


@pytest.mark.parametrize(
    ("name", "store", "says"),
    [
        ("etl.py", "sales.db", "done: 2 shops, 234.00 EUR"),
        ("agent.py", "agent.db", "waits: Refund 40 EUR for order 7?"),
        ("order_saga.py", "orders.db", "done: order-1 is on its way"),
        ("nightly_batch.py", "nightly.db", "done: 40 invoices, 264.60 EUR"),
    ],
)
def test_an_example_needs_no_arguments_and_may_be_started_twice(
    tmp_path: Path, name: str, store: str, says: str
) -> None:
    example = Example(tmp_path, name, store=store)
    assert [example.run(), example.run()] == [says, says]


def test_the_commands_that_the_page_shows_work_after_the_etl(tmp_path: Path) -> None:
    Example(tmp_path, "etl.py", store="sales.db").run()
    page = (ROOT / "examples/README.md").read_text()
    commands = re.findall(r"^\$ holdfast (.*)", page, re.M)
    assert [command.split()[0] for command in commands] == ["show", "verify"]
    for command in commands:
        forks.run("-m", "holdfast", *command.split(), cwd=tmp_path, check=True)


def test_the_program_of_the_readme_that_saves_states_may_be_started_twice(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    code = page.partition('title="save.py"\n')[2].partition("```")[0]
    (tmp_path / "save.py").write_text(code)
    for _ in range(2):
        forks.run("save.py", cwd=tmp_path, check=True)


@killed_in_a_step
def test_the_etl_loads_every_row_once(tmp_path: Path, kill_at: int) -> None:
    example = Example(tmp_path, "etl.py", store="sales.db")
    assert example.run_to_the_end(kill_at) == "done: 2 shops, 234.00 EUR"
    loaded = rows(tmp_path / "sales.db", "SELECT shop, cents FROM sales ORDER BY shop")
    assert loaded == [("harbour", 2400), ("pier", 21000)]


def test_the_etl_loads_again_when_its_row_is_gone(tmp_path: Path) -> None:
    example = Example(tmp_path, "etl.py", store="sales.db")
    done = example.run()
    with closing(sqlite3.connect(tmp_path / "sales.db")) as db, db:
        db.execute("DELETE FROM loads")
    assert example.run() == done
    assert {step for step, times in example.begun().items() if times == 2} == {"load", "report"}
    assert rows(tmp_path / "sales.db", "SELECT COUNT(*) FROM sales") == [(2,)]


@killed_behind_a_step
def test_the_crawl_gets_what_it_has_not_got_yet(tmp_path: Path, kill_at: int) -> None:
    with small_site() as (url, asked):
        example = Example(tmp_path, "crawl.py", url, store="crawl.db")
        assert example.run_to_the_end(kill_at) == "done: {'pages': 13, 'bytes': 510}"
        assert len(list((tmp_path / "pages").iterdir())) == 13
        assert len(asked) == 13
        assert asked.total() <= example.begun().total(), "a page is asked for by its own step alone"


@killed_in_a_step
def test_the_training_comes_to_the_same_model(tmp_path: Path, kill_at: int) -> None:
    undisturbed = Example(tmp_path / "undisturbed", "train.py", store="training.db")
    example = Example(tmp_path / "killed", "train.py", store="training.db")
    assert example.run_to_the_end(kill_at) == undisturbed.run() == "done: epoch 2, loss 0.179210"
    models = [(one.directory / "best.json").read_text() for one in (example, undisturbed)]
    assert models[0] == models[1]


def test_the_training_does_not_resume_from_a_damaged_model(tmp_path: Path) -> None:
    example = Example(tmp_path, "train.py", store="training.db")
    done = example.run()
    (tmp_path / "models" / "epoch-3.json").write_text("[9, 9, 9]")
    assert example.run() == done
    assert list(example.begun().values()) == [1, 1, 1, 2, 2, 2], "from the third epoch on"


@pytest.mark.parametrize(
    ("kill_at", "item", "effects"),
    [
        (2, "lamp", ["reserve lamp", "charge 40 EUR", "ship lamp"]),
        (1, "piano", ["reserve piano", "charge 4000 EUR", "refund", "release"]),
        (2, "piano", ["reserve piano", "charge 4000 EUR", "refund", "release"]),
    ],
)
def test_the_order_has_each_effect_once(
    tmp_path: Path, kill_at: int, item: str, effects: list[str]
) -> None:
    example = Example(tmp_path, "order_saga.py", "order-1", item, store="orders.db")
    last = example.run_to_the_end(kill_at)
    assert last.startswith("done: undone" if item == "piano" else "done: order-1 is on its way")
    done = rows(tmp_path / "services.db", "SELECT what FROM done ORDER BY rowid")
    assert [what for (what,) in done] == effects


@pytest.mark.parametrize(("kill_at", "server"), [(2, False), (1, True)])
def test_the_batch_books_every_invoice_once(tmp_path: Path, kill_at: int, server: bool) -> None:
    store = new_database() if server else "nightly.db"
    example = Example(tmp_path, "nightly_batch.py", "--store", store, store=store)

    def booked() -> Any:
        query = "SELECT COUNT(*), COUNT(DISTINCT customer), SUM(cents) FROM invoices"
        connect: Any = psycopg.connect if server else sqlite3.connect
        with closing(connect(example.store)) as db:
            return db.execute(query).fetchone()

    assert example.run_to_the_end(kill_at) == "done: 40 invoices, 264.60 EUR"
    assert booked() == (40, 40, 26460)
    (tmp_path / "statement-2026-11-15.csv").unlink()
    assert example.run() == "done: 40 invoices, 264.60 EUR"
    assert booked() == (40, 40, 26460)
    assert (tmp_path / "statement-2026-11-15.csv").exists()


@killed_behind_a_step
def test_the_agent_asks_once_and_pays_once(tmp_path: Path, kill_at: int) -> None:
    example = Example(tmp_path, "agent.py", "chat", "back for order 7", store="agent.db")
    assert example.run_to_the_end(kill_at) == "waits: Refund 40 EUR for order 7?"
    last = example.run("--answer", "yes", kill_at=kill_at) or example.run_to_the_end(kill_at)
    assert last == "done: Order 7: 40 EUR refunded."
    assert len(json.loads((tmp_path / "refunds.json").read_text())) == 1


def test_the_agent_does_not_pay_when_a_person_says_no(tmp_path: Path) -> None:
    example = Example(tmp_path, "agent.py", "chat", "back for order 8", store="agent.db")
    assert example.run() == "waits: Refund 90 EUR for order 8?"
    assert example.run("--answer", "no") == "done: Order 8: a person refused it."
    assert not (tmp_path / "refunds.json").exists()


@pytest.mark.parametrize("killed", ["a worker", "the program"] if EFFORT > 1 else ["a worker"])
def test_the_harbours_are_computed_though_processes_are_killed(tmp_path: Path, killed: str) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "dask_harbours.py")]
    if killed == "the program":
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as begun:
            assert begun.stdout is not None
            with bounded(begun):
                begun.stdout.readline()
            begun.kill()
    more = ["--kill"] if killed == "a worker" else []
    method = "spawn" if EFFORT > 1 else "forkserver"  # which imports Dask once for all workers
    environment = os.environ | {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": method}
    done = run_process(
        [*command, *more], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    *lines, last = done.stdout.splitlines()
    assert last == "done: 9 harbours; the days differ most in Galway, by 4.60 m"
    assert any(line.startswith("killing worker") for line in lines) is bool(more)
    with hf.SyncCheckpointer(tmp_path / "harbours.db") as cp:
        assert [info.status for info in cp.runs()] == ["completed"] * 10
        assert all(cp.verify(info.run_id).ok for info in cp.runs())


def test_the_crawl_of_its_own_site_does_not_need_the_port_of_the_ui() -> None:
    (port,) = (option for option in ui.command.params if option.name == "port")
    assert run_path(str(ROOT / "examples" / "crawl.py"))["PORT"] != port.default


def new_database() -> str:
    """An empty database on the PostgreSQL of the tests."""
    server, name = urlsplit(postgres.server_url()), f"t_{new_id()}"
    with psycopg.connect(server.geturl(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return server._replace(path=f"/{name}").geturl()


@contextmanager
def small_site() -> Iterator[tuple[str, Counter[str]]]:
    """The site that the crawl brings along, and how often each page is asked for."""
    asked: Counter[str] = Counter()
    site: Any = run_path(str(ROOT / "examples" / "crawl.py"))["SmallSite"]

    class Counting(site):  # type: ignore[misc]
        def log_message(self, *_: object) -> None:
            asked[self.path] += 1

    class Patient(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Who asked was killed."""

    with Patient(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()
