"""The recipe for Celery: a real worker, whose process is killed in a step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from tests.frameworks import effects, install, next_time
from tests.waiting import bounded, run_process, wait_until

SETTINGS = """
from pathlib import Path

import tasks

HERE = Path(__file__).parent
(HERE / "queue").mkdir(exist_ok=True)
(HERE / "control").mkdir(exist_ok=True)
tasks.app.conf.broker_transport_options = {
    "data_folder_in": HERE / "queue",
    "data_folder_out": HERE / "queue",
    "control_folder": HERE / "control",
}
app = tasks.app
"""
"""A broker that is a directory, so that the test needs no server."""


@pytest.mark.parametrize("how", ["die", "fail"])
def test_a_task_that_is_delivered_again_resumes_its_run(how: str, tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "local.py").write_text(SETTINGS)
    next_time(tmp_path, how)
    store = f"sqlite:///{tmp_path}/runs.db"
    environment = os.environ | {
        "BROKER_URL": "filesystem://",
        "HOLDFAST_STORE": store,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    }
    send = "import local, tasks; tasks.make_report.delay('Brest')"
    run_process([sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True)
    command = [sys.executable, "-m", "celery", "-A", "local", "worker", "--concurrency", "1"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"]
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        with worker, bounded(worker):
            try:
                wait_until(lambda: is_done(store))
            except TimeoutError:
                pytest.fail((tmp_path / "log").read_text())
            finally:
                worker.terminate()
    assert effects(tmp_path) == {"fetch": 1, "average": 2}, "only the step in flight ran twice"


def is_done(store: str) -> bool:
    with hf.SyncCheckpointer(store) as cp:
        run = cp.run("report-Brest")
    return run is not None and run.status == "completed"
