"""Plain data as the caller's own types: what decoding left out because bytes choose no type.

The type is always the caller's; stored data is never evaluated and names nothing. A dataclass
takes exactly the fields it has: one that is missing needs a default, and one that the class does
not know is refused rather than dropped, because dropping it would lose it at the next save. A
TypedDict keeps unknown keys, and a pydantic model treats them as it is configured to.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc, defaultdict
from collections.abc import Callable, Iterable, MutableMapping
from enum import Enum
from functools import lru_cache
from itertools import chain, repeat
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    is_typeddict,
    overload,
)
from weakref import WeakKeyDictionary

from holdfast.codec.paths import Misplaced, key_step
from holdfast.codec.records import Convert, Fields, is_made, made, misfit, record, stored_names
from holdfast.codec.registry import BY_TYPE, NATIVE, codec_for
from holdfast.codec.secrets import Locked, Secret
from holdfast.codec.values import decode, encode
from holdfast.errors import ReviveError

T = TypeVar("T")

_AS_THEY_ARE: Final = frozenset({str, int, float, bool, bytes})


@overload
def revive(data: object, as_type: type[T], *, root: str = "state", advice: str = "") -> T: ...
@overload
def revive(data: object, as_type: Any, *, root: str = "state", advice: str = "") -> Any: ...
def revive(data: object, as_type: Any, *, root: str = "state", advice: str = "") -> Any:
    """Decoded data as an instance of `as_type`, at every level that its hints describe.

    Knows dataclasses, pydantic models, TypedDicts, NamedTuples, Enums (by value), the generic
    collections, unions, literals, aliases, subclasses of the plain types, and for the rest
    whether the data is an instance. In a union a member that fits exactly goes before one that
    merely accepts the data; then the first wins. An int is accepted where a float is asked for.
    Raises `ReviveError` with the path from `root` to the first part that does not fit, and with
    the `advice` of the caller, who knows where the data is from, if it is of another type.
    """
    if type(data) is as_type and as_type in _AS_THEY_ARE:
        return data
    try:
        return _converter(as_type)(data)
    except Misplaced as misplaced:
        error = ReviveError(misplaced.path(root), misplaced.reason)
        if not misplaced.fits:
            error.advice = advice
        raise error from misplaced.__cause__
    except RecursionError:
        raise ReviveError(root, "it is nested too deeply for the stack that is left") from None


@lru_cache(maxsize=256)
def field_converters(kind: Any) -> dict[str, Convert] | None:
    """By field: what converts it. `revive` takes what they made as `Ready`.

    None for a type that is not revived field by field. Raises `Misplaced`.
    """
    if hasattr(kind, "model_validate"):  # a dataclass may have it, too, and is made by it
        return None
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_typeddict(kind)):
        return Fields(kind, (), _converter).converters()
    return None


def _converter(hint: Any) -> Convert:
    if type(hint) is type:
        return _compile(hint, "")
    hint = unwrapped(hint)
    try:
        # `A | B` equals `B | A`, but its first member goes first: the text tells them apart.
        return _compile(hint, "" if isinstance(hint, type) else repr(hint))
    except TypeError:  # a hint that can't be hashed, such as list[Annotated[int, []]]
        return _compile.__wrapped__(hint, "")


@lru_cache(maxsize=2048)
def _compile(hint: Any, _text: str) -> Convert:
    if hint is Any or hint is object:
        return _anything
    if hint is None or hint is type(None):
        return _plain(type(None))
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return _union(args)
    if origin is Literal:
        return _literal(args)
    if type(hint).__name__ == "TypeAliasType" or type(origin).__name__ == "TypeAliasType":
        return _alias(hint)
    kind = origin or hint
    if not isinstance(kind, type):
        return _refuse(f"{hint!r} is not a type that data can be revived as")
    if issubclass(kind, Secret):
        return _secret(args)
    if issubclass(kind, Enum):
        return _enum(kind)
    return record(kind, args, _converter) or _collection(kind, args) or _plain(kind)


def unwrapped(hint: Any) -> Any:
    """The hint without names and qualifiers around it."""
    while True:
        origin = get_origin(hint)
        if origin is Annotated or origin in _QUALIFIERS:
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif isinstance(hint, TypeVar):
            choices = hint.__constraints__
            hint = hint.__bound__ or (Union[choices] if choices else Any)  # noqa: UP007
        elif isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        else:
            return hint


_QUALIFIERS: Final = (
    typing.Required,
    typing.NotRequired,
    typing.Final,
    typing.ClassVar,
    getattr(typing, "ReadOnly", typing.Required),
)


def can_be_revived(kind: type) -> bool:
    """Whether `revive` can make instances of this class, or is given them: values that are stored."""
    if issubclass(kind, (Secret, Enum, *_PLAIN)) or kind in _MADE_OF or codec_for(kind):
        return True
    if record(kind, (), _converter) or _collection(kind, ()) or _is_of_numpy(kind):
        return True
    try:
        return any(issubclass(stored, kind) for stored in (*NATIVE, *BY_TYPE) if stored is not type)
    except TypeError:  # a protocol that can't be asked
        return False


def _is_of_numpy(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "numpy"


def _alias(hint: Any) -> Convert:
    """`type Tree = list[Tree]` names itself, so its meaning is looked up when it is needed."""

    def convert(data: Any) -> Any:
        origin = get_origin(hint)
        return _converter(hint.__value__ if origin is None else origin.__value__[get_args(hint)])(
            data
        )

    return convert


def _collection(kind: type, args: tuple[Any, ...]) -> Convert | None:
    """The converter for a list, dict, ... of which `args` describe the members; None for others."""
    bases = _ABSTRACT.get(kind) or tuple(base for base in _BASES if issubclass(kind, base))
    if not bases:
        return None
    if dict in bases:
        return _mapping(kind, args)
    fixed = None
    each: Convert = _anything
    if tuple in bases and args and args[-1] is not Ellipsis and kind is tuple:
        fixed = [_converter(arg) for arg in args]
    elif args:
        each = _converter(args[0])
    inner = _LEAVES.get(each, _never)
    leaves = fixed is None and (kind in _BASES or kind in _ABSTRACT) and inner is not _never

    def convert(data: Any) -> Any:
        if type(data) not in bases:
            if isinstance(data, kind):
                return data  # a str is a Sequence, too
            raise misfit(kind.__name__, data)
        if leaves and inner(data):
            return data
        if fixed is not None and len(fixed) != len(data):
            raise Misplaced(f"expected {len(fixed)} members, found {len(data)}")
        revived = []
        try:
            for convert_one, item in zip(fixed or repeat(each), data, strict=False):
                revived.append(convert_one(item))
        except Misplaced as misplaced:
            if not isinstance(data, set | frozenset):
                misplaced.under(f"[{len(revived)}]")
            raise
        return made(type(data) if kind in _ABSTRACT else kind, revived)

    def leaves_all(items: Iterable[Any]) -> bool:
        known = [*items]
        return {*bases}.issuperset(map(type, known)) and inner(chain.from_iterable(known))

    if leaves:
        _LEAVES[convert] = leaves_all
    return convert


def _mapping(kind: type, args: tuple[Any, ...]) -> Convert:
    convert_key, convert_item = [*map(_converter, args), _anything, _anything][:2]
    keys, inner = _LEAVES.get(convert_key, _never), _LEAVES.get(convert_item, _never)
    leaves = (kind is dict or kind in _ABSTRACT) and _never not in (keys, inner)

    def leaves_all(items: Iterable[Any]) -> bool:
        known = [*items]
        return (
            _DICT.issuperset(map(type, known))
            and keys(chain.from_iterable(known))
            and inner(chain.from_iterable(map(dict.values, known)))
        )

    def convert(data: Any) -> Any:
        if is_made(kind, dict, data):
            return data
        if leaves and keys(data) and inner(data.values()):
            return data
        revived = {}
        key: Any = None
        try:
            for key, item in data.items():
                revived_key = convert_key(key)
                revived[revived_key] = convert_item(item)
        except Misplaced as misplaced:
            misplaced.under(key_step(key))
            raise
        if len(revived) != len(data):
            raise Misplaced("two of its keys are the same in the type asked for")
        if kind is dict or kind in _ABSTRACT:
            return revived
        if issubclass(kind, defaultdict):
            return made(kind, None, revived)  # its factory was not stored
        return made(kind, revived)

    if leaves:
        _LEAVES[convert] = leaves_all
    return convert


def _plain(kind: type) -> Convert:
    """Instances as they are; for a subclass of a plain type, made of its plain value."""
    accepted = (kind, *_ACCEPTED.get(kind, ()))
    bases = _MADE_OF.get(kind) or [
        base for base in _PLAIN if kind is not bool and issubclass(kind, base)
    ]

    def convert(data: Any) -> Any:
        try:
            if isinstance(data, accepted):
                return data
        except TypeError:  # a protocol that can't be asked
            raise Misplaced(f"{kind.__name__} is not a type that data can be revived as") from None
        if type(data) in bases:
            return made(kind, data)
        raise misfit(kind.__name__, data)

    if kind in _EXACT:
        _LEAVES[convert] = lambda items: _EXACT[kind].issuperset(map(type, items))
    return convert


def _anything(data: Any) -> Any:
    return data


def _never(items: Iterable[Any]) -> bool:
    return False


_LEAVES: Final[MutableMapping[Convert, Callable[[Iterable[Any]], bool]]] = WeakKeyDictionary()
"""By converter: whether it would leave all of these as they are.

Large states are mostly lists and dicts that their hints fit. To find that out for all members at
once takes a tenth of converting each.
"""

_LEAVES[_anything] = lambda items: True


def _refuse(reason: str) -> Convert:
    def convert(data: Any) -> Any:
        raise Misplaced(reason)

    return convert


_PLAIN: Final = (int, float, str, bytes)
_BASES: Final = (list, tuple, set, frozenset, dict)
_ABSTRACT: Final[dict[type, tuple[type, ...]]] = {
    abc.Sequence: (list, tuple),
    abc.MutableSequence: (list,),
    abc.Set: (set, frozenset),
    abc.MutableSet: (set,),
    abc.Mapping: (dict,),
    abc.MutableMapping: (dict,),
    abc.Collection: (list, tuple, set, frozenset),
    abc.Iterable: (list, tuple, set, frozenset),
}
_DICT: Final = frozenset({dict})
_EXACT: Final[dict[type, frozenset[type]]] = {
    **{kind: frozenset({kind}) for kind in (type(None), bool, int, str, bytes)},
    float: frozenset({float, int}),
}
_ACCEPTED: Final[dict[type, tuple[type, ...]]] = {float: (int,), complex: (int, float)}
_MADE_OF: Final[dict[type, tuple[type, ...]]] = {bytearray: (bytes,), memoryview: (bytes,)}


def _enum(kind: Any) -> Convert:
    @lru_cache(maxsize=1)
    def stored() -> list[tuple[Any, Enum]]:
        # Members whose values are themselves objects are stored as plain data.
        return [(decode(encode(member.value)), member) for member in kind]

    def convert(data: Any) -> Any:
        try:
            return kind(data)
        except ValueError:
            for value, member in stored():
                if type(value) is type(data) and value == data:
                    return member
        shown = repr(data)[:60]
        raise Misplaced(f"{kind.__name__} has no member with the value {shown}; add one") from None

    return convert


def _secret(args: tuple[Any, ...]) -> Convert:
    """A secret whose value is of the type asked for; a value that was stored plainly becomes one."""
    of_value = _converter(args[0]) if args else _anything

    def convert(data: Any) -> Any:
        if not isinstance(data, Secret):
            return Secret(of_value(data))
        if of_value is _anything or type(data) is Locked:
            return data
        if not data.is_here:
            return data.converted(lambda value: _revealed_as(args[0], value, data.name))
        try:
            return data.converted(of_value)
        except Misplaced:
            raise Misplaced(_OTHER_KIND.format(_name(args[0]))) from None

    return convert


def _revealed_as(hint: Any, value: Any, name: str | None) -> Any:
    try:
        return _converter(hint)(value)
    except Misplaced:  # what it says may quote the value
        raise ReviveError(f"secret {name}", _OTHER_KIND.format(_name(hint))) from None


_OTHER_KIND: Final = "its value is not of the type asked for, {}; correct the type, or its provider"


def _literal(choices: tuple[Any, ...]) -> Convert:
    stored = [(c.value if isinstance(c, Enum) else c, c) for c in choices]

    def convert(data: Any) -> Any:
        for value, choice in stored:
            if data is choice or (type(data) is type(value) and data == value):
                return choice
        raise Misplaced(f"expected one of {', '.join(map(repr, choices))}, found {repr(data)[:60]}")

    return convert


def _union(members: tuple[Any, ...]) -> Convert:
    exact = [_exactness(unwrapped(member)) for member in members]
    converters = [_converter(member) for member in members]

    def convert(data: Any) -> Any:
        fits = [fit(data) for fit in exact]
        order = sorted(range(len(members)), key=lambda index: not fits[index])
        refusals = []
        for index in order:
            try:
                return converters[index](data)
            except Misplaced as misplaced:
                refusals.append(misplaced)
        # The member that took most of the data is the one that was meant.
        closest = max(refusals, key=lambda misplaced: misplaced.depth)
        if closest.depth or sum(fits) == 1:
            raise closest
        raise misfit(" or ".join(_name(member) for member in members), data)

    return convert


def _exactness(hint: Any) -> Callable[[Any], bool]:
    """Whether data is what an instance of this type is stored as, judged by its first level."""
    kind = get_origin(hint) or hint
    if hint is None:
        return lambda data: data is None
    if not isinstance(kind, type):
        return lambda data: False
    names = stored_names(kind)
    if names is not None:
        return lambda data: type(data) is dict and data.keys() == names
    return lambda data: type(data) is kind


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
