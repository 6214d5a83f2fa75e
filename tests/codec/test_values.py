from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import pathlib
import sys
import threading
import types
import uuid
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntFlag, StrEnum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.codec import scalars
from holdfast.codec.readable import from_json
from holdfast.codec.scalars import MAX_INT_BYTES
from holdfast.codec.values import MAX_DEPTH, decode, encode
from holdfast.errors import SerializeError
from tests.effort import EFFORT
from tests.strategies import same, values
from tests.waiting import run_process


class Color(Enum):
    RED = "red"
    POINT = (1, 2)
    LIST = [1]  # noqa: RUF012 - an unhashable value is the point
    BROKEN = object()


class Perm(IntFlag):
    R = 4
    W = 2


class Word(StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: Any = None


class Pair(NamedTuple):
    left: int
    right: str


class Model(pydantic.BaseModel):
    name: str
    tags: set[str] = set()

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return self.name.upper()


def callback() -> None: ...


def nest(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def refused(value: object) -> SerializeError:
    with pytest.raises(SerializeError) as caught:
        encode(value)
    return caught.value


@given(values())
@example(["\ud83d\ude00"])
@example({"\ud800": 1, 2**70: 2, (float("nan"),): 3})
@example({float("nan"), -0.0, None, b""})
@example([2**64 - 1, 2**64, -(2**63), -(2**63) - 1])
def test_whatever_can_be_stored_comes_back_the_same(value: Any) -> None:
    assert same(decode(encode(value)), value)


@given(values())
def test_what_came_back_is_encoded_to_a_value_that_comes_back_the_same(value: Any) -> None:
    once = decode(encode(value))
    assert same(decode(encode(once)), once)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Color.RED, "red"),
        (Color.POINT, (1, 2)),
        (Perm.R | Perm.W, 6),
        (Word.A, "a"),
        (Text("abc"), "abc"),
        (True, True),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Pair(1, "x"), (1, "x")),
        (Model(name="a", tags={"t"}), {"name": "a", "tags": {"t"}}),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (np.str_("x"), "x"),
        ({Color.RED: 1, Word.A: 2, Text("b"): 3}, {"red": 1, "a": 2, "b": 3}),
        ({Color.POINT, Pair(3, "y")}, {(1, 2), (3, "y")}),
        ({Pair(1, "x"): Point(1)}, {(1, "x"): {"x": 1, "y": None}}),
    ],
)
@pytest.mark.parametrize("slowly", [False, True])
def test_objects_come_back_as_plain_data(value: Any, plain: Any, slowly: bool) -> None:
    if slowly:  # a key that is no str sends the whole state the other way
        assert same(decode(encode({0: value})), {0: plain})
    else:
        assert same(decode(encode(value)), plain)


def test_the_order_of_an_ordered_dict_is_the_one_it_shows() -> None:
    moved = collections.OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert list(decode(encode(moved))) == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (
            {"items": [1, 2, 3, {"callback": callback}]},
            "state.items[3].callback",
            "function callback",
        ),
        ({"a b": {3: Point(1, callback)}}, "state['a b'][3].y", "function callback"),
        ([(1, callback)], "state[0][1]", "function callback"),
        ({callback: 1}, "state[<function>]", "function callback"),
        ({"s": {callback}}, "state.s", "function callback"),
        (Color.BROKEN, "state", "object can't be stored"),
        ({"e": ValueError("x")}, "state.e", "str(error)"),
        ({"p": pathlib.PurePosixPath("/x")}, "state.p", "store str(path)"),
        ({"q": collections.deque([1])}, "state.q", "store list(...)"),
        ({"m": types.MappingProxyType({})}, "state.m", "store dict(...)"),
        ({"c": Point}, "state.c", "class Point"),
        ({"l": threading.Lock()}, "state.l", "lock can't be stored"),
        ([ormsgpack.Ext(1, b""), {1: 2}], "state[0]", "Ext can't be stored"),
        ({"n": 1 << 8 * MAX_INT_BYTES}, "state.n", "more than 65,536"),
        (np.array([object()]), "state", "dtype object"),
        ([np.zeros(2, [("a", "i4")])], "state[0]", "one plain array per field"),
        (np.ma.masked_array([1, 2], [True, False]), "state", "MaskedArray"),
        ({"x" * 400: callback}, "state", "function callback"),
    ],
)
def test_a_refusal_names_the_path_and_the_reason(value: Any, path: str, reason: str) -> None:
    error = refused(value)
    assert error.path.startswith(path)
    assert len(error.path) <= 301
    assert reason in error.reason
    assert str(error) == f"{error.path}: {error.reason}"


def test_the_root_of_the_path_is_the_callers() -> None:
    with pytest.raises(SerializeError, match=r"^result\[0\]: function"):
        encode([callback], root="result")


@pytest.mark.parametrize(
    "value",
    [
        {Color.RED: 1, "red": 2},
        {Color.RED, "red"},
        frozenset({Color.POINT, (1, 2)}),
        {Color.POINT: 1, Pair(1, "x"): 2, (1, 2): 3},
    ],
)
def test_two_keys_never_become_one(value: Any) -> None:
    assert "would be lost" in refused(value).reason


@pytest.mark.parametrize("value", [{Point(1): 1}, {Point(1)}, {(Point(1),): 1}, {Color.LIST: 1}])
def test_a_key_that_would_come_back_unhashable_is_refused(value: Any) -> None:
    assert "can't be hashed" in refused(value).reason


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: [value],
        lambda value: (value,),
        lambda value: {"a": value},
        lambda value: {1: value},
        lambda value: {2**70: value},
        lambda value: Point(1, value),
        lambda value: frozenset({value}),
    ],
)
def test_the_depth_is_limited_alike_for_every_kind(wrap: Callable[[Any], Any]) -> None:
    decode(encode(nest(MAX_DEPTH, wrap)))
    assert f"deeper than {MAX_DEPTH} levels" in refused(nest(MAX_DEPTH + 1, wrap)).reason


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000])
def test_a_value_nested_too_deeply_is_refused_with_a_path(depth: int) -> None:
    error = refused({"tree": nest(depth, lambda value: [value])})
    assert error.path.startswith("state.tree[0][0]")


def test_cycles_are_refused_where_they_close() -> None:
    loop: dict[str, Any] = {"a": {"b": []}}
    loop["a"]["b"].append(loop)
    error = refused(loop)
    assert (error.path, "contains itself" in error.reason) == ("state.a.b[0]", True)
    point = Point(1, [])
    point.y.append((point,))
    assert refused(point).path == "state.y[0][0]"


def test_the_same_object_in_two_places_comes_back_as_two() -> None:
    shared: list[int] = [1]
    for value in ({"a": shared, "b": shared}, {0: shared, 1: shared}):
        one, two = decode(encode(value)).values()
        one.append(2)
        assert two == [1]


def test_little_stack_is_reported_and_never_a_recursion_error() -> None:
    data = encode(nest(100, lambda value: (value,)))

    def at_the_end_of_the_stack(act: Callable[[], Any]) -> None:
        try:
            at_the_end_of_the_stack(act)
        except RecursionError:
            act()

    with pytest.raises(SerializeError, match=r"stack|recursion"):
        at_the_end_of_the_stack(lambda: encode(nest(100, lambda value: {1: value})))
    with pytest.raises(ValueError, match=r"stack|not a stored value"):
        at_the_end_of_the_stack(lambda: decode(data))


def test_a_dict_that_changes_while_it_is_encoded_is_refused() -> None:
    state: dict[Any, Any] = {1: None}

    class Grows(pydantic.BaseModel):
        def model_dump(self, **_: Any) -> Any:
            state[len(state) + 1] = 0
            return {}

    state[1] = Grows()
    assert "changed while it was encoded" in refused(state).reason


def test_an_error_inside_an_object_says_where() -> None:
    class Hostile(pydantic.BaseModel):
        def model_dump(self, **_: Any) -> Any:
            raise RuntimeError("no dump today")

    error = refused({"m": Hostile()})
    assert error.path == "state.m"
    assert "no dump today" in error.reason


def test_a_datetime_subclass_is_stored_only_when_nothing_is_lost() -> None:
    class Frozen(dt.datetime):
        pass

    class Nanos(dt.datetime):
        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = dt.datetime.__hash__

    assert decode(encode(Frozen(2026, 1, 1))) == dt.datetime(2026, 1, 1)
    assert "Nanos can't be stored" in refused(Nanos(2026, 1, 1)).reason


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),  # this wall time comes twice
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        dt.datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),  # and this one never
        dt.datetime(1, 1, 1, tzinfo=BERLIN),
        dt.time(2, 30, tzinfo=BERLIN),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(microseconds=-1))),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1, seconds=30))),
    ],
)
def test_zones_and_odd_offsets_are_kept(moment: Any) -> None:
    back = decode(encode(moment))
    assert same(back, moment)
    assert back.tzinfo == moment.tzinfo


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("2026-07-01T12:00:00+02:00[Mars/Olympus]", dt.timezone(dt.timedelta(hours=2))),
        ("2026-07-01T12:00:00+02:00[Europe]", dt.timezone(dt.timedelta(hours=2))),
        ("2026-07-01T12:00:00+05:00[Europe/Berlin]", BERLIN),  # its rules have changed since
    ],
)
def test_an_unknown_or_changed_zone_keeps_the_instant(stored: str, expected: dt.tzinfo) -> None:
    back = decode(ormsgpack.packb(ormsgpack.Ext(20, stored.encode())))
    assert back == dt.datetime.fromisoformat(stored.partition("[")[0])
    assert back.tzinfo == expected


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "/etc/passwd", "a.b", "Europe/../x", "\x00", ""]
)
def test_a_zone_key_can_not_leave_the_database(key: str) -> None:
    with pytest.raises(ValueError, match="not a date or time"):
        decode(ormsgpack.packb(ormsgpack.Ext(20, f"2026-01-01T00:00:00[{key}]".encode())))


def test_arrays_come_back_writable_and_whatever_their_layout_was() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    back = decode(encode({"a": array}))["a"]
    assert same(back, np.ascontiguousarray(array))
    back[0, 0] = 9
    assert array[0, 0] == 0


@pytest.mark.parametrize(
    "parts",
    [
        ["<f8", [2**40], b""],
        ["<f8", [3], b"12345678"],
        ["<f8", [-1], b"12345678"],
        ["<f8", [True], b"12345678"],
        ["<f8", [1] * 100, b"12345678"],
        ["<f8", None, b"12345678"],
        ["|O", [1], b"12345678"],
        ["<U99999999999", [1], b""],
        ["<U1", [1], b"\xff\xff\xff\xff"],
        ["<M8[zz]", [1], b"12345678"],
        ["f8,f8", [1], b"1234567812345678"],
        ["<f8", [1]],
        "<f8",
    ],
)
def test_malformed_arrays_are_refused_before_anything_is_allocated(parts: Any) -> None:
    with pytest.raises(ValueError, match="Ext 25"):
        decode(ormsgpack.packb(ormsgpack.Ext(25, ormsgpack.packb(parts))))


def ext(code: int, payload: bytes = b"") -> ormsgpack.Ext:
    return ormsgpack.Ext(code, payload)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\x01\x01",
        encode({"a": 1}) + b"\x00",
        encode([1, 2])[:-1],
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000 + b"\xc0",
        b"\x92\xc7\x00\x01" * 900 + b"\xc0",
        ormsgpack.packb(ext(1)),
        ormsgpack.packb([1, ext(1)]),
        ormsgpack.packb([ext(1), ext(1)]),
        ormsgpack.packb({"a": ext(2)}),
        ormsgpack.packb([ext(1, b"x"), 1]),
        ormsgpack.packb([ext(2), [1]]),
        ormsgpack.packb([ext(2), 1, 1]),
        ormsgpack.packb([ext(4), 1]),
        ormsgpack.packb([ext(4), 1, 1, 1, 1]),
        ormsgpack.packb([ext(4), {}, 1]),
        ormsgpack.packb(ext(99, b"os.system")),
        b"\xd6\xff1234",  # the timestamp of MessagePack itself
        ormsgpack.packb(ext(17, b"")),
        ormsgpack.packb(ext(17, bytes(MAX_INT_BYTES + 1))),
        ormsgpack.packb(ext(18, b"one")),
        ormsgpack.packb(ext(19, b"short")),
        ormsgpack.packb(ext(23, b"P999999999999DT0.000000S")),
        ormsgpack.packb(ext(23, b"P999999999DT99999.000000S")),
        ormsgpack.packb(ext(24, b"short")),
        ormsgpack.packb(ext(16, b"\xff")),
    ],
)
def test_malformed_bytes_raise_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^these bytes"):
        decode(data)


@given(st.binary(max_size=200))
def test_random_bytes_decode_or_raise_value_error(data: bytes) -> None:
    decodes_or_refuses(data)


@given(values(), st.data())
def test_damaged_bytes_decode_or_raise_value_error(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged)))
        cut = data.draw(st.integers(0, 3))
        damaged[at : at + cut] = data.draw(st.binary(max_size=3))
    decodes_or_refuses(bytes(damaged))


def decodes_or_refuses(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded(kind: Callable[[bytes], Any]) -> None:
    assert decode(kind(encode((1, "a")))) == (1, "a")


def test_a_missing_numpy_is_named_with_the_way_to_get_it() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from holdfast.codec.values import decode, encode\n"
        "assert decode(encode({1: (2, 3.5)})) == {1: (2, 3.5)}\n"
        "try: decode(bytes.fromhex(sys.argv[1]))\n"
        "except ValueError as error: print(error)\n"
    )
    data = encode(np.arange(3)).hex()
    done = run_process([sys.executable, "-c", program, data], capture_output=True, check=True)
    assert "[numpy]'" in done.stdout


def test_the_stored_format_does_not_change() -> None:
    """These bytes were written once; if this fails, stored state can't be read any more."""
    uid = uuid.UUID(int=1)
    stored: dict[str, Any] = {
        "93c700010102": (1, 2),
        "92c7000201": {1},
        "92c7000301": frozenset({1}),
        "93c70004d81800000000000000000000000000000001c3": {uid: True},
        "8201a1780ac3": {1: "x", 10: True},
        "c70310eda080": "\ud800",
        "c70911010000000000000000": 2**64,
        "d612312e3530": Decimal("1.50"),
        "d8133ff0000000000000c000000000000000": 1 - 2j,
        "c71314323032362d30312d30325430333a30343a3035": dt.datetime(2026, 1, 2, 3, 4, 5),
        "c70a15323032362d30312d3032": dt.date(2026, 1, 2),
        "d71630333a30343a3035": dt.time(3, 4, 5),
        "c70d1750314454322e30303030303353": dt.timedelta(1, 2, 3),
        "d81800000000000000000000000000000001": uid,
        "c70d1993a33c69329102c40401000200": np.array([1, 2], "<i2"),
        "c7091a92a33c6932c4020100": np.int16(1),
    }
    for text, value in stored.items():
        assert encode(value).hex() == text
        assert same(decode(bytes.fromhex(text)), value)


def test_members_that_were_chosen_to_have_one_hash_are_refused_in_time() -> None:
    """A set of them takes time by the square of their number: of 60 MB, days."""
    many = 100_000 if EFFORT == 1 else 500_000
    alike = [number * sys.hash_info.modulus for number in range(1, many + 1)]
    packed = ormsgpack.packb([ormsgpack.Ext(17, n.to_bytes(16, "big", signed=True)) for n in alike])
    head = packed[:5]
    for code in (2, 3, 4):  # set, frozenset, map
        mark = ormsgpack.packb(ormsgpack.Ext(code, b""))
        count = int.from_bytes(head[1:], "big") + 1
        with pytest.raises(ValueError, match="the same hash"):
            decode(head[:1] + count.to_bytes(4, "big") + mark + packed[5:])
    tree = [{"$int": str(n)} for n in alike[: many // 10]]
    with pytest.raises(ValueError, match="the same hash"):
        from_json({"$set": tree})
    with pytest.raises(ValueError, match="the same hash"):
        from_json({"$map": [[member, 1] for member in tree]})


def test_members_with_few_hashes_come_back_or_are_refused_when_they_are_saved() -> None:
    powers = {sign * 2.0**exponent for exponent in range(-1074, 1024) for sign in (1, -1)}
    assert len(set(map(hash, powers))) < len(powers) / 10
    assert decode(encode(powers)) == powers
    assert decode(encode(dict.fromkeys(map(Decimal, powers)))) == dict.fromkeys(powers)
    alike = {number * sys.hash_info.modulus for number in range(1, 2000)}
    for value in (alike, dict.fromkeys(alike)):
        with pytest.raises(SerializeError, match="store a list instead"):
            encode(value)


def test_an_unknown_time_zone_is_not_looked_for_among_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`ZoneInfo` imports a module of tzdata that has the name of the zone's directory."""

    class Finder:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            sought.append(name)

    sought: list[str] = []
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    moment = "2026-01-01T00:00:00+01:00"
    found = decode(ormsgpack.packb(ormsgpack.Ext(20, f"{moment}[evil/Zone]".encode())))
    assert found == dt.datetime.fromisoformat(moment)
    assert not [name for name in sought if "evil" in name]
    berlin = decode(ormsgpack.packb(ormsgpack.Ext(20, f"{moment}[Europe/Berlin]".encode())))
    assert berlin.tzinfo == ZoneInfo("Europe/Berlin")


def test_a_missing_database_of_time_zones_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Finder:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name.startswith("tzdata"):
                sought.append(name)
                raise ModuleNotFoundError(name)

    sought: list[str] = []
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    for name in [name for name in sys.modules if name.startswith("tzdata")]:
        monkeypatch.delitem(sys.modules, name)
    scalars._packaged_zones.cache_clear()
    try:
        for _ in range(3):
            decode(ormsgpack.packb(ormsgpack.Ext(20, b"2026-01-01T00:00:00+01:00[evil/Zone]")))
    finally:
        scalars._packaged_zones.cache_clear()
    assert sought == ["tzdata"]


@dataclasses.dataclass
class Plain:
    x: int


@dataclasses.dataclass
class Titled(str):
    origin: str


@dataclasses.dataclass
class Counted(dict[str, int]):
    total: int


@dataclasses.dataclass
class Dumped:
    total: int

    def model_dump(self) -> dict[str, int]:
        return {"dumped": self.total}


def test_a_dataclass_that_is_something_else_too_is_stored_as_that() -> None:
    made = [Titled("a"), Counted(3), Dumped(3), Plain(3)]
    for _ in range(2):  # what was found out about their types is remembered
        assert decode(encode(made)) == ["a", {"total": 3}, {"dumped": 3}, {"x": 3}]
