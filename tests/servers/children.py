"""Processes that tests start: forked from one that has imported everything, so that many cost little."""

from __future__ import annotations

import importlib
import multiprocessing
from typing import Any, Final

import holdfast as hf
import holdfast.stores.duckdb.store
import holdfast.stores.files.store
import holdfast.stores.mysql.store
import holdfast.stores.postgres.store
import holdfast.stores.redis.store
import holdfast.stores.sqlite.store
from holdfast.operations import blocks
from tests import faults
from tests.servers import mariadb
from tests.waiting import join

processes: Final = multiprocessing.get_context("forkserver")

with hf.SyncCheckpointer("memory://") as _first:  # holdfast imports most of itself when it is used
    _first.save("run", 0)
mariadb.make_context()


def run(*works: tuple[Any, ...]) -> list[int | None]:
    """Start a process for each function with its arguments, all at once; how they ended."""
    children = [processes.Process(target=function, args=args) for function, *args in works]
    for child in children:
        child.start()
    for child in children:
        join(child)
    return [child.exitcode for child in children]


def copy_and_die(source: str, target: str, point: str, nth: int, at_once: int) -> None:
    """Copy all runs, so many with one commit, and die at a fault point."""
    blocks._AT_MOST = at_once  # type: ignore[misc]
    with hf.SyncCheckpointer(source) as cp, faults.at(point, faults.kill, nth=nth):
        cp.copy_to(target)


def migrate_and_die(schema: str, migration: Any, url: str, nth: int) -> None:
    """Open a store as a newer holdfast, and die at a point of its migrations."""
    upgrade(schema, migration)
    with faults.at("schema.migrate", faults.kill, nth=nth), hf.SyncCheckpointer(url) as cp:
        cp.load("run")


def upgrade(schema: str, migration: Any, patch: Any = setattr) -> None:
    """Let this process be a newer holdfast, which knows one more migration."""
    module = importlib.import_module(f"holdfast.stores.{schema}")
    patch(module, "MIGRATIONS", (*module.MIGRATIONS, migration))


def save_many_times(url: str, number: int, count: int, ready: Any, newer: Any = None) -> None:
    """Save to a run of one's own and to one that ten share; meet at the beginning.

    Those that are `newer` bring the schema up to date then, and others have used it before.
    """
    if newer is not None:
        ready.wait(60)
        upgrade(*newer)
    with hf.SyncCheckpointer(url) as cp:
        cp.load("shared-0")
        if newer is None:
            ready.wait(60)
        for n in range(count):
            cp.save(f"run-{number}", n)
            cp.save(f"shared-{number // 10}", [number, n])


def clear_and_die(url: str, run: str, nth: int) -> None:
    """Clear a run, and die at the nth fault point."""
    with hf.SyncCheckpointer(url) as cp, faults.at(faults.ANY, faults.kill, nth=nth):
        cp.clear(run)


def forget_and_die(url: str, owner: str, nth: int) -> None:
    """Forget an owner, and die at the nth fault point."""
    with hf.SyncCheckpointer(url) as cp, faults.at(faults.ANY, faults.kill, nth=nth):
        cp.forget(owner=owner)
