"""LangGraph's threads, as `show`, `diff`, `fork` and `verify` display them."""

from __future__ import annotations

import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Command, Interrupt

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.integrations.langgraph import HoldfastSaver, layout
from holdfast.integrations.langgraph.plain import plain
from holdfast.operations import deleting
from tests.cli.conftest import Cli, Earlier
from tests.cli.langgraph_databases import config, fill, graph, history
from tests.integrations.langgraph import agents

STORE = ".holdfast/holdfast.db"


@pytest.fixture
def app(cli: Cli) -> Iterator[Any]:
    with HoldfastSaver() as saver:
        app = graph(saver)
        fill(app)
        yield app


@pytest.mark.usefixtures("app")
def test_a_thread_is_shown_as_its_messages_and_what_it_waits_for(cli: Cli) -> None:
    out = cli("show", "waiting").out
    shown = out.partition("state at waiting@")[2].splitlines()[1:]
    assert shown == [
        "messages (2)",
        "  human: A ferry, please.",
        "  ai: Let me see.",
        r"    \x1b[31mRed.",
        '    calls find_ferry(to="Brest")',
        'log ["model", "leg 0", "leg 1", "leg 2"]',
        'waits for an answer to: {"question": "Book it?"}',
    ]
    assert "writes of model" in out
    assert "loop 1" in out
    found = cli("show", "waiting", "--json").json
    assert [one["content"][:5] for one in found["state"]["messages"]] == ["A fer", "Let m"]
    assert found["interrupts"] == [{"question": "Book it?"}]


def test_interrupts_are_found_wherever_they_were_written(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/many.db"
    with HoldfastSaver(url) as saver:
        for thread, count in (("early", 0), ("late", 250)):
            where: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            start = saver.put(where, empty_checkpoint(), {"source": "input", "step": -1}, {})
            newest = empty_checkpoint()
            known: Any = {"configurable": {**where["configurable"], "checkpoint_id": newest["id"]}}
            if thread == "late":
                saver.put(start, newest, {"source": "loop", "step": 0}, {})
            for number in range(count):
                saver.put_writes(known, [("log", number)], f"task-{number}")
            saver.put_writes(known, [("__interrupt__", (Interrupt("Book it?", id="1"),))], "asks")
            if thread == "early":
                saver.put(start, newest, {"source": "loop", "step": 0}, {})
    for thread in ("early", "late"):
        assert cli("show", thread, "--json", "--store", url).json["interrupts"] == ["Book it?"]


@pytest.mark.usefixtures("app")
def test_pruning_a_thread_is_left_to_its_saver(cli: Cli) -> None:
    before = cli("show", "done", "--json").json["timeline"]
    pruned = cli("prune", "done", "--keep-latest", "1", "--yes")
    assert pruned.code == 0
    assert "done is not changed: it is a thread of LangGraph's; prune it with" in pruned.out
    assert cli("show", "done", "--json").json["timeline"] == before


@pytest.mark.usefixtures("app")
def test_a_diff_says_which_messages_were_added(cli: Cli) -> None:
    moments = cli("show", "waiting", "--json").json["timeline"]
    first, last = (
        next(str(m["seq"]) for m in moments if m["step"] == step) for step in ("loop 0", "loop 2")
    )
    lines = cli("diff", "waiting", first, last).out.splitlines()
    assert r"+ messages[1] ai: Let me see.\n\x1b[31mRed. calls find_ferry" in "\n".join(lines)
    assert all(line[:1] in "+-~" for line in lines[1:])
    assert cli("diff", "waiting", last, last).out.endswith("no difference\n")
    written = next(str(m["seq"]) for m in moments if m["step"] == "writes of model")
    for refused in (
        cli("diff", "waiting", first, written),
        cli("show", "waiting", "--at", written),
    ):
        assert "is no checkpoint" in refused.err


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("given", [("waiting",), ("--thread", "waiting")])
def test_a_forgotten_thread_leaves_nothing_of_its_subgraphs(
    given: tuple[str, ...], cli: Cli
) -> None:
    with hf.SyncCheckpointer() as cp:
        cp.save("waiting|mine", "a run of somebody else")
        cp.fork("done", run_id="waiting|fork")
    assert "2 runs deleted" in cli("forget", *given, "--yes").out
    with hf.SyncCheckpointer() as cp:
        left = {run.run_id for run in cp.runs()}
    assert {run for run in left if run.startswith("waiting")} == {"waiting|mine", "waiting|fork"}
    assert "done" in left
    assert b"leg 2" not in b"".join(
        row[0] for row in bodies("SELECT body FROM holdfast_entries WHERE run LIKE 'waiting%'")
    )


def bodies(query: str) -> list[tuple[bytes]]:
    with closing(sqlite3.connect(STORE)) as db:
        return db.execute(query).fetchall()


def test_what_is_left_of_a_threads_subgraphs_can_still_be_forgotten(cli: Cli, app: Any) -> None:
    with hf.SyncCheckpointer() as cp:
        space = next(run for run in cp.runs() if run.run_id.startswith("waiting|"))
        assert [run.run_id for run in cp.children("waiting")] == [space.run_id]
        deleting.clear_if(cp.core, "waiting", lambda _: True)
    assert "1 run deleted" in cli("forget", "waiting", "--yes").out
    nothing = cli("forget", "--thread", "waiting", "--yes")
    assert "0 runs deleted" in nothing.out
    assert "there is no run of the thread 'waiting'" in nothing.out


def test_a_run_that_is_no_thread_of_langgraphs_is_not_forgotten_as_one(cli: Cli) -> None:
    with hf.SyncCheckpointer() as cp:
        cp.save("mine", 1)
    assert "0 runs deleted" in cli("forget", "--thread", "mine", "--yes").out
    assert cli("runs", "--json").json["run_id"] == "mine"


def test_a_rollback_says_how_to_put_back_subgraphs_with_a_memory(cli: Cli) -> None:
    with HoldfastSaver() as saver:
        app = agents.remembering(saver)
        for call in (1, 2, 3):
            assert app.invoke({"topic": "x"}, config("r"))["log"][-1] == f"call {call}"
        with hf.SyncCheckpointer() as cp:
            found = cp.list_checkpoints("r", oldest_first=True)
        ends = [one.seq for one in found if one.type == "loop" and one.metadata["step"] % 3 == 1]
        assert cli("rollback", "r", str(ends[-1])).out.count("\n") == 1, "nothing is ahead"
        _, advice, command = cli("rollback", "r", str(ends[0])).out.splitlines()
        assert "still at what they saved later" in advice
        _, *given = shlex.split(command)
        assert given[:2] == ["rollback", "r|call"]
        assert cli(*given).code == 0
        assert app.invoke({"topic": "x"}, config("r"))["log"][-1] == "call 2"
        _, _, command = cli("rollback", "r", str(found[0].seq)).out.splitlines()
        _, *given = shlex.split(command)
        assert given == ["forget", "r|call"]
        assert cli(*given, "--yes").code == 0
        assert app.invoke({"topic": "x"}, config("r"))["log"][-1] == "call 1"


def test_a_rollback_names_the_subgraphs_of_the_tasks_that_are_executed_again(
    cli: Cli, app: Any
) -> None:
    waiting = app.get_state(config("waiting")).config["configurable"]["checkpoint_id"]
    app.invoke(Command(resume="yes"), config("waiting"))
    app.invoke({"messages": []}, config("waiting"))
    with hf.SyncCheckpointer() as cp:
        notes = [
            (entry.seq, layout.note_of(entry)) for entry in cp.core.journals.entries("waiting")
        ]
    (at,) = [
        seq for seq, note in notes if isinstance(note, layout.CheckpointNote) and note.id == waiting
    ]
    (one,) = cli("rollback", "waiting", str(at), "--json").json["ahead"]
    assert one["run_id"].startswith("waiting|confirm:")


def test_a_fork_of_a_thread_is_a_thread_that_continues(cli: Cli, app: Any) -> None:
    assert cli("fork", "waiting", "--run-id", "what-if").code == 0
    assert app.invoke(Command(resume="no"), config("what-if"))["log"][-1] == "asked"
    assert app.get_state(config("waiting")).next == ("confirm",), "the origin waits as before"
    earlier = history(app, "done")[-2][0]
    moments = cli("show", "done", "--json").json["timeline"]
    seq = next(str(m["seq"]) for m in moments if m["step"] == "loop 0")
    assert cli("fork", "done", "--at", seq, "--run-id", "again").code == 0
    assert app.get_state(config("again")).values == earlier.values
    assert app.invoke(None, config("again"))["log"] == ["model", "leg 0", "leg 1", "leg 2"]
    assert "update_state" in cli("fork", "done", "--set", "log=[]").err
    assert "exists" in cli("fork", "done", "--run-id", "again").err


def test_old_threads_are_deleted_but_not_those_that_wait(cli: Cli) -> None:
    with hf.SyncCheckpointer(clock=Earlier()) as cp, HoldfastSaver(cp) as saver:
        app = graph(saver)
        fill(app)
        app.invoke(None, config("done"))
        app.invoke(Command(resume="yes"), config("done"))
        kept = "waiting is not changed: it waits for an answer"
        assert kept in cli("prune", "--runs-older-than", "30d", "--dry-run").out
        assert kept in cli("prune", "--runs-older-than", "30d", "--yes").out
        left = cli("runs", "--json").lines
        assert {run["run_id"].partition("|")[0] for run in left} == {"waiting"}
        assert app.invoke(Command(resume="no"), config("waiting"))["log"][-1] == "asked"


def test_a_subgraph_is_not_deleted_before_its_thread(cli: Cli) -> None:
    with hf.SyncCheckpointer(clock=Earlier()) as cp, HoldfastSaver(cp) as saver:
        fill(graph(saver))
    with HoldfastSaver() as saver:
        app = graph(saver)
        app.invoke(None, config("done"))
        before = history(app, "done")
        assert cli("prune", "--runs-older-than", "30d", "--yes").code == 0
        assert history(app, "done") == before


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(
    "given",
    [("resume",), ("questions",), ("answer", "--with", "yes"), ("cancel",)],
    ids=lambda given: given[0],
)
def test_a_thread_is_continued_by_its_graph_and_commands_say_so(
    cli: Cli, given: tuple[str, ...]
) -> None:
    refused = cli(given[0], "waiting", *given[1:])
    assert refused.code == Exit.REFUSED
    assert "waiting is a thread of LangGraph's" in refused.err
    assert "Command(resume=...)" in refused.err


@pytest.mark.usefixtures("app")
def test_messages_of_a_thread_that_had_none_are_shown_one_by_one(cli: Cli) -> None:
    moments = cli("show", "waiting", "--json").json["timeline"]
    seqs = {moment["step"]: str(moment["seq"]) for moment in moments}
    lines = cli("diff", "waiting", seqs["input -1"], seqs["loop 1"]).out.splitlines()
    assert "+ messages[0] human: A ferry, please." in lines
    assert r"+ messages[1] ai: Let me see.\n\x1b[31mRed. calls find_ferry" in "\n".join(lines)


@pytest.mark.usefixtures("app")
def test_notebooks_show_the_channels_of_a_checkpoint() -> None:
    with hf.SyncCheckpointer(STORE) as cp:
        checkpoints = [cp.load(checkpoint_id=f"waiting@{seq}") for seq in range(1, 11)]
    shown = [found._repr_html_() for found in checkpoints if found is not None]
    assert len(shown) == 10, "what tasks wrote, too"
    assert any("A ferry, please." in page and "leg 2" in page for page in shown)


@pytest.mark.usefixtures("app")
def test_the_beginning_of_its_id_names_a_thread_and_not_its_subgraphs(cli: Cli) -> None:
    assert cli("show", "wait", "--json").json["run"]["run_id"] == "waiting"


def test_a_thread_is_copied_and_exported_with_its_subgraphs(cli: Cli, app: Any) -> None:
    assert cli("copy", "copy.db", "--run", "waiting").code == 0
    assert cli("export", "waiting", "--to", "waiting.jsonl").code == 0
    assert cli("import", "waiting.jsonl", "--store", "again.db").code == 0
    for store in ("copy.db", "again.db"):
        with HoldfastSaver(store) as saver:
            copied = graph(saver)
            assert history(copied, "waiting") == history(app, "waiting")
            assert copied.get_state(config("done")).values == {}
            assert copied.invoke(Command(resume="no"), config("waiting"))["log"][-1] == "asked"


@pytest.mark.usefixtures("app")
def test_threads_verify_and_are_listed_once(cli: Cli) -> None:
    assert cli("verify").code == 0
    listed = cli("runs").out
    assert "done" in listed
    assert "waiting" in listed


def _object(code: int, *parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(parts))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (_object(5, "app.models", "Order", {"number": 7}), {"app.models.Order": {"number": 7}}),
        (_object(0, "os", "system", "true"), {"os.system": "true"}),
        (_object(0, "pydantic", "SecretStr", "hunter2"), "**********"),
        (_object(0, "uuid", "UUID", "0" * 32), "00000000-0000-0000-0000-000000000000"),
        (_object(3, "datetime", "datetime", "2026-11-17T10:00:00", "x"), "2026-11-17T10:00:00"),
        (_object(6, "<f8", [2, 3], "C", b"x" * 48), "<array of <f8, shape [2, 3]>"),
        (ormsgpack.Ext(5, b"\xc1"), "<damaged object, 1 bytes>"),
        (ormsgpack.Ext(77, b"\xc0"), "<unknown object, 1 bytes>"),
    ],
)
def test_objects_are_shown_by_the_name_of_their_class_and_nothing_is_imported(
    value: ormsgpack.Ext, shown: Any
) -> None:
    before = set(sys.modules)
    assert plain(("msgpack", ormsgpack.packb([value]))) == [shown]
    assert set(sys.modules) == before


def test_values_that_are_no_data_are_described_and_deep_ones_cut() -> None:
    assert plain(("pickle", b"cos\nsystem\n.")) == "<pickle, 12 bytes>"
    assert plain(("msgpack", b"\xc1")) == "<damaged msgpack, 1 bytes>"
    deep = ormsgpack.packb("bottom")
    for _ in range(5000):
        deep = ormsgpack.packb(ormsgpack.Ext(7, deep))
    assert plain(("msgpack", deep)) == "<nested too deeply>"
