from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.workflow import ask, for_each, read_run, step, workflow

from .support import Flow


@workflow("drawn")
def drawn() -> Flow:
    yield step('a "b"').python(lambda: 1)
    yield for_each([1, 2, 3], lambda n: n, name="items")
    return (yield step("last").python(lambda: 2))


@workflow("asks")
def asks() -> Flow:
    return (yield ask("Well?"))


def test_a_run_is_drawn_as_its_steps_one_after_the_other() -> None:
    engine = hf.Engine("memory://")
    engine.run_sync(drawn(), run_id="r")
    assert engine.mermaid_sync("r") == (
        "flowchart TD\n"
        '    start(["start"])\n'
        '    n0["a #34;b#34;"]\n'
        '    n1["items x 3"]\n'
        '    n2["last"]\n'
        '    n3(["end"])\n'
        "    start --> n0\n"
        "    n0 --> n1\n"
        "    n1 --> n2\n"
        "    n2 --> n3\n"
    )


def test_a_run_that_has_done_nothing_yet_is_drawn_as_where_it_stands() -> None:
    engine = hf.Engine("memory://")
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asks(), run_id="r")
    assert '(["paused"])' in engine.mermaid_sync("r")
    with pytest.raises(hf.CheckpointNotFoundError):
        engine.mermaid_sync("nothing")


def test_a_step_reads_the_newest_state_of_another_run_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def write(name: str) -> str:
        Path(name).write_text(name)
        return name

    @workflow("other")
    def other() -> Flow:
        yield step("a").python(write, args=("a.txt",)).outputs("a.txt")
        yield step("b").python(write, args=("b.txt",)).outputs("b.txt")

    @workflow("reads")
    def reads(verified: bool) -> Flow:
        return (yield read_run("o", verified=verified))

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await engine.run(other(), run_id="o")
            Path("b.txt").unlink()
            both = {"a": "a.txt", "b": "b.txt"}
            assert await engine.run(reads(verified=False), run_id="1") == both
            assert await engine.run(reads(verified=True), run_id="2") == {"a": "a.txt"}
            Path("a.txt").unlink()
            with pytest.raises(hf.StepFailedError, match="CheckpointNotFoundError"):
                await engine.run(reads(verified=True), run_id="3")

    asyncio.run(main())
