"""Files and URLs of others: bundles, pipelines and their conditions. Refused in words, or fine."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.evidence import Evidence
from holdfast.evidence.verdicts import Verdict
from holdfast.pipeline import Pipeline
from holdfast.pipeline.conditions import OPERATORS, condition_of
from holdfast.pipeline.problems import Problems
from holdfast.pipeline.references import Scope
from holdfast.pipeline.registry import Registry
from tests.damage.lives import LIVES
from tests.effort import examples
from tests.hostile.test_forged import KEYS, plain
from tests.strategies import values

quietly = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
some = settings(quietly, max_examples=examples(30))


# --- bundles


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Exports of runs with all that a run can have."""
    found = []
    for life in LIVES:
        place = tmp_path_factory.mktemp(life.run)
        with pytest.MonkeyPatch.context() as patch, hf.SyncCheckpointer("memory://") as cp:
            patch.chdir(place)
            life.make(cp.store)
            cp.export_run(life.run, place / "run.jsonl")
        found.append((place / "run.jsonl").read_bytes())
    return found


def closed(lines: list[bytes]) -> bytes:
    """A bundle of these lines, with the checksum that fits."""
    text = b"".join(line + b"\n" for line in lines)
    end = {"entries": len(lines) - 1, "sha256": hashlib.sha256(text).hexdigest()}
    return text + json.dumps(end).encode() + b"\n"


def imports_or_refuses(bundle: bytes, place: Path) -> None:
    path = place / "run.jsonl"
    path.write_bytes(bundle)
    with hf.SyncCheckpointer("memory://") as cp:
        try:
            runs = cp.import_runs(path)
        except (ValueError, hf.HoldfastError):
            assert cp.runs() == []
            return
        for run in runs:
            with contextlib.suppress(hf.HoldfastError):
                cp.load(run)
            cp.verify(run)


@given(
    st.integers(0, len(LIVES) - 1),
    st.integers(0, 40),
    st.dictionaries(
        st.sampled_from(
            ["run", "seq", "kind", "entry_id", "parent", "term", "digest", "step", "status", "at",
             "size", "flow", "thread", "owner", "meta", "state", "delta", "proof", "format", "runs"]
        )
        | st.sampled_from(KEYS),
        plain, min_size=1, max_size=2,
    ),
    st.booleans(),
)  # fmt: skip
@some
def test_a_bundle_with_other_fields_is_imported_or_refused(
    bundles: list[bytes], tmp_path: Path, life: int, line: int, fields: dict[str, Any], inside: bool
) -> None:
    lines = bundles[life].splitlines()[:-1]
    chosen = line % len(lines)
    content = json.loads(lines[chosen])
    if inside and isinstance(content.get("meta"), dict):
        content["meta"] |= fields
    else:
        content |= fields
    lines[chosen] = json.dumps(content).encode()
    imports_or_refuses(closed(lines), tmp_path)


@given(
    st.integers(0, len(LIVES) - 1),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=10)),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
@some
def test_a_bundle_with_other_bytes_is_imported_or_refused(
    bundles: list[bytes],
    tmp_path: Path,
    life: int,
    cuts: list[tuple[float, int, bytes]],
    fits: bool,
) -> None:
    content = bytearray(bundles[life])
    for where, length, insert in cuts:
        at = int(where * len(content))
        content[at : at + length] = insert
    lines = bytes(content).split(b"\n")[:-2]
    imports_or_refuses(closed(lines) if fits and lines else bytes(content), tmp_path)


# --- documents


def _document() -> dict[str, Any]:
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", {"n": 1}, metadata={"a": 1})
        found = cp.load("run")
    assert found is not None
    return found.to_dict()


CHECKPOINT = _document()
CLAIM = Evidence("artifact_exists", "it is there", {"path": "x"}).to_dict()


@given(st.sampled_from(sorted(CHECKPOINT)), st.sampled_from(sorted(CLAIM)), plain)
@some
def test_a_document_of_another_shape_is_refused_with_a_value_error(
    field: str, fact: str, value: Any
) -> None:
    for make, document in (
        (hf.Checkpoint.from_dict, CHECKPOINT | {field: value}),
        (hf.CheckpointInfo.from_dict, CHECKPOINT | {field: value}),
        (Evidence.from_dict, CLAIM | {fact: value}),
        (hf.Checkpoint.from_dict, value),
        (hf.CheckpointInfo.from_dict, value),
        (Evidence.from_dict, value),
        (Verdict.from_dict, value),
    ):
        with contextlib.suppress(ValueError):
            make(document)


# --- pipelines


PIPELINE = """\
name: reporting
version: "1"
parameters: {limit: 3}
steps:
  - {id: a, function: work, inputs: "{pipeline_input.n}", retry: {attempts: 2}}
  - {id: b, type: human_input, prompt: "Is {steps.a.output} right?", choices: [yes, no]}
flow:
  start_at: a
  paths:
    - {from: a, to: b, condition: {type: expression, config: {source: a, operator: ">", value: 1}}}
    - {from: a, to: end_with_failure}
    - {from: b, to: end}
"""
WORDS = [
    *("a", "b", "work", "&x", "*x", "<<: *x", "!!python/object/apply:os.system [id]", "!!binary x"),
    *("{", "}", "[", "]", ": ", "- ", "\n", "\t", '"', "'", "|", ">", "#", "---\n", "%YAML 9.9\n"),
    *("0x1f", "1e999", ".nan", "null", "~", "2001-01-01", "1:1:1", "\x00", "\ufeff", "\u2028"),
    *("9" * 400, "[" * 60, "{a: " * 60, "? ", "{steps.a.output}", "{__class__}", "{0.__init__}"),
]


def work(data: Any) -> Any:
    return data


@given(
    st.sampled_from([".yaml", ".json"]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(WORDS)), max_size=4),
)
@some
def test_a_pipeline_file_is_read_or_refused_in_words(
    tmp_path: Path, suffix: str, cuts: list[tuple[float, int, str]]
) -> None:
    text = PIPELINE
    if suffix == ".json":
        text = json.dumps(_as_json(tmp_path), indent=1)
    for where, length, word in cuts:
        at = int(where * len(text))
        text = text[:at] + word + text[at + length :]
    path = tmp_path / f"p{suffix}"
    path.write_text(text)
    try:
        Pipeline.from_file(path, registry={"work": work})
    except hf.InvalidFlowError as error:
        assert len(str(error)) < 20_000


def _as_json(place: Path) -> Any:
    (place / "whole.yaml").write_text(PIPELINE)
    return Pipeline.from_file(place / "whole.yaml", registry={"work": work}).to_dict()


@given(st.sampled_from(sorted(OPERATORS)), values(max_leaves=5), plain)
@some
def test_a_condition_holds_or_not_or_says_why_it_can_not_be_told(
    operator: str, actual: Any, expected: Any
) -> None:
    problems = Problems()
    config = {"source": "a", "operator": operator, "value": expected}
    found = condition_of({"type": "expression", "config": config}, ("a",), Registry(), problems)
    if problems:
        return
    with contextlib.suppress(hf.UnresolvedError):
        assert found.holds(Scope({"pipeline_input": None, "steps": {"a": actual}}, {})) in (
            True,
            False,
        )


# --- URLs


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@given(
    st.sampled_from(["sqlite", "file", "memory", "duckdb", "SQLITE", "x", "http", ""]),
    st.lists(
        st.sampled_from(
            ["/", "//", "a", "b.db", "..", "%2e%2e", "%00", "\x00", "%ff", "?", "#", "&", "=", ":", "@",
             "[", "]", "survives=", "power-loss", "deadline=", "nan", "1e999", "9" * 400, "\ud800", " ",
             "\n", "é", "mode=", "vfs=", "timeout=-1", "x" * 300]
        ),
        max_size=8,
    ),
)  # fmt: skip
@some
def test_a_url_opens_a_store_below_it_or_is_refused(
    elsewhere: Path, scheme: str, parts: list[str]
) -> None:
    url = f"{scheme}:///{elsewhere}/" + "".join(parts).replace("..", "dots")
    try:
        hf.open_store(url).close()
    except hf.HoldfastError as error:
        assert str(error)
