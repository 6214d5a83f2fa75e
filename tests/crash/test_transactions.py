"""Kills and Ctrl-C around a commit that is also the user's: each entry has its row, once."""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path

import pytest

import holdfast as hf
from tests.conftest import Survived
from tests.crash.harness import (
    CYCLES,
    ForkServer,
    first_seed,
    fork_server,
    kill_cycles,
    setting,
    url_of,
)
from tests.crash.test_interrupts import interrupt, strike_elsewhere, strike_in, struck
from tests.crash.transactions import check_effects, save

INTERRUPTS = setting("HOLDFAST_INTERRUPTS", 60)
ROUND = 10  # cycles on one store
POINTS = 80  # fault points; a commit passes four


@pytest.fixture
def server() -> ForkServer:
    return fork_server()


@pytest.mark.parametrize("when", ["at random times", "at fault points"])
def test_no_kill_parts_an_entry_from_its_row(
    when: str, tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    seed = first_seed()
    done, acks, cycles = 0, 0, max(CYCLES // 2, 30)
    while done < cycles or 4 * acks <= cycles:  # kills of what did nothing prove little
        point = random.Random(seed).randrange(1, POINTS) if when == "at fault points" else 0
        outcome = kill_cycles(
            server, "sqlite", tmp_path / str(seed), cycles=max(1, min(ROUND, cycles - done)),
            seed=seed, also=check_effects, only=["transact"], kill_at=point,
        )  # fmt: skip
        listed = "\n".join(map(str, outcome.violations))
        assert not outcome.violations, f"HOLDFAST_SEED={seed}, cycle {outcome.cycles}:\n{listed}"
        done += outcome.cycles
        acks += outcome.acks
        seed += 1
    survived("kills", done)


def test_work_beside_the_transaction_is_found_out(
    tmp_path: Path, server: ForkServer, survived: Survived
) -> None:
    outcome = kill_cycles(
        server, "sqlite", tmp_path / "mutant", cycles=60, seed=first_seed(),
        also=check_effects, only=["transact"], mutant="WorksOutsideTheTransaction",
    )  # fmt: skip
    assert any(found.invariant == "exactly once" for found in outcome.violations)
    survived("mistakes", 1)


def test_no_ctrl_c_parts_an_entry_from_its_row(tmp_path: Path, survived: Survived) -> None:
    hits = strike_elsewhere(__name__, str(tmp_path), rounds=INTERRUPTS)
    survived("interrupts", hits)


def main() -> None:
    """Strike so many rounds, and print how many interrupts hit."""
    directory, rounds, seed = sys.argv[1:]
    rng = random.Random(seed)
    signal.signal(signal.SIGALRM, interrupt)
    print(
        sum(one_round(url_of("sqlite", Path(directory) / str(n)), rng) for n in range(int(rounds)))
    )


def one_round(url: str, rng: random.Random) -> int:
    """Save with work until interrupted, several times over; then save once more and look."""
    hits = 0
    cp = hf.SyncCheckpointer(url, deadline=5)
    acknowledged: set[str] = set()
    n = 0
    for _ in range(3):
        try:
            strike_in(rng.uniform(0.0005, 0.01))
            while not struck.is_set():
                n += 1
                _save(cp, n)
                acknowledged.add(str(n))
        except KeyboardInterrupt:
            hits += 1

    outcome: list[object] = []

    def finish() -> None:
        _save(cp, -1)
        cp.close()
        with hf.SyncCheckpointer(url) as fresh:
            steps = {entry.step for entry in fresh.store.read("run", limit=10_000)}
            outcome.append(acknowledged - steps)
            outcome.append(fresh.verify("run").problems)
        outcome.append(check_effects(url))

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    assert outcome == [set(), (), []]
    return hits


def _save(cp: hf.SyncCheckpointer, n: int) -> None:
    while True:
        try:
            cp._core.drive(save(cp._core, "run", n, str(n)))
        except hf.ConflictError:
            continue  # Ctrl-C struck after the tip had moved on: it is fetched anew
        return


if __name__ == "__main__":
    main()
