from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import bearings, compress, envelope, wrapping
from holdfast.codec.delta import Change
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


def opened(entry: Entry, old: bytes = b"") -> bytes:
    stored = envelope.glance(entry)
    at = envelope.bearings_of(entry, stored)[2]
    return envelope.unseal(entry, stored, None, at, old)


@given(st.binary(min_size=1, max_size=9000))
def test_what_is_sealed_comes_out_again(content: bytes) -> None:
    flags, packed, _ = envelope.keyframe(content)
    entry = sealed(packed, flags, len(content))
    assert opened(entry) == content
    assert envelope.bearings_of(entry, envelope.glance(entry)) == (7, 7, 0)
    assert vouches(entry, b"p" * 32)
    assert not vouches(entry, b"q" * 32)


@given(st.binary(max_size=5000), st.binary(max_size=9000), st.integers(0, 9000))
def test_a_delta_knows_its_base_and_its_landmark(change: bytes, old: bytes, place: int) -> None:
    given_ = Change(change, min(place, len(old)))
    flags, content, _ = envelope.delta(bearings.of_link(7, 6, 3), given_, old, BASE)
    entry = sealed(content, flags, 10_000, BASE)
    assert envelope.bearings_of(entry, envelope.glance(entry))[:2] == (6, 3)
    assert opened(entry, old) == change
    assert vouches(entry, b"p" * 32, BASE)
    assert not vouches(entry, b"p" * 32, b"c" * 32), "it proves what it builds on, too"


@given(st.binary(max_size=5000))
def test_a_span_is_a_landmark_itself_and_lists_those_before_it(change: bytes) -> None:
    flags, content, _ = envelope.delta(bearings.of_span(7, (3, 2)), Change(change, 0), b"", BASE)
    entry = sealed(content, flags, 10_000, BASE)
    assert envelope.bearings_of(entry, envelope.glance(entry))[:2] == (3, 7)
    assert bearings.trail(7, content) == [3, 2]
    assert opened(entry) == change


def test_a_span_that_lists_no_landmarks_is_still_read() -> None:
    flags, content, _ = envelope.delta(b"\x04\x00", Change(b"change", 0), b"", BASE)
    entry = sealed(content, flags, 10_000, BASE)
    assert envelope.bearings_of(entry, envelope.glance(entry))[:2] == (3, 7)
    assert bearings.trail(7, content) == ()
    assert opened(entry) == b"change"


@given(st.binary(max_size=12))
def test_hostile_bearings_lead_to_no_entry_outside_of_the_run(content: bytes) -> None:
    try:
        base, landmark, at = bearings.take(7, content)
    except ValueError:
        return
    assert 0 <= base < 7
    assert 0 <= landmark <= base or landmark == 7, "a chain begins before what it builds on"
    assert at <= len(content)
    assert all(0 <= before < 7 for before in bearings.trail(7, content))


def test_a_short_message_is_stored_in_half_its_size() -> None:
    """It is compressed with what stands before it as the dictionary."""
    said = [f"turn {n}: the quick brown fox jumps over dog {n * 7919 % 1000}. " for n in range(60)]
    old, new = "".join(said).encode(), "".join(reversed(said[:4])).encode()
    flags, content, _ = envelope.delta(b"\x01\x01", Change(new, len(old)), old, BASE)
    assert flags & wrapping.DEFLATED
    assert len(content) < len(new) / 2
    entry = sealed(content, flags, 10_000, BASE)
    assert opened(entry, old) == new
    with pytest.raises(CheckpointCorruptedError):
        opened(entry, old[:-1])


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
    flags, content, proof = envelope.delta(b"\x01\x04", Change(b"change", 0), b"", BASE)
    entry = sealed(content, flags, 5, BASE)
    body, own = envelope.reseal(entry, b"other", proof, 12)
    again = entry._replace(body=body)
    stored = envelope.check(again)
    assert opened(again) == b"other"
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
        opened(sealed(bomb, wrapping.ZSTD, 1000))
    zeros = Change(bytes(50_000_000), 0)
    flags, content, _ = envelope.delta(b"\x01\x01", zeros, b"", BASE)
    with pytest.raises(CheckpointCorruptedError, match="larger than the state"):
        opened(sealed(content, flags, 1000))
    flat = compress.deflated(bytes(50_000_000), b"")
    assert flat is not None
    with pytest.raises(CheckpointCorruptedError, match="recorded size"):
        opened(sealed(b"\x01\x01\x64\x00" + flat, wrapping.DELTA | wrapping.DEFLATED, 1000))


def test_a_format_of_the_future_is_refused_by_name() -> None:
    entry = sealed(b"x")
    with pytest.raises(UnknownFormatError, match=r"format 3\.0"):
        opened(entry._replace(body=b"\x03" + entry.body[1:]))
    with pytest.raises(UnknownFormatError, match=r"format 2\.128"):
        opened(entry._replace(body=b"\x02\x80" + entry.body[2:]))
