"""Exports of others: what is too large or makes no sense is refused at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def cp() -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer("memory://") as checkpointer:
        yield checkpointer


@pytest.fixture
def forged(tmp_path: Path) -> Callable[[Edit], Path]:
    """Makes an export whose checkpoint was edited, with the right checksum."""
    path = tmp_path / "run.jsonl"
    with hf.SyncCheckpointer("memory://") as cp:
        cp.save("run", {"n": 1}, metadata={"a": 1}, step="s", owner="ann")
        cp.export_run("run", path)
    lines = [json.loads(line) for line in path.read_text().splitlines()[:-1]]

    def forge(edit: Edit) -> Path:
        edit(lines[-1])  # the checkpoint
        text = "".join(json.dumps(line) + "\n" for line in lines)
        digest = hashlib.sha256(text.encode()).hexdigest()
        end = {"entries": len(lines) - 1, "sha256": digest}
        path.write_text(text + json.dumps(end) + "\n")
        return path

    return forge


@pytest.mark.parametrize("value", ["a" * 50_000_000, [[]] * 6_000_000])
def test_metadata_that_no_save_would_take_is_not_even_parsed(
    cp: hf.SyncCheckpointer,
    forged: Callable[[Edit], Path],
    value: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = forged(lambda line: line["meta"]["metadata"].update(a=value))
    parsed: list[int] = []
    loads = json.loads

    def counted(text: str | bytes) -> Any:
        parsed.append(len(text))
        return loads(text)

    monkeypatch.setattr("holdfast.operations.transfer.json.loads", counted)
    with pytest.raises(ValueError, match=r"run.jsonl:3: it takes more than 20,\d+,\d+ bytes"):
        cp.import_run(path)
    assert max(parsed) < 1000
    assert cp.run("run") is None


@pytest.mark.parametrize("value", ["x, " * 2_000_000, [[]] * 1_000_000, ["y" * 17_000_000]])
def test_metadata_with_too_much_in_it_is_refused(
    cp: hf.SyncCheckpointer, forged: Callable[[Edit], Path], value: Any
) -> None:
    with pytest.raises(ValueError, match=r"run.jsonl:3: .*(too many values|metadata takes more)"):
        cp.import_run(forged(lambda line: line["meta"].update(metadata={"a": value})))


def test_a_line_that_claims_a_large_state_is_held_to_the_largest_that_is_allowed(
    forged: Callable[[Edit], Path],
) -> None:
    def edit(line: dict[str, Any]) -> None:
        line["size"] = 10**14
        line["state"] = "a" * 22_000_000

    with (
        hf.SyncCheckpointer("memory://", max_state_bytes=1000) as cp,
        pytest.raises(ValueError, match="too large for a state of 1,000 bytes"),
    ):
        cp.import_run(forged(edit))


NONSENSE: list[Any] = [
    None, True, -1, 1.5, 2**70, "", "x", "\x1b", [], [[]], {}, {"a": 1}, "é" * 600, "\ud800",
]  # fmt: skip


def test_no_value_of_a_field_is_anything_but_an_entry_or_refused(
    cp: hf.SyncCheckpointer, forged: Callable[[Edit], Path]
) -> None:
    whole: dict[str, Any] = {}
    forged(whole.update)
    for name in whole:
        for value in NONSENSE:

            def edit(line: dict[str, Any]) -> None:
                line.clear()
                line.update(whole)
                line[name] = value  # noqa: B023 - called at once

            path = forged(edit)
            if value == whole[name]:
                continue
            with pytest.raises(ValueError, match=r"run.jsonl"):
                cp.import_run(path)
            assert cp.run("run") is None


@pytest.mark.parametrize("depth", [500, 900, 5000, 200_000])
@pytest.mark.parametrize("where", ["state", "meta"])
def test_nesting_is_refused(
    cp: hf.SyncCheckpointer, forged: Callable[[Edit], Path], depth: int, where: str
) -> None:
    path = forged(lambda line: line.update({where: "HERE"}))
    text = path.read_text().replace('"HERE"', '{"a": ' * depth + "1" + "}" * depth)
    lines = text.splitlines()[:-1]
    digest = hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest()
    path.write_text("\n".join([*lines, json.dumps({"entries": 2, "sha256": digest})]) + "\n")
    with pytest.raises(ValueError, match=r"run.jsonl:3: "):
        cp.import_run(path)


def test_an_array_is_read_line_by_line_or_as_it_was_formatted(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    with hf.SyncCheckpointer("memory://") as source:
        for n in range(3):
            source.save("run", {"n": n})
        source.save("other", "x")
        source.export_runs(["run", "other"], tmp_path / "all.json", form="json")
    assert cp.import_runs(tmp_path / "all.json") == ["run", "other"]
    document = json.loads((tmp_path / "all.json").read_text())
    (tmp_path / "pretty.json").write_text(json.dumps(document, indent=1))
    with hf.SyncCheckpointer("memory://") as another:
        assert another.import_runs(tmp_path / "pretty.json") == ["run", "other"]
    cut = (tmp_path / "all.json").read_bytes().removesuffix(b"\n]\n")
    (tmp_path / "cut.json").write_bytes(cut)
    with pytest.raises(ValueError, match="cut short"):
        cp.import_runs(tmp_path / "cut.json")


def test_a_state_that_takes_much_more_room_as_text_comes_back(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    states: list[Any] = ["\x01" * 4_000_000, [False] * 500_000, [()] * 50_000]
    with hf.SyncCheckpointer("memory://") as source:
        for state in states:
            source.save("run", state)
        source.export_run("run", tmp_path / "run.jsonl")
    cp.import_run(tmp_path / "run.jsonl")
    loaded = cp.load("run")
    assert loaded is not None
    assert loaded.state == states[-1]


def test_an_array_of_too_many_values_is_not_even_parsed(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "many.json"
    path.write_text("[" + ",".join(["[]"] * 600_000) + "]")
    with pytest.raises(ValueError, match="so many values"):
        cp.import_runs(path)
