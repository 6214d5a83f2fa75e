"""The checker and the faults themselves, on histories small enough to read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests import faults
from tests.crash.history import (
    Dump,
    Found,
    Line,
    Oracle,
    RunDump,
    check,
    parse_history,
    read_history,
)
from tests.waiting import join


def _begin(id_: str, op: str, **fields: Any) -> Line:
    return {"phase": "begin", "id": f"w.{id_}", "op": op, "run": "r", **fields}


def _ack(id_: str, seq: int | None = None) -> Line:
    return {"phase": "ack", "id": f"w.{id_}", "seq": seq}


def _fail(id_: str) -> Line:
    return {"phase": "fail", "id": f"w.{id_}", "error": "StoreError()"}


def _saved(seq: int, hash_: str) -> Found:
    return Found(seq, "checkpoint", None, True, hash_, None)


OPEN = Found(0, "open", None, False, None, None)
A, B = _saved(1, "a"), _saved(2, "b")
GONE = Found(1, "checkpoint", None, False, None, None)
TWO_SAVES = [
    _begin("1", "save", hash="a"),
    _ack("1", 1),
    _begin("2", "save", hash="b"),
    _ack("2", 2),
]


def _dump(*entries: Found, current: tuple[int, str] | None = (2, "b"), problem: str = "") -> Dump:
    return {"r": RunDump(entries, current, (problem,) if problem else ())}


def test_a_store_that_kept_its_word_passes() -> None:
    assert check(TWO_SAVES, _dump(OPEN, A, B), min_acks=2) == []


@pytest.mark.parametrize(
    ("invariant", "history", "dumped"),
    [
        ("I1", TWO_SAVES, _dump(OPEN, A, current=(1, "a"))),
        ("I1", TWO_SAVES, {}),
        ("I1", TWO_SAVES, _dump(OPEN, GONE, B)),
        ("I1", TWO_SAVES, _dump(OPEN, _saved(1, "b"), _saved(2, "a"), current=(2, "a"))),
        ("I2", TWO_SAVES, _dump(OPEN, A, B, current=(1, "a"))),
        ("I2", TWO_SAVES, _dump(OPEN, A, B, _saved(3, "c"), current=(3, "c"))),
        ("I2", TWO_SAVES, _dump(OPEN, A, B._replace(hash=None, problem="torn"), current=None)),
        ("I3", TWO_SAVES, _dump(OPEN, A, B, problem="verify: r@2: its digest does not follow")),
        ("I3", TWO_SAVES, _dump(A, B)),
        ("I3", [*TWO_SAVES, _begin("3", "save", hash="c"), _ack("3", 2)], _dump(OPEN, A, B)),
        ("I4", [*TWO_SAVES, _begin("3", "save", hash="c"), _fail("3")],
         _dump(OPEN, A, B, _saved(3, "c"), current=(3, "c"))),
        ("I4", TWO_SAVES, _dump(OPEN, A, B, _saved(3, "b"), current=(3, "b"))),
        ("I8", [*TWO_SAVES, _begin("3", "clear"), _ack("3")], _dump(OPEN, A, B)),
        ("I8", [*TWO_SAVES, _begin("3", "delete", target=1), _ack("3")], _dump(OPEN, A, B)),
        ("I8", [*TWO_SAVES, _begin("3", "prune", keep=1), _ack("3")], _dump(OPEN, A, B)),
        ("I9", [*TWO_SAVES, {**_begin("3", "save", hash="c"), "run": "s"}],
         _dump(OPEN, A, B, _saved(3, "c"), current=(3, "c"))),
        ("too little", TWO_SAVES[:2], _dump(OPEN, A, current=(1, "a"))),
    ],
)  # fmt: skip
def test_a_broken_promise_is_called_by_its_name(
    invariant: str, history: list[Line], dumped: Dump
) -> None:
    found = check(history, dumped, min_acks=2)
    assert invariant in {violation.invariant for violation in found}, found


def test_what_is_in_flight_may_be_there_or_not() -> None:
    history = [*TWO_SAVES, _begin("3", "save", hash="c")]
    assert check(history, _dump(OPEN, A, B)) == []
    assert check(history, _dump(OPEN, A, B, _saved(3, "c"), current=(3, "c"))) == []


def test_a_save_of_a_dead_worker_does_not_come_back_after_a_clear() -> None:
    dead = [_begin("1", "save", hash="a"), {"phase": "kill", "worker": "w"}]
    cleared = [{**_begin("1", "clear"), "id": "x.1"}, {**_ack("1"), "id": "x.1"}]
    found = check([*dead, *cleared], _dump(OPEN, A, current=(1, "a")), min_kills=1)
    assert {violation.invariant for violation in found} == {"I8"}


def test_a_line_cut_short_did_not_happen(tmp_path: Path) -> None:
    oracle = Oracle(tmp_path / "oracle", "w")
    call = oracle.begin("save", "r", hash="a")
    with (tmp_path / "oracle").open("ab") as file:
        file.write(b'\n{"phase": "beg')
    call.ack(seq=1)
    oracle.close()
    assert [line["phase"] for line in read_history(tmp_path / "oracle")] == ["begin", "ack"]
    assert parse_history(b'\n{"phase": "kill"}\n\n{"pha') == [{"phase": "kill"}]


def test_faults_strike_at_the_nth_pass_and_nowhere_else(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db") as checkpointer:
        with faults.record() as points:
            checkpointer.save("r", {"n": 1})
        with faults.at(points[-1], faults.raising(KeyboardInterrupt()), nth=2):
            checkpointer.save("r", {"n": 2})
            with pytest.raises(KeyboardInterrupt):
                checkpointer.save("r", {"n": 3})
            checkpointer.save("r", {"n": 4})
        assert "sqlite.commit.before" in points


def test_a_pause_holds_one_thread_until_told(tmp_path: Path) -> None:
    pause = faults.Pause()
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/runs.db") as checkpointer:
        with faults.at("writer.append.before", pause):
            thread = threading.Thread(target=checkpointer.save, args=("r", {"n": 1}))
            thread.start()
            pause.wait_until_reached()
            assert checkpointer.load("r") is None
            pause.go_on()
            join(thread)
        assert checkpointer.load("r") is not None


def test_time_and_ids_are_reproduced_by_their_seeds() -> None:
    def run() -> list[tuple[str, str]]:
        clock = faults.FakeClock()
        saved = []
        with hf.SyncCheckpointer(
            "memory://", clock=clock, entropy=faults.SeededEntropy(7)
        ) as checkpointer:
            for n in range(3):
                checkpoint = checkpointer.save(None if n == 0 else "r", {"n": n})
                saved.append((checkpoint.checkpoint_id, checkpoint.created_at.isoformat()))
                clock.advance(1.5)
                clock.step(-60)
        return saved

    assert run() == run()
