"""The page of a run: its header, its timeline, and what a step did."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast import SyncCheckpointer
from holdfast.graph import END, Graph
from holdfast.views import words
from holdfast.views.axis import axis_of
from holdfast.views.rows import row_of
from holdfast.views.runs import ORPHANED, of_id
from holdfast.views.step_groups import groups_of
from holdfast.views.step_pending import as_executed
from holdfast.views.step_reading import named_steps, steps_of
from holdfast.views.steps import Attempt, Execution
from holdfast.web.app import make_app
from holdfast.web.pages.run_rows import Drawing, Line
from holdfast.web.pages.run_timeline import WINDOW
from holdfast.web.site import Settings, Site
from holdfast.workflow import Retry, ask, for_each, step, workflow
from tests.waiting import wait_until
from tests.web import small_flows

TABS = ("timeline", "graph", "state", "evidence", "journal", "forks")


def test_a_run_has_the_same_size_in_the_list_and_on_its_page(
    cp: hf.SyncCheckpointer, client: TestClient
) -> None:
    for number in range(3):
        cp.save("r", {"n": number, "text": "always the same" * 40}, step="s")
    stored = words.size(cp.stats("r").stored_bytes)
    assert f"{stored} stored" in client.get("/runs/r").text
    assert f"<td>{stored}</td>" in client.get("/runs").text


def test_a_run_with_a_damaged_file_has_a_page_and_a_row(tmp_path: Path) -> None:
    with SyncCheckpointer(f"file://{tmp_path}/runs") as cp:
        for number in range(3):
            cp.save("r", {"n": number}, step="s")
        (tmp_path / "runs/r/0000000001.json").write_text("{")
        app = make_app(Site(cp, None, Settings()))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert client.get("/runs/r").status_code == 200
            assert client.get("/runs").status_code == 200


@pytest.mark.parametrize(
    ("column", "value"), [("body", "substr(body, 1, 8) || x'00'"), ("duration", "5e6")]
)
def test_damaged_entries_are_named_above_every_tab_with_what_to_do(
    tmp_path: Path, column: str, value: str
) -> None:
    path = tmp_path / "runs.db"
    with SyncCheckpointer(path) as cp:
        for number in range(5):
            cp.save("r", {"n": number}, step="s")
    with closing(sqlite3.connect(path)) as db, db:
        change = f"UPDATE holdfast_entries SET {column} = {value} WHERE run = 'r' AND seq = 2"
        assert db.execute(change).rowcount == 1
    with SyncCheckpointer(path) as cp:
        app = make_app(Site(cp, None, Settings()))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            for tab in TABS:
                page = client.get(f"/runs/r?tab={tab}").text
                assert "<b>Damaged.</b> r@2: " in page
                assert "holdfast delete r 2 --store=" in page, "nothing needs it"
            cp.delete("r", seq=2)
            cp.save("r", {"n": 5}, step="s")
            assert "<b>Damaged.</b>" not in client.get("/runs/r").text


def test_a_step_whose_stored_bytes_were_changed_is_marked_in_the_timeline(
    cp: SyncCheckpointer, client: TestClient, tmp_path: Path
) -> None:
    for number in range(3):
        cp.save("r", {"n": number}, step=f"step {number}")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = body || x'00' WHERE seq = 2")
    page = client.get("/runs/r").text
    assert re.findall(r'<span class="sr">(\w+) </span></span>', page) == [
        "completed",
        "damaged",
        "completed",
    ]
    assert "Next problem" in page


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_of_a_run_has_an_address(
    cp: SyncCheckpointer, client: TestClient, tab: str
) -> None:
    cp.save("a/b", {"n": 1}, step="fetch")
    answer = client.get(f"/runs/a%2Fb?tab={tab}")
    assert answer.status_code == 200
    assert "<h1>a/b</h1>" in answer.text
    assert f'data-tab="{tab}"' in answer.text


def test_a_run_that_is_not_there_is_said_to_be_missing(client: TestClient) -> None:
    answer = client.get("/runs/nothing")
    assert answer.status_code == 404
    assert "nothing" in answer.text


def rows_of(text: str) -> list[str]:
    """The names of the rows of a timeline."""
    return [html.unescape(name) for name in re.findall(r'<a class="name"[^>]*>([^<]*)</a>', text)]


def test_a_step_is_a_row_with_its_status_and_how_long_it_took(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"n": 1}, step="fetch", duration=1.5)
    cp.save("r", {"n": 2}, step="<b>parse</b>", duration=0.25)
    text = client.get("/runs/r").text
    assert rows_of(text) == ["fetch", "<b>parse</b>"]
    assert "<b>parse" not in text
    assert "1.5 s" in text
    assert '<span class="sr">completed </span>' in text
    assert "style=" not in text


def test_the_drawer_shows_what_changed_and_the_command_for_it(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"order": "open", "password": "hunter2"}, step="fetch")
    cp.save("r", {"order": "paid", "password": "hunter2"}, step="pay")
    part = client.get("/runs/r?tab=timeline&step=pay", headers={"hx-target": "drawer"}).text
    whole = client.get("/runs/r?tab=timeline&step=pay").text
    for text in (part, whole):
        assert "@1 → @2" in text
        assert "~ order" in text
        assert "hunter2" not in text
        assert "holdfast show r --step=pay" in text
    assert part.lstrip().startswith('<aside id="drawer"')
    assert rows_of(part) == []


def test_a_recorded_step_may_be_named_as_what_is_under_way(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"n": 1}, step="under way")
    text = client.get("/runs/r?tab=timeline&step=under%20way").text
    assert "holdfast show r &#39;--step=under way&#39;" in text
    steps = named_steps(cp, of_id(cp, "r"))
    left = as_executed(steps, ORPHANED, {"holder": None})
    assert [one.name for one in left.executions] == ["under way"]


def test_rounds_are_folded_until_somebody_opens_them(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    for n in range(3):
        cp.save("r", {"n": n}, step="train")
    folded = client.get("/runs/r").text
    assert rows_of(folded) == ["train"]
    assert "3 rounds" in folded
    assert 'aria-expanded="false"' in folded
    assert rows_of(client.get("/runs/r?open=train").text) == ["train", "@1", "@2", "@3"]
    assert rows_of(client.get("/runs/r?step=train&at=2").text) == ["train", "@1", "@2", "@3"]


def test_many_steps_come_in_windows_and_are_found_on_the_server(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save_many({"run_id": "r", "state": n, "step": f"step {n:03}"} for n in range(450))
    first = client.get("/runs/r").text
    assert len(rows_of(first)) == WINDOW
    assert "250 more rows" in first
    where = re.search(r'id="more" hx-get="([^"]+)"', first)
    assert where is not None
    second = client.get(html.unescape(where[1])).text
    assert rows_of(second)[0] == "step 200"
    assert "50 more rows" in second
    assert rows_of(client.get("/runs/r?find=STEP 44").text) == [f"step 44{n}" for n in range(10)]
    assert "step 420" in rows_of(client.get("/runs/r?step=step 420").text), "it is in the window"


def test_the_next_problem_leads_from_one_to_the_next(
    cp: SyncCheckpointer, client: TestClient, tmp_path: Path
) -> None:
    for n in range(6):
        cp.save("r", {"n": n}, step=f"s{n}")
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("DELETE FROM holdfast_entries WHERE run = 'r' AND seq IN (2, 4)")
    db.close()
    assert "Next problem" in client.get("/runs/r").text
    first = client.get("/runs/r/problem", follow_redirects=False).headers["location"]
    assert "at=2" in first
    page = client.get(first)
    assert page.status_code == 200
    assert "the entry is missing" in page.text
    second = client.get("/runs/r/problem?step=@2&at=2", follow_redirects=False)
    assert "at=3" in second.headers["location"], "nothing proves it, without the one before"


def test_a_step_that_is_not_there_leaves_the_page_as_it_is(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {}, step="fetch")
    answer = client.get("/runs/r?step=nothing")
    assert answer.status_code == 200
    assert "has no step" in answer.text
    assert rows_of(answer.text) == ["fetch"]


def test_a_large_result_is_cut_shown_on_demand_and_downloaded(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"text": "word " * 2000, "token": "secret"}, step="fetch")
    text = client.get("/runs/r?step=fetch").text
    assert "10.0 KB, show" in text
    whole = client.get("/runs/r/result?step=fetch&at=1").text
    assert whole.count("word") == 2000
    file = client.get("/runs/r/result.json?step=fetch&at=1")
    assert file.headers["content-disposition"].startswith("attachment")
    assert file.json()["text"] == "word " * 2000
    assert "secret" not in whole + file.text
    assert client.get("/runs/r/result?at=77").status_code == 404


def test_the_graph_is_drawn_from_data_and_is_a_table_too(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    for name in ("fetch", "parse", "fetch"):
        cp.save("r", {}, step=name)
    text = client.get("/runs/r?tab=graph").text
    where = re.search(r'data-graph="([^"]+)"', text)
    assert where is not None
    drawn = json.loads(html.unescape(where[1]))
    assert [node["name"] for node in drawn["nodes"]] == ["start", "fetch", "parse"]
    assert "2 rounds" in text


def test_a_graph_of_more_nodes_than_anyone_can_read_is_drawn_if_asked_for(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save_many({"run_id": "r", "state": n, "step": f"s{n}"} for n in range(501))
    assert "data-graph" not in client.get("/runs/r?tab=graph").text
    assert "data-graph" in client.get("/runs/r?tab=graph&all=1").text


async def _sleeping(store: Path) -> None:
    """A worker leaves a run that sleeps."""
    async with hf.Engine(store) as engine:
        await engine.submit(small_flows.sleepy(), run_id="r")
        await engine.work(small_flows.sleepy, until_idle=True)


def test_when_a_run_wakes_is_shown_in_the_zone_of_the_reader(
    client: TestClient, tmp_path: Path
) -> None:
    asyncio.run(_sleeping(tmp_path / "runs.db"))
    wakes = r'<time datetime="[^"]+Z" data-absolute>'
    assert re.search(rf"sleeps until {wakes}", client.get("/runs/r").text)
    assert re.search(rf"until {wakes}", client.get("/runs/r?tab=journal").text)


@step(retry=Retry(attempts=2, backoff=0.001))
async def at_first() -> int:
    if hf.current_step().attempt == 1:
        raise OSError("once")
    return 1


@step
async def in_the_end() -> int:
    raise ValueError("no")


@workflow
async def two_problems() -> int:
    return await at_first() + await in_the_end()


def test_what_failed_in_the_end_is_the_first_problem(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp).run_sync(two_problems(), run_id="r")
    found = client.get("/runs/r/problem", follow_redirects=False).headers["location"]
    assert "step=in_the_end" in found


def test_the_checkpoint_that_is_shown_is_the_one_to_fork(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    cp.save("r", {"n": 1})
    cp.save("r", {"n": 2})
    assert "holdfast fork r --at=1" in html.unescape(client.get("/runs/r?tab=state&at=1").text)
    assert "holdfast fork r --at" not in html.unescape(client.get("/runs/r?tab=graph&at=1").text)


def test_what_was_left_behind_is_neither_the_result_nor_counted_on_the_tabs(
    tmp_path: Path, cp: SyncCheckpointer, client: TestClient
) -> None:
    path = tmp_path / "report.md"

    @step(outputs=str(path))
    def write() -> str:
        path.write_text("2.5 m")
        return path.name

    @workflow
    async def report() -> str:
        written = await write()
        publish = await ask("Publish it?", returns=bool)
        return f"published {written}" if publish else "kept"

    engine = hf.Engine(cp)

    def run() -> str:
        return engine.run_sync(report(), run_id="r", resume=True)

    with pytest.raises(hf.RunPausedError):
        run()
    engine.answer_sync("r", True, by="ann")
    assert run() == "published report.md"
    assert "published report.md" in client.get("/runs/r").text
    path.unlink()
    with pytest.raises(hf.RunPausedError):
        run()
    text = client.get("/runs/r").text
    assert "published report.md" not in text
    assert "1 failed" not in text
    assert "report.md does not exist" in text
    asks = [one for one in steps_of(cp, of_id(cp, "r")).executions if one.kind == "question"]
    assert [(one.status, one.current) for one in asks] == [("answered", False), ("asks", True)]


def test_a_step_that_was_repaired_is_shown_as_it_ended_last(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    broken = [True]

    @step
    def second() -> int:
        if broken:
            raise ConnectionError("no bank")
        return 2

    @workflow
    async def two() -> int:
        return await second()

    engine = hf.Engine(cp)
    with pytest.raises(hf.StepFailedError):
        engine.run_sync(two(), run_id="r")
    broken.clear()
    assert engine.run_sync(two(), run_id="r", resume=True) == 2
    (group,) = groups_of(steps_of(cp, of_id(cp, "r")))
    assert (group.status, len(group.members)) == ("completed", 2)
    text = client.get("/runs/r").text
    assert '<span class="sr">failed </span>' not in text
    assert "2 rounds" in text


def test_commands_name_the_store_also_where_it_is_the_servers_default(
    cp: SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def asking() -> bool:
        return await ask("Publish it?", returns=bool)

    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(asking(), run_id="r")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.setenv("HOLDFAST_STORE", url)
    for where in (None, url):
        client = TestClient(make_app(Site(cp, where, Settings())), base_url="http://127.0.0.1")
        text = client.get("/runs/r").text
        assert f'data-copy="holdfast answer r --store={url}"' in text
        assert ">Copy command</button>" in text
        listed = client.get("/runs").text
        assert f"--store={url}" in listed


@dataclass
class Level:
    place: str
    level: int = 0


def test_the_result_of_a_graph_is_its_final_state(cp: SyncCheckpointer, client: TestClient) -> None:
    flow = (
        Graph(Level)
        .add_node("measure", lambda state: {"level": 4321})
        .add_edge("measure", END)
        .set_entry("measure")
        .compile(name="levels")
    )
    hf.Engine(cp).run_sync(flow(Level("Brest")), run_id="r")
    text = client.get("/runs/r").text
    result = text.partition("Result</h2>")[2]
    assert "4321" in result
    assert "Brest" in result


def test_crashes_are_counted_and_finished_steps_as_in_the_list_of_runs(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    @step
    def load(n: int) -> int:
        return n

    @workflow
    async def loads() -> list[int]:
        return list(await for_each([1, 2, 3], load))

    hf.Engine(cp).run_sync(loads(), run_id="r")
    text = client.get("/runs/r").text
    assert ">3 steps finished, in 1 row</span>" in text
    assert row_of(cp, of_id(cp, "r")).shape.steps == 3
    crash = Attempt("cut off", 1, 2, 7)
    one = Execution("load[0]", "load[0]", "load", "completed", 8, 1, 3, tried=(crash,))
    again = one._replace(key="load[1]", seq=9)
    steps = steps_of(cp, of_id(cp, "r"))._replace(executions=(one, again))
    drawing = Drawing(axis_of(steps, steps.last, orphaned=False), steps, steps.last)
    (group,) = groups_of(steps)
    badges = drawing.row(Line(group), None).badges
    assert [badge.text for badge in badges] == ["2 items", "1 crash"]


def test_items_are_not_completed_before_the_last_of_them_is(
    cp: SyncCheckpointer, client: TestClient
) -> None:
    @step
    async def load(n: int) -> int:
        if n == 3:
            await asyncio.sleep(3600)
        return n

    @workflow
    async def loads() -> list[int]:
        return list(await for_each([1, 2, 3], load))

    def shown_as(status: str) -> bool:
        text = client.get("/runs/r").text
        return "2 of 3" in text and f'<span class="sr">{status} </span></span>' in text

    async def main() -> None:
        engine = hf.Engine(cp)
        run = asyncio.create_task(engine.run(loads(), run_id="r"))
        await asyncio.to_thread(wait_until, lambda: shown_as("running"))
        assert not shown_as("completed")
        run.cancel()
        await asyncio.wait([run])

    asyncio.run(main())
    assert shown_as("cut off")
    assert not shown_as("completed")


@pytest.mark.parametrize(("caught", "status"), [(False, "not started"), (True, "completed")])
def test_items_that_record_nothing_are_to_begin_unless_the_run_went_on_without_them(
    cp: SyncCheckpointer, client: TestClient, caught: bool, status: str
) -> None:
    @step
    def load(n: int) -> int:
        return n

    async def load_first(n: int) -> None:
        if n > 1:
            raise ValueError(n)
        await load(n)

    @workflow
    async def loads() -> None:
        with suppress(ValueError if caught else KeyError):
            await for_each([1, 2, 3], load_first, concurrency=1)

    with suppress(ValueError):
        hf.Engine(cp).run_sync(loads(), run_id="r")
    text = client.get("/runs/r").text
    assert "1 of 3" in text
    assert f'<span class="sr">{status} </span></span>' in text


def test_a_question_that_is_open_again_takes_as_long_as_all_its_rounds_so_far(
    cp: SyncCheckpointer,
) -> None:
    cp.save("r", {}, step="fetch")
    second = 1_000_000
    one = Execution(
        "publish", "publish", "publish", "answered", 3, second, 61 * second, 60.0,
        current=False, kind="question",
    )  # fmt: skip
    again = one._replace(
        status="asks", seq=5, start=100 * second, end=None, took=None, current=True
    )
    steps = steps_of(cp, of_id(cp, "r"))._replace(executions=(one, again))
    drawing = Drawing(axis_of(steps, steps.last, orphaned=False), steps, 400 * second)
    (group,) = groups_of(steps)
    assert drawing.row(Line(group), None).took == "6 m 0 s"
    item = again._replace(key="load[1]", name="load[1]", group="load", status="running")
    steps = steps._replace(executions=(item._replace(key="load[0]", start=10 * second), item))
    (group,) = groups_of(steps)
    assert drawing.row(Line(group), None).took == "6 m 30 s"
