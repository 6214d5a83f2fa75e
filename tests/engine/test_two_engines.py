"""Two engines, each with a store of its own, in one process and on one file."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import holdfast as hf
from holdfast.workflow import step, workflow
from tests.waiting import ENOUGH, wait_until

RUNS = 20


class Waiting(logging.Handler):
    """The runs that somebody waits for because another executes them."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting" in record.getMessage():
            self.runs.update(str(arg) for arg in record.args or ())


def test_two_engines_of_one_process_execute_each_step_once(tmp_path: Path) -> None:
    effects: Counter[str] = Counter()
    heard = Waiting()
    log = logging.getLogger("holdfast")
    level = log.level
    log.addHandler(heard)
    log.setLevel(logging.INFO)

    @step
    def act(run: str, name: str) -> str:
        """Lasts until the other engine has come to the same run, and waits or executes it, too."""
        effects[f"{run} {name}"] += 1
        if name == "first":
            wait_until(lambda: run in heard.runs or effects[f"{run} {name}"] > 1)
        return name

    @workflow
    async def part(run: str) -> str:
        return await act(run, "within")

    @workflow
    async def flow(run: str) -> list[str]:
        return [await act(run, "first"), await part(run), await act(run, "last")]

    url = f"sqlite:///{tmp_path}/runs.db"
    stores = [hf.open_store(url), hf.open_store(url)]
    engines = [hf.Engine(store) for store in stores]
    outcomes: list[object] = []
    begin = threading.Barrier(len(engines), timeout=ENOUGH)

    def execute(engine: hf.Engine) -> None:
        async def all_of_them() -> None:
            runs = (
                engine.run(flow(f"run-{n}"), run_id=f"run-{n}", resume=True) for n in range(RUNS)
            )
            outcomes.extend(await asyncio.gather(*runs, return_exceptions=True))

        begin.wait()
        asyncio.run(all_of_them())

    threads = [threading.Thread(target=execute, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.removeHandler(heard)
    log.setLevel(level)
    for engine in engines:
        engine.close_sync()
    for store in stores:
        store.close()
    twice = {what: times for what, times in effects.items() if times != 1}
    assert not twice, f"executed more than once: {twice}"
    assert len(effects) == 3 * RUNS
    assert outcomes == [["first", "within", "last"]] * RUNS * len(engines)
