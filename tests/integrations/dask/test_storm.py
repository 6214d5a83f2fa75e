"""Many runs of 6 steps on Dask workers, which are killed: all results, nothing recorded twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import psycopg
from distributed import Client, LocalCluster, as_completed

import holdfast as hf
from holdfast.integrations.dask import submit
from tests.effort import EFFORT
from tests.integrations.dask.conftest import kill
from tests.integrations.dask.storm import STEPS, TABLES, voyage
from tests.servers import postgres

WORKERS: Final = 2 if EFFORT == 1 else 3
RUNS: Final = 16 if EFFORT == 1 else 200
KILL_AFTER: Final = (6,) if EFFORT == 1 else (25, 65, 105, 145)  # results


def test_killed_workers_cost_neither_a_result_nor_a_recorded_step(
    record_property: Callable[[str, object], None],
) -> None:
    url = postgres.new_url()
    database, _, query = url.partition("?")
    tables = f"{database}?{query.partition('&')[2]}"
    with psycopg.connect(tables, autocommit=True) as db:
        db.execute(TABLES)
    killed: set[int] = set()
    results: dict[int, int] = {}
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=2, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        futures = {
            submit(client, voyage(tables, n), run_id=f"run-{n}", store=url): n for n in range(RUNS)
        }
        for future, result in as_completed(futures, with_results=True):
            results[futures[future]] = result
            if len(results) in KILL_AFTER:
                pid = busy(tables, killed)
                kill(pid)
                killed.add(pid)
    assert len(killed) == len(KILL_AFTER)
    assert results == {n: n * n for n in range(RUNS)}
    with psycopg.connect(tables) as db:
        effects = db.execute("SELECT run, step, count(*) FROM effects GROUP BY 1, 2").fetchall()
        again = db.execute(
            "SELECT run, step, array_agg(pid) FROM began GROUP BY 1, 2 HAVING count(*) > 1"
        ).fetchall()
    assert len(effects) == RUNS * STEPS
    assert {count for *_, count in effects} == {1}, "a recorded step ran again"
    for run, step, pids in again:  # it had begun when its worker was killed, and was not recorded
        assert killed & set(pids), (run, step, pids)
    assert len(again) <= 2 * len(killed), "a worker executes two at once"
    with hf.SyncCheckpointer(url) as cp:
        assert {info.status for info in cp.runs()} == {"completed"}
        assert all(cp.verify(info.run_id).ok for info in cp.runs())
    record_property("counts", f"{len(killed)} workers killed, {len(again)} steps begun again")


def busy(tables: str, killed: set[int]) -> int:
    """The worker whose step began last."""
    with psycopg.connect(tables) as db:
        rows = db.execute("SELECT pid FROM began ORDER BY number DESC LIMIT 50").fetchall()
    return next(int(pid) for (pid,) in rows if pid not in killed)
