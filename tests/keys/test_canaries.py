"""What is secret is in no byte of a store that has a key, and nothing there confirms a guess."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope, values
from holdfast.evidence import EvidencePack, file_evidence
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.manager import CheckpointManager
from holdfast.model import CUT_OVER, HIDDEN, KEYS, Status
from holdfast.store import RunFilter, Store
from holdfast.stores import MemoryStore
from holdfast.workflow import ask, for_each, step, workflow
from tests.damage.servers import VAULTS
from tests.integrations.langgraph.calls import put, thread
from tests.keys.forging import RING

SECRET = (
    "state", "metadata", "nextstep", "input", "result", "item", "errortext", "question", "choice",
    "answer", "person", "claim", "observed", "child", "output", "channel", "requested",
)  # fmt: skip
CLEAR = ("runid", "stepname", "owner", "thread", "flow", "label", "typename")


def canary(name: str) -> str:
    """A word that is nowhere else."""
    return f"canary-{name}-{name[::-1]}"


@step
def shout(word: str) -> str:
    if word == canary("input"):
        return canary("result")
    raise ValueError(canary("errortext"))


@workflow("inner")
async def inner(word: str) -> str:
    return f"{word} {canary('child')}"


@workflow(canary("flow"))
async def talk(word: str) -> list[str]:
    await shout(word)
    await inner("x")
    await for_each([canary("item")], repeat)
    found = await ask(canary("question"), returns=str, choices=[canary("choice"), canary("answer")])
    with contextlib.suppress(hf.StepFailedError):
        await shout("wrong")
    return [found, canary("output")]


@step
def repeat(word: str) -> str:
    return word


def live(store: Store, place: Path, **keys: Any) -> None:
    """Use a store for everything that it can be used for."""
    with hf.SyncCheckpointer(store, **keys) as cp:
        cp.save(
            canary("runid"), {"it": canary("state")}, step=canary("stepname"),
            owner=canary("owner"), thread_id=canary("thread"), type=canary("typename"),
            metadata={"it": canary("metadata")}, next_steps=[canary("nextstep")],
        )  # fmt: skip
        for _ in range(3):
            cp.save(canary("runid"), {"it": canary("state")})
        cp.rollback(canary("runid"), seq=2, by=canary("person"))
        cp.prune(canary("runid"), keep_latest=2)
    asyncio.run(_flow(store, **keys))
    with CheckpointManager(hf.SyncCheckpointer(store, **keys)) as manager:
        file = place / canary("observed")
        file.write_text("it is there")
        pack = EvidencePack([file_evidence(str(file), description=canary("claim"))])
        manager.commit_step(manager.begin_step("task", "iteration_end", {}), pack, "alias")
        assert manager.verify_checkpoint("alias")
    saver = HoldfastSaver(hf.SyncCheckpointer(store, **keys))
    put(saver, thread("graph"), 0, channel=canary("channel"))


async def _flow(store: Store, **keys: Any) -> None:
    async with hf.Engine(store, **keys) as engine:
        labels = {"l": canary("label")}
        with pytest.raises(hf.RunPausedError):
            await engine.run(talk(canary("input")), run_id="flow", labels=labels)
        await engine.pause("flow", reason=canary("requested"), by=canary("person"))
        await engine.answer("flow", canary("answer"), by=canary("person"))
        await engine.run(talk(canary("input")), run_id="flow", resume=True)


def dump(kind: str, vault: Any, place: Path) -> bytes:
    """All bytes that the store keeps: its files, or all rows and values of the server."""
    if kind in ("sqlite", "file", "duckdb"):
        return b"\n".join(
            str(path).encode() + path.read_bytes()
            for path in place.rglob("*")
            if path.is_file() and "observed" not in path.name
        )
    if kind == "redis":  # whose dumps are compressed
        return repr([_value(vault._client, key) for key in vault._keys("*")]).encode()
    vault.keep()
    kept = vault._kept
    return repr([[*kept.items()] if isinstance(kept, dict) else kept]).encode()


def _value(client: Any, key: bytes) -> Any:
    """A key of Redis, and all that it holds."""
    kind = client.type(key)
    if kind == b"zset":
        return key, client.zrange(key, 0, -1)
    if kind == b"set":
        return key, client.smembers(key)
    return key, client.hgetall(key) if kind == b"hash" else client.get(key)


def found_in(raw: bytes, names: tuple[str, ...]) -> set[str]:
    return {name for name in names if canary(name).encode() in raw}


@pytest.mark.parametrize("kind", VAULTS)
def test_no_byte_of_an_encrypted_store_tells_what_is_secret(kind: str, tmp_path: Path) -> None:
    plain = {*SECRET} - ({"channel"} if kind == "file" else set())  # which is in base64 there
    for keys, secret in (({}, plain), ({"key": RING}, set())):
        place = tmp_path / str(len(keys))
        place.mkdir()
        vault = VAULTS[kind](place)
        store = vault.open()
        live(store, tmp_path, **keys)
        if kind == "sqlite":  # while the last saves are in the log
            assert (place / "runs.db-wal").stat().st_size
        raw = dump(kind, vault, place) if kind != "duckdb" else b""
        store.close()
        raw += dump(kind, vault, place)
        assert found_in(raw, SECRET) == secret, "what is searched for is there without a key"
        assert found_in(raw, CLEAR) == set(CLEAR), "these are documented as readable"


def test_nothing_stored_confirms_a_guess() -> None:
    state = {"it": canary("state")}
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        with hf.SyncCheckpointer(store, key=RING) as cp:
            for run in ("a", "b"):
                for _ in range(2):
                    cp.save(run, state, metadata=state, step="s")
    encoding = values.encode(state)
    seen: set[bytes | str] = set()
    for store in stores:
        for run in ("a", "b"):
            for entry in store.read(run):
                stored = envelope.glance(entry)
                content = stored.sealed
                parts: list[bytes | str] = [
                    entry.digest, entry.entry_id, content, content[4:16], content[-16:],
                    stored.trailer, stored.said_proof, entry.body[2:6],
                ]  # fmt: skip
                parts += [entry.meta] if entry.meta else []
                assert seen.isdisjoint(parts), "the same state looks different each time"
                seen |= {*parts}
    guesses = [
        *(hashlib.new(name, encoding).digest() for name in ("sha256", "sha1", "md5", "blake2b")),
        envelope.prove(0, encoding),
        envelope.keyframe(encoding).proof,
        zlib.crc32(encoding).to_bytes(4, "little"),
    ]
    for store in stores:
        raw = b"".join(
            entry.digest + entry.body + entry.meta.encode() for entry in everything(store)
        )
        for guess in guesses:
            assert guess not in raw
            assert guess.hex().encode() not in raw


def everything(store: Store) -> Iterator[Any]:
    """All entries of all journals."""
    for prefix in ("", HIDDEN):
        for status in (None, Status.DELETED.value):
            for head in store.runs(RunFilter(status=status, prefix=prefix)):
                yield from store.read(head.run)


def test_every_journal_but_those_of_the_keys_is_sealed(tmp_path: Path) -> None:
    store = MemoryStore()
    live(store, tmp_path, key=RING)
    journals = {entry.run for entry in everything(store)}
    assert CUT_OVER in journals
    for entry in everything(store):
        if entry.run.startswith(KEYS):
            continue
        assert not entry.body or envelope.glance(entry).is_sealed, entry
        assert not entry.meta or entry.meta.startswith('{"sealed":"'), entry


def test_the_write_ahead_log_of_a_forgotten_owner_holds_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with hf.SyncCheckpointer(url, key=RING) as cp:
        cp.save("run", {"it": canary("state")}, owner="ann")
        backup = tmp_path / "backup"
        backup.mkdir()
        for file in tmp_path.glob("runs.db*"):
            shutil.copy(file, backup)
        cp.forget(owner="ann")
    for path in tmp_path.rglob("*.db*"):
        assert canary("state").encode() not in path.read_bytes()
