from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import compress, envelope
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry

FRONT = ("run", 7, "checkpoint", b"0123456789", 6, 7)


def sealed(content: bytes, flags: int = 0, size: int | None = None) -> Entry:
    back = ("step", 1, None, "open", 1_700_000_000_000_000, 0.5, len(content) if size is None else size,
            "flow", None, "ann", '{"k":1}')  # fmt: skip
    return envelope.seal(FRONT, back, b"p" * 32, flags, content)


@given(st.binary(min_size=1, max_size=9000))
def test_what_is_sealed_comes_out_again(content: bytes) -> None:
    flags, packed = envelope.keyframe(content)
    entry = sealed(packed, flags, len(content))
    assert envelope.unseal(entry) == envelope.Content(flags, 7, 7, content)
    assert envelope.proves(entry, b"p" * 32) is True
    assert envelope.proves(entry, b"q" * 32) is False


@given(st.binary(max_size=5000))
def test_a_delta_knows_its_base_and_its_landmark(change: bytes) -> None:
    flags, content = envelope.delta(7, 6, 3, change)
    opened = envelope.unseal(sealed(content, flags, 10_000))
    assert (opened.base, opened.landmark, opened.payload, opened.is_delta) == (6, 3, change, True)


@given(st.binary(max_size=5000))
def test_a_span_is_a_landmark_itself(change: bytes) -> None:
    flags, content = envelope.delta(7, 3, 7, change)
    opened = envelope.unseal(sealed(content, flags, 10_000))
    assert (opened.base, opened.landmark, opened.payload, opened.is_delta) == (3, 7, change, True)


@pytest.mark.parametrize("flags", [0, envelope.READABLE])
def test_every_flipped_bit_of_an_entry_is_noticed(flags: int) -> None:
    entry = sealed(b'{"state": "of the run"}', flags)
    for index in range(len(entry.body) * 8):
        body = bytearray(entry.body)
        body[index // 8] ^= 1 << index % 8
        with pytest.raises(CheckpointCorruptedError):
            envelope.unseal(entry._replace(body=bytes(body)))
    for place, value in enumerate(entry[:-1]):
        other = value + 1 if isinstance(value, int | float) else "another"
        altered = Entry._make((*entry[:place], other, *entry[place + 1 :]))
        with pytest.raises(CheckpointCorruptedError):
            envelope.unseal(altered if place != 5 else entry._replace(digest=b"another"))


def test_a_rewritten_body_says_so_and_keeps_its_digest() -> None:
    entry = sealed(b"first")
    again = entry._replace(body=envelope.reseal(entry, *envelope.keyframe(b"other")))
    assert envelope.unseal(again).payload == b"other"
    assert envelope.proves(again, b"p" * 32) is None
    assert again.digest == entry.digest


@given(st.binary(max_size=200))
def test_hostile_bodies_are_corrupted_and_nothing_else(body: bytes) -> None:
    with pytest.raises(CheckpointCorruptedError):
        envelope.unseal(sealed(b"x")._replace(body=body))


def test_a_bomb_is_not_inflated() -> None:
    bomb = compress.compress(bytes(50_000_000))
    assert len(bomb) < 10_000
    with pytest.raises(CheckpointCorruptedError, match="recorded size"):
        envelope.unseal(sealed(bomb, envelope.ZSTD, 1000))
    flags, content = envelope.delta(7, 6, 6, bytes(50_000_000))
    with pytest.raises(CheckpointCorruptedError, match="larger than the state"):
        envelope.unseal(sealed(content, flags, 1000))


def test_a_format_of_the_future_is_refused_by_name() -> None:
    entry = sealed(b"x")
    with pytest.raises(CheckpointCorruptedError, match="format 2"):
        envelope.unseal(entry._replace(body=b"\x02" + entry.body[1:]))
