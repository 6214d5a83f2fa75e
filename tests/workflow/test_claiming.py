"""What steps can say about files: that they are gone, where they are, and that early."""

from __future__ import annotations

import asyncio
import operator
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy
from holdfast.workflow import Workflow, command, for_each, step, workflow
from tests.engine.desk import Desk, there
from tests.workflow.support import Flow


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A directory to write to, which is the working directory, too."""
    place = tmp_path / "desk"
    place.mkdir()
    monkeypatch.chdir(place)
    return Desk(place)


@pytest.fixture
def engine() -> hf.Engine:
    return hf.Engine("memory://")


def run(engine: hf.Engine, flow: Workflow[..., Any]) -> Any:
    return asyncio.run(engine.run(flow(), run_id="r", resume=True))


# --- what is gone


def zipping(desk: Desk) -> Workflow[..., Any]:
    def pages() -> None:
        desk.call("pages")
        Path("pages/more").mkdir(parents=True)
        Path("pages/one").write_text("1")
        Path("pages/more/two").write_text("2")

    def pack() -> None:
        desk.call("zip")
        with zipfile.ZipFile("pages.zip", "w") as archive:
            for page in ("pages/one", "pages/more/two"):
                archive.write(page)
        shutil.rmtree("pages")

    @workflow("zips")
    def flow() -> Flow:
        yield step("pages").python(pages, outputs="pages")
        yield step("zip").python(pack).reads("pages").outputs("pages.zip").removes("pages")
        yield step("last").python(desk.write, args=("last",), outputs="last")

    return flow


def test_a_directory_that_a_step_consumes_is_not_made_again(engine: hf.Engine, desk: Desk) -> None:
    flow = zipping(desk)
    run(engine, flow)
    assert desk.take() == ["pages", "zip", "last"]
    run(engine, flow)
    assert desk.take() == []
    (desk / "last").unlink()
    run(engine, flow)
    assert desk.take() == ["last"]
    (desk / "pages.zip").unlink()
    run(engine, flow)
    assert desk.take() == ["pages", "zip", "last"], "it takes the pages to make the archive"


def test_what_is_there_again_is_not_gone(engine: hf.Engine, desk: Desk) -> None:
    flow = zipping(desk)
    run(engine, flow)
    desk.take()
    (desk / "pages").mkdir()
    run(engine, flow)
    assert desk.take() == ["pages", "zip", "last"]


def test_of_a_file_that_rotates_the_newest_is_kept_and_claimed(
    engine: hf.Engine, desk: Desk
) -> None:
    @step(outputs=lambda _, n: f"model-{n}", removes=lambda _, n: f"model-{n - 1}")
    def train(n: int) -> None:
        desk.write(f"model-{n}")
        (desk / f"model-{n - 1}").unlink(missing_ok=True)

    @workflow("trains")
    def flow() -> Flow:
        for n in range(4):
            yield train(n)

    for _ in range(2):
        run(engine, flow)
    assert desk.take() == [f"model-{n}" for n in range(4)]
    assert [path.name for path in desk.place.iterdir()] == ["model-3"]


def test_what_is_made_anew_where_something_was_removed_is_no_failure(
    engine: hf.Engine, desk: Desk
) -> None:
    def make(text: str) -> None:
        desk.call(text)
        Path("d").mkdir()
        Path("d/f").write_text(text)

    @workflow("again")
    def flow() -> Flow:
        yield step("a").python(make, args=("a",), outputs="d")
        yield step("b").python(shutil.rmtree, args=("d",)).removes("d")
        yield step("c").python(make, args=("c",), outputs="d/f")

    for _ in range(2):
        run(engine, flow)
    assert desk.take() == ["a", "c"]


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_is_still_there_fails_the_step_that_should_have_removed_it(
    engine: hf.Engine, desk: Desk, kind: str
) -> None:
    (desk / "x").mkdir() if kind == "directory" else (desk / "x").touch()

    @workflow("keeps")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",)).removes("x")

    with pytest.raises(hf.StepFailedError, match="x still exists"):
        run(engine, flow)


def test_a_command_can_remove_things(engine: hf.Engine, desk: Desk) -> None:
    @workflow("gzips")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a",), outputs="a")
        yield command(["gzip", "a"], reads="a", outputs="a.gz", removes="a")

    for _ in range(2):
        run(engine, flow)
    assert desk.take() == ["a"]


# --- where relative paths begin


def relative(desk: Desk) -> Workflow[..., Any]:
    def work(name: str) -> str:
        desk.call(name)
        Path(name).write_text(name)
        return name

    @workflow("relative")
    def flow() -> Flow:
        yield step("a").python(work, args=("a",), outputs="a")
        claim = Evidence("artifact_exists", "b is there", {"path": "b"})
        pack = EvidencePack([claim], False, True, 1)
        yield step("b").python(work, args=("b",)).evidence(claim, pack)

    return flow


def test_a_program_elsewhere_looks_where_it_was_claimed(
    engine: hf.Engine, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = relative(desk)
    run(engine, flow)
    desk.take()
    monkeypatch.chdir(tmp_path)
    run(engine, flow)
    assert desk.take() == []
    (desk / "b").unlink()
    run(engine, flow)
    assert desk.take() == ["b"]
    assert (tmp_path / "b").exists()


def test_a_program_whose_directory_is_gone_reports_it_and_repeats_nothing(
    engine: hf.Engine, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = relative(desk)
    run(engine, flow)
    desk.take()
    monkeypatch.chdir(tmp_path)
    moved = desk.place.rename(tmp_path / "moved")
    with pytest.raises(hf.VerificationError, match=r"a was claimed in .*desk; in .*, a does not"):
        run(engine, flow)
    assert desk.take() == []
    moved.rename(desk.place)


def test_that_a_file_is_absent_is_not_verified_in_another_directory(
    engine: hf.Engine, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.place)

    @workflow
    def flow() -> Flow:
        yield (
            step("a")
            .python(lambda: None)
            .evidence(Evidence("artifact_exists", "unlocked", {"path": "lock", "type": "absent"}))
        )

    run(engine, flow)
    moved = desk.place.rename(tmp_path / "moved")
    (moved / "lock").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hf.VerificationError, match=r"that it is not in .* says nothing"):
        run(engine, flow)
    moved.rename(desk.place)
    run(engine, flow)


def test_a_directory_that_was_moved_as_a_whole_is_fine(
    engine: hf.Engine, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = relative(desk)
    run(engine, flow)
    desk.take()
    moved = desk.place.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    run(engine, flow)
    assert desk.take() == []


def test_a_base_path_may_stand_for_the_directory_it_was_claimed_in(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = hf.open_store("memory://")
    flow = relative(desk)
    run(hf.Engine(store), flow)
    desk.take()
    (desk / "b").unlink()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    for base, words in ((tmp_path / "other", "was claimed in"), (desk.place, "b is there")):
        checked = hf.Engine(store, verifier=EvidenceVerifier(base))
        with pytest.raises(hf.HoldfastError, match=words):  # at last b is written elsewhere
            run(checked, flow)
    assert desk.take() == ["b"]


# --- before the step is called


@pytest.mark.parametrize(
    "said",
    [
        {"outputs": "../x"},
        {"reads": "../x"},
        {"removes": "../x"},
        {"evidence": Evidence("artifact_exists", "typed wrongly", {"pth": "x"})},
        {"evidence": Evidence("no such type", "unknown", {})},
        {"evidence": EvidencePack([Evidence("file_sha256", "no digest", {"path": "x"})])},
        {"evidence": Evidence("db_row", "no database", {"table": "t", "where": {"id": 1}})},
        {"evidence": "it went well"},
    ],
    ids=str,
)
def test_what_could_never_be_claimed_is_refused_before_the_step_is_called(
    engine: hf.Engine, desk: Desk, said: dict[str, Any]
) -> None:
    @step(retry=3, **said)
    def pay() -> None:
        desk.call("pay")

    @workflow("pays")
    def flow() -> Flow:
        yield pay()

    with pytest.raises(hf.StepFailedError):
        run(engine, flow)
    assert desk.take() == []


def test_a_path_outside_the_roots_is_refused_before_the_step_is_called(
    desk: Desk, tmp_path: Path
) -> None:
    strict = EvidenceVerifier(policy=Policy(roots=(desk.place,)))

    @workflow("pays")
    def flow() -> Flow:
        yield step("pay").python(desk.call, args=("pay",), outputs=tmp_path / "x")

    with pytest.raises(hf.StepFailedError, match="in none of the roots"):
        run(hf.Engine("memory://", verifier=strict), flow)
    assert desk.take() == []


# --- functions of the result and the arguments


def test_a_function_is_given_as_much_as_it_asks_for(engine: hf.Engine, desk: Desk) -> None:
    def work(name: str, *, ending: str = "out") -> dict[str, str]:
        desk.write(f"{name}.{ending}")
        return {"file": f"{name}.{ending}"}

    def made(name: str) -> Any:
        return step(name).python(work, args=(name,), kwargs={"ending": "txt"})

    @workflow("asks")
    def flow() -> Flow:
        yield made("a").outputs(lambda result: result["file"])
        yield made("b").outputs(lambda result, name, ending: f"{name}.{ending}")
        yield made("c").outputs(lambda result, name, *, ending: [f"{name}.{ending}"])
        yield made("d").outputs(operator.itemgetter("file"))
        for known in ("e.txt", "f.txt"):
            yield made(known[0]).outputs(lambda result, known=known: known)
        yield made("g").evidence(lambda result, name, ending: there(desk / f"{name}.{ending}"))
        yield step("h").python(desk.write, args=("h",), outputs=lambda text, name: Path(name))

    names = [*(f"{name}.txt" for name in "abcdefg"), "h"]
    run(engine, flow)
    assert desk.take() == names
    for gone in reversed(names):
        (desk / gone).unlink()
        run(engine, flow)
        assert desk.take() == names[names.index(gone) :]


def test_the_items_of_a_for_each_name_their_files(engine: hf.Engine, desk: Desk) -> None:
    @workflow("each")
    def flow() -> Flow:
        yield for_each("ab", desk.write, concurrency=1, outputs=lambda text, name: name)

    run(engine, flow)
    (desk / "b").unlink()
    run(engine, flow)
    assert desk.take() == ["a", "b", "b"]


def test_what_is_read_may_depend_on_the_arguments(engine: hf.Engine, desk: Desk) -> None:
    (desk / "a.in").write_text("1")

    @step(reads=lambda name: f"{name}.in")
    def work(name: str) -> str:
        desk.call(name)
        return Path(f"{name}.in").read_text()

    @workflow("reads")
    def flow() -> Flow:
        return (yield work("a"))

    assert run(engine, flow) == "1"
    (desk / "a.in").write_text("2")
    assert run(engine, flow) == "2"


def test_a_result_that_is_put_right_names_its_files_by_the_arguments_of_the_step(
    engine: hf.Engine, desk: Desk
) -> None:
    @workflow("checked")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a", "bad"), outputs=lambda _, name, text: name)
        yield made.validate(
            lambda text: text == "better",
            retry=1,
            on_failure=lambda text, problems: desk.write("a", "better"),
        )

    for _ in range(2):
        run(engine, flow)
    assert desk.take() == ["a", "a"]


def test_a_path_with_a_star_is_taken_literally_and_the_error_says_so(
    engine: hf.Engine, desk: Desk
) -> None:
    @workflow("stars")
    def flow() -> Flow:
        yield step("a").python(desk.write, args=("a.csv",), outputs="*.csv")

    with pytest.raises(hf.StepFailedError, match="glob patterns are not expanded"):
        run(engine, flow)


def test_the_outputs_of_a_command_are_relative_to_the_program(
    engine: hf.Engine, desk: Desk
) -> None:
    (desk / "work").mkdir()
    writes = [sys.executable, "-c", "open('out.txt', 'w').write('x')"]

    @workflow("elsewhere")
    def flow(path: str) -> Flow:
        yield command(writes, cwd="work", outputs=path)

    engine.run_sync(flow(path="work/out.txt"))
    with pytest.raises(hf.StepFailedError, match=r"it wrote .*out\.txt, but"):
        engine.run_sync(flow(path="out.txt"))
