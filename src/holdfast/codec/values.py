"""State as bytes and back: the packed form, MessagePack with a fixed table of Ext values.

None, bool, 64-bit int, float, str, bytes, list and dict are MessagePack's own. A dict whose keys
are all of exactly these scalar types is a MessagePack map. The rest are Ext values; the codes
are part of the stored format, are never reused and name no Python type or module:

    1 tuple   2 set   3 frozenset   4 map with other keys (key, value, key, value, ...)
    5 a value that a codec stored (name, data)
        Each is empty and stands first in an array, before the members: nesting costs no copies,
        and the depth of the bytes is the depth of the value.
    16 str with lone surrogates     25 numpy array: [dtype, shape, bytes]
    17-24 see `holdfast.codec.scalars`    26 numpy scalar: [dtype, bytes]

What comes back is equal and of the same type, with these exceptions, because bytes never choose
a type: an Enum member comes back as its value; dataclasses and pydantic models as a dict of
their fields; namedtuples as tuples; instances of subclasses (OrderedDict, defaultdict, Counter,
np.str_, ...) as the plain base value; bytearray and memoryview as bytes. `holdfast.codec.revive`
turns them into the caller's own types again. A type for which this process has registered a codec
(`holdfast.codec.registry`) comes back as itself. The order of dicts is kept, that of sets is not.
Objects of ormsgpack itself (`Ext`, `Fragment`) do not belong in a state: most are written
unchecked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import ormsgpack
from ormsgpack import packb, unpackb

from holdfast.codec.arrays import put_together
from holdfast.codec.hashes import TOO_ALIKE, are_alike
from holdfast.codec.paths import Misplaced, key_step
from holdfast.codec.reduce import (
    ARRAY,
    CODED,
    FROZENSET,
    MAX_DEPTH,
    NUMPY_SCALAR,
    PAIRS,
    PASS,
    PASS_ALL_KEYS,
    SET,
    STR,
    TUPLE,
    Rebuilder,
    reduce,
)
from holdfast.codec.registry import Coded, UnknownCodec, value_of
from holdfast.codec.scalars import SCALARS
from holdfast.errors import ReviveError, SerializeError, UnknownCodecError

__all__ = ["MAX_DEPTH", "decode", "decode_data", "encode", "same"]


def encode(value: object, *, root: str = "state") -> bytes:
    """The packed form of a value.

    Raises `SerializeError` with the path from `root` to the part that can't be stored: of an
    unsupported type, deeper than `MAX_DEPTH`, part of itself, or two keys of a dict (or members
    of a set) that would come back as one, such as `Color.RED` and its value.
    """
    try:
        return packb(value, default=reduce, option=PASS)
    except TypeError:
        pass  # keys that are not str, lone surrogates, or a part to refuse: look at each part
    try:
        return packb(Rebuilder(_come_back).rebuild(value), option=PASS_ALL_KEYS)
    except Misplaced as misplaced:
        raise SerializeError(misplaced.path(root), misplaced.reason) from misplaced.__cause__
    except RecursionError:
        reason = "too little stack is left to encode it; save from a less deeply nested call"
        raise SerializeError(root, reason) from None
    except RuntimeError as error:
        reason = f"it changed while it was encoded ({error}); save a copy, or save between changes"
        raise SerializeError(root, reason) from error


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The value that these bytes are the packed form of, all of it newly made.

    Nothing named by the bytes is run or imported, but for the codecs that this process registered
    and those of holdfast's own. Raises ValueError for anything that `encode` would not have
    written: truncated, trailing, unknown, malformed or too deeply nested data. Raises `ReviveError`
    if a codec refuses its data, `UnknownCodecError` for one that is not registered.
    """
    try:
        return _decode(data, _MARKS)
    except UnknownCodec as unknown:
        raise UnknownCodecError(unknown.path("state"), unknown.reason, unknown.codec) from None
    except Misplaced as misplaced:
        raise ReviveError(misplaced.path("state"), misplaced.reason) from misplaced.__cause__


def decode_data(data: bytes | bytearray | memoryview) -> Any:
    """As `decode`, but what codecs stored comes as `Coded`, whether or not they are known here.

    `encode` makes the same bytes of it again.
    """
    return _decode(data, _DATA_MARKS)


def _come_back(data: bytes) -> Any:
    """As what a value comes back. Those who only copy or show it need not know its codecs."""
    try:
        return decode(data)
    except UnknownCodecError:
        return decode_data(data)


def _decode(data: bytes | bytearray | memoryview, known: dict[int, _Mark]) -> Any:
    problems: list[str] = []
    marks: list[_Mark] = []

    def revive(code: int, payload: bytes) -> object:
        mark = known.get(code)
        if mark is not None and not payload:
            marks.append(mark)
            return mark
        try:
            return _UNPACK[code](payload)
        except Exception as error:
            # ormsgpack hides what its hook raises, so the reason is kept here.
            problems.append(f"Ext {code}: {error}")
            raise

    try:
        framed = b"".join((b"\x92", data, _END))
        value, end = unpackb(framed, ext_hook=revive, option=ormsgpack.OPT_NON_STR_KEYS)
        if type(end) is not bytes or end != _END_MARK:
            raise ValueError("more follows after the value")
        return _finish(value, 1) if marks else value
    except ValueError as error:
        reason = problems[0] if problems else error
        raise ValueError(f"these bytes are not a stored value: {reason}") from None
    except RecursionError:
        raise ValueError("these bytes are nested too deeply for the stack that is left") from None


def same(one: object, other: object) -> bool:
    """Whether two plain values are equal as in JSON: 1 is 1.0 and a tuple a list, True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class _Mark:
    """What an empty Ext at the head of an array is decoded to: says what to make of the rest."""

    def __init__(self, build: Callable[[list[Any]], object]) -> None:
        self.build = build


def _build_set(items: list[Any]) -> set[Any]:
    return set(_unique(items))


def _build_frozenset(items: list[Any]) -> frozenset[Any]:
    return frozenset(_unique(items))


def _build_map(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a map with a key but no value")
    return dict(zip(_unique(items[::2]), items[1::2], strict=True))


def _build_coded(items: list[Any]) -> Coded:
    if len(items) != 2 or type(items[0]) is not str:
        raise ValueError("a malformed value of a codec")
    return Coded(*items)


def _build_value(items: list[Any]) -> object:
    coded = _build_coded(items)
    return value_of(coded.name, coded.data)


def _unique(items: list[Any]) -> list[Any]:
    try:
        if are_alike(items):
            raise ValueError(TOO_ALIKE)
        if len(set(items)) != len(items):
            raise ValueError("the same key or member twice")
    except TypeError as error:
        raise ValueError(f"a key or member of a set that can't be one: {error}") from None
    return items


_MARKS: Final = {
    TUPLE: _Mark(tuple),
    SET: _Mark(_build_set),
    FROZENSET: _Mark(_build_frozenset),
    PAIRS: _Mark(_build_map),
    CODED: _Mark(_build_value),
}
_DATA_MARKS: Final = {**_MARKS, CODED: _Mark(_build_coded)}

# ormsgpack ignores what follows a value. Decoding it as the first of two, with the second known
# and not to be guessed, shows whether the value ends where its bytes do.
_END_MARK: Final = os.urandom(16)
_END: Final = packb(_END_MARK)


def _finish(node: Any, depth: int) -> Any:
    """Turn marked arrays into what their marks say, from the innermost outwards."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    kind = type(node)
    if kind is dict:
        for key, item in node.items():
            if type(item) in _UNFINISHED:
                try:
                    node[key] = _finish(item, depth + 1)
                except Misplaced as misplaced:
                    misplaced.under(key_step(key))
                    raise
        return node
    if kind is list:
        mark = node[0] if node and type(node[0]) is _Mark else None
        if mark is not None:
            del node[0]
        for index, item in enumerate(node):
            if type(item) in _UNFINISHED:
                try:
                    node[index] = _finish(item, depth + 1)
                except Misplaced as misplaced:
                    if mark is None or mark.build is tuple:
                        misplaced.under(f"[{index}]")
                    raise
        return node if mark is None else mark.build(node)
    if kind is _Mark:
        raise ValueError("a mark that does not head an array")
    return node


_UNFINISHED: Final = frozenset({list, dict, _Mark})


def _unpack_array(payload: bytes) -> object:
    name, shape, data = unpackb(payload)
    if shape is None:
        raise ValueError("a numpy array without a shape")
    return put_together(name, shape, data)


def _unpack_numpy_scalar(payload: bytes) -> object:
    name, data = unpackb(payload)
    return put_together(name, None, data)


_UNPACK: Final[dict[int, Callable[[bytes], object]]] = {
    **{scalar.code: scalar.unpack for scalar in SCALARS},
    STR: lambda payload: payload.decode("utf-8", "surrogatepass"),
    ARRAY: _unpack_array,
    NUMPY_SCALAR: _unpack_numpy_scalar,
}
