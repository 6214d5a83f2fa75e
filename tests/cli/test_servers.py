"""The commands on a store that is a server."""

from __future__ import annotations

import threading

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli
from tests.servers import postgres, redis


@pytest.fixture(params=["postgres", "redis"])
def server(request: pytest.FixtureRequest) -> str:
    return postgres.new_url() if request.param == "postgres" else redis.new_url()


def test_runs_are_looked_at_carried_out_and_copied(
    cli: Cli, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", server)
    assert cli("runs").out == "no runs\n"
    assert cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl", "--owner", "ann").code == 0
    assert cli("run", "jobs:review", "-i", "what=x", "--run-id", "review").code == Exit.PAUSED
    assert cli("show", "etl", "--json").json["state"]["total"] == 6
    assert len(cli("questions", "--json").lines) == 1
    assert cli("verify").code == 0
    done = cli("doctor")
    assert done.code == 0
    assert "secret" not in done.out
    assert cli("copy", server, "local.db").out == "3 runs copied to local.db: 3 new\n"
    assert cli("forget", "--owner", "ann", "--yes", "--json").code == 0
    assert [run["run_id"] for run in cli("runs", "--json").lines] == ["review"]


def test_a_command_that_is_offered_shows_no_secret_and_can_be_pasted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_url()
    asked = cli("run", "jobs:anything", "--run-id", "a", "--store", url).err
    assert "holdfast answer a  # with --store as before, or HOLDFAST_STORE set to it\n" in asked
    monkeypatch.setenv("HOLDFAST_STORE", url)
    again = cli("run", "jobs:anything", "--run-id", "b", "--store", url).err
    assert "holdfast answer b\n" in again
    assert "secret" not in asked + again


def test_watching_is_told_of_what_happens(cli: Cli, server: str) -> None:
    with hf.SyncCheckpointer(server) as cp:
        cp.save("job", 0, step="first")

        def work() -> None:
            for n in range(3):
                cp.save("job", n, step=f"later-{n}")
            cp.complete("job")

        timer = threading.Timer(0.3, work)
        timer.start()
        done = cli("watch", "job", "--interval", "3600", "--json", "--store", server)
        timer.join()
    assert [moment["seq"] for moment in done.lines] == list(range(6))


def test_a_server_that_keeps_nothing_is_warned_of(cli: Cli) -> None:
    done = cli("doctor", "--json", "--store", redis.new_url(redis.VolatileRedis.shared().url))
    (finding,) = [found for found in done.json["findings"] if found["what"] == "durability"]
    assert finding["status"] == "warning"
    assert "survives nothing" in finding["found"]


def test_a_server_that_is_away_is_said_so(cli: Cli) -> None:
    done = cli("runs", "--store", "postgresql://ann:s3cret@127.0.0.1:1/runs?connect_timeout=1")
    assert done.code == Exit.UNAVAILABLE
    assert "s3cret" not in done.err
    assert "Traceback" not in done.err
