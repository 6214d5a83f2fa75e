"""Whoever can write to a store, and has no key, makes nobody use anything they made.

Each attack makes all checks anew that need no key, and a verification without a key finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import values, wrapping
from holdfast.codec.meta import dump_meta
from holdfast.keys.keyring import Keyring
from holdfast.keys.signing import SigningKey
from holdfast.model import CUT_OVER, Entry, Kind, Status, key_journal, stub
from holdfast.store import Store
from tests.damage.servers import VAULTS
from tests.damage.vaults import Vault
from tests.effort import EFFORT
from tests.keys.forging import NEW, OLD, RING, Parts, journal_of, keyed, large, rechained

MALLORY = SigningKey.hmac("mallory", bytes(32))
HMAC = SigningKey.hmac("ann", bytes(range(32)))
ED25519 = SigningKey.ed25519("ann", bytes(range(32)))
HEAD = 6

Attack = Callable[[dict[str, list[Parts]]], dict[str, list[Parts]]]
ATTACKS: dict[str, Attack] = {}


def attack(made: Attack) -> Attack:
    ATTACKS[made.__name__.replace("_", " ")] = made
    return made


@attack
def swap_two_states_of_a_run(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    one, other = run[4], run[5]
    run[4] = one._replace(content=other.content, trailer=other.trailer)
    run[5] = other._replace(content=one.content, trailer=one.trailer)
    return {"r": run}


@attack
def take_the_state_of_another_run(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run, other = [*found["r"]], found["other"]
    run[HEAD] = run[HEAD]._replace(**_inner(other[1]), flags=other[1].flags)
    run[HEAD] = run[HEAD].having(size=other[1].entry.size)
    return {"r": run}


@attack
def take_a_whole_entry_of_another_run(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run, other = [*found["r"]], found["other"][1]
    run[HEAD] = other.having(run="r", seq=HEAD, entry_id=run[HEAD].entry.entry_id)
    return {"r": run}


@attack
def bring_back_an_older_state(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = run[1].having(seq=HEAD)
    return {"r": run}


@attack
def bring_back_an_older_state_under_the_id_of_the_newer(
    found: dict[str, list[Parts]],
) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = run[1].having(seq=HEAD, entry_id=run[HEAD].entry.entry_id)
    return {"r": run}


@attack
def take_a_state_of_an_earlier_life(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run, earlier = [*found["again"]], found["earlier"][1]
    last = run[-1]
    run[-1] = last._replace(**_inner(earlier), flags=earlier.flags)
    return {"again": run}


@attack
def cut_the_content(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = run[HEAD]._replace(content=run[HEAD].content[:-1])
    return {"r": run}


@attack
def cut_all_of_the_content(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = run[HEAD]._replace(content=b"")
    return {"r": run}


@attack
def change_the_content(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    content = run[HEAD].content
    run[HEAD] = run[HEAD]._replace(content=content[:-1] + bytes([content[-1] ^ 1]))
    return {"r": run}


@attack
def put_a_plain_state_there(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = _plain(run[HEAD])
    return {"r": run}


@attack
def put_a_plain_state_there_and_sign_it(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    plain = _plain(run[HEAD])
    run[HEAD] = plain._replace(flags=wrapping.SIGNED, trailer=_signed(b""))
    return {"r": run}


@attack
def make_the_whole_run_plain(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {
        "r": [
            _plain(parts)
            if parts.entry.size
            else parts.having(meta="")._replace(flags=0, content=b"", trailer=b"")
            for parts in found["r"]
        ]
    }


@attack
def add_a_signature_of_their_own(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    last = run[HEAD]
    tag = last.trailer[: wrapping.TAG] if last.flags & wrapping.SEALED else b""
    run[HEAD] = last._replace(flags=last.flags | wrapping.SIGNED, trailer=_signed(tag))
    return {"r": run}


@attack
def swap_the_metadata(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    one, other = run[1].entry.meta, run[HEAD].entry.meta
    assert one
    assert other
    assert one != other
    run[1], run[HEAD] = run[1].having(meta=other), run[HEAD].having(meta=one)
    return {"r": run}


@attack
def put_plain_metadata_there(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    run[HEAD] = run[HEAD].having(meta=dump_meta({"metadata": {"forged": True}}))
    return {"r": run}


@attack
def say_that_it_is_done(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": _with_head(found["r"], status=Status.COMPLETED.value)}


@attack
def rename_the_step(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": _with_head(found["r"], step="pay")}


@attack
def give_it_to_another_owner(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": [parts.having(owner="ben") for parts in found["r"]]}


@attack
def take_its_owner_away(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": [parts.having(owner=None) for parts in found["r"]]}


@attack
def lead_it_to_another_parent(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": _with_head(found["r"], parent=1)}


@attack
def make_a_rollback_of_the_newest(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    return {"r": _with_head(found["r"], kind=Kind.ROLLBACK.value, parent=1)}


@attack
def add_an_entry(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    forged = _plain(run[HEAD])
    return {"r": [*run, forged.having(seq=HEAD + 1, parent=HEAD)]}


@attack
def delete_by_a_marker_of_their_own(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    behind = {str(HEAD): run[HEAD - 1].entry.digest.hex()}
    meta = dump_meta({"dropped": str(HEAD), "behind": behind})
    marker = run[HEAD].having(
        seq=HEAD + 1, kind=Kind.TRIM.value, parent=5, size=0, meta=meta, entry_id=bytes(10)
    )
    marker = marker._replace(flags=0, content=b"", trailer=b"")
    run[HEAD] = run[HEAD]._replace(entry=stub(run[HEAD].entry))
    return {"r": [*run, marker]}


@attack
def rewrite_by_a_marker_of_their_own(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
    run = [*found["r"]]
    forged = _plain(run[4])
    own = forged._replace(flags=wrapping.REWRITTEN, proof=run[4].proof, marker=HEAD + 1)
    from holdfast.codec.envelope import prove

    meta = dump_meta({"rewritten": {"4": prove(0, forged.content).hex()}})
    marker = run[HEAD].having(
        seq=HEAD + 1, kind=Kind.TRIM.value, parent=4, size=0, meta=meta, entry_id=bytes(10)
    )
    run[4] = own
    return {"r": [*run, marker._replace(flags=0, content=b"", trailer=b"")]}


@attack
def accept_plain_runs_by_a_cut_over_of_their_own(
    found: dict[str, list[Parts]],
) -> dict[str, list[Parts]]:
    run = make_the_whole_run_plain(found)["r"]
    (last,) = rechained(run)[-1:]
    said = found[CUT_OVER]
    forged = said[-1].having(
        seq=said[-1].entry.seq + 1,
        entry_id=bytes(10),
        meta=dump_meta({"plain": [["r", last.seq, last.digest.hex()]]}),
    )
    forged = forged._replace(flags=0, content=b"", trailer=b"")
    return {"r": run, CUT_OVER: [*said, forged]}


def _flipped(bit: int) -> Attack:
    def flip(found: dict[str, list[Parts]]) -> dict[str, list[Parts]]:
        run = [*found["r"]]
        last = run[HEAD]
        flags = last.flags ^ bit
        tag = wrapping.TAG if last.flags & wrapping.SEALED else 0
        trailer = last.trailer
        if bit == wrapping.SEALED:
            trailer = trailer[tag:] if tag else bytes(wrapping.TAG) + trailer
        if bit == wrapping.SIGNED:
            trailer = _signed(trailer) if flags & bit else trailer[:tag]
        run[HEAD] = last._replace(flags=flags, trailer=trailer, marker=HEAD, proof=bytes(32))
        return {"r": run}

    return flip


for name in ("DELTA", "ZSTD", "REWRITTEN", "SEALED", "SIGNED"):
    ATTACKS[f"flip the flag {name.lower()}"] = _flipped(getattr(wrapping, name))

UNSOUND = {
    "cut all of the content",
    "flip the flag delta",
    "flip the flag zstd",
    "flip the flag rewritten",
}
"""Those that make nonsense, which also a verification without a key finds."""


def _inner(parts: Parts) -> dict[str, Any]:
    return {"content": parts.content, "trailer": parts.trailer}


def _with_head(run: list[Parts], **fields: object) -> list[Parts]:
    return [*run[:-1], run[-1].having(**fields)]


def _plain(parts: Parts) -> Parts:
    state = values.encode({"forged": True})
    return parts.having(size=len(state), meta="")._replace(flags=0, content=state, trailer=b"")


def _signed(tag: bytes) -> bytes:
    name = MALLORY.key_id.encode()
    block = bytes([len(name)]) + name + MALLORY.sign(b"whatever")
    return tag + block + bytes([len(block)])


def prepared(vault: Vault, **keys: Any) -> dict[str, list[Parts]]:
    """A store with runs; their journals, and those of an earlier life of one."""
    with vault.opened() as store:
        with hf.SyncCheckpointer(store, **(keys or {"key": RING})) as cp:
            for n in range(1, HEAD + 1):
                cp.save("r", large(n), step=f"s{n}", owner="ann", metadata={"n": n})
            cp.save("other", large(HEAD + 1), step="s", owner="ann", metadata={"n": 0})
            cp.save("of-ben", 1, owner="ben")
            cp.save("again", {"life": 1})
            earlier = journal_of(store, "again")
            cp.clear("again")
            cp.save("again", {"life": 2})
        found = {run: journal_of(store, run) for run in ("r", "other", "again", CUT_OVER)}
    vault.keep()
    return {**found, "earlier": earlier}


def put(vault: Vault, edits: dict[str, list[Parts]], found: dict[str, list[Parts]]) -> None:
    """Replace entries behind the store's back, and append those that are new."""
    vault.restore()
    new: list[Entry] = []
    for run, journal in edits.items():
        before = bytes.fromhex(_after(found[run][0])) if run == "again" else b""
        for at, entry in enumerate(rechained(journal, before)):
            if at < len(found[run]):
                vault.put(entry)
            else:
                new.append(entry)
    if new:
        with vault.opened() as store:
            assert all(store.append(new))


def _after(tombstone: Parts) -> str:
    import json

    return str(json.loads(tombstone.entry.meta)["after"])


# Keys are the kernel's: a store only keeps the bytes. `make crash` tries all of them.
@pytest.mark.parametrize("kind", VAULTS if EFFORT > 1 else ["memory", "sqlite", "postgres"])
def test_what_somebody_without_the_key_made_is_refused(kind: str, tmp_path: Path) -> None:
    refuses_all(VAULTS[kind](tmp_path), key=RING)


@pytest.mark.parametrize("key", [None, RING], ids=["readable", "encrypted"])
@pytest.mark.parametrize("sign", [HMAC, ED25519], ids=["hmac", "ed25519"])
@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_what_no_trusted_key_signed_is_refused(
    kind: str, sign: SigningKey, key: Keyring | None, tmp_path: Path
) -> None:
    refuses_all(VAULTS[kind](tmp_path), key=key, sign=sign)


def refuses_all(vault: Vault, **keys: Any) -> None:
    """Try every attack."""
    found = prepared(vault, **keys)
    for name, made in ATTACKS.items():
        edits = made(found)
        put(vault, edits, found)
        run = next(iter(edits))
        with vault.opened() as store:
            with hf.SyncCheckpointer(store) as cp:
                problems = [one.reason for one in cp.verify(run).problems]
                if keys["key"] is None:  # what is readable may be seen to make no sense
                    problems = [one for one in problems if "digest" in one or "checksum" in one]
                assert not problems or name in UNSOUND, f"{name}: found without a key: {problems}"
            with hf.SyncCheckpointer(store, **keys) as cp:
                assert not cp.verify(run).ok, f"{name} is not found"
                used = [*_used(cp, run)]
                assert used, f"{name} is not refused"


def _used(cp: hf.SyncCheckpointer, run: str) -> Iterator[str]:
    """What is refused of a run; fails if anything is used that nobody saved."""
    for seq in (None, *range(1, HEAD + 2)):
        try:
            loaded = cp.load(run, seq=seq)
        except hf.CheckpointCorruptedError as error:
            yield str(error)
        else:
            if loaded is None:
                assert run != "r" or seq == HEAD + 1, "it is as if it were not there"
            elif run == "r":
                assert loaded.state == large(loaded.seq), "a state that nobody saved"
                assert loaded.step == f"s{loaded.seq}"
                assert loaded.metadata == {"n": loaded.seq}
                assert loaded.owner == "ann"


def _exchanged(store: Store, one: str | None, other: str | None) -> list[Entry]:
    """The key rows of two owners, each in the place of the other, with all checksums right."""
    (mine,), (theirs,) = journal_of(store, key_journal(one)), journal_of(store, key_journal(other))
    return [
        *rechained([mine.having(meta=theirs.entry.meta)]),
        *rechained([theirs.having(meta=mine.entry.meta)]),
    ]


@pytest.mark.parametrize("kind", VAULTS)
def test_data_keys_can_be_deleted_but_not_exchanged(kind: str, tmp_path: Path) -> None:
    vault = VAULTS[kind](tmp_path)
    prepared(vault)
    with vault.opened() as store:
        swapped = _exchanged(store, "ann", "ben")
    for row in swapped:
        vault.put(row)
    with vault.opened() as store, keyed(store) as cp, pytest.raises(hf.WrongKeyError):
        cp.load("r")
    vault.restore()
    vault.remove(key_journal("ann"), 0)
    with vault.opened() as store, keyed(store) as cp, pytest.raises(hf.CheckpointCorruptedError):
        cp.load("r")


def test_a_data_key_that_was_replaced_is_not_used_again_once_its_ring_key_is_gone(
    tmp_path: Path,
) -> None:
    vault = VAULTS["sqlite"](tmp_path)
    prepared(vault)
    with vault.opened() as store:
        (before,) = store.read(key_journal("ann"))
        with keyed(store, Keyring({"2025": OLD, "2026": NEW})) as cp:
            cp.rekey()
        (after,) = store.read(key_journal("ann"))
    vault.put(before._replace(seq=after.seq))
    with (
        vault.opened() as store,
        keyed(store, Keyring({"2026": NEW})) as cp,
        pytest.raises(hf.CheckpointCorruptedError),
    ):
        cp.load("r")
    (again,) = rechained([Parts.of(before).having(seq=after.seq)], bytes(32))
    vault.put(again)
    with (
        vault.opened() as store,
        keyed(store, Keyring({"2026": NEW})) as cp,
        pytest.raises(hf.KeyMissingError, match="2025"),
    ):
        cp.load("r")
