from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum, IntFlag, StrEnum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from holdfast.codec.revive import revive
from holdfast.codec.values import decode, encode
from holdfast.errors import ReviveError

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(Enum):
    RED = "red"
    POINT = (1, 2)


class Perm(IntFlag):
    R = 4
    W = 2


class Level(StrEnum):
    LOW = "low"


class Pair(NamedTuple):
    left: int
    right: Color = Color.RED


class Path(str):
    __slots__ = ()


class Quacks(typing.Protocol):
    def quack(self) -> None: ...


class Inner(pydantic.BaseModel):
    color: Color
    at: dt.datetime | None = None
    long_name: int = pydantic.Field(default=1, alias="longName")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def loud(self) -> str:
        return self.color.name

    model_config = pydantic.ConfigDict(extra="forbid")


@dataclasses.dataclass
class Leaf:
    color: Color
    pair: Pair
    model: Inner | None = None


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)
    leaf: Leaf | None = None
    by_color: dict[Color, list[Pair]] = dataclasses.field(default_factory=dict)
    seen: set[Pair] = dataclasses.field(default_factory=set)
    span: tuple[int, str] = (0, "")
    path: tuple[float, ...] = ()
    perm: Perm = Perm.R
    extra: Any = None
    size: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    level: Level
    count: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", 7)


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    items: list[T]


class Options(TypedDict):
    color: Color
    limit: typing.NotRequired[Decimal]


def round_trip(value: Any, as_type: Any = None) -> Any:
    return revive(decode(encode(value)), as_type or type(value))


pairs = st.builds(Pair, st.integers(), st.sampled_from(Color))
models = st.builds(
    Inner,
    color=st.sampled_from(Color),
    at=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    longName=st.integers(),
)
leaves = st.builds(Leaf, st.sampled_from(Color), pairs, st.none() | models)


def trees(children: st.SearchStrategy[list[Tree]]) -> st.SearchStrategy[Tree]:
    return st.builds(
        Tree,
        name=st.text(),
        children=children,
        leaf=st.none() | leaves,
        by_color=st.dictionaries(st.sampled_from(Color), st.lists(pairs, max_size=2)),
        seen=st.sets(pairs, max_size=2),
        span=st.tuples(st.integers(), st.text()),
        path=st.lists(st.integers() | st.floats(allow_nan=False)).map(tuple),
        perm=st.sampled_from([Perm.R, Perm.W, Perm.R | Perm.W]),
        extra=st.none() | st.uuids() | st.tuples(st.integers()),
    )


@given(trees(st.lists(trees(st.just([])), max_size=2)), st.integers())
def test_objects_come_back_equal_through_their_own_type(tree: Tree, size: int) -> None:
    tree.size = size
    back = round_trip(tree)
    assert back == tree
    assert type(back) is Tree


@given(models)
def test_pydantic_models_come_back_equal_with_aliases_and_computed_fields(model: Inner) -> None:
    assert round_trip(model) == model


@pytest.mark.parametrize(
    ("value", "as_type"),
    [
        (Frozen(level=Level.LOW), Frozen),
        (Box(Color.RED, [Color.POINT]), Box[Color]),
        ([Pair(1)], list[Pair]),
        ({"a": Pair(1)}, Mapping[str, Pair]),
        ((Pair(1),), Sequence[Pair]),
        ([Color.RED], Sequence[Color]),
        ("abc", Sequence[str]),
        (frozenset({Color.RED}), AbstractSet[Color]),
        ({UUID(int=1): {Color.RED}}, dict[UUID, set[Color]]),
        ({"color": Color.RED, "limit": Decimal("1.5")}, Options),
        ({"color": Color.RED}, Options),
        (OrderedDict(b=Color.RED), OrderedDict[str, Color]),
        (Counter("aab"), Counter[str]),
        (defaultdict(list, a=[1]), defaultdict[str, list[int]]),
        (Path("/x"), Path),
        (bytearray(b"x"), bytearray),
        (3, float),
        (True, int),
        (None, None),
        (None, Optional[int]),  # noqa: UP045
        (5, UserId),
        (Level.LOW, Annotated[Level, ["metadata that can't be hashed"]]),
        (Color.RED, Literal[Color.RED, 1]),
        (1, Literal["a", 1]),
        (dt.datetime(2026, 1, 1), dt.datetime | str),
        (1 + 2j, complex),
        ({"x": 1}, Any),
        ([1, "a"], list),
        ((1, 2), tuple),
        (1, Hashable),
    ],
)
def test_values_come_back_as_the_type_asked_for(value: Any, as_type: Any) -> None:
    back = round_trip(value, as_type)
    assert back == value
    assert type(back) is type(value)


def test_arrays_are_checked_by_their_class() -> None:
    assert round_trip(np.arange(3), npt.NDArray[np.int64]).tolist() == [0, 1, 2]
    assert round_trip(np.float32(1), np.float32) == 1


@pytest.mark.parametrize(
    ("data", "as_type", "path", "reason"),
    [
        ({"name": "a", "children": [{"name": 1}]}, Tree, "state.children[0].name", "expected str"),
        ({}, Tree, "state.name", "give it a default"),
        ({"name": "a", "gone": 1}, Tree, "state.gone", "would lose data"),
        ({"name": "a", "a b": 1}, Tree, "state['a b']", "would lose data"),
        ([1], Tree, "state", "expected Tree, found list"),
        ({"name": "a", "perm": "x"}, Tree, "state.perm", "Perm"),
        (
            {"name": "a", "leaf": {"color": "blue", "pair": (1,)}},
            Tree,
            "state.leaf.color",
            "add one",
        ),
        ({"name": "a", "span": (1,)}, Tree, "state.span", "expected 2 members"),
        ({"name": "a", "span": [1, ""]}, Tree, "state.span", "expected tuple, found list"),
        ({"color": "red", "at": "never"}, Inner, "state.at", "Inner refused"),
        ({"color": "red", "x": 1}, Inner, "state.x", "Inner refused"),
        ({"limit": Decimal(1)}, Options, "state.color", "NotRequired"),
        ((1, "red", 3), Pair, "state", "2 fields, but 3 were stored"),
        ((1, "blue"), Pair, "state.right", "no member"),
        ({"a": 1, 3: "x"}, dict[str, int], "state[3]", "expected str"),
        ([1, "x"], list[int], "state[1]", "expected int"),
        ({1, "x"}, set[int], "state", "expected int"),
        (1.5, int, "state", "expected int, found float"),
        ("x", int | None, "state", "expected int or None"),
        ("c", Literal["a", "b"], "state", "expected one of 'a', 'b'"),
        (1, Literal[True], "state", "expected one of True"),
        (1, "Tree", "state", "not a type that data can be revived as"),
        (1, typing.Callable[[], int], "state", "expected Callable"),
        (1, Quacks, "state", "not a type that data can be revived as"),
    ],
)
def test_a_misfit_names_the_path_and_the_reason(
    data: Any, as_type: Any, path: str, reason: str
) -> None:
    with pytest.raises(ReviveError) as caught:
        revive(data, as_type)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_the_root_of_the_path_is_the_callers() -> None:
    with pytest.raises(ReviveError, match=r"^result\[0\]: expected int"):
        revive(["x"], list[int], root="result")


@dataclasses.dataclass
class Wide:
    x: int
    y: int = 0


@dataclasses.dataclass
class Narrow:
    x: int


def test_a_union_takes_the_exact_member_before_the_first_that_accepts() -> None:
    for value in (Narrow(1), Wide(1)):
        assert round_trip(value, Wide | Narrow) == value
        assert round_trip(value, Narrow | Wide) == value
    assert type(revive(3, float | int)) is int
    assert type(revive(True, int | bool)) is bool
    assert revive([1], dict[str, int] | list[int]) == [1]
    assert revive(["a"], list[int] | list[str]) == ["a"]


def test_the_order_of_a_union_counts_even_for_equal_types() -> None:
    class Other(Enum):
        RED = "red"

    assert revive("red", Color | Other) is Color.RED
    assert revive("red", Other | Color) is Other.RED
    assert revive(["red"], list[Color | Other]) == [Color.RED]
    assert revive(["red"], list[Other | Color]) == [Other.RED]


def test_a_class_that_refuses_its_data_says_so() -> None:
    @dataclasses.dataclass
    class Positive:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise KeyError("negative")

    with pytest.raises(
        ReviveError, match=r"^state\[1\]: Positive refused the stored data: 'negative'"
    ):
        revive([{"x": 1}, {"x": -1}], list[Positive])


def test_hints_that_can_not_be_resolved_are_named() -> None:
    @dataclasses.dataclass
    class Lost:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ReviveError, match="Nowhere"):
        revive({"x": 1}, Lost)


def test_aliases_and_type_variables_are_followed() -> None:
    alias = TypeAliasType("alias", list[Color])
    assert revive(["red"], alias) == [Color.RED]
    assert revive({"item": "red", "items": []}, Box) == Box("red", [])
    assert revive(["red"], list[Annotated[Color, []]]) == [Color.RED]


def test_keys_that_become_one_in_the_type_asked_for_are_refused() -> None:
    class Loose(Enum):
        A = 1

        @classmethod
        def _missing_(cls, value: object) -> Loose:
            return cls.A

    with pytest.raises(ReviveError, match="two of its keys"):
        revive({1: "a", 2: "b"}, dict[Loose, str])


def test_a_typed_dict_keeps_keys_it_does_not_know() -> None:
    assert revive({"color": "red", "more": 1}, Options) == {"color": Color.RED, "more": 1}


def test_members_of_an_enum_with_objects_for_values_are_found() -> None:
    class Shape(Enum):
        DOT = Narrow(1)
        LINE = Wide(1, 2)

    assert round_trip(Shape.LINE) is Shape.LINE


def test_as_deep_a_value_as_can_be_stored_comes_back() -> None:
    tree = Tree("0")
    for index in range(120):
        tree = Tree(str(index), [tree])
    assert round_trip(tree) == tree
