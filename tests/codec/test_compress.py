from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import compress


@given(
    st.integers(0, 3), st.sampled_from([300, 70_000, compress.LARGE - 1, compress.LARGE, 300_000])
)
def test_what_is_compressed_comes_out_again(seed: int, size: int) -> None:
    rng = random.Random(seed)
    words = [rng.randbytes(3).hex().encode() for _ in range(200)]
    data = b" ".join(rng.choices(words, k=size // 6))[:size]
    packed = compress.smaller(data)
    assert packed is not None
    assert len(packed) < len(data)
    assert compress.decompress(packed, len(data)) == data


def test_what_would_hardly_shrink_is_left_as_it_is() -> None:
    rng = random.Random("noise")
    assert compress.smaller(rng.randbytes(300)) is None
    assert compress.smaller(rng.randbytes(1_000_000)) is None
    text = b"a line of text that comes again\n" * 5000
    assert compress.smaller(text + rng.randbytes(100_000)) is not None
