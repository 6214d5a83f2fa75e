"""`holdfast dry-run`: which runs would resume with newer code."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.cli.conftest import Cli

_NEWER = """
import holdfast as hf
from holdfast.workflow import ask, step, workflow

posts = hf.Migrations(version=2)


@posts.state(from_version=1)
def titled(results):
    return {"load": {"title": results["fetch"]["head"]}}


@workflow("post", migrate=posts)
async def post(url):
    page = await step("load").python(lambda: open("executed", "w"))
    return page["title"] if await ask("Publish?", returns=bool) else ""


states = hf.Migrations(2, {1: lambda state: {**state, "unit": "m"}})
"""


@pytest.fixture
def posts(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    """Two runs of an older version, of which one has what the newer one needs."""
    Path("newer.py").write_text(_NEWER)

    @workflow("post")
    async def post(url: str) -> bool:
        await step("fetch").python(lambda: {"head" if "good" in url else "title": "Kelp"})
        return await ask("Publish?", returns=bool)

    with hf.Engine(cp) as engine:
        for name in ("good", "bad"):
            with pytest.raises(hf.RunPausedError):
                engine.run_sync(post(name), run_id=f"post-{name}")


def test_a_dry_run_lists_the_runs_and_why_some_would_not_resume(cli: Cli, posts: None) -> None:
    done = cli("dry-run", "--flow", "newer:post")
    assert done.code == 1
    bad, good, why, count = done.out.splitlines()[1:]
    assert good.split()[:2] == ["post-good", "paused"]
    assert "1 → 2" in good
    assert "- results.fetch, + results.load" in good
    assert bad.split()[-1] == "no"
    assert why.startswith("post-bad: ")
    assert "post-bad@1 can't be migrated" in why
    assert "titled() raised KeyError: 'head'" in why
    assert count == "1 of 2 would resume"
    assert not Path("executed").exists()


def test_a_dry_run_of_one_run_is_json_without_values(cli: Cli, posts: None) -> None:
    done = cli("dry-run", "post-good", "--flow", "newer:post", "--json")
    assert done.code == 0
    (found,) = done.lines
    assert found == {
        "run_id": "post-good",
        "flow": "post",
        "status": "paused",
        "checkpoint_id": "post-good@1",
        "from_version": "1",
        "to_version": "2",
        "changes": [
            {"op": "remove", "path": "/results/fetch"},
            {"op": "add", "path": "/results/load"},
        ],
        "error": None,
        "resumes": True,
    }
    assert "Kelp" not in done.out


def test_a_dry_run_of_migrations_is_for_runs_that_no_flow_executes(
    cli: Cli, cp: hf.SyncCheckpointer, posts: None
) -> None:
    cp.save("depth-1", {"n": 1})
    cp.save("depth-2", {"n": 1, "unit": "ft"}, schema_version=3)
    done = cli("dry-run", "--migrations", "newer:states", "--prefix", "depth-", "--json")
    assert done.code == 1
    second, first = done.lines
    assert (first["resumes"], first["changes"]) == (True, [{"op": "add", "path": "/unit"}])
    assert "of version 3" in second["error"]
    everything = cli("dry-run", "--migrations", "newer:states", "--json").lines
    assert {row["run_id"] for row in everything} == {"depth-1", "depth-2"}


def test_wrong_words_are_explained(cli: Cli, posts: None) -> None:
    assert "--flow MODULE:NAME" in cli("dry-run").err
    assert "goes with --migrations" in cli("dry-run", "--prefix", "x").err
    assert "is not Migrations" in cli("dry-run", "--migrations", "newer:post").err
    assert "no unfinished runs" in cli("dry-run", "--flow", "jobs.py:etl").out
