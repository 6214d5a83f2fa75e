"""Ctrl-C strikes a blocking caller anywhere: what is acknowledged afterwards counts, nothing hangs."""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

import holdfast as hf
from tests import forks
from tests.conftest import Survived
from tests.crash.harness import first_seed, setting, url_of
from tests.waiting import ENOUGH

ROUNDS = setting("HOLDFAST_INTERRUPTS", 60)
ROOT = Path(__file__).parents[2]
PAD = [f"line {n}" for n in range(1500)]


struck = threading.Event()


def strike_in(seconds: float) -> None:
    """Have Ctrl-C strike once. Python drops one that falls into a callback: look at `struck`."""
    struck.clear()
    signal.setitimer(signal.ITIMER_REAL, seconds)


def interrupt(number: int, frame: FrameType | None) -> None:
    struck.set()
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_save_after_ctrl_c_is_as_good_as_any(
    kind: str, tmp_path: Path, survived: Survived
) -> None:
    rounds = ROUNDS if kind == "sqlite" else ROUNDS // 3
    survived("interrupts", strike_elsewhere(__name__, kind, str(tmp_path), rounds=rounds))


def strike_elsewhere(module: str, *where: str, rounds: int) -> int:
    """Have the module's `main` strike in a process of its own; returns how many interrupts hit.

    Here, an interrupt might strike whatever else runs in this process.
    """
    command = ("-m", module, *where, str(rounds), str(first_seed()))
    done = forks.run(*command, capture_output=True, check=False, cwd=ROOT, seconds=ENOUGH + rounds)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > rounds // 2, "too few interrupts struck"
    return int(done.stdout)


def main() -> None:
    """Strike so many rounds, and print how many interrupts hit."""
    kind, directory, rounds, seed = sys.argv[1:]
    rng = random.Random(seed)
    signal.signal(signal.SIGALRM, interrupt)
    print(sum(one_round(url_of(kind, Path(directory) / str(n)), rng) for n in range(int(rounds))))


def one_round(url: str, rng: random.Random) -> int:
    """Save until interrupted, several times over; then save once more and look."""
    hits = 0
    cp = hf.SyncCheckpointer(url, deadline=5)
    acknowledged = cp.save("run", {"n": 0, "pad": PAD})
    n = 0
    for _ in range(3):
        try:
            strike_in(rng.uniform(0.0005, 0.01))
            while not struck.is_set():
                n += 1
                acknowledged = cp.save("run", {"n": n, "pad": [*PAD, n]})
        except KeyboardInterrupt:
            hits += 1
    outcome: list[object] = []

    def finish() -> None:
        final = cp.save("run", {"n": -1, "pad": PAD})
        cp.close()
        with hf.SyncCheckpointer(url) as fresh:
            outcome.append(fresh.load("run") == final)
            outcome.append(fresh.load("run", seq=acknowledged.seq) == acknowledged)
            outcome.append(fresh.verify("run").problems)

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    assert outcome == [True, True, ()]
    return hits


if __name__ == "__main__":
    main()
