"""Codecs: how values of types that holdfast does not know are stored as data, and made again.

The codecs of a program are registered with `register_codec`. Those for pandas, Polars, pyarrow and
torch are holdfast's own, in `holdfast.codec.ready`: they register themselves when one of their
values is first met. What is stored is the name of a codec and data. Only this registry says what a
name means: an unknown one is never looked for anywhere else.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.codec.paths import Misplaced
from holdfast.codec.scalars import SCALARS
from holdfast.extras import install_command

T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./:+-]{0,99}", re.ASCII)
NATIVE: Final = frozenset(
    [
        *(type(None), bool, int, float, str, bytes, bytearray, memoryview),
        *(list, dict, tuple, set, frozenset, object, type),
        *(scalar.type for scalar in SCALARS),
    ]
)
READY: Final = {
    "pandas": "pandas_frames",
    "polars": "polars_frames",
    "pyarrow": "arrow_tables",
    "torch": "torch_tensors",
}
"""The libraries whose values have codecs of holdfast's own, and their modules in `ready`."""

_RESERVED: Final = ("holdfast", "numpy", *READY)


class Codec(NamedTuple):
    """How values of one type are stored."""

    name: str
    kind: type
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]
    subclasses: bool = False

    def data_of(self, value: Any) -> Any:
        """The value as data. Raises `Misplaced` with the reason if its codec refuses it."""
        try:
            return self.to_data(value)
        except Misplaced:
            raise
        except Exception as error:
            raise Misplaced(
                f"{type(value).__name__} can't be stored by its codec {self.name!r}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def value_of(self, data: Any) -> Any:
        """The value that this data was made of. Raises `Misplaced` if the codec refuses it."""
        try:
            return self.from_data(data)
        except Misplaced:
            raise
        except Exception as error:
            raise Misplaced(
                f"its codec {self.name!r} refused the stored data: {type(error).__name__}: {error}"
            ) from error


class UnknownCodec(Misplaced):
    """Raised where a value was stored by a codec that this process has not registered."""

    def __init__(self, codec: str, advice: str) -> None:
        super().__init__(f"it was stored by the codec {codec!r}, {advice}")
        self.codec = codec


class Coded:
    """What a codec stored, as data: for those who show, compare or copy it and need no type."""

    __slots__ = ("data", "name")

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self.data = data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coded):
            return NotImplemented
        return self.name == other.name and bool(self.data == other.data)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Coded({self.name!r}, {self.data!r})"


_lock = threading.Lock()
_by_name: dict[str, Codec] = {}
BY_TYPE: Final[dict[type, Codec]] = {}
FAMILIES: Final[dict[type, Codec]] = {}  # those that are for subclasses, too


def register_codec(
    kind: type[T],
    name: str,
    to_data: Callable[[T], Any],
    from_data: Callable[[Any], T],
    *,
    subclasses: bool = False,
) -> None:
    """Let values of a type be stored: in states, inputs, results, answers and metadata.

    `to_data` turns a value into data: anything that can be stored, also values of other
    registered types. Equal values should give equal data, in every process. `from_data` makes the
    value again from data that is equal to it. The data is stored with `name`, which must mean the
    same for as long as it is stored: give a new form of data a new name, or let `from_data` read
    both.

    The registry is the process's own, as that of `copyreg` is: register where the type is
    defined, so that every process that loads such values has done it. A value whose name was not
    registered raises `UnknownCodecError` when it is loaded. A codec is for values of exactly this
    type; with `subclasses=True` also for those of its subclasses that have no codec of their own,
    and they come back as what `from_data` makes.

    Registering the same again is allowed, as a reload or a notebook does it. Raises `ValueError` if
    the type or the name has another codec, for a type that is stored without one, and for a name
    that is malformed or reserved; `TypeError` for what is no class or can't be called.
    """
    if not isinstance(kind, type):
        raise TypeError(f"a codec is for a class, not for {kind!r}")
    if not all(map(callable, (to_data, from_data))):
        raise TypeError("to_data and from_data must be functions")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} can't name a codec; use up to 100 letters, digits and ._-/:+ such as "
            "'shop.money'"
        )
    if name.partition(".")[0] in _RESERVED:
        raise ValueError(f"names such as {name!r} are holdfast's own; use another, 'my.{name}'")
    if kind in NATIVE:
        raise ValueError(f"{kind.__name__} is stored without a codec; register a type of your own")
    codec = Codec(name, kind, to_data, from_data, subclasses)
    with _lock:
        for other in (_by_name.get(name), BY_TYPE.get(kind)):
            if other is not None and not _is_again(codec, other):
                raise ValueError(
                    f"{other.kind.__name__} has the codec {other.name!r} already; {_OTHERS}"
                )
        _add(codec)


def codec_for(kind: type) -> Codec | None:
    """The codec that values of exactly this type are stored by."""
    return BY_TYPE.get(kind) or _inherited(kind) or _ready_for(kind)


def registered(kind: type) -> Codec | None:
    """As `codec_for`, but for holdfast's own codecs of libraries that were not met before."""
    return BY_TYPE.get(kind) or _inherited(kind)


def value_of(name: str, data: Any) -> Any:
    """The value that a codec stored. Raises `Misplaced`, for an unknown one `UnknownCodec`."""
    codec = _by_name.get(name) or _ready_named(name)
    if codec is None:
        raise UnknownCodec(
            name,
            "which is not registered here; import the module that does it, or call "
            f"holdfast.register_codec(TYPE, {name!r}, to_data, from_data) first",
        )
    return codec.value_of(data)


def add_ready(name: str, kinds: tuple[type, ...], to_data: Any, from_data: Any) -> None:
    """Register one of holdfast's own codecs. A type that the program registered stays as it is."""
    with _lock:
        for kind in kinds:
            codec = Codec(name, kind, to_data, from_data)
            if kind not in BY_TYPE:
                BY_TYPE[kind] = codec
            _by_name[name] = codec


def _add(codec: Codec) -> None:
    _by_name[codec.name] = BY_TYPE[codec.kind] = codec
    if codec.subclasses:
        FAMILIES[codec.kind] = codec


def _is_again(codec: Codec, other: Codec) -> bool:
    """Whether the same code registers it again, or holdfast's own codec of a type is replaced."""
    if other.name.partition(".")[0] in _RESERVED:
        return codec.kind is other.kind
    ours, theirs = ([_place(part) for part in c[1:4]] for c in (codec, other))
    return codec.name == other.name and ours == theirs and codec.subclasses == other.subclasses


def _place(part: Any) -> object:
    """Where a class or function is defined; anything else itself."""
    where = getattr(part, "__module__", None), getattr(part, "__qualname__", None)
    return part if None in where else where


def _inherited(kind: type) -> Codec | None:
    if not FAMILIES:
        return None
    return next((FAMILIES[b] for b in kind.__mro__[1:] if b in FAMILIES), None)


def _ready_for(kind: type) -> Codec | None:
    library = str(getattr(kind, "__module__", "")).partition(".")[0]
    if library not in READY or _problem(library):
        return None
    return BY_TYPE.get(kind)


def _ready_named(name: str) -> Codec | None:
    """One of holdfast's own codecs. Its library is imported, which only the table above names."""
    library = name.partition(".")[0]
    if library not in READY:
        return None
    problem = _problem(library)
    if problem:
        raise UnknownCodec(name, f"which needs {library}: {install_command(library)}")
    return _by_name.get(name)


def _problem(library: str) -> ImportError | None:
    """Why the codecs of this library can't be had; None once they are registered."""
    try:
        importlib.import_module(f"holdfast.codec.ready.{READY[library]}")
    except ImportError as error:
        return error
    return None


_OTHERS: Final = "choose another name, or register each type once"
