"""State as JSON and back: the readable form, for people, export, REST and `file://`.

Strict JSON (RFC 8259), version 1. None, bool, str, list, finite floats and ints up to 53 bits
are JSON's own, so that every JSON reader sees the same numbers. A dict whose keys are all str is
an object, with one more "$" before each key that begins with "$". Everything else is an object
with a single key, its tag:

    {"$tuple": [...]}   {"$set": [...]}   {"$frozenset": [...]}   {"$map": [[key, value], ...]}
    {"$float": "nan" | "inf" | "-inf"}    {"$int": "9007199254740993" | "0x..."}
    {"$bytes": base64}                    {"$str": base64}  (UTF-8 that holds lone surrogates)
    {"$decimal": "1.50"}                  {"$complex": "1.0 -2.5"}
    {"$datetime": "2026-10-25T02:30:00+02:00[Europe/Berlin]"}   {"$date": ...}   {"$time": ...}
    {"$timedelta": "P1DT3.000000S"}       {"$uuid": "..."}
    {"$ndarray": {"dtype": "<f8", "shape": [2, 3], "data": base64}}
    {"$numpy": {"dtype": "<f4", "data": base64}}
    {"$codec": {"name": "shop.money", "data": ...}}   (what a registered codec stored)
    {"$secret": "stripe"}   (a secret, by its name)     {"$withheld": "user.token"}   (by its path)
    {"$encrypted": {"path": "user.ssn", "run": ..., "owner": ..., "data": base64}}

It holds exactly what the packed form holds: `from_json(to_json(v)) == decode(encode(v))`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

import ormsgpack

from holdfast.codec.arrays import is_numpy, put_together, take_apart
from holdfast.codec.hashes import TOO_ALIKE, are_alike
from holdfast.codec.registry import Coded
from holdfast.codec.scalars import SCALARS
from holdfast.codec.secrets import Carrying, Encrypted, Secret, Sources, Withheld
from holdfast.codec.values import MAX_DEPTH, decode, decode_data, encode
from holdfast.errors import SerializeError


def to_json(value: object, *, root: str = "state") -> Any:
    """The value as a tree of None, bool, int, float, str, list and dict with str keys.

    Raises `SerializeError` for what can't be stored, as `encode` does.
    """
    # What came through the packed form is plain, so that both forms hold the same by design.
    try:
        return _tree(decode_data(encode(value, root=root)))
    except RecursionError:
        raise SerializeError(root, _NO_STACK) from None


def canonical(encoding: bytes) -> str | None:
    """The readable form of a packed value, in ASCII, compact, and with sorted keys.

    None where it takes more than JSON's own types. What `to_json` makes part by part, and with
    more care, is the same tree.
    """
    try:
        plain = ormsgpack.unpackb(encoding)  # refuses Ext values, and keys that are not str
        text = _CANONICAL(plain)
    except (ValueError, TypeError, RecursionError):
        return None
    has_tag = "$" in text and '"$' in text
    if has_tag or type(plain) is int or _LONG_INT in text.translate(_INTS):
        return None  # some of these may only be in a text, which does no harm
    return text


def from_json(tree: object, sources: Sources | None = None) -> Any:
    """The value that this tree is the readable form of.

    Raises ValueError when it is of none, and for what codecs stored, and for what is not in it, as
    `values.decode` does.
    """
    coded: list[object] = []
    value = _parsed(tree, coded)
    return decode(bytes(encode(value)), sources) if coded else value


def data_from_json(tree: object) -> Any:
    """As `from_json`, but what codecs stored comes as `Coded`, whether or not they are known."""
    return _parsed(tree, [])


def _parsed(tree: object, coded: list[object]) -> Any:
    try:
        return _value(tree, 1, coded)
    except RecursionError:
        raise ValueError(f"not a stored value: {_NO_STACK}") from None
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a stored value: {error}") from None


def packed(value: object, *, indent: int | None = None, root: str = "state") -> bytes:
    """The readable form in UTF-8; it carries the values of secrets as that of `encode` does."""
    encoding = encode(value, root=root)
    try:
        text = json.dumps(
            _tree(decode_data(encoding)), ensure_ascii=False, allow_nan=False, indent=indent
        ).encode()
    except RecursionError:
        raise SerializeError(root, _NO_STACK) from None
    if isinstance(encoding, Carrying):
        return Carrying.of(text, encoding.secrets, encoding.withheld)
    return text


def unpacked(data: bytes, sources: Sources | None = None) -> Any:
    """The value that this is the readable form of. Raises as `from_json` does."""
    coded: list[object] = []
    value = _parsed(_json(data.decode()), coded)
    if not coded:
        return value
    encoding = bytes(encode(value))
    if isinstance(data, Carrying):
        encoding = Carrying.of(encoding, data.secrets, data.withheld)
    return decode(encoding, sources)


def dumps(value: object, *, indent: int | None = None, root: str = "state") -> str:
    """The readable form as text that can be encoded to UTF-8. Raises `SerializeError`."""
    tree = to_json(value, root=root)
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=indent)
    except RecursionError:
        raise SerializeError(root, _NO_STACK) from None


def loads(text: str | bytes | bytearray) -> Any:
    """The value that this text is the readable form of. Raises as `from_json` does."""
    return from_json(_json(text))


def loads_data(text: str | bytes | bytearray) -> Any:
    """As `loads`, but what codecs stored comes as `Coded`, whether or not they are known."""
    return data_from_json(_json(text))


def _json(text: str | bytes | bytearray) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"not a stored value: {_NO_STACK}") from None


CODEC: Final = "$codec"
"""The tag of what a codec stored."""

HIDDEN_TAGS: Final = ("$secret", "$withheld", "$encrypted")
"""The tags of what stands for a value that is not there to be read."""

_NO_STACK: Final = "it is nested too deeply for the stack that is left"
_SAFE_INT: Final = 2**53
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_INTS: Final = {
    code: "0" if chr(code).isdigit() else "^" if chr(code) in ",:[-" else "_" for code in range(128)
}
_LONG_INT: Final = "^" + len(str(_SAFE_INT)) * "0"  # as it begins in JSON's text
_SHOW: Final = {scalar.type: (f"${scalar.tag}", scalar.show) for scalar in SCALARS}


# `map` rather than comprehensions below: they would take a second Python frame per level.


def _tree(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return (
            value if _is_text(value) else {"$str": _base64(value.encode("utf-8", "surrogatepass"))}
        )
    if kind is int and -_SAFE_INT < value < _SAFE_INT:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if kind is list:
        return list(map(_tree, value))
    if kind is dict:
        if all(type(key) is str and _is_text(key) for key in value):
            keys = [f"${key}" if key.startswith("$") else key for key in value]
            return dict(zip(keys, map(_tree, value.values()), strict=True))
        pairs = zip(map(_tree, value), map(_tree, value.values()), strict=True)
        return {"$map": list(map(list, pairs))}
    if kind is tuple:
        return {"$tuple": list(map(_tree, value))}
    if kind is set or kind is frozenset:
        # Sorted, so that equal sets read the same.
        return {f"${kind.__name__}": sorted(map(_tree, value), key=json.dumps)}
    if kind is bytes:
        return {"$bytes": _base64(value)}
    if kind is Coded:
        return {CODEC: {"name": value.name, "data": _tree(value.data)}}
    if kind is Secret:
        return {"$secret": value.name}
    if kind is Withheld:
        return {"$withheld": value.path}
    if kind is Encrypted:
        path, run, owner, data = value.parts
        return {"$encrypted": {"path": path, "run": run, "owner": owner, "data": _base64(data)}}
    if is_numpy(value):
        name, shape, data = take_apart(value)
        if shape is None:
            return {"$numpy": {"dtype": name, "data": _base64(data)}}
        return {"$ndarray": {"dtype": name, "shape": shape, "data": _base64(data)}}
    tag, show = _SHOW[kind]
    return {tag: show(value)}


def _value(tree: Any, depth: int, coded: list[object]) -> Any:
    kind = type(tree)
    if kind is list or kind is dict:
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        if kind is list:
            return list(map(_value, tree, repeat(depth + 1), repeat(coded)))
        if len(tree) == 1:
            ((key, inner),) = tree.items()
            if type(key) is str and key.startswith("$") and not key.startswith("$$"):
                return _tagged(key, inner, depth, coded)
        items = map(_value, tree.values(), repeat(depth + 1), repeat(coded))
        return dict(zip(map(_key, tree), items, strict=True))
    if kind is float and not math.isfinite(tree):
        raise ValueError("a number that is not finite")
    if tree is None or kind in (bool, int, float, str):
        return tree
    raise ValueError(f"{kind.__name__} is not JSON")


def _key(key: Any) -> str:
    if type(key) is not str:
        raise ValueError(f"a key of type {type(key).__name__}")
    if not key.startswith("$"):
        return key
    if not key.startswith("$$"):
        raise ValueError(
            f'the tag {key[:40]!r} beside other keys; write a plain key as "${key[:40]}"'
        )
    return key[1:]


def _tagged(tag: str, inner: Any, depth: int, coded: list[object]) -> Any:
    scalar = _SCALAR_TAGS.get(tag)
    if scalar is not None:
        if type(inner) is not str:
            raise ValueError(f"{tag} takes text, not {type(inner).__name__}")
        return scalar(inner)
    if tag == "$ndarray" or tag == "$numpy":
        wanted = {"dtype", "data", "shape"} if tag == "$ndarray" else {"dtype", "data"}
        if type(inner) is not dict or inner.keys() != wanted or inner.get("shape", []) is None:
            raise ValueError(f"{tag} takes an object with {', '.join(sorted(wanted))}")
        return put_together(inner["dtype"], inner.get("shape"), _bytes(inner["data"]))
    if tag == CODEC:
        if type(inner) is not dict or inner.keys() != {"name", "data"}:
            raise ValueError(f"{tag} takes an object with name and data")
        if type(inner["name"]) is not str:
            raise ValueError(f"{tag} takes the name of a codec, not {type(inner['name']).__name__}")
        coded.append(Coded(inner["name"], _value(inner["data"], depth + 1, coded)))
        return coded[-1]
    if tag in HIDDEN_TAGS:
        coded.append(_hidden(tag, inner))
        return coded[-1]
    if tag not in _MEMBER_TAGS:
        raise ValueError(f"unknown tag {tag[:40]!r}; write a plain key as {'$' + tag[:40]!r}")
    if type(inner) is not list:
        raise ValueError(f"{tag} takes a list, not {type(inner).__name__}")
    if tag == "$map":
        if not all(type(pair) is list and len(pair) == 2 for pair in inner):
            raise ValueError("$map takes pairs of a key and a value")
        keys = list(map(_value, (key for key, _ in inner), repeat(depth + 1), repeat(coded)))
        if are_alike(keys):
            raise ValueError(TOO_ALIKE)
        items = map(_value, (item for _, item in inner), repeat(depth + 1), repeat(coded))
        made: Any = dict(zip(keys, items, strict=True))
    else:
        members = list(map(_value, inner, repeat(depth + 1), repeat(coded)))
        if tag != "$tuple" and are_alike(members):
            raise ValueError(TOO_ALIKE)
        made = _MEMBER_TAGS[tag](members)
    if len(made) != len(inner):
        raise ValueError(f"{tag} holds the same key or member twice")
    return made


def _hidden(tag: str, inner: Any) -> object:
    """What stands for a value that is not in the text."""
    if tag == "$encrypted":
        if type(inner) is not dict or inner.keys() != {"path", "run", "owner", "data"}:
            raise ValueError(f"{tag} takes an object with path, run, owner and data")
        parts = [inner["path"], inner["run"], inner["owner"], _bytes(inner["data"])]
        return Encrypted.of(parts)
    if type(inner) is not str or not inner:
        raise ValueError(f"{tag} takes the name of a secret, or the path of a value")
    return Secret.asking(inner, None) if tag == "$secret" else Withheld(inner)


def _float(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"$float takes nan, inf or -inf, not {text[:40]!r}")
    return float(text)


def _bytes(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("not a stored value: an object with the same key twice")
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"not a stored value: {name} is not JSON")


_SCALAR_TAGS: Final[dict[str, Callable[[str], object]]] = {
    **{f"${scalar.tag}": scalar.parse for scalar in SCALARS},
    "$float": _float,
    "$bytes": _bytes,
    "$str": lambda text: _bytes(text).decode("utf-8", "surrogatepass"),
}
_MEMBER_TAGS: Final[dict[str, Callable[..., Any]]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$map": dict,
}
