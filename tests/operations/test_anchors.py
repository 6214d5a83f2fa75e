"""Anchors find what somebody did to a store who can write to it, and computes every digest anew."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.operations.anchor_files import Tree
from holdfast.stores import MemoryStore

KINDS = ("sqlite", "file")


def url_of(kind: str, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else f"file://{tmp_path}/runs"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def attacked(kind: str, tmp_path: Path) -> str:
    """A store with some life in it, an older copy of it, and an anchor."""
    url = url_of(kind, tmp_path)
    with hf.SyncCheckpointer(url) as cp:
        for run in ("left", "right", "other"):
            for n in range(4):
                cp.save(run, {"run": run, "n": n}, step=f"s{n}", thread_id="t")
        cp.verify_chain()
        cp.anchor(lambda anchor, lines: None)  # the store gets its id
    copy_of(kind, tmp_path, "runs", "older")
    with hf.SyncCheckpointer(url) as cp:
        for run in ("left", "right"):
            cp.save(run, {"run": run, "n": 4}, step="s4")
        cp.save("late", {"n": 0})
        cp.anchor(tmp_path / "anchors.jsonl")
    return url


def copy_of(kind: str, tmp_path: Path, name: str, to: str) -> None:
    if kind == "file":
        shutil.rmtree(tmp_path / to, ignore_errors=True)
        shutil.copytree(tmp_path / name, tmp_path / to)
    else:
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"{to}.db{suffix}").unlink(missing_ok=True)
        shutil.copy(tmp_path / f"{name}.db", tmp_path / f"{to}.db")


def statement(tmp_path: Path, text: str, *values: Any, name: str = "runs") -> None:
    with closing(sqlite3.connect(tmp_path / f"{name}.db")) as db, db:
        assert db.execute(text, values).rowcount > 0


def directory(tmp_path: Path, run: str, name: str = "runs") -> Path:
    return tmp_path / name / run


def forge(kind: str, tmp_path: Path, run: str, entries: int) -> str:
    """Another history of the run, made by holdfast itself: every digest and checksum is right."""
    forged = "forged"
    url = f"sqlite:///{tmp_path}/{forged}.db" if kind == "sqlite" else f"file://{tmp_path}/{forged}"
    with hf.SyncCheckpointer(url) as cp:
        for n in range(entries):
            cp.save(run, {"run": run, "n": -n}, step=f"s{n}", thread_id="t")
    return forged


def put_forged(kind: str, tmp_path: Path, run: str, forged: str) -> None:
    if kind == "file":
        shutil.rmtree(directory(tmp_path, run))
        shutil.copytree(directory(tmp_path, run, forged), directory(tmp_path, run))
    else:
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
            db.execute("ATTACH DATABASE ? AS forged", (str(tmp_path / f"{forged}.db"),))
            db.execute("DELETE FROM holdfast_entries WHERE run = ?", (run,))
            db.execute(
                "INSERT INTO holdfast_entries SELECT * FROM forged.holdfast_entries WHERE run = ?",
                (run,),
            )


def an_older_copy(kind: str, tmp_path: Path) -> dict[str, str]:
    copy_of(kind, tmp_path, "older", "runs")
    return {"left": "cut off", "right": "cut off", "late": "removed"}


def a_cut_tail(kind: str, tmp_path: Path) -> dict[str, str]:
    if kind == "file":
        max(directory(tmp_path, "left").glob("[0-9]*")).unlink()
    else:
        statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = 'left' AND seq = 5")
    return {"left": "cut off"}


def a_forged_history(kind: str, tmp_path: Path) -> dict[str, str]:
    put_forged(kind, tmp_path, "left", forge(kind, tmp_path, "left", 9))
    return {"left": "altered"}


def a_forged_short_history(kind: str, tmp_path: Path) -> dict[str, str]:
    put_forged(kind, tmp_path, "left", forge(kind, tmp_path, "left", 2))
    return {"left": "cut off"}


def swapped_histories(kind: str, tmp_path: Path) -> dict[str, str]:
    if kind == "file":
        one, other = directory(tmp_path, "left"), directory(tmp_path, "right")
        one.rename(tmp_path / "aside")
        other.rename(one)
        (tmp_path / "aside").rename(other)
    else:
        for old, new in (("left", "aside"), ("right", "left"), ("aside", "right")):
            statement(tmp_path, "UPDATE holdfast_entries SET run = ? WHERE run = ?", new, old)
    return {"left": "altered", "right": "altered"}


def a_removed_run(kind: str, tmp_path: Path) -> dict[str, str]:
    if kind == "file":
        shutil.rmtree(directory(tmp_path, "other"))
    else:
        statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = 'other'")
    return {"other": "removed"}


def a_removed_thread(kind: str, tmp_path: Path) -> dict[str, str]:
    if kind == "file":
        shutil.rmtree(next((tmp_path / "runs").glob("%1fthread*")))
    else:
        statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = ?", "\x1fthread\x1ft")
    return {"\x1fthread\x1ft": "removed"}


ATTACKS: list[Callable[[str, Path], dict[str, str]]] = [
    an_older_copy,
    a_cut_tail,
    a_forged_history,
    a_forged_short_history,
    swapped_histories,
    a_removed_run,
    a_removed_thread,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_anchor_finds_what_was_done_to_the_files_of_a_store(
    attacked: str, attack: Callable[[str, Path], dict[str, str]], kind: str, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors.jsonl"
    with hf.SyncCheckpointer(attacked) as cp:
        assert cp.verify_anchor(anchors).ok
    expected = attack(kind, tmp_path)
    with hf.SyncCheckpointer(attacked) as cp:
        found = cp.verify_anchor(anchors)
    assert found.older == (attack is an_older_copy)
    said = {problem.run_id: problem.what for problem in found.problems}
    if attack is swapped_histories and kind == "file":  # each file says whose it is
        expected = dict.fromkeys(expected, "damaged")
    assert said == expected


@pytest.mark.parametrize("attack", [an_older_copy, a_cut_tail, a_removed_run])
def test_no_chain_can_tell_that_its_end_is_gone(
    attacked: str, attack: Callable[[str, Path], dict[str, str]], kind: str, tmp_path: Path
) -> None:
    """This is what anchors are for."""
    attack(kind, tmp_path)
    with hf.SyncCheckpointer(attacked) as cp:
        cp.store.rebuild()
        assert cp.verify_chain().ok


def test_another_store_in_its_place_is_told_by_its_id(attacked: str, tmp_path: Path) -> None:
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/new.db") as cp:
        with hf.SyncCheckpointer(attacked) as source:
            source.copy_to(cp.store)
        found = cp.verify_anchor(tmp_path / "anchors.jsonl")
    assert [(problem.run_id, problem.what) for problem in found.problems] == [("", "other store")]
    assert found.heads == 4, "the runs themselves are the same"


def test_an_anchor_in_another_store_and_one_that_a_function_keeps_find_the_same(
    url: str, tmp_path: Path
) -> None:
    store, other = hf.open_store(url), f"sqlite:///{tmp_path}/anchors.db"
    kept: list[bytes] = []
    with hf.SyncCheckpointer(store) as cp:
        for n in range(3):
            cp.save("run", {"n": n})
            made = cp.anchor(other)
        assert cp.anchor(lambda anchor, lines: kept.extend(lines)).heads == made.heads
        assert cp.verify_anchor(other, every=True).heads == 3 * made.heads
        assert cp.verify_anchor(kept).ok
        cut = MemoryStore()
        for name in ("run", "\x1fstore"):
            cut.append(store.read(name)[: 2 if name == "run" else None])
    store.close()
    with hf.SyncCheckpointer(cut) as cp:
        for source in (other, kept):
            (problem,) = cp.verify_anchor(source).problems
            assert (problem.run_id, problem.seq, problem.what) == ("run", 3, "cut off")


def test_a_store_does_not_keep_its_own_anchors(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url) as cp:
        cp.save("run", {})
        with pytest.raises(hf.AnchorError, match="the store itself"):
            cp.anchor(url)


def test_what_an_import_brings_back_agrees_with_the_anchor_again(
    attacked: str, kind: str, tmp_path: Path
) -> None:
    anchors, export = tmp_path / "anchors.jsonl", tmp_path / "left.jsonl"
    with hf.SyncCheckpointer(attacked) as cp:
        cp.export_run("left", export)
    a_cut_tail(kind, tmp_path)
    with hf.SyncCheckpointer(attacked) as cp:
        assert not cp.verify_anchor(anchors).ok
        cp.import_run(export)
        assert cp.verify_anchor(anchors).ok


@pytest.fixture
def cp() -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer("memory://") as checkpointer:
        checkpointer.save("run", {"n": 1})
        checkpointer.save("sea ☂", {"n": 2})
        yield checkpointer


def test_a_file_of_anchors_is_private_and_keeps_every_anchor(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "anchors.jsonl"
    made = [cp.anchor(path) for _ in range(3)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = cp.verify_anchor(path, every=True)
    assert [anchor.root for anchor in found.anchors] == [anchor.root for anchor in made]
    assert cp.verify_anchor(path).anchors[0].root == made[-1].root
    chosen = cp.verify_anchor(path, root=bytes.fromhex(made[0].root))
    assert chosen.anchors[0].root == made[0].root
    with pytest.raises(hf.AnchorError, match="no anchor in it has the root"):
        cp.verify_anchor(path, root="00" * 32)


def test_a_changed_anchor_is_refused(cp: hf.SyncCheckpointer, tmp_path: Path) -> None:
    path = tmp_path / "anchors.jsonl"
    made = cp.anchor(path)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    for changed in (
        text.replace('["run",1', '["run",0'),
        text.replace(made.store_id, "0" * 20),
        text.replace(made.root, "0" * 64),
        "".join([*lines[:2], *lines[3:]]),
        text.replace('["run",1', '["run",-1'),
        text.replace('["run",1', '[["run"],1'),
        text.replace('"heads":', '"heads":"x","was":'),
    ):
        assert changed != text
        path.write_text(changed)
        with pytest.raises(hf.AnchorError):
            cp.verify_anchor(path)
    for other in ("", "no anchors\n", '{"holdfast_anchor":1}\n', "[" * 70_000):
        path.write_text(other)
        with pytest.raises(hf.AnchorError):
            cp.verify_anchor(path)
    path.write_text("a letter\n")
    with pytest.raises(hf.AnchorError, match="not a file of anchors"):
        cp.anchor(path)
    assert path.read_text() == "a letter\n"


def test_an_anchor_whose_writing_was_interrupted_is_passed_over(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "anchors.jsonl"
    first = cp.anchor(path)
    whole = path.read_bytes()
    for cut in (len(whole) + 5, 2 * len(whole) - 5, 2 * len(whole) - 1):
        path.write_bytes((whole + whole)[:cut])
        found = cp.verify_anchor(path, every=True)
        assert ([anchor.root for anchor in found.anchors], found.ok) == ([first.root], True)
        assert found.skipped == (cut > len(whole) + 5)
        again = cp.anchor(path)
        assert cp.verify_anchor(path).anchors[0].root == again.root


def test_the_root_can_be_computed_from_the_file_alone(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    """As docs/reference/format.md says, without holdfast."""
    from hashlib import sha256

    path = tmp_path / "anchors.jsonl"
    made = cp.anchor(path)
    _, *heads, last = path.read_bytes().splitlines()
    nodes = [sha256(b"\0" + line).digest() for line in heads]

    def tree(nodes: list[bytes]) -> bytes:
        if len(nodes) == 1:
            return nodes[0]
        half = 1
        while 2 * half < len(nodes):
            half *= 2
        return sha256(b"\1" + tree(nodes[:half]) + tree(nodes[half:])).digest()

    fields = json.loads(last)
    assert fields["tree"] == tree(nodes).hex()
    rooted = {name: fields[name] for name in ("at", "heads", "store", "tree")}
    text = json.dumps(rooted, sort_keys=True, separators=(",", ":"))
    assert sha256(text.encode()).hexdigest() == fields["root"] == made.root
    for count in range(1, 40):
        leaves = [str(n).encode() for n in range(count)]
        streamed = Tree()
        for leaf in leaves:
            streamed.add(leaf)
        assert streamed.root() == tree([sha256(b"\0" + leaf).digest() for leaf in leaves])


def test_a_signed_anchor_is_checked_with_the_keys_that_are_trusted(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "anchors.jsonl"
    key = hf.SigningKey.hmac("nightly", bytes(range(32)))
    made = cp.anchor(path, sign=key)
    assert cp.verify_anchor(path, trusted=key.trusted()).ok
    other = hf.SigningKey.hmac("nightly", bytes(32))
    with pytest.raises(hf.InvalidSignatureError, match="the anchor of"):
        cp.verify_anchor(path, trusted=other.trusted())
    with pytest.raises(hf.UntrustedKeyError, match="nightly"):
        cp.verify_anchor(path, trusted=hf.SigningKey.hmac("x", bytes(32)).trusted())
    cp.save("run", {"n": 2})
    replaced = json.loads(path.read_text().splitlines()[-1])["signature"]
    unsigned = tmp_path / "unsigned.jsonl"
    later = cp.anchor(unsigned)
    with pytest.raises(hf.InvalidSignatureError, match="is not signed"):
        cp.verify_anchor(unsigned, trusted=key.trusted())
    assert later.root != made.root
    *lines, last = unsigned.read_text().splitlines()
    forged = json.dumps(json.loads(last) | {"signature": replaced}, separators=(",", ":"))
    unsigned.write_text("\n".join([*lines, forged]) + "\n")
    with pytest.raises(hf.InvalidSignatureError):
        cp.verify_anchor(unsigned, trusted=key.trusted())


def test_an_encrypted_store_is_proved_and_anchored_without_its_key(tmp_path: Path) -> None:
    url, anchors = f"sqlite:///{tmp_path}/runs.db", tmp_path / "anchors.jsonl"
    ring = hf.Keyring({"2026": bytes(range(32))})
    with hf.SyncCheckpointer(url, key=ring) as cp:
        for run in ("one", "two", "three"):
            for n in range(4):
                cp.save(run, {"n": n}, thread_id="t", owner="ann")
        cp.prune("two", keep_latest=1)
        cp.anchor(anchors)
        cp.clear("three")
    with hf.SyncCheckpointer(url) as cp:
        proved = cp.verify_chain()
        assert (proved.problems, proved.runs, proved.deleted) == ((), 3, 3)
        found = cp.verify_anchor(anchors)
        assert (found.problems, found.deleted) == ((), 1)
        again = cp.anchor(anchors)
    with hf.SyncCheckpointer(url, key=ring) as cp:
        assert cp.verify_anchor(anchors, every=True).ok
        assert cp.anchor(anchors).store_id == again.store_id
    a_cut_tail_of(tmp_path, "one")
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify_chain(["one"]).ok
        assert [problem.what for problem in cp.verify_anchor(anchors).problems] == ["cut off"]


def a_cut_tail_of(tmp_path: Path, run: str) -> None:
    statement(tmp_path, "DELETE FROM holdfast_entries WHERE run = ? AND seq = 4", run)


def test_an_owner_neither_makes_nor_checks_anchors(tmp_path: Path) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db", owner="ann") as cp:
        cp.save("run", {"n": 1})
        assert cp.verify_chain().runs == 1
        for call in (cp.anchor, cp.verify_anchor):
            with pytest.raises(hf.AnchorError, match="bound to none"):
                call(tmp_path / "anchors.jsonl")


def test_one_run_is_proved_against_the_root_without_the_others(tmp_path: Path) -> None:
    anchors, export = tmp_path / "anchors.jsonl", tmp_path / "run.jsonl"
    for count in (1, 2, 3, 7, 8):
        with hf.SyncCheckpointer(MemoryStore()) as cp:
            for n in range(count):
                cp.save(f"run-{n}", {"n": n})
            made = cp.anchor(anchors)
            for n in range(count):
                proof = cp.prove_anchored(anchors, f"run-{n}")
                assert cp.verify_anchor(proof, root=made.root).ok
            cp.export_run(f"run-{count - 1}", export)
    path = tmp_path / "proof.json"
    path.write_bytes(proof.line())
    with hf.SyncCheckpointer("memory://") as auditor:
        with pytest.raises(hf.AnchorError, match="another root"):
            auditor.verify_anchor(path, root="00" * 32)
        (problem,) = auditor.verify_anchor(path, root=made.root).problems
        assert (problem.run_id, problem.what) == ("run-7", "removed")
        auditor.import_run(export)
        assert auditor.verify_anchor(path, root=made.root).ok
        others = (
            proof._replace(place=proof.place - 1),
            proof._replace(place=proof.anchor.heads),
            proof._replace(path=proof.path[:-1]),
            proof._replace(path=(*proof.path, "00" * 32)),
            proof._replace(path=("x", *proof.path[1:])),
            proof._replace(head=proof.head._replace(seq=0)),
            proof._replace(anchor=proof.anchor._replace(heads=8)),
            proof._replace(anchor=proof.anchor._replace(store_id="x")),
        )
        for other in others:
            with pytest.raises(hf.AnchorError, match="was changed"):
                auditor.verify_anchor(other)
        path.write_bytes(proof.line().replace(b'"place"', b'"no"'))
        with pytest.raises(hf.AnchorError, match="no proof"):
            auditor.verify_anchor(path)
