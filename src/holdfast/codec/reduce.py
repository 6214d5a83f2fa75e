"""Encoding: any supported value as MessagePack's own types and Exts."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final

import ormsgpack
from ormsgpack import Ext, packb

from holdfast.codec.arrays import is_numpy, take_apart
from holdfast.codec.fields import stored_fields
from holdfast.codec.hashes import TOO_ALIKE, are_alike
from holdfast.codec.paths import Misplaced, key_step
from holdfast.codec.registry import BY_TYPE, FAMILIES, Coded, codec_for, registered
from holdfast.codec.scalars import SCALARS, plain_scalar
from holdfast.codec.secrets import Encrypted, Locked, Secret, Withheld
from holdfast.errors import ReviveError

_FIELDS: Final = "__dataclass_fields__"

MAX_DEPTH: Final = 255
"""How deep lists, dicts, objects, ... may be nested.

It is where ormsgpack itself stops: a lower limit would cost a walk over every state.
"""

TUPLE, SET, FROZENSET, PAIRS, CODED = 1, 2, 3, 4, 5
STR, ARRAY, NUMPY_SCALAR = 16, 25, 26
SECRET, WITHHELD, ENCRYPTED = 27, 28, 29

PASS: Final = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Leave to `reduce` whatever ormsgpack would write as something else."""

PASS_ALL_KEYS: Final = PASS | ormsgpack.OPT_NON_STR_KEYS
"""Only for what `Rebuilder` made: ormsgpack writes a UUID or an Enum that is a key as its text."""


def reduce(value: Any) -> Any:
    """One step towards MessagePack's own types: an Ext, or a value that is nearer to them.

    Both ways of encoding take their steps here, so that they can't differ. Raises for what
    can't be stored, or has to be looked at more closely.
    """
    step = _REDUCE.get(type(value))
    return step(value) if step is not None else _reduce_other(value)


class Rebuilder:
    """Rebuilds a value part by part, as plain data and Exts that need no `reduce` any more.

    Slower than leaving the walk to ormsgpack, but it sees keys, and knows where it is.
    `decode` tells how keys and members of sets will come back.
    """

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self._decode = decode
        self._open: set[int] = set()  # ids of what is being rebuilt, from the top down to here
        self.secrets: dict[str, Secret[Any]] = {}  # that were met, by name
        self._nameless = False  # some of them have no name yet

    def rebuild(self, value: Any, depth: int = 1) -> Any:
        """The rebuilt value. Raises `Misplaced` for the first part that can't be stored."""
        begun: list[object] = []  # keeps intermediate values alive: their ids stay their own
        try:
            while type(value) is not list and type(value) is not dict:
                if _is_native(value):
                    return value
                if isinstance(value, Secret) and type(value) is not Locked:
                    return self._secret(value)
                self._begin(value, begun)
                value = _reduce_with_reason(value)
                if type(value) is Ext:
                    return value
            self._begin(value, begun)
            if depth > MAX_DEPTH:
                raise Misplaced(
                    f"it is nested deeper than {MAX_DEPTH} levels; keep the parts in one flat "
                    "list or dict, and refer to them by key"
                )
            # One Python frame per level, so that any value up to MAX_DEPTH fits the stack.
            rebuilt = []
            if type(value) is dict:
                for key, item in value.items():
                    try:
                        rebuilt.append(item if _is_native(item) else self.rebuild(item, depth + 1))
                    except Misplaced as misplaced:
                        misplaced.under(key_step(key))
                        raise
                return self._map(value, rebuilt, depth)
            mark = value[0] if value and type(value[0]) is Ext and value[0] in _MARKS else None
            members = value if mark is None else value[1:]
            for index, item in enumerate(members):
                try:
                    rebuilt.append(item if _is_native(item) else self.rebuild(item, depth + 1))
                except Misplaced as misplaced:
                    if mark is None or mark is _TUPLE:
                        misplaced.under(f"[{index}]")
                    raise
            if mark is None:
                return rebuilt
            if mark is _SET or mark is _FROZENSET:
                self._check_unique(members, rebuilt, "a member of a set")
            return [mark, *rebuilt]
        finally:
            self._open.difference_update(map(id, begun))

    def finished(self, rebuilt: Any, root: str) -> Any:
        """What was rebuilt, where secrets without a name have their path as one."""
        return self._named(rebuilt, root) if self._nameless else rebuilt

    def _secret(self, secret: Secret[Any]) -> Any:
        if secret.name is None:
            self._nameless = True
            return secret
        known = self.secrets.setdefault(secret.name, secret)
        if secret.is_here and known.is_here and secret != known:
            raise Misplaced(
                f"two different secrets have the name {secret.name!r}; give each a name of its own"
            )
        if secret.is_here:
            self.secrets[secret.name] = secret
        return Ext(SECRET, secret.name.encode())

    def _named(self, node: Any, path: str) -> Any:
        if isinstance(node, Secret):
            shown = Misplaced("").under(path).path("")
            try:
                return self._secret(node.renamed(shown))
            except Misplaced as misplaced:
                raise misplaced.under(path) from None
        if type(node) is dict:
            return {key: self._named(item, path + key_step(key)) for key, item in node.items()}
        if type(node) is not list or not node:
            return node
        mark, *members = node
        if type(mark) is not Ext or mark not in (*_MARKS, _PAIRS):
            return [self._named(item, f"{path}[{index}]") for index, item in enumerate(node)]
        if mark is _PAIRS:
            named = (f"{path}[{at // 2}]" for at in range(len(members)))
        elif mark is _TUPLE:
            named = (f"{path}[{at}]" for at in range(len(members)))
        else:
            named = (path for _ in members)
        return [mark, *map(self._named, members, named)]

    def _begin(self, value: object, begun: list[object]) -> None:
        if id(value) in self._open:
            raise Misplaced(
                f"{type(value).__name__} contains itself; break the cycle, for instance by "
                "keeping a key instead of the object"
            )
        self._open.add(id(value))
        begun.append(value)

    def _map(self, value: dict[Any, Any], items: list[Any], depth: int) -> Any:
        if all(type(key) in _NATIVE_SCALARS and _is_native(key) for key in value):
            return dict(zip(value, items, strict=True))
        keys = []
        for key in value:
            try:
                keys.append(self.rebuild(key, depth + 1))
            except Misplaced as misplaced:
                misplaced.under(key_step(key))
                raise
        self._check_unique(value, keys, "a key")
        return [_PAIRS, *(part for pair in zip(keys, items, strict=True) for part in pair)]

    def _check_unique(self, members: Collection[Any], rebuilt: list[Any], role: str) -> None:
        """Refuse members that would come back unhashable, or as one."""
        seen = set()
        if any(isinstance(member, Secret) for member in rebuilt):
            raise Misplaced(f"a secret without a name can't be {role}; give it a name")
        try:
            decoded = self._decode(packb(rebuilt, option=PASS_ALL_KEYS))
        except ReviveError as error:
            raise Misplaced(f"{role} would not come back: {error.reason}") from error
        with suppress(TypeError):  # the first of them without a hash is named below
            if are_alike(decoded):
                raise Misplaced(f"{TOO_ALIKE}, and would take long to load; store a list instead")
        for member, came_back in zip(members, decoded, strict=True):
            name = type(member).__name__
            try:
                if came_back in seen:
                    raise Misplaced(
                        f"{name} as {role} would come back equal to another one "
                        f"({repr(came_back)[:40]}), and one of the two would be lost; "
                        "use keys of one type"
                    )
                seen.add(came_back)
            except TypeError:
                raise Misplaced(
                    f"{name} as {role} would come back as plain data that can't be hashed, as "
                    "dicts can't; use a str, a number or a tuple of them instead"
                ) from None


def _is_native(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-(2**63) <= value < 2**64)
    if kind is str:
        return value.isascii() or _is_text(value)
    return kind in _NATIVE_SCALARS


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reduce_with_reason(value: Any) -> Any:
    if type(value) is str:
        return Ext(STR, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, set | frozenset):
        return [_SET if isinstance(value, set) else _FROZENSET, *value]
    try:
        return reduce(value)
    except Misplaced:
        raise
    except Exception as error:
        raise Misplaced(f"{type(value).__name__} can't be stored: {error}") from error


def _reduce_other(value: Any) -> Any:
    kind: Any = type(value)
    codec = registered(kind) if kind in BY_TYPE or FAMILIES else None
    if codec is not None:
        return [_CODED, codec.name, codec.data_of(value)]
    if _is_plain_dataclass(kind):
        return {name: getattr(value, name) for name in stored_fields(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return memoryview(value).tobytes()
    if is_numpy(value):
        name, shape, data = take_apart(value)
        if shape is None:
            return Ext(NUMPY_SCALAR, packb([name, data]))
        return Ext(ARRAY, packb([name, shape, data]))
    if hasattr(kind, "model_dump"):
        # A round trip leaves out computed fields, which validation would not take back.
        if hasattr(kind, "__pydantic_complete__"):
            return value.model_dump(round_trip=True)
        return value.model_dump()
    if hasattr(kind, _FIELDS):
        return {name: getattr(value, name) for name in stored_fields(kind)}
    codec = codec_for(kind)  # one of holdfast's own
    if codec is not None:
        return [_CODED, codec.name, codec.data_of(value)]
    for base, plain in _BASES:
        if isinstance(value, base):
            return plain(value)
    plain_value = plain_scalar(value)
    if plain_value is None:
        raise Misplaced(_refusal(value))
    return plain_value


@lru_cache(maxsize=1024)
def _is_plain_dataclass(kind: type) -> bool:
    """Whether it is a dataclass and nothing else: most states are, and need no further look."""
    kinds = kind.__mro__[:-1]
    return (
        bool(kinds) and not hasattr(kind, "model_dump") and all(hasattr(k, _FIELDS) for k in kinds)
    )


def _refusal(value: object) -> str:
    """What to say of a value that can't be stored, and what to do instead."""
    kind = type(value).__name__
    if isinstance(value, type):
        return (
            f"class {value.__name__} can't be stored; keep its name, and look it up when resuming"
        )
    if callable(value) and hasattr(value, "__name__"):
        return (
            f"function {value.__name__} can't be stored; keep its name in the state, "
            "and look the function up when resuming"
        )
    base = next((base for base in type(value).__mro__[1:] if base in BY_TYPE), None)
    if base is not None:
        return (
            f"{kind} can't be stored: the codec {BY_TYPE[base].name!r} is for exactly "
            f"{base.__name__}; register it with subclasses=True, or a codec for {kind}"
        )
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} can't be stored; import it where it is used"
    if isinstance(value, BaseException):
        return f"exception {kind} can't be stored; store its text, str(error), instead"
    if isinstance(value, PurePath):
        return f"{kind} can't be stored; store str(path) instead"
    if isinstance(value, Mapping):
        return f"{kind} can't be stored; store dict(...) of it instead"
    if hasattr(value, "columns"):  # list(...) of a table has only their names
        return f"{kind} can't be stored; store its columns as a dict of lists instead"
    if isinstance(value, Iterable) and isinstance(value, Sized):
        return f"{kind} can't be stored; store list(...) of it instead"
    return (
        f"{kind} can't be stored; store plain data, a dataclass or a pydantic model instead, or "
        "register a codec for it (holdfast.register_codec)"
    )


def _reduce_set(value: Any) -> Any:
    # Other members may come back unhashable, or equal to each other; `Rebuilder` finds out.
    if not _SAFE_MEMBERS.issuperset(map(type, value)) or are_alike(value):
        raise TypeError("members to be looked at")
    return [_SET if isinstance(value, set) else _FROZENSET, *value]


def _reduce_secret(value: Secret[Any]) -> Any:
    raise TypeError("a secret to be looked at")  # `Rebuilder` keeps its value out of the bytes


def _reducer(code: int, pack: Callable[[Any], bytes]) -> Callable[[Any], Ext]:
    return lambda value: Ext(code, pack(value))


_TUPLE, _SET, _FROZENSET, _PAIRS, _CODED = (
    Ext(code, b"") for code in (TUPLE, SET, FROZENSET, PAIRS, CODED)
)
_MARKS: Final = (_TUPLE, _SET, _FROZENSET, _CODED)
_NATIVE_SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
_SAFE_MEMBERS: Final = _NATIVE_SCALARS | {
    scalar.type for scalar in SCALARS if scalar.tag not in ("datetime", "time")
}
_REDUCE: Final[dict[type, Callable[[Any], Any]]] = {
    **{scalar.type: _reducer(scalar.code, scalar.pack) for scalar in SCALARS},
    tuple: lambda value: [_TUPLE, *value],
    set: _reduce_set,
    frozenset: _reduce_set,
    bytearray: bytes,
    memoryview: memoryview.tobytes,
    Coded: lambda value: [_CODED, value.name, value.data],
    Secret: _reduce_secret,
    Withheld: lambda value: Ext(WITHHELD, value.path.encode()),
    Encrypted: lambda value: Ext(ENCRYPTED, packb(value.parts)),
    Locked: lambda value: Ext(ENCRYPTED, packb(value.field.parts)),
}
_BASES: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (tuple, lambda value: [_TUPLE, *value]),
    (int, int.__int__),
    (float, float.__float__),
    (list, list),
    (dict, dict),
    (set, set),
    (frozenset, frozenset),
    (bytearray, bytes),
)
