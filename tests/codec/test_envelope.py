from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import compress, envelope, wrapping
from holdfast.errors import CheckpointCorruptedError, UnknownFormatError
from holdfast.model import Entry

FRONT = ("run", 7, "checkpoint", b"0123456789", 6, 7)


BASE = b"b" * 32


def sealed(content: bytes, flags: int = 0, size: int | None = None, base: bytes = b"") -> Entry:
    back = ("step", 1, None, "open", 1_700_000_000_000_000, 0.5, len(content) if size is None else size,
            "flow", None, "ann", '{"k":1}')  # fmt: skip
    proof = envelope.prove(flags, content, base)
    return envelope.seal(FRONT, back, b"p" * 32, envelope.Packed(flags, content, proof))


def vouches(entry: Entry, previous: bytes, base: bytes = b"") -> bool:
    stored = envelope.check(entry)
    proof = stored.proof_with(base) if stored.is_delta else stored.said_proof
    return envelope.vouches(entry, previous, proof)


@given(st.binary(min_size=1, max_size=9000))
def test_what_is_sealed_comes_out_again(content: bytes) -> None:
    flags, packed, _ = envelope.keyframe(content)
    entry = sealed(packed, flags, len(content))
    assert envelope.unseal(entry) == envelope.Content(flags, 7, 7, content)
    assert vouches(entry, b"p" * 32)
    assert not vouches(entry, b"q" * 32)


@given(st.binary(max_size=5000))
def test_a_delta_knows_its_base_and_its_landmark(change: bytes) -> None:
    flags, content, _ = envelope.delta(7, 6, 3, change, BASE)
    entry = sealed(content, flags, 10_000, BASE)
    opened = envelope.unseal(entry)
    assert (opened.base, opened.landmark, opened.payload, opened.is_delta) == (6, 3, change, True)
    assert vouches(entry, b"p" * 32, BASE)
    assert not vouches(entry, b"p" * 32, b"c" * 32), "it proves what it builds on, too"


@given(st.binary(max_size=5000))
def test_a_span_is_a_landmark_itself(change: bytes) -> None:
    flags, content, _ = envelope.delta(7, 3, 7, change, BASE)
    opened = envelope.unseal(sealed(content, flags, 10_000, BASE))
    assert (opened.base, opened.landmark, opened.payload, opened.is_delta) == (3, 7, change, True)


@pytest.mark.parametrize("flags", [0, wrapping.READABLE])
def test_every_flipped_bit_of_an_entry_is_noticed(flags: int) -> None:
    entry = sealed(b'{"state": "of the run"}', flags)
    for index in range(len(entry.body) * 8):
        body = bytearray(entry.body)
        body[index // 8] ^= 1 << index % 8
        with pytest.raises(CheckpointCorruptedError):
            envelope.check(entry._replace(body=bytes(body)))
    for place, value in enumerate(entry[:-1]):
        other = value + 1 if isinstance(value, int | float) else "another"
        altered = Entry._make((*entry[:place], other, *entry[place + 1 :]))
        with pytest.raises(CheckpointCorruptedError):
            envelope.check(altered if place != 5 else entry._replace(digest=b"another"))


def test_a_rewritten_body_keeps_its_digest_and_names_the_marker_that_knows_it() -> None:
    flags, content, proof = envelope.delta(7, 6, 3, b"change", BASE)
    entry = sealed(content, flags, 5, BASE)
    body, own = envelope.reseal(entry, b"other", proof, 12)
    again = entry._replace(body=body)
    stored = envelope.check(again)
    assert envelope.unseal(again).payload == b"other"
    assert (stored.marker, stored.own_proof) == (12, own)
    assert vouches(again, b"p" * 32)


@given(st.binary(max_size=9000))
def test_a_body_that_is_put_into_json_for_people_comes_out_as_it_was(content: bytes) -> None:
    entry = sealed(content)
    dressed = entry._replace(body=wrapping.dressed(entry, b'{"n": 1}'))
    assert dressed.body.startswith(b"{")
    assert envelope.check(dressed) == envelope.check(entry)
    assert wrapping.undressed(dressed) == entry.body == wrapping.undressed(entry)


@given(st.binary(max_size=200))
def test_hostile_bodies_are_corrupted_and_nothing_else(body: bytes) -> None:
    with pytest.raises(CheckpointCorruptedError):
        envelope.check(sealed(b"x")._replace(body=body))


def test_a_bomb_is_not_inflated() -> None:
    bomb = compress.compress(bytes(50_000_000))
    assert len(bomb) < 10_000
    with pytest.raises(CheckpointCorruptedError, match="recorded size"):
        envelope.unseal(sealed(bomb, wrapping.ZSTD, 1000))
    flags, content, _ = envelope.delta(7, 6, 6, bytes(50_000_000), BASE)
    with pytest.raises(CheckpointCorruptedError, match="larger than the state"):
        envelope.unseal(sealed(content, flags, 1000))


def test_a_format_of_the_future_is_refused_by_name() -> None:
    entry = sealed(b"x")
    with pytest.raises(UnknownFormatError, match=r"format 3\.0"):
        envelope.unseal(entry._replace(body=b"\x03" + entry.body[1:]))
    with pytest.raises(UnknownFormatError, match=r"format 2\.64"):
        envelope.unseal(entry._replace(body=b"\x02\x40" + entry.body[2:]))
