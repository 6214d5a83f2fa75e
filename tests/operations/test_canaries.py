"""What was forgotten is not in the files of a store any more, nor can a copy of them be read."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.kernel.keyed import destroy
from holdfast.workflow import step, workflow

WORDS = [secrets.token_hex(12) for _ in range(4)]  # in a state, a result, metadata and an input


@step
def tell(word: str) -> str:
    return f"{word} {WORDS[1]}"


@workflow
async def telling(word: str) -> str:
    return await tell(word)


@pytest.fixture(params=["sqlite", "file", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    directory = tmp_path / "store"
    directory.mkdir()
    names = {"sqlite": "runs.db", "file": "runs", "duckdb": "runs.duckdb"}
    kind = request.param
    slash = "" if kind == "file" else "/"
    return f"{kind}://{slash}{directory}/{names[kind]}", directory


def fill(cp: hf.SyncCheckpointer) -> None:
    for n in range(60):
        state = {"n": n, "words": [WORDS[0]] * 3, "pad": secrets.token_hex(2000)}
        cp.save("hers", state, owner="ann", metadata={"note": WORDS[2]})
        cp.save("his", {"n": n, "pad": "x" * n}, owner="bob")
    hf.Engine(cp).run_sync(telling(WORDS[3]), run_id="told", owner="ann")


def canaries(directory: Path) -> Iterator[tuple[str, str]]:
    """The words that are in a file, compressed states not counted."""
    for file in directory.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            yield from ((file.name, word) for word in WORDS if word.encode() in data)


def test_no_file_of_the_store_holds_what_was_forgotten(place: tuple[str, Path]) -> None:
    url, directory = place
    with hf.SyncCheckpointer(url) as cp:
        fill(cp)
    assert list(canaries(directory)), "else the test proves nothing"
    with hf.SyncCheckpointer(url) as cp, hf.SyncCheckpointer(cp.store) as another:
        another.save("his", {"n": 60}, owner="bob")
        receipt = cp.forget(owner="ann")
        assert cp.verify_receipt(receipt).ok
        assert list(canaries(directory)) == [], "while others have it open"
        another.save("his", {"n": 61})
    assert list(canaries(directory)) == []
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify_receipt(receipt).ok
        assert cp.verify("his").ok


def test_a_copy_of_the_files_without_the_key_row_can_not_be_read_any_more(
    place: tuple[str, Path], tmp_path: Path
) -> None:
    """As a log, a replica or undeleted pages would keep it: entries from before, and the keys of now."""
    url, directory = place
    ring = hf.Keyring({"2026": secrets.token_bytes(32)})
    with hf.SyncCheckpointer(url, key=ring) as cp:
        fill(cp)
        cp.copy_to("memory://")  # nothing keeps it from being read so far
    assert list(canaries(directory)) == []
    shutil.copytree(directory, tmp_path / "before")
    with hf.SyncCheckpointer(url, key=ring) as cp:
        receipt = cp.forget(owner="ann")
        assert len(receipt.keys) == 1
        assert cp.verify_receipt(receipt).ok
    backup = url.replace(str(directory), str(tmp_path / "before"))
    with hf.SyncCheckpointer(backup, key=ring) as cp:
        found = cp.verify_receipt(receipt)
        assert found.leftovers == (f"the data key {receipt.keys[0]} of the owner",)
        destroy(cp.core.journals, "ann")
    with hf.SyncCheckpointer(backup, key=ring) as cp:
        with pytest.raises(hf.KeyDestroyedError):
            cp.load("hers")
        with pytest.raises(hf.KeyDestroyedError):
            list(cp.iter_states("told"))
        his = cp.load("his")
        assert his is not None
        assert his.state["n"] == 59
