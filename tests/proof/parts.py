"""The parts of the programme: which tests each runs, and how often they do what they do."""

from __future__ import annotations

from typing import Final, NamedTuple


class Part(NamedTuple):
    """Tests that are run together."""

    tests: tuple[str, ...]  # none: the schedules of tests/simulation
    settings: dict[str, int]  # of the environment, by name without HOLDFAST_


class Fault(NamedTuple):
    """Something that is done to holdfast."""

    text: str
    goal: int = 0  # how often; 0: wherever it is possible, or as often as it comes


SCHEDULES: Final = "schedules"

PARTS: Final[dict[str, Part]] = {
    SCHEDULES: Part((), {"SCHEDULES": 1_000_000}),
    "processes": Part(
        ("tests/crash", "tests/examples", "tests/simulation/test_mutants.py"),
        {
            "CRASH_CYCLES": 2_500,  # four tests kill that often, or more
            "REQUESTS": 10_000,
            "TAKEOVERS": 2_000,
            "INTERRUPTS": 3_000,
            "REPAIRS": 1_000,
            "HOLDER_RUNS": 500,
            "WORKER_RUNS": 500,
            "SHORT_LIVED": 2_000,
            "EFFORT": 10,
        },
    ),
    "power": Part(("tests/crash/test_power_loss.py",), {"POWER_STATES": 1_000_000, "EFFORT": 10}),
    "bytes": Part(
        ("tests/crash/test_altered_bytes.py", "tests/damage", "tests/hostile"),
        {"MUTATIONS": 100_000, "EFFORT": 10},
    ),
    "servers": Part(
        (
            "tests/servers",
            "tests/stores",
            "tests/integrations/dask/test_storm.py",
            "tests/integrations/langgraph/test_killed.py",
            "tests/integrations/langgraph/test_newest.py",
            "tests/integrations/pydantic_ai",
        ),
        {
            "POSTGRES_KILLS": 1_000,
            "MYSQL_KILLS": 300,
            "REDIS_KILLS": 300,
            "POSTGRES_SWALLOWS": 20_000,  # every other answer is swallowed
            "MYSQL_SWALLOWS": 20_000,
            "REDIS_SWALLOWS": 20_000,
            "EFFORT": 10,
        },
    ),
    "flows": Part(  # on every local store, and properties with more examples
        (
            "tests/codec",
            "tests/documents",
            "tests/engine",
            "tests/evidence",
            "tests/graph",
            "tests/kernel",
            "tests/keys",
            "tests/manager",
            "tests/operations",
            "tests/owners",
            "tests/pipeline",
            "tests/telemetry",
            "tests/testing",
            "tests/web/api",
            "tests/workflow",
        ),
        {"EFFORT": 10},
    ),
}
"""Each is carried out by itself, so that a programme of hours can be interrupted between them."""

ELSEWHERE: Final = ("tests/crash/test_power_loss.py", "tests/crash/test_altered_bytes.py")
"""Tests of `processes` that have a part of their own."""

FAULTS: Final[dict[str, Fault]] = {
    "kills": Fault("a process killed with SIGKILL while it saves or executes a flow", 10_000),
    "kills at fault points": Fault("killed at each named point of an operation"),
    "kills before system calls": Fault("killed before each system call of save, prune and clear"),
    "failing system calls": Fault("a system call that fails: EIO, ENOSPC, once and from then on"),
    "power losses": Fault("the power fails: unsynced writes kept, dropped or torn", 1_000_000),
    "schedules": Fault("a schedule of several processes in virtual time", 1_000_000),
    "mutations": Fault("stored bytes altered, cut, swapped or inserted at random", 100_000),
    "bits": Fault("one bit of a row or file flipped"),
    "operations on damaged runs": Fault("an operation on a run with a damaged entry"),
    "requests": Fault("pause, cancel and answers raced against a living worker", 10_000),
    "take-overs": Fault("a run taken over from a worker that lives, asleep or awake", 2_000),
    "interrupts": Fault("Ctrl-C in a blocking call", 3_000),
    "runs in storms": Fault("a run that 4 to 8 processes on several hosts execute in a storm", 500),
    "kills in storms": Fault("one of those processes killed"),
    "pauses in storms": Fault("one of them stopped, and continued later"),
    "server restarts in storms": Fault("their server killed and started again"),
    "short-lived processes": Fault("a process that executes one run and ends", 2_000),
    "postgres kills": Fault("PostgreSQL killed while four threads save", 1_000),
    "mysql kills": Fault("MariaDB killed while four threads save", 300),
    "redis kills": Fault("Redis killed while four threads save", 300),
    "postgres answers swallowed": Fault("PostgreSQL's answer to a commit swallowed", 10_000),
    "mysql answers swallowed": Fault("MariaDB's answer to a commit swallowed", 10_000),
    "redis answers swallowed": Fault("Redis's answer to a save swallowed", 10_000),
    "mistakes": Fault("a known mistake planted in holdfast, and found by these tests"),
}
"""What tests say that they survived, in the order of the page."""
