"""How errors are declared: a docstring, fields as annotations, and a message."""

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from inspect import Signature

T = TypeVar("T")


class _Attribute:
    def __init__(self, default: object) -> None:
        self.default = default


def attribute(default: T, *, init: Literal[False] = False) -> T:
    """An attribute that is assigned later. It is not an argument of the error."""
    return _Attribute(default)  # type: ignore[return-value]


class _FieldsSignature:
    """The signature that `help()` and `inspect.signature` show, made when they ask for it."""

    def __get__(self, _: object, kind: "type[HoldfastError]") -> "Signature":
        from inspect import Parameter, Signature

        if kind.__init__ is not HoldfastError.__init__ or not kind._fields:
            raise AttributeError("__signature__")  # inspect then looks at its __init__
        parameters = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=getattr(kind, name, Parameter.empty),
                annotation=annotation,
            )
            for name, annotation in kind._fields.items()
        ]
        return Signature(parameters)


@dataclass_transform(field_specifiers=(attribute,))
class HoldfastError(Exception):
    """Every error that holdfast raises on purpose.

    A subclass declares its fields as a dataclass does; they follow those of its base. They are
    the arguments of the error, its attributes and its `args`, so that it can be pickled and
    copied. A class without fields takes any arguments.

    The message is `_text`, formatted with the fields, or what `__str__` returns.
    """

    __module__ = "holdfast.errors"
    __signature__: ClassVar = _FieldsSignature()
    _fields: ClassVar[dict[str, Any]] = {}
    _text: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        cls._fields = dict(cls._fields)
        for name, annotation in cls.__annotations__.items():
            value = cls.__dict__.get(name)
            if isinstance(value, _Attribute):
                setattr(cls, name, value.default)
            else:
                cls._fields[name] = annotation
        if cls.__module__.startswith("holdfast.errors."):
            cls.__module__ = "holdfast.errors"  # where users import it from
        if "__str__" in cls.__dict__:
            cls.__str__ = _for_people(cls.__str__)  # type: ignore[method-assign]

    def __init__(self, *args: object, **named: object) -> None:
        Exception.__init__(self, *args)  # not OSError's: it takes two arguments as its own
        fields = self._fields
        if not fields and not named:
            return
        given = dict(zip(fields, args, strict=False))
        if len(args) > len(given) or named.keys() & given or named.keys() - fields:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}")
        self.__dict__.update(given, **named)
        if missing := [name for name in fields if not hasattr(self, name)]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")
        self.args = tuple(getattr(self, name) for name in fields)
        self.__dict__.update(zip(fields, self.args, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        state = vars(self)
        if isinstance(self.__cause__, HoldfastError):  # others may not survive pickling
            state = {**state, "__cause__": self.__cause__}
        return type(self), self.args, state

    def __str__(self) -> str:
        text = self._text.format_map(vars(self)) if self._text else ": ".join(map(str, self.args))
        return named_journals(text)

    def __repr__(self) -> str:
        return named_journals(super().__repr__())


def _for_people(message: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(message)
    def __str__(self: Any) -> str:  # noqa: N807 - as tracebacks of it should say
        return named_journals(message(self))

    return __str__


_HIDDEN: Final = r"(?:\x1f|\\x1f|\\u001f)"  # what the names of internal journals begin with
_JOURNAL: Final = re.compile(
    rf"{_HIDDEN}(?:(store)|(process|thread|verdict|request|forget){_HIDDEN}"
    rf"|(alias){_HIDDEN}(?:[0-9a-f]{{64}}{_HIDDEN})?"
    rf"|(permit|vote){_HIDDEN}(\d+){_HIDDEN})"
)
_OWN: Final = {
    "process": "record of process ",
    "thread": "index of thread ",
    "alias": "alias ",
    "verdict": "verdicts of ",
    "request": "request to verify ",
    "forget": "record of forgetting ",
    "permit": "permit {} of ",
    "vote": "vote on request {} of process ",
}


def named_journals(text: str) -> str:
    """The text with words instead of the names of internal journals: "verdicts of run-1"."""
    if "\x1f" not in text and "1f" not in text:
        return text
    return _JOURNAL.sub(_own_name, text)


def _own_name(found: re.Match[str]) -> str:
    if found[1]:
        return "record of the store"
    return _OWN[found[2] or found[3] or found[4]].format(found[5])


def one_line(text: str) -> str:
    """The text on one line, with everything that is not plainly visible escaped.

    For texts of others in messages: a newline would look like another line of a log, and other
    control characters are commands to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def closest(wrong: str, known: Iterable[str]) -> str | None:
    """The name that may have been meant by one that is not known."""
    from difflib import get_close_matches  # seldom needed

    names = list(known)
    same = [name for name in names if name.lower() == wrong.lower()]
    return next(iter(same or get_close_matches(wrong, names, 1)), None)


def did_you_mean(name: str | None) -> str:
    """The end of a sentence about a name that is not known; empty without a closest one."""
    return "" if name is None else f"; did you mean {name!r}?"


def meant(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: which one may have been meant."""
    return did_you_mean(closest(wrong, known))


def shortened(value: object) -> str:
    """The `repr` of a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
