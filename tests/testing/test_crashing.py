"""`crash_at_every_step`: correct flows pass, and each kind of wrong one is caught and explained."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.testing import CrashTestError, crash_at_every_step, crashing
from holdfast.testing._victims import read_notes
from holdfast.workflow import ask, for_each, step, workflow
from tests.effort import EFFORT

SEEN: list[str] = []
FEW = 200 if EFFORT > 1 else 6
"""Points to try where any of them tells; that all are tried is seen of correct flows."""


@step
def double(n: int) -> int:
    return 2 * n


@workflow
async def in_async(n: int) -> int:
    return await double(await double(n))


@workflow
def in_plain(n: int) -> int:
    return double(double(n).result()).result()


@workflow
def in_generator(n: int) -> Generator[Any, Any, int]:
    found: int = yield double(n)
    return found


@dataclass
class Chat:
    messages: list[str] = field(default_factory=list)


def speak(chat: Chat) -> Chat:
    chat.messages.append(f"thought {len(chat.messages)}")
    return chat


graph = (
    Graph(Chat, name="chat")
    .add_node("speak", speak)
    .add_conditional_edge(
        "speak", lambda chat: "speak" if len(chat.messages) < 2 else END, ["speak", END]
    )
    .set_entry("speak")
    .compile()
)
pipeline = Pipeline(
    steps=[
        {"id": "draft", "function": lambda data: {"text": data["topic"]}},
        {"id": "print", "function": lambda data: data},
    ],
    flow={
        "start_at": "draft",
        "paths": [{"from": "draft", "to": "print"}, {"from": "print", "to": "end"}],
    },
)


CORRECT: dict[str, tuple[Callable[[], hf.Call[Any]], set[str]]] = {
    "plain": (lambda: in_plain(3), {"double", "double#2"}),
    "graph": (lambda: graph(Chat()), {"speak", "speak#2"}),
    "async": (lambda: in_async(3), {"double", "double#2"}),
    "generator": (lambda: in_generator(3), {"double"}),
    "pipeline": (lambda: pipeline({"topic": "kelp"}), {"draft", "print"}),
}


@pytest.mark.parametrize("kind", CORRECT if EFFORT > 1 else ["plain", "graph"])
def test_a_correct_flow_is_killed_around_every_step_and_has_the_same_outcome(kind: str) -> None:
    make, steps = CORRECT[kind]
    report = crash_at_every_step(make())
    assert report.ok
    assert report.repeated == dict.fromkeys(steps, 1), "each was in flight once, and only then"
    killed = [crash.where for crash in report.crashes]
    for name in steps:
        assert f"before {name!r}" in killed
        assert f"after {name!r}, before it was recorded" in killed
        assert f"when {name!r} was recorded" in killed
    assert "with the same outcome" in str(report)


def test_parallel_steps_child_runs_and_questions_are_killed_too(tmp_path: Path) -> None:
    @workflow
    async def whole(items: list[int]) -> list[int]:
        found = await for_each(items, double)
        return found if await ask("All of them?", returns=bool, name="all") else []

    @workflow
    async def outer() -> list[int]:
        return await whole([1, 2])

    with pytest.raises(RuntimeError, match=r"the flow asks 'all' .*answers=\{'all'"):
        crash_at_every_step(outer)
    report = crash_at_every_step(outer, answers={"all": True}, store="file", limit=FEW)
    assert report.ok
    in_steps = [crash for crash in report.crashes if "'double[" in crash.where]
    assert in_steps
    for crash in in_steps:
        if "before it was recorded" in crash.where:
            assert crash.repeated, crash
        elif not crash.where.startswith("before"):  # of two that are named, one may be in flight
            assert len(crash.repeated) < crash.where.count("'double["), crash


def test_state_in_a_global_is_caught() -> None:
    @step
    def collect(word: str) -> None:
        SEEN.append(word)

    @step
    def join() -> str:
        return " ".join(SEEN)

    @workflow
    async def sentence() -> str:
        await collect("rising")
        await collect("tide")
        return await join()

    with pytest.raises(CrashTestError) as caught:
        crash_at_every_step(sentence, limit=FEW + 2)  # every second one
    text = str(caught.value)
    assert "step 'join' returned something else" in text
    assert '"rising tide" → "tide"' in text
    assert "a global" in text
    assert "killed before 'join'" in text
    assert SEEN == [], "the test's own process executed nothing"


def test_an_effect_outside_of_steps_is_caught_and_one_in_a_step_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"

    @step
    def send() -> None:
        with (tmp_path / "sent").open("a") as file:
            file.write("mail\n")

    @workflow
    async def effects(wrong: bool) -> None:
        await double(1)
        if wrong:
            with log.open("a") as file:
                file.write("began\n")
        await send()

    with pytest.raises(CrashTestError) as caught:
        crash_at_every_step(effects(wrong=True), directory=tmp_path)
    assert "the files differ" in str(caught.value)
    assert "killed before 'send'" in str(caught.value)
    assert "put its effects into steps" in str(caught.value)
    report = crash_at_every_step(effects(wrong=False), directory=tmp_path, limit=FEW)
    assert report.repeated["send"] == 1
    assert list(tmp_path.iterdir()) == [], "it is put back"


def test_a_flow_whose_result_is_random_is_said_to_be_like_no_other_run_of_it() -> None:
    @workflow
    async def dice() -> dict[str, float]:
        return {"doubled": await double(1), "luck": random.SystemRandom().random()}

    with pytest.raises(CrashTestError) as caught:
        crash_at_every_step(dice)
    assert "two runs that nobody disturbed differ" in str(caught.value)
    assert "~ luck: " in str(caught.value)
    assert "view=" in str(caught.value)
    assert crash_at_every_step(dice, view=lambda result: result["doubled"], limit=FEW).ok


def test_a_flow_with_steps_that_return_a_time_can_be_tested_as_the_message_advises() -> None:
    @step
    def stamp() -> float:
        return random.SystemRandom().random()

    @workflow
    async def inner() -> float:
        return await stamp()

    @workflow
    async def stamped() -> dict[str, float]:
        first = await stamp()
        return {"first": first, "second": await stamp(), "inner": await inner(), "n": len(SEEN)}

    with pytest.raises(CrashTestError) as caught:
        crash_at_every_step(stamped)
    text = str(caught.value)
    assert "step 'stamp#2' returned something else" in text
    assert "the outcome differs" in text
    assert "varying=['stamp', 'inner//stamp', 'inner']" in text
    assert "view=" in text
    report = crash_at_every_step(
        stamped, varying=["stamp", "inner"], view=lambda result: result["n"], limit=FEW
    )
    assert report.ok


def test_what_a_crash_does_to_other_steps_is_caught_beside_one_that_varies() -> None:
    @step
    def stamp() -> float:
        SEEN.append("stamp")
        return random.SystemRandom().random()

    @step
    def seen(index: int) -> int:
        return len(SEEN)

    @workflow
    async def forgetful() -> None:
        await stamp()
        await for_each([0], seen)

    with pytest.raises(CrashTestError, match=r"step 'seen\[0\]' returned something else"):
        crash_at_every_step(forgetful, varying=["stamp"], limit=6)
    assert crash_at_every_step(forgetful, varying=["*"], limit=4).ok
    with pytest.raises(TypeError, match=r"varying=\['stamp'\]"):
        crash_at_every_step(forgetful, varying="stamp")


def test_how_a_flow_fails_is_compared_too() -> None:
    @step
    def refuse() -> None:
        raise ValueError("no boats today")

    @workflow
    async def trip() -> None:
        await double(1)
        await refuse()

    report = crash_at_every_step(trip, limit=FEW)
    assert report.ok
    assert len(report.crashes) > 4


def test_what_is_observed_is_compared_and_prepared_anew(tmp_path: Path) -> None:
    board = tmp_path / "board"

    @workflow
    async def writes() -> None:
        board.write_text(board.read_text() + "x")
        await double(1)

    report = crash_at_every_step(
        writes, prepare=lambda: board.write_text(""), observe=board.read_text, check=False
    )
    assert not report.ok
    assert "what is observed differs" in str(report)


def test_many_points_are_sampled_and_the_report_says_so() -> None:
    report = crash_at_every_step(in_async(1), limit=3)
    assert len(report.crashes) == 3
    assert f"({report.points} points in all; see limit=)" in str(report)


def test_a_flow_that_hangs_is_ended(tmp_path: Path) -> None:
    @step
    def hang() -> None:
        threading.Event().wait()

    @workflow
    async def forever() -> None:
        await hang()

    with pytest.raises(RuntimeError, match=r"longer than 0\.5 seconds"):
        crash_at_every_step(forever, timeout=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_what_a_killed_process_started_ends_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    @step
    def start() -> None:
        sleeps = "import os, time; os.fork(); time.sleep(600)"
        daemon = subprocess.Popen([sys.executable, "-c", sleeps], start_new_session=True)
        with pids.open("a") as file:
            file.write(f"{daemon.pid}\n")

    @workflow
    async def starting() -> None:
        await start()

    report = crash_at_every_step(starting, limit=FEW)
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) >= len(report.crashes)
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_a_directory_is_put_back_when_the_flow_can_not_be_executed(tmp_path: Path) -> None:
    kept = tmp_path / "precious"
    kept.write_text("data")

    @step
    def eat() -> None:
        kept.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    @workflow
    async def hungry() -> None:
        await eat()

    with pytest.raises(RuntimeError, match="signal 9"):
        crash_at_every_step(hungry, directory=tmp_path)
    assert kept.read_text() == "data"


def test_the_only_copy_of_a_directory_is_kept_if_it_can_not_be_put_back(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / "precious").write_text("data")

    @step
    def replace() -> None:
        shutil.rmtree(watched)
        watched.write_text("no directory")

    @workflow
    async def replacing() -> None:
        await replace()

    with pytest.raises(NotADirectoryError) as caught:
        crash_at_every_step(replacing, directory=watched)
    (note,) = caught.value.__notes__
    copy = Path(note.rpartition(" ")[2])
    assert (copy / "precious").read_text() == "data"
    shutil.rmtree(copy.parent)


def test_a_test_without_a_single_crash_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (0, -1):
        with pytest.raises(ValueError, match="limit"):
            crash_at_every_step(in_async(1), limit=limit)
    monkeypatch.setattr(crashing._Trials, "_crash", lambda *_: None)
    with pytest.raises(CrashTestError, match="was never killed"):
        crash_at_every_step(in_async(1))


def test_it_works_in_a_running_event_loop_and_beside_threads() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()

    async def test() -> bool:
        return crash_at_every_step(in_async(3), limit=3).ok

    try:
        assert asyncio.run(test())
    finally:
        over.set()
        thread.join()


def test_a_recorded_step_that_is_executed_again_would_be_noticed(tmp_path: Path) -> None:
    notes: list[dict[str, Any]] = [
        {"what": "began", "step": ["r", "a"]},
        {"what": "killed", "where": "when 'a' was recorded"},
        {"what": "resumes", "recorded": [["r", "a"]]},
        {"what": "began", "step": ["r", "a"]},
    ]
    (tmp_path / "notes").write_text("".join(json.dumps(note) + "\n" for note in notes))
    assert read_notes(tmp_path, "r").again == {("", "a")}


def test_what_can_not_be_tested_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no flow and no call"):
        crash_at_every_step(double)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="memory:// outlives no process"):
        crash_at_every_step(in_async(1), store="memory://")
    with pytest.raises(ValueError, match="a directory of the test's own"):
        crash_at_every_step(in_async(1), directory=Path.home())


def test_a_misspelt_option_is_compared_with_those_of_the_kit() -> None:
    with pytest.raises(TypeError, match="no option 'anwsers'; did you mean 'answers'"):
        crash_at_every_step(fails_deep_down(), anwsers={})


def test_the_traceback_of_a_flow_that_cant_be_executed_begins_with_a_whole_frame() -> None:
    with pytest.raises(RuntimeError, match="can't be executed") as caught:
        crash_at_every_step(fails_deep_down(), prepare=lambda: _deep(30))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("ZeroDivisionError: division by zero")
    assert lines[1] == "..."
    assert lines[2].startswith('  File "')


def _deep(levels: int) -> float:
    return 1 / levels if levels < 1 else _even_deeper(levels)


def _even_deeper(levels: int) -> float:
    return _deep(levels - 1)


@workflow
async def fails_deep_down() -> None:
    pass
