from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from holdfast.codec import readable
from holdfast.codec.summaries import summary
from holdfast.codec.values import decode, decode_data, encode
from tests.golden.codecs import GOLDEN, register
from tests.own_codecs import own_codecs


@pytest.mark.parametrize("name", GOLDEN)
def test_what_a_codec_ever_stored_can_be_shown_and_copied(name: str) -> None:
    """Also where its library is not installed."""
    packed, tree = bytes.fromhex(GOLDEN[name]["packed"]), GOLDEN[name]["readable"]
    found = decode_data(packed)
    assert readable.to_json(found) == tree
    assert encode(found) == encode(readable.data_from_json(tree)) == packed
    assert summary(tree) == GOLDEN[name]["summary"]


def test_what_a_codec_ever_stored_comes_back() -> None:
    with own_codecs():
        register()
        assert decode(bytes.fromhex(GOLDEN["fraction"]["packed"])) == Fraction(1, 3)
        assert encode(Fraction(1, 3)).hex() == GOLDEN["fraction"]["packed"]


@pytest.mark.parametrize(
    ("packed", "tree"),
    [
        ("c7061b737472697065", {"$secret": "stripe"}),
        ("c70a1c757365722e746f6b656e", {"$withheld": "user.token"}),
        (
            "c7121d94a8757365722e73736ea172c0c403000102",
            {"$encrypted": {"path": "user.ssn", "run": "r", "owner": None, "data": "AAEC"}},
        ),
    ],
)
def test_what_stands_for_a_value_that_is_not_there_is_read_forever(packed: str, tree: Any) -> None:
    found = decode_data(bytes.fromhex(packed))
    assert readable.to_json(found) == tree
    assert encode(found).hex() == encode(readable.data_from_json(tree)).hex() == packed
