"""Secrets: values that are never stored, and what stands in their place.

A `Secret` is stored by its name alone, or by its path where it has none: nothing that is stored
was computed from its value, so no guess of it can be confirmed. Who loads it gets a `Secret` again,
which asks a provider for its value when it is revealed.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar, cast

from holdfast import revealed
from holdfast.errors import HoldfastError, SecretMissingError

T = TypeVar("T")

Provider = Callable[[str], Any] | Mapping[str, Any]
"""Where the values of secrets come from: a mapping, or a function, by the name of each."""

_LONGEST_NAME: Final = 300


class Secret(Generic[T]):
    """A value that reaches no checkpoint, log, event, error message or page.

    `reveal` returns the value. `name` is what is stored instead: give one, and a resumed run asks
    its provider (`secrets_from=`) for the value by this name. Without a name, the path of the
    secret in what is stored stands in for it.

    Pickling it, as process pools and Dask do, takes the value along. holdfast stores no pickles.
    """

    __slots__ = ("__weakref__", "_ask", "_known", "_name", "_value")

    def __init__(self, value: T, *, name: str | None = None) -> None:
        if isinstance(value, Secret):
            raise TypeError("this is a Secret already; reveal() it, or pass it on as it is")
        if name is not None:
            check_name(name)
            known = revealed.Revealed(value, name)
            if any(text in name for text in known.texts):
                raise ValueError("the name of a secret must not hold its value: names are stored")
        self._value: Any = value
        self._name = name
        self._ask: Callable[[], T] | None = None
        self._known: revealed.Revealed | None = None

    @classmethod
    def asking(cls, name: str, ask: Callable[[], T] | None) -> Secret[T]:
        """A secret that was stored by its name; `ask` returns its value."""
        return cls.__new__(cls).filled(_ABSENT, name, ask)

    def filled(self, value: Any, name: str | None, ask: Callable[[], T] | None) -> Self:
        """Initialise one that was made without `__init__`."""
        self._value, self._name, self._ask, self._known = value, name, ask, None
        return self

    @property
    def name(self) -> str | None:
        """What is stored instead of the value; None while it has no name."""
        return self._name

    def reveal(self) -> T:
        """The value. A secret that was loaded asks its provider, each time.

        Raises `SecretMissingError` if there is none, or it does not know the secret.
        """
        value = self._value
        if value is _ABSENT:
            if self._ask is None:
                raise SecretMissingError(self._name or "")
            value = self._ask()
        if self._known is None or self._value is _ABSENT:
            self._known = revealed.note(value, self._name or "without a name")
        return cast("T", value)

    def converted(self, convert: Callable[[Any], Any]) -> Secret[Any]:
        """A secret of another type: `convert` makes its value of this one's when it is revealed."""
        if self._value is not _ABSENT:
            return Secret(convert(self._value), name=self._name)
        return Secret.asking(self._name or "", lambda: convert(self.reveal()))

    def renamed(self, name: str) -> Secret[T]:
        """The same value under a name."""
        return Secret.__new__(Secret).filled(self._value, name, self._ask)

    @property
    def is_here(self) -> bool:
        """Whether its value is in memory, rather than to be asked for."""
        return self._value is not _ABSENT

    @property
    def can_be_revealed(self) -> bool:
        """Whether its value is in memory, or there is someone to ask for it."""
        return self.is_here or self._ask is not None

    def __repr__(self) -> str:
        return "Secret()" if self._name is None else f"Secret(name={self._name!r})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self._value is _ABSENT or other._value is _ABSENT:
            return self._value is other._value and self._name == other._name
        return _same(self._value, other._value)

    def __hash__(self) -> int:
        return hash(Secret)  # nothing can be learned from it

    def __copy__(self) -> Secret[T]:
        return self

    def __deepcopy__(self, _: object) -> Secret[T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.reveal(), self._name)

    def __iter__(self) -> NoReturn:
        raise TypeError("a Secret can't be iterated over; reveal() it where its value is used")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from typing import get_args

        from pydantic_core import core_schema

        args = get_args(source)
        inner = handler.generate_schema(args[0]) if args else core_schema.any_schema()
        wrapped = core_schema.no_info_after_validator_function(Secret, inner)
        return core_schema.union_schema(
            [core_schema.is_instance_schema(Secret), wrapped],
            serialization=core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True),
        )


def _dumped(secret: Secret[Any], info: Any) -> Any:
    """In a pydantic model: a Secret as it is, and no value in JSON."""
    return secret if info.mode == "python" else repr(secret)


class Withheld:
    """Stands where a value was withheld by its path (`secrets=`)."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Withheld) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Withheld({self.path!r})"


class Encrypted:
    """A field that is stored encrypted (`encrypt=`), as it is stored.

    The run and its owner, whose keys it was encrypted with, go with it into forks.
    """

    __slots__ = ("data", "owner", "path", "run")

    def __init__(self, path: str, run: str, owner: str | None, data: bytes) -> None:
        self.path = path
        self.run = run
        self.owner = owner
        self.data = data

    @property
    def parts(self) -> list[Any]:
        """What is stored of it."""
        return [self.path, self.run, self.owner, self.data]

    @classmethod
    def of(cls, parts: Any) -> Encrypted:
        """The field that is stored as this. Raises `ValueError`."""
        if not isinstance(parts, list) or len(parts) != 4:
            raise ValueError("a malformed encrypted field")
        path, run, owner, data = parts
        if not all(isinstance(part, str) for part in (path, run, owner or "")):
            raise ValueError("a malformed encrypted field")
        if not isinstance(data, bytes):
            raise ValueError("a malformed encrypted field")
        return cls(path, run, owner, data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encrypted) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Encrypted({self.path!r})"


class Locked(Secret[T]):
    """A field that is stored encrypted, loaded without its key. Saving it keeps what is stored."""

    __slots__ = ("field",)
    field: Encrypted

    @classmethod
    def of(cls, field: Encrypted, why: Exception) -> Locked[Any]:
        """The field, which can't be opened: revealing it raises this error."""

        def refuse() -> NoReturn:
            raise why

        made = cast("Locked[Any]", cls.asking(field.path, refuse))
        made.field = field
        return made


class Sources(NamedTuple):
    """Where the values come from that the stored bytes do not have."""

    provider: Provider | None = None
    open_field: Callable[[Encrypted], bytes] | None = None  # raises what is wrong with its key
    noted: Callable[[Any, str], None] | None = None  # told of what the provider gave


class Carrying(bytes):
    """An encoding, and in memory the values that are not in it: those who decode it get them."""

    secrets: dict[str, Secret[Any]]
    withheld: dict[str, bytes]

    @classmethod
    def of(
        cls,
        encoding: bytes,
        secrets: Mapping[str, Secret[Any]],
        withheld: Mapping[str, bytes] | None = None,
    ) -> Carrying:
        """The encoding with these secrets, by name, and encodings of withheld values, by path."""
        made = cls(encoding)
        made.secrets, made.withheld = dict(secrets), dict(withheld or {})
        return made


def check_name(name: object) -> str:
    """Return the name if a secret can have it. Raises `ValueError`."""
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
        raise ValueError(f"the name of a secret is a text of up to {_LONGEST_NAME} characters")
    if not name.isprintable():
        raise ValueError("the name of a secret has no control characters")
    return name


def ask(provider: Provider | None, name: str) -> Any:
    """What the provider says. Raises `SecretMissingError` if that is nothing."""
    if provider is None:
        raise SecretMissingError(name)
    try:
        if isinstance(provider, Mapping):
            return provider[name]
        value = provider(name)
    except HoldfastError:
        raise
    except LookupError:
        raise SecretMissingError(name, "the provider does not know it") from None
    except Exception as error:
        reason = f"the provider failed with {type(error).__name__}"
        raise SecretMissingError(name, reason) from error
    if value is None:
        raise SecretMissingError(name, "the provider does not know it")
    return value.reveal() if isinstance(value, Secret) else value


def check_provider(provider: object) -> None:
    """Raise `TypeError` unless this can provide secrets."""
    if provider is not None and not isinstance(provider, Mapping) and not callable(provider):
        raise TypeError(
            f"secrets_from must be a mapping or a function, not {type(provider).__name__}"
        )


def environment_secrets(name: str) -> str:
    """Secrets from environment variables: "user.token" is `HOLDFAST_SECRET_USER_TOKEN`.

    For `secrets_from=`. Letters become capitals, and everything but letters and digits `_`. Raises
    `LookupError` if the variable is not set. The prefix keeps a name that was stored from reading
    any other variable.
    """
    return os.environ[f"HOLDFAST_SECRET_{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_')}"]


class _Absent:
    def __repr__(self) -> str:
        return "..."


_ABSENT: Final[Any] = _Absent()


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal; of texts and bytes, in a time that tells nothing of them."""
    if type(one) is str and type(other) is str:
        one, other = (part.encode(errors="surrogatepass") for part in (one, other))
    if isinstance(one, bytes) and isinstance(other, bytes):
        return hmac.compare_digest(one, other)
    return type(one) is type(other) and bool(one == other)


def _unpickled(value: Any, name: str | None) -> Secret[Any]:
    return Secret.__new__(Secret).filled(value, name, None)
