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
    27 secret: its name   28 value withheld by its path: the path   29 encrypted: [path, run, owner, bytes]

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

from holdfast.codec import memory
from holdfast.codec.arrays import put_together
from holdfast.codec.hashes import TOO_ALIKE, are_alike
from holdfast.codec.paths import Misplaced, key_step
from holdfast.codec.reduce import (
    ARRAY,
    CODED,
    ENCRYPTED,
    FROZENSET,
    MAX_DEPTH,
    NUMPY_SCALAR,
    PAIRS,
    PASS,
    PASS_ALL_KEYS,
    SECRET,
    SET,
    STR,
    TUPLE,
    WITHHELD,
    Rebuilder,
    reduce,
)
from holdfast.codec.registry import Coded, UnknownCodec, value_of
from holdfast.codec.scalars import SCALARS
from holdfast.codec.secrets import Carrying, Encrypted, Locked, Secret, Sources, Withheld, ask
from holdfast.errors import (
    HoldfastError,
    KeyMissingError,
    ReviveError,
    SecretMissingError,
    SerializeError,
    UnknownCodecError,
)

__all__ = ["MAX_DEPTH", "decode", "decode_data", "encode", "same"]


def encode(value: object, *, root: str = "state") -> bytes:
    """The packed form of a value.

    Raises `SerializeError` with the path from `root` to the part that can't be stored: of an
    unsupported type, deeper than `MAX_DEPTH`, part of itself, or two keys of a dict (or members
    of a set) that would come back as one, such as `Color.RED` and its value.

    The values of secrets are not in it. In memory the result carries them: decoding it, but not a
    copy of its bytes, gives the secrets back with their values.
    """
    try:
        packed = packb(value, default=reduce, option=PASS)
        if len(packed) > memory.at_hand:
            memory.keep(len(packed))
        return packed
    except TypeError:
        pass  # keys that are not str, lone surrogates, or a part to refuse: look at each part
    try:
        rebuilder = Rebuilder(_come_back)
        rebuilt = rebuilder.finished(rebuilder.rebuild(value), root)
        packed = packb(rebuilt, option=PASS_ALL_KEYS)
        carried = {name: one for name, one in rebuilder.secrets.items() if one.can_be_revealed}
        return Carrying.of(packed, carried) if carried else packed
    except Misplaced as misplaced:
        raise SerializeError(misplaced.path(root), misplaced.reason) from misplaced.__cause__
    except RecursionError:
        reason = "too little stack is left to encode it; save from a less deeply nested call"
        raise SerializeError(root, reason) from None
    except RuntimeError as error:
        reason = f"it changed while it was encoded ({error}); save a copy, or save between changes"
        raise SerializeError(root, reason) from error


def ordered(value: object) -> bytes | None:
    """The packed form with sorted keys, for a hash: equal values have the same.

    None for what has no such form: sets, keys that are not text, secrets, what can't be stored.
    """
    try:
        return packb(value, default=_reduce_ordered, option=PASS | ormsgpack.OPT_SORT_KEYS)
    except TypeError:
        return None


def _reduce_ordered(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        raise TypeError("its members have no order")
    return reduce(value)


def decode(data: bytes | bytearray | memoryview, sources: Sources | None = None) -> Any:
    """The value that these bytes are the packed form of, all of it newly made.

    Nothing named by the bytes is run or imported, but for the codecs that this process registered
    and those of holdfast's own. Raises ValueError for anything that `encode` would not have
    written: truncated, trailing, unknown, malformed or too deeply nested data. Raises `ReviveError`
    if a codec refuses its data, `UnknownCodecError` for one that is not registered.

    `sources` has what is not in the bytes. Secrets ask it when they are revealed; for a value that
    was withheld by its path it is asked here, and `SecretMissingError` raised if it has none.
    """
    try:
        return _decode(data, _MARKS, sources or _NO_SOURCES)
    except UnknownCodec as unknown:
        raise UnknownCodecError(unknown.path("state"), unknown.reason, unknown.codec) from None
    except Misplaced as misplaced:
        raise ReviveError(misplaced.path("state"), misplaced.reason) from misplaced.__cause__


def decode_data(data: bytes | bytearray | memoryview) -> Any:
    """As `decode`, but what codecs stored comes as `Coded`, whether or not they are known here.

    Secrets have no value then, and what is withheld or encrypted comes as `Withheld` or
    `Encrypted`. `encode` makes the same bytes of it again.
    """
    return _decode(data, _DATA_MARKS, None)


def _come_back(data: bytes) -> Any:
    """As what a value comes back. Those who only copy or show it need not know its codecs."""
    try:
        return decode(data)
    except UnknownCodecError:
        return decode_data(data)


def _decode(
    data: bytes | bytearray | memoryview,
    known: dict[int, _Mark],
    sources: Sources | None,
) -> Any:
    met = _Exts(data, known, sources)
    try:
        framed = b"".join((b"\x92", data, _END))
        value, end = unpackb(framed, ext_hook=met.revive, option=ormsgpack.OPT_NON_STR_KEYS)
        if type(end) is not bytes or end != _END_MARK:
            raise ValueError("more follows after the value")
        return _finish(value, 1) if met.marked else value
    except ValueError as error:
        if isinstance(met.problem, HoldfastError):
            raise met.problem from met.problem.__cause__
        reason = met.problem or error
        raise ValueError(f"these bytes are not a stored value: {reason}") from None
    except RecursionError:
        raise ValueError("these bytes are nested too deeply for the stack that is left") from None


def map_header(length: int) -> bytes:
    """What stands before the keys and values of a packed dict, for those who join its parts."""
    if length < 16:
        return bytes([0x80 | length])
    if length < 1 << 16:
        return b"\xde" + length.to_bytes(2)
    return b"\xdf" + length.to_bytes(4)


class _Exts:
    """Revives the Exts in some bytes, and remembers what was met: ormsgpack hides what it raises."""

    marked = False
    problem: HoldfastError | str | None = None  # the first

    def __init__(self, data: object, known: dict[int, _Mark], sources: Sources | None) -> None:
        self._data = data
        self._known = known
        self._sources = sources  # of what is not in the data; None leaves it as data

    def revive(self, code: int, payload: bytes) -> object:
        mark = self._known.get(code)
        if mark is not None and not payload:
            self.marked = True
            return mark
        try:
            if code not in _HIDDEN:
                return _UNPACK[code](payload)
            if self._sources is None:
                return _as_data(code, payload)
            return _Opening(self._data, self._sources)(code, payload)
        except HoldfastError as error:
            self.problem = self.problem or error
            raise
        except Exception as error:
            self.problem = self.problem or f"Ext {code}: {error}"
            raise


def same(one: object, other: object) -> bool:
    """Whether two plain values are equal as in JSON: 1 is 1.0 and a tuple a list, True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _as_data(code: int, payload: bytes) -> object:
    """What stands in the bytes for a value that is not in them."""
    if code == ENCRYPTED:
        return Encrypted.of(unpackb(payload))
    name = payload.decode()
    if not name:
        raise ValueError("a secret without a name")
    return Secret.asking(name, None) if code == SECRET else Withheld(name)


class _Opening:
    """Finds the values that are not in an encoding: it may carry them, or there are sources."""

    def __init__(self, data: object, sources: Sources) -> None:
        self._carried = data if isinstance(data, Carrying) else None
        self._sources = sources

    def __call__(self, code: int, payload: bytes) -> object:
        found = _as_data(code, payload)
        if isinstance(found, Secret):
            return self._secret(found.name or "")
        assert isinstance(found, Withheld | Encrypted)
        if self._carried is not None and found.path in self._carried.withheld:
            return decode(self._carried.withheld[found.path], self._sources)
        return self._withheld(found) if isinstance(found, Withheld) else self._decrypted(found)

    def _secret(self, name: str) -> object:
        if self._carried is not None and name in self._carried.secrets:
            return self._carried.secrets[name]
        provider = self._sources.provider
        return Secret.asking(name, None if provider is None else lambda: ask(provider, name))

    def _withheld(self, found: Withheld) -> object:
        try:
            value = _come_back(encode(ask(self._sources.provider, found.path), root=found.path))
        except SerializeError as error:
            raise SecretMissingError(found.path, f"the provider's value: {error}") from error
        if self._sources.noted is not None:
            self._sources.noted(value, found.path)
        return value

    def _decrypted(self, found: Encrypted) -> object:
        if self._sources.open_field is None:
            return Locked.of(found, KeyMissingError(found.run))
        try:
            plain = self._sources.open_field(found)
        except KeyMissingError as error:
            return Locked.of(found, error)
        return decode(plain, self._sources)


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

_HIDDEN: Final = frozenset({SECRET, WITHHELD, ENCRYPTED})
_NO_SOURCES: Final = Sources()

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
