"""Values of registered types in states, results, inputs, copies and exports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.workflow import step, workflow
from tests.own_codecs import no_codecs, own_codecs


@dataclasses.dataclass(frozen=True)
class Share:
    of: Fraction


@pytest.fixture(autouse=True)
def fractions() -> Iterator[None]:
    with own_codecs():
        hf.register_codec(
            Fraction, "fraction", lambda f: [f.numerator, f.denominator], lambda d: Fraction(*d)
        )
        yield


def state(n: int) -> dict[str, object]:
    return {"share": Share(Fraction(n, 7)), "log": [Fraction(i, 3) for i in range(600 + n)]}


def test_states_hold_registered_types_whole_and_as_changes(cp: hf.SyncCheckpointer) -> None:
    for n in range(5):
        cp.save("run", state(n), metadata={"part": Fraction(1, n + 1)})
    for n, found in enumerate(cp.iter_states("run")):
        assert found.state["log"] == state(n)["log"]
        assert found.state["share"] == {"of": Fraction(n, 7)}
        assert found.metadata == {"part": Fraction(1, n + 1)}
    typed = cp.load("run", as_type=dict[str, Share | list[Fraction]])
    assert typed is not None
    assert typed.state["share"] == Share(Fraction(4, 7))
    again = hf.Checkpoint.from_dict(typed.to_dict())
    assert again.state["share"] == {"of": Fraction(4, 7)}


def test_copies_exports_and_diffs_need_no_codec(
    cp: hf.SyncCheckpointer, tmp_path: Path, kept_url: str
) -> None:
    for n in range(3):
        cp.save("run", state(n))
    with no_codecs():
        cp.export_run("run", tmp_path / "run.jsonl")
        with hf.SyncCheckpointer(f"file://{tmp_path}/copy") as files:
            assert files.import_run(tmp_path / "run.jsonl")
            assert files.verify("run").ok
        cp.copy_to(kept_url)
        assert "fraction" in str(cp.diff("run", 1, 2))
        with pytest.raises(hf.UnknownCodecError, match="'fraction'"):
            cp.load("run")
    for where in (kept_url, f"file://{tmp_path}/copy"):
        with hf.SyncCheckpointer(where) as other:
            found = other.load("run")
            assert found is not None
            assert found.state["log"] == state(2)["log"]


def test_a_run_takes_and_gives_registered_types(kept_url: str) -> None:
    calls = []

    @step
    def halve(part: Fraction) -> Fraction:
        calls.append(part)
        return part / 2

    @workflow
    async def quarter(part: Fraction) -> list[Fraction]:
        half = await halve(part)
        return [half, await halve(half)]

    for _ in range(2):
        engine = hf.Engine(kept_url)
        found = engine.run_sync(quarter(Fraction(1)), run_id="run", resume=True)
        assert found == [Fraction(1, 2), Fraction(1, 4)]
        engine.close_sync()
    assert calls == [Fraction(1), Fraction(1, 2)]
    engine = hf.Engine(kept_url)
    with pytest.raises(hf.InputMismatchError):
        engine.run_sync(quarter(Fraction(2)), run_id="run", resume=True)
    engine.close_sync()


def test_a_result_that_its_codec_can_not_read_again_fails_its_step(tmp_path: Path) -> None:
    hf.register_codec(Share, "share", lambda share: "lost", lambda data: Share(data.of))

    @step
    def give() -> Share:
        return Share(Fraction(1))

    @workflow
    async def flow() -> Share:
        return await give()

    engine = hf.Engine(f"sqlite:///{tmp_path}/runs.db")
    with pytest.raises(hf.StepFailedError, match="codec 'share' refused the stored data"):
        engine.run_sync(flow(), run_id="run")
    engine.close_sync()
