"""Runs and steps on a Dask cluster: the extra `dask`.

    from holdfast.integrations.dask import run_on, submit

    future = submit(client, digest("Brest"), run_id="brest-1", store="postgresql://db/holdfast")
    future.result()

    sizes = await for_each(paths, measure, run_on=run_on(client))

`submit` has a worker execute a whole run; `run_on` has workers execute single steps of a run that
this process executes. Here: what is sent to workers and what comes back. Not here: who executes a
run (`holdfast.engine.holding`), and what becomes of a step whose executor broke
(`holdfast.engine.executors`).
"""

try:
    import distributed as _distributed
except ImportError as error:
    from holdfast.extras import missing_extra

    raise missing_extra("dask", error) from error

from holdfast.integrations.dask.runs import submit
from holdfast.integrations.dask.steps import DaskExecutor, OnDask, run_on
from holdfast.integrations.dask.travel import restore_pickling

__all__ = ["DaskExecutor", "OnDask", "run_on", "submit"]

del _distributed
restore_pickling()
