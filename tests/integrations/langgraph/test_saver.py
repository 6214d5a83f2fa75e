"""What the saver promises beyond LangGraph's own tests."""

from __future__ import annotations

import asyncio
import enum
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver, layout, plain
from holdfast.stores.memory import MemoryStore
from tests.integrations.langgraph import agents
from tests.integrations.langgraph.calls import checkpoint, got, put, thread, values_of

STRANGE = [
    "a/b",
    "a//b",
    "a|b",
    "100%",
    "",
    " ",
    "ünïcödé ☃",
    "a\x00b",
    "\ud800",
    "x" * 3000,
    "ü" * 300,
]


def test_threads_with_strange_ids_are_kept_apart() -> None:
    saver = HoldfastSaver("memory://")
    places = [(name, ns) for name in STRANGE for ns in ("", "sub:1|sub:2", "n" * 600, "//%|")]
    for number, (name, ns) in enumerate(places):
        put(saver, thread(name, ns), number, number=number)
    for number, (name, ns) in enumerate(places):
        assert values_of(saver.get_tuple(thread(name, ns))) == {"number": number}
    everything = list(saver.list(None))
    found = {(t.config["configurable"]["thread_id"], t.config["configurable"]["checkpoint_ns"])
             for t in everything}  # fmt: skip
    assert found == set(places)
    saver.delete_thread("a")
    assert len(list(saver.list(None))) == len(places)
    saver.delete_thread("a|b")
    assert len(list(saver.list(None))) == len(places) - 4


@pytest.mark.parametrize("name", STRANGE)
def test_an_agent_with_a_subgraph_works_in_a_thread_with_a_strange_id(
    name: str, tmp_path: Path
) -> None:
    with HoldfastSaver(tmp_path / "agents.db") as saver:
        graph = agents.nested(saver)
        graph.invoke({"log": ["start"]}, thread(name))
        done = graph.invoke(Command(resume="yes"), thread(name))
        assert done["log"][-1] == "after"
        assert len(list(graph.get_state_history(thread(name)))) == 5


def test_a_second_process_sees_what_the_first_one_saved_and_continues(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with HoldfastSaver(url) as first, HoldfastSaver(url) as second:
        agents.approval(first).invoke({"log": ["start"]}, thread())
        waiting = agents.approval(second).get_state(thread())
        assert waiting.next == ("ask",)
        done = agents.approval(second).invoke(Command(resume="yes"), thread())
        assert agents.approval(first).get_state(thread()).values == done


class CountingStore(MemoryStore):
    """Counts the entries that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.entries_read = 0

    def read(self, run: str, **which: Any) -> list[Any]:
        found = super().read(run, **which)
        self.entries_read += len(found)
        return found


def test_the_newest_checkpoint_of_a_long_thread_is_found_without_reading_the_thread() -> None:
    store = CountingStore()
    saver = HoldfastSaver(store)
    config = thread()
    for number in range(500):
        config = put(saver, config, number, text="x" * number)
        saver.put_writes(config, [("text", "more")], f"task-{number}")
    cold = HoldfastSaver(store)
    store.entries_read = 0
    newest = got(cold.get_tuple(thread()))
    assert newest.metadata["step"] == 499
    assert newest.pending_writes == [("task-499", "text", "more")]
    assert store.entries_read < 20


def test_a_look_up_by_id_reads_only_what_is_new_since_the_last_one() -> None:
    store = CountingStore()
    saver = HoldfastSaver(store)
    config = thread()
    for number in range(300):
        config = put(saver, config, number, number=number)
    cold = HoldfastSaver(store)
    old = thread(at=checkpoint(7)["id"])
    assert values_of(cold.get_tuple(old)) == {"number": 7}
    put(saver, config, 300, number=300)
    store.entries_read = 0
    assert values_of(cold.get_tuple(old)) == {"number": 7}
    assert values_of(cold.get_tuple(thread(at=checkpoint(300)["id"]))) == {"number": 300}
    assert store.entries_read < 20


def test_a_cold_start_behind_writes_stores_a_change_and_not_the_whole_state(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    messages = [HumanMessage(f"message {n}", id=f"m-{n}") for n in range(200)]
    config = thread()
    for number in range(10):
        with HoldfastSaver(url) as saver:
            newest = saver.get_tuple(thread())
            assert number == 0 or len(values_of(newest)["messages"]) == 200 + number - 1
            messages.append(HumanMessage("one more", id=f"more-{number}"))
            config = put(saver, config, number, messages=messages[: 200 + number])
            saver.put_writes(config, [("messages", messages[-1])], "task")
    with hf.SyncCheckpointer(url) as cp:
        stats = cp.stats("t")
    assert stats.state_bytes > 300_000
    assert stats.stored_bytes < 60_000


def test_writes_that_arrive_before_their_checkpoint_are_found_with_it(tmp_path: Path) -> None:
    """With durability="async", LangGraph submits both and waits for neither."""
    url = f"sqlite:///{tmp_path}/agents.db"
    with HoldfastSaver(url) as saver:
        first = put(saver, thread(), 0, number=0)
        second = checkpoint(1, number=1)
        early = thread(at=second["id"])
        saver.put_writes(early, [("number", 2)], "task-a")
        saver.put_writes(first, [("number", 1)], "task-z")
        saver.put_writes(early, [("number", 3)], "task-b")
        saver.put(first, second, {"source": "loop", "step": 1}, {})
        saver.put_writes(early, [("number", 4)], "task-c")
        expected = [("task-a", "number", 2), ("task-b", "number", 3), ("task-c", "number", 4)]
        assert got(saver.get_tuple(thread())).pending_writes == expected
    with HoldfastSaver(url) as cold:
        assert got(cold.get_tuple(thread())).pending_writes == expected
        assert got(cold.get_tuple(early)).pending_writes == expected
        cold.copy_thread("t", "copy")
    with HoldfastSaver(url) as cold:
        assert got(cold.get_tuple(thread("copy"))).pending_writes == expected


def test_agents_that_do_not_wait_for_their_saves_lose_none_of_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"

    async def talk() -> None:
        async with HoldfastSaver(url) as saver:
            graph = agents.chat(saver)
            turns = [graph.ainvoke(agents.said("Brest", 0), thread(f"t-{n}")) for n in range(8)]
            await asyncio.gather(*turns)

    asyncio.run(talk())
    with HoldfastSaver(url) as cold:
        for number in range(8):
            found = list(cold.list(thread(f"t-{number}")))
            assert [each.metadata["step"] for each in found] == [3, 2, 1, 0, -1]
            assert all(each.pending_writes for each in found[1:])


def test_after_a_rollback_the_newest_checkpoint_is_the_one_gone_back_to(tmp_path: Path) -> None:
    cp = hf.SyncCheckpointer(f"sqlite:///{tmp_path}/agents.db")
    saver = HoldfastSaver(cp)
    graph = agents.chat(saver)
    graph.invoke(agents.said("Brest", 0), thread())
    before = graph.get_state(thread())
    graph.invoke(agents.said("Lyon", 1), thread())
    after = graph.get_state(thread())
    [place] = [
        info.seq
        for info in cp.list_checkpoints("t")
        if layout.note_of(info.entry)[0] == before.config["configurable"]["checkpoint_id"]  # type: ignore[index]
        and info.entry.kind == "checkpoint"
    ]
    cp.rollback("t", seq=place)
    for reader in (graph, agents.chat(HoldfastSaver(cp))):
        assert reader.get_state(thread()) == before
        assert next(reader.get_state_history(thread())) == before
        assert reader.get_state(after.config).values == after.values  # still there, by its id
    done = graph.invoke(agents.said("Nice", 2), thread())
    assert [m.content for m in done["messages"] if m.type == "human"] == ["Brest", "Nice"]
    assert cp.verify("t").ok
    cp.close()


def test_a_fork_is_a_thread_of_its_own(tmp_path: Path) -> None:
    cp = hf.SyncCheckpointer(f"sqlite:///{tmp_path}/agents.db")
    graph = agents.chat(HoldfastSaver(cp))
    graph.invoke(agents.said("Brest", 0), thread())
    cp.fork("t", run_id="fork")
    done = graph.invoke(agents.said("Lyon", 1), thread("fork"))
    assert [m.content for m in done["messages"] if m.type == "human"] == ["Brest", "Lyon"]
    assert len(graph.get_state(thread()).values["messages"]) == 4
    cp.close()


def test_a_second_writer_is_refused_if_the_saver_is_exclusive(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with HoldfastSaver(url, exclusive=True) as one, HoldfastSaver(url, exclusive=True) as two:
        assert one.get_tuple(thread()) is None
        assert two.get_tuple(thread()) is None
        first = put(one, thread(), 0, number=0)
        with pytest.raises(hf.SecondWriterError, match="another process saved to 't'"):
            put(two, thread(), 1, number=1)
        with pytest.raises(hf.SecondWriterError):
            two.put_writes(first, [("number", 1)], "task")
        one.put_writes(first, [("number", 1)], "task")
        assert got(two.get_tuple(thread())).pending_writes == [("task", "number", 1)]
        put(two, first, 1, number=1)
        with pytest.raises(hf.SecondWriterError):
            put(one, first, 2, number=2)
        assert values_of(one.get_tuple(thread())) == {"number": 1}


def test_an_agent_alone_in_its_thread_does_not_notice_that_its_saver_is_exclusive(
    tmp_path: Path,
) -> None:
    with HoldfastSaver(f"sqlite:///{tmp_path}/agents.db", exclusive=True) as saver:
        graph = agents.fan_out(saver)
        graph.invoke({"log": []}, thread(), durability="async")
        assert graph.invoke({"log": []}, thread(), durability="sync")["log"]
        nested = agents.nested(saver)
        nested.invoke({"log": []}, thread("n"))
        assert nested.invoke(Command(resume="yes"), thread("n"))["log"][-1] == "after"


class Colour(enum.Enum):
    RED = "red"


class Order(BaseModel):
    item: str


@dataclass
class Basket:
    orders: list[Order]
    colour: Colour


def test_types_of_ones_own_come_back_if_they_are_allowed(tmp_path: Path) -> None:
    basket = Basket([Order(item="tea")], Colour.RED)
    with HoldfastSaver(tmp_path / "a.db", allow=[Basket, Order, Colour]) as saver:
        put(saver, thread(), 0, basket=basket, pair=(1, {2, 3}))
        assert values_of(saver.get_tuple(thread()))["basket"] == basket


@pytest.mark.parametrize(
    "value", [Order(item="tea"), [{"deep": Colour.RED}], Basket([], Colour.RED)]
)
def test_a_type_that_is_not_allowed_is_refused_before_it_is_saved(value: Any) -> None:
    saver = HoldfastSaver("memory://")
    with pytest.raises(hf.SerializeError, match=r"allow it: HoldfastSaver\(\.\.\., allow=\["):
        put(saver, thread(), 0, value=value)
    assert saver.get_tuple(thread()) is None


def test_a_graph_may_allow_types_for_itself_alone() -> None:
    saver = HoldfastSaver("memory://")
    wider = saver.with_allowlist([(Order.__module__, "Order")])
    assert isinstance(wider, HoldfastSaver)
    put(wider, thread(), 0, order=Order(item="tea"))
    assert values_of(wider.get_tuple(thread())) == {"order": Order(item="tea")}
    with pytest.raises(hf.CheckpointLoadError, match=r"allow=\[Order\]"):
        saver.get_tuple(thread())
    with pytest.raises(hf.SerializeError):
        put(saver, thread(), 1, order=Order(item="tea"))


class Trap:
    """Unpickling it says so."""

    sprung: ClassVar[list[str]] = []

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return self.sprung.append, ("it ran",)


def test_a_pickle_in_the_store_is_never_loaded() -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, value="fine")
    found = cp.load("t")
    assert found is not None
    trap = pickle.dumps(Trap())
    for kind in ("pickle", "pickle+aes"):
        state = {**found.state, "channel_values": {"value": [kind, trap]}}
        cp.fork("t", run_id=f"evil-{kind}", state=state)
        with pytest.raises(hf.CheckpointLoadError, match="a pickle, which is never loaded"):
            saver.get_tuple(thread(f"evil-{kind}"))
    assert Trap.sprung == []


@pytest.mark.parametrize("value", [["unknown", b""], ["msgpack", b"\xc1"], ["json", b"{"]])
def test_a_value_that_the_serializer_can_not_read_is_an_error_that_names_the_run(
    value: list[Any],
) -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, value="fine")
    found = cp.load("t")
    assert found is not None
    cp.fork("t", run_id="evil", state={**found.state, "channel_values": {"value": value}})
    with pytest.raises(hf.CheckpointLoadError, match=r"'evil'.*the serializer can't read"):
        saver.get_tuple(thread("evil"))


def test_stored_bytes_that_name_a_function_do_not_call_it() -> None:
    import ormsgpack

    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, value="fine")
    found = cp.load("t")
    assert found is not None
    inner = ormsgpack.packb(["os", "getcwd", []])
    hostile = ormsgpack.packb(ormsgpack.Ext(1, inner))
    state = {**found.state, "channel_values": {"value": ["msgpack", hostile]}}
    cp.fork("t", run_id="evil", state=state)
    with pytest.raises(
        hf.CheckpointLoadError, match=r"of the type os\.getcwd, which is not allowed"
    ):
        saver.get_tuple(thread("evil"))


def test_a_state_that_is_not_langgraphs_is_damage_and_not_an_empty_thread() -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, value="fine")
    cp.fork("t", run_id="odd", state={"channel_values": {"value": "plain"}})
    with pytest.raises(hf.CheckpointCorruptedError):
        saver.get_tuple(thread("odd"))
    cp.save("mine", {"x": 1})
    with pytest.raises(hf.RunMismatchError):
        put(saver, thread("mine"), 0, value=1)


@pytest.mark.parametrize("seq", [1, 4])
def test_all_other_checkpoints_are_listed_before_a_damaged_one_is_raised(
    seq: int, tmp_path: Path
) -> None:
    with HoldfastSaver(tmp_path / "agents.db") as saver:
        for number in range(4):
            put(saver, thread(), number, value=f"{number}" * 100)
    with closing(sqlite3.connect(tmp_path / "agents.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET body = x'00' WHERE run = 't' AND seq = ?", (seq,))
    with HoldfastSaver(tmp_path / "agents.db") as saver:
        found = []
        with pytest.raises(hf.CheckpointCorruptedError, match=f"t@{seq}"):
            for one in saver.list(thread()):
                found.append(one.metadata["step"])
    readable = {1: [3, 2, 1], 4: [2, 1, 0]}
    assert found == readable[seq]


def test_a_list_without_a_checkpoint_whose_metadata_were_changed_raises_at_its_end(
    tmp_path: Path,
) -> None:
    with HoldfastSaver(tmp_path / "agents.db") as saver:
        for number in range(4):
            put(saver, thread(), number, value=number)
    with closing(sqlite3.connect(tmp_path / "agents.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET meta = replace(meta, 'lg', 'lq') WHERE seq = 2")
    with HoldfastSaver(tmp_path / "agents.db") as saver:
        listed = saver.list(thread())
        assert [next(listed).metadata["step"] for _ in range(3)] == [3, 2, 0]
        with pytest.raises(hf.CheckpointCorruptedError, match="t@2"):
            next(listed)


def test_all_other_threads_are_listed_before_one_with_a_foreign_state_is_raised() -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    put(saver, thread(), 0, value="fine")
    cp.fork("t", run_id="odd", state={"channel_values": {"value": "plain"}})
    put(saver, thread("z"), 0, value="fine, too")
    listed = saver.list(None)
    assert {next(listed).config["configurable"]["thread_id"] for _ in "tz"} == {"t", "z"}
    with pytest.raises(hf.CheckpointCorruptedError, match="odd"):
        next(listed)


@pytest.mark.parametrize(
    "serde",
    [
        JsonPlusSerializer(pickle_fallback=True),
        pickle,
        EncryptedSerializer(None, JsonPlusSerializer(pickle_fallback=True)),  # type: ignore[arg-type]
    ],
)
def test_a_serializer_that_uses_pickle_is_refused(serde: Any) -> None:
    with pytest.raises(ValueError, match="holdfast stores no pickles"):
        HoldfastSaver("memory://", serde=serde)


def test_a_thread_can_be_shown_without_langgraph(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with HoldfastSaver(url) as saver:
        agents.chat(saver).invoke(agents.said("Brest", 0), thread())
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['langgraph', 'langchain_core']))\n"
        "import holdfast as hf\n"
        "from holdfast.integrations.langgraph import plain\n"
        f"state = hf.SyncCheckpointer({url!r}).load('t').state\n"
        "found = plain.messages(plain.channel_values(state)['messages'])\n"
        "print([(m['type'], m['content']) for m in found])\n"
        "try:\n    from holdfast.integrations.langgraph import HoldfastSaver\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, missing = done.stdout.splitlines()
    assert told == (
        "[('human', 'Brest'), ('ai', ''), ('tool', 'sunny in Brest'), ('ai', 'It is sunny in Brest.')]"
    )
    assert "[langgraph]'" in missing


def test_pruning_a_thread_keeps_what_its_delta_channels_are_rebuilt_from(tmp_path: Path) -> None:
    with HoldfastSaver(tmp_path / "a.db") as saver:
        graph = agents.deltas(saver)
        for turn in range(5):
            graph.invoke({"log": [f"turn {turn}"], "turn": turn}, thread())
        before = graph.get_state(thread())
        count = len(list(saver.list(thread())))
        saver.prune(["t"])
        assert graph.get_state(thread()) == before
        assert 1 < len(list(saver.list(thread()))) < count
        assert len(before.values["log"]) == 15
        graph.invoke({"log": ["turn 5"], "turn": 5}, thread())
        assert len(graph.get_state(thread()).values["log"]) == 18


def test_deleting_a_thread_deletes_its_subgraphs_and_no_other_thread(tmp_path: Path) -> None:
    with HoldfastSaver(tmp_path / "a.db") as saver:
        graph = agents.nested(saver)
        for name in ("t", "t2"):
            graph.invoke({"log": []}, thread(name))
        saver.delete_thread("t")
        left = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
        assert left == {"t2"}
        assert graph.invoke({"log": []}, thread())["log"] == ["before"]


def test_a_closed_saver_says_so(tmp_path: Path) -> None:
    saver = HoldfastSaver(tmp_path / "a.db")
    saver.close()
    with pytest.raises(hf.StoreClosedError):
        saver.get_tuple(thread())


def test_a_checkpointer_that_was_given_stays_open(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "a.db") as cp:
        with HoldfastSaver(cp) as saver:
            put(saver, thread(), 0, number=1)
        assert cp.run("t") is not None


class State(BaseModel):
    text: str = ""


def test_a_graph_with_a_pydantic_state_works(tmp_path: Path) -> None:
    builder = StateGraph(State)
    builder.add_node("shout", lambda state: {"text": state.text.upper()})
    builder.add_edge(START, "shout")
    with HoldfastSaver(tmp_path / "a.db", allow=[State]) as saver:
        graph = builder.compile(checkpointer=saver)
        assert graph.invoke(State(text="hello"), thread()) == {"text": "HELLO"}


def test_plain_data_shows_what_it_can() -> None:
    assert plain.plain(("msgpack+aes", b"1234")) == "<msgpack+aes, 4 bytes>"
    assert plain.plain(("msgpack", b"\xc1")) == "<damaged msgpack, 1 bytes>"
    assert plain.plain(("null", b"")) is None
