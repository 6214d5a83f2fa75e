from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.codec import readable
from holdfast.codec.registry import Coded
from holdfast.codec.revive import revive
from holdfast.codec.values import decode, decode_data, encode
from tests.own_codecs import no_codecs, own_codecs
from tests.strategies import values


class Money:
    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.currency)


class Euro(Money):
    pass


@dataclasses.dataclass
class Basket:
    items: list[Any]


class Level(Enum):
    LOW = 1


def to_data(money: Money) -> tuple[Decimal, str]:
    return money.amount, money.currency


def from_data(data: Any) -> Money:
    amount, currency = data
    return Money(amount, currency)


FIVE = Money(Decimal(5), "EUR")


@pytest.fixture(autouse=True)
def money() -> Iterator[None]:
    with own_codecs():
        hf.register_codec(Money, "shop.money", to_data, from_data)
        yield


@given(st.lists(values(), max_size=3))
def test_a_registered_type_comes_back_wherever_it_stands(others: list[Any]) -> None:
    state = {"price": FIVE, "all": [(FIVE, {FIVE}), {FIVE: 1}, *others]}
    came_back = decode(encode(state))
    assert came_back["price"] == FIVE
    assert came_back["all"][0] == (FIVE, {FIVE})
    assert came_back["all"][1] == {FIVE: 1}
    again = readable.loads(readable.dumps(state))
    assert again["all"][:2] == came_back["all"][:2]
    assert encode(decode_data(encode(FIVE))) == encode(FIVE)


def test_the_readable_form_names_the_codec() -> None:
    assert readable.to_json({"p": FIVE}) == {
        "p": {"$codec": {"name": "shop.money", "data": {"$tuple": [{"$decimal": "5"}, "EUR"]}}}
    }
    assert readable.from_json({"$$codec": 1}) == {"$codec": 1}


def test_codecs_may_store_values_of_other_codecs() -> None:
    hf.register_codec(Basket, "shop.basket", lambda b: b.items, Basket)
    assert decode(encode([Basket([FIVE, 1])])) == [Basket([FIVE, 1])]


def test_a_codec_goes_before_what_a_type_would_be_stored_as() -> None:
    assert decode(encode(Basket([1]))) == {"items": [1]}
    hf.register_codec(Basket, "shop.basket", lambda b: b.items, Basket)
    hf.register_codec(Level, "shop.level", lambda level: level.name, lambda name: Level[name])
    hf.register_codec(collections.Counter, "counter", dict, collections.Counter)
    state = [Basket([1]), Level.LOW, collections.Counter("aab")]
    came_back = decode(encode(state))
    assert came_back == state
    assert type(came_back[2]) is collections.Counter
    assert revive(came_back, tuple[Any, ...] | list[Any]) == state
    assert revive(came_back[0], Basket) == Basket([1])
    assert revive({"items": [1]}, Basket) == Basket([1]), "as it was stored before"


def test_a_codec_is_for_exactly_its_type_unless_it_says_otherwise() -> None:
    with pytest.raises(hf.SerializeError, match=r"state\.price: Euro can't be stored"):
        encode({"price": Euro(Decimal(1), "EUR")})
    hf.register_codec(PurePath, "path", str, Path, subclasses=True)
    assert decode(encode({Path("/a"): [Path("b")]})) == {Path("/a"): [Path("b")]}


def test_an_unknown_codec_is_named_by_a_load_and_is_data_elsewhere() -> None:
    data = encode({"items": [0, {"price": FIVE}]})
    text = readable.dumps({"price": FIVE})
    with no_codecs():
        with pytest.raises(hf.UnknownCodecError) as caught:
            decode(data)
        assert caught.value.path == "state.items[1].price"
        assert caught.value.codec == "shop.money"
        assert "register_codec(TYPE, 'shop.money'" in str(caught.value)
        with pytest.raises(hf.UnknownCodecError):
            readable.loads(text)
        found = decode_data(data)
        assert found["items"][1]["price"] == Coded("shop.money", (Decimal(5), "EUR"))
        assert encode(found) == data
        assert readable.dumps(readable.loads_data(text)) == text


def test_what_a_codec_raises_is_said_with_the_place() -> None:
    hf.register_codec(Basket, "shop.basket", lambda b: {"n": 1 / len(b.items)}, lambda d: d["no"])
    with pytest.raises(hf.SerializeError) as refused:
        encode({"a": [Basket([])]})
    assert refused.value.path == "state.a[0]"
    assert "its codec 'shop.basket': ZeroDivisionError" in refused.value.reason
    with pytest.raises(hf.ReviveError) as unread:
        decode(encode({"a": (Basket([1]),)}))
    assert unread.value.path == "state.a[0]"
    assert "codec 'shop.basket' refused the stored data: KeyError: 'no'" in unread.value.reason


def test_data_that_can_not_be_stored_is_refused_with_the_place() -> None:
    hf.register_codec(Basket, "shop.basket", lambda b: {"items": b.items}, Basket)
    with pytest.raises(hf.SerializeError, match=r"state\.b\.items\[0\]: function print"):
        encode({"b": Basket([print])})
    hf.register_codec(Level, "shop.level", lambda level: level, Level)
    with pytest.raises(hf.SerializeError, match="contains itself"):
        encode(Level.LOW)


@pytest.mark.parametrize(
    "items",
    [[], ["shop.money"], ["shop.money", 1, 2], [b"shop.money", 1], [None, 1], [["shop.money"], 1]],
)
def test_a_malformed_value_of_a_codec_is_damage(items: list[Any]) -> None:
    data = ormsgpack.packb([ormsgpack.Ext(5, b""), *items])
    for read in (decode, decode_data):
        with pytest.raises(ValueError, match="malformed value of a codec"):
            read(data)


@pytest.mark.parametrize(
    "tree", [1, [], {}, {"name": "a"}, {"name": 1, "data": 1}, {"name": "a", "data": 1, "x": 1}]
)
def test_a_malformed_codec_is_no_readable_value(tree: Any) -> None:
    with pytest.raises(ValueError, match="codec takes"):
        readable.data_from_json({"$codec": tree})


def test_stored_bytes_that_name_modules_find_only_what_is_registered() -> None:
    for name in ("os.system", "subprocess.Popen", "builtins.eval", "pandas", "torch.load"):
        data = ormsgpack.packb([ormsgpack.Ext(5, b""), name, "echo"])
        with pytest.raises(hf.ReviveError):
            decode(data)


def test_registering_the_same_again_replaces_it_and_anything_else_is_refused() -> None:
    hf.register_codec(Money, "shop.money", to_data, from_data)
    for kind, name in ((Basket, "shop.money"), (Money, "shop.other")):
        with pytest.raises(ValueError, match=r"has the codec 'shop\.money' already"):
            hf.register_codec(kind, name, to_data, from_data)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already"):
        hf.register_codec(Money, "shop.money", str, from_data)

    class Again(Money):  # as a notebook defines it when its cell is run again
        pass

    Again.__qualname__ = "Money"
    hf.register_codec(Again, "shop.money", to_data, from_data)  # type: ignore[arg-type]
    assert decode(encode([Again(Decimal(5), "EUR"), FIVE])) == [FIVE, FIVE]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (1, "a", TypeError),
        (Basket, "", ValueError),
        (Basket, "a b", ValueError),
        (Basket, "a" * 101, ValueError),
        (Basket, "1a", ValueError),
        (Basket, "ä", ValueError),
        (Basket, "pandas.Frame", ValueError),
        (Basket, "holdfast.x", ValueError),
        (dict, "d", ValueError),
        (Decimal, "d", ValueError),
        (object, "d", ValueError),
    ],
)
def test_what_can_not_be_registered_is_refused(kind: Any, name: str, error: type) -> None:
    with pytest.raises(error):
        hf.register_codec(kind, name, to_data, from_data)
    with pytest.raises(TypeError):
        hf.register_codec(Basket, "fine", None, from_data)  # type: ignore[arg-type]


def test_a_subclass_without_a_codec_is_told_of_the_codec_of_its_base() -> None:
    class Tip(Money):
        pass

    with pytest.raises(hf.SerializeError, match=r"exactly Money; register it with subclasses=True"):
        encode(Tip(Decimal(5), "EUR"))
