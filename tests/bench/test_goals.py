"""The benchmarks themselves: that they measure, judge and name what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.clock import clocked
from bench.inputs import KB
from bench.line import Line
from bench.report import Measured, interleave
from bench.workloads import FULL, QUICK, Sizes

from bench import goals, workloads

TINY = Sizes(
    seconds=0.1, rounds=1, graphs=2, steps=2, at_once=(1, 5), processes=(1,), saves=20,
    turns=(2, 5), sizes=(KB, 20 * KB), resumed=(30, 40), long_resume=50, lengths=(4, 8),
    forked=(3, 5), verified=(2, 4), pipeline=(3, 5), runs=(10, 20), commanded=20, files=3, agent_turns=10,
    agent_threads=2,
)  # fmt: skip
FAST = (  # those that start few processes
    "graph state", "builder", "workflow", "saves at once", "chat", "long resume", "fork",
    "last verified", "pipeline", "keys", "lists", "commands",
)  # fmt: skip


@pytest.mark.parametrize("name", FAST)
def test_a_workload_measures_what_its_goals_judge(name: str, tmp_path: Path) -> None:
    found = goals.measure(TINY, tmp_path, name)
    judged = [line for line in goals.lines(TINY) if line.workload == name]
    assert judged
    for line in judged:
        (outcome,) = (each for each in found["lines"] if each["name"] == line.name)
        assert outcome["holdfast"] is not None, line.name
        assert outcome["judged"] is not None, line.name
    assert list(tmp_path.iterdir()) == [], "the stores are removed"


@pytest.mark.parametrize("sizes", [FULL, QUICK, TINY], ids=["full", "quick", "tiny"])
def test_every_goal_has_a_workload_and_a_name_of_its_own(sizes: Sizes) -> None:
    lines = goals.lines(sizes)
    assert {line.workload for line in lines} <= set(workloads.workloads(sizes))
    assert len({(line.section, line.name) for line in lines}) == len(lines)


def of(**systems: list[float]) -> Measured:
    return Measured({name: {"ms": values} for name, values in systems.items()})


def test_a_missed_goal_is_called_missed_and_a_met_one_met() -> None:
    line = Line("Steps", "a step", "graph", "ms", "ms", 2.0)
    assert line.outcome(of(holdfast=[3.0, 2.1, 9.0]))["met"] is False
    assert line.outcome(of(holdfast=[1.0, 2.0, 9.0]))["met"] is True
    assert line.outcome(Measured())["met"] is None


def test_more_can_be_better() -> None:
    line = Line("Steps", "steps a second", "graph", "ms", "/s", 100.0, more=True, peers=("other",))
    outcome = line.outcome(of(holdfast=[90.0], other=[45.0]))
    assert outcome["met"] is False
    assert outcome["others"]["other"]["times"] == 2
    assert outcome["goal"] == "≥ 100/s"


def test_ratios_are_medians_of_what_was_measured_at_the_same_moment() -> None:
    found = of(holdfast=[1.0, 10.0, 2.0], other=[3.0, 30.0, 6.0])
    times = Line("Steps", "a step", "graph", "ms", "ms", 3.0, "times", "other")
    over = Line("Steps", "a step", "graph", "ms", "ms", 1.0, "over", "other")
    beyond = Line("Steps", "a step", "graph", "ms", "ms", 1.0, "beyond", "other")
    assert times.judged(found) == 3
    assert times.outcome(found)["met"] is True
    assert over.judged(found) == pytest.approx(1 / 3)
    assert beyond.judged(found) == -4


def test_growth_is_judged_by_the_smaller_size() -> None:
    found = Measured({"holdfast": {"ms@10": [1.0], "ms@100": [5.0]}})
    line = Line("Steps", "a step", "fork", "ms@100", "ms", 1.5, "growth", "ms@10")
    assert line.judged(found) == 5
    assert line.goal() == "≤ 1.5 × that of 10"


def test_a_missed_goal_comes_with_a_profile_of_what_was_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(sizes: Sizes) -> list[Line]:
        return [Line("Steps", "a step", "builder", "cpu_us", "µs", 0.0)]

    monkeypatch.setattr(goals, "lines", lines)
    (outcome,) = goals.measure(TINY, tmp_path, "builder")["lines"]
    assert outcome["met"] is False
    assert any("python" in each["function"] for each in outcome["profile"])


def test_a_workload_that_fails_is_named_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(path: Path) -> dict[str, float]:
        raise OSError("no server")

    made = {
        "builder": workloads.Workload(lambda _: {"holdfast": unreachable}),
        "fork": workloads.workloads(TINY)["fork"],
    }
    monkeypatch.setattr(goals, "workloads", lambda sizes: made)
    monkeypatch.setattr(goals, "_durability", lambda directory: {})
    found = goals.measure(TINY, tmp_path)
    assert "builder was not measured: OSError: no server" in found["left_out"]
    assert "builder was not measured" in capsys.readouterr().out
    assert list(found["workloads"]) == ["fork"]
    assert {line["met"] for line in found["lines"] if "builder" in line["name"]} == {None}


def test_trials_take_turns_until_their_time_is_spent(tmp_path: Path) -> None:
    order: list[str] = []

    def trial(name: str) -> dict[str, float]:
        order.append(name)
        return {"ms": 1.0}

    trials = {"a": lambda path: trial("a"), "b": lambda path: trial("b")}
    interleave(tmp_path, 3, trials)
    assert order == ["a", "b"] * 3
    order.clear()
    interleave(tmp_path, 3, trials, seconds=0)
    assert order == ["a", "b"], "each is measured at least once"


def test_what_is_timed_has_wall_time_and_processor_time() -> None:
    with clocked() as spent:
        sum(range(10_000))
    assert spent.seconds > 0
    assert spent.cpu >= 0
