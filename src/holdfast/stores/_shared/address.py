"""Addresses of servers: URLs checked, and shown without their passwords."""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import quote

from holdfast.errors import StoreURLError

_USER_PART: Final = re.compile(r"(?:[^@/?#%\[\]\\\s]|%(?!00)[0-9A-Fa-f]{2})*")
_SECRET_OPTIONS: Final = re.compile(
    r"([?&;][^=&;]*(?:pass|secret|token|key|authMechanismProperties)[^=&;]*=)[^&;]*"
    r"|([?&;][^=&;]*=)[^&;]*:(?:/|%2F){2}[^&;]*%40[^&;]*",  # another URL, with a user part
    re.IGNORECASE,
)
_SECRET_WORDS: Final = re.compile(  # of a connection string that is no URL
    r"(\w*(?:pass|secret|token|key)\w*\s*=\s*)(?:'(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE
)
_OF_PATHS: Final = ("file", "sqlite", "duckdb", "unix", "redis+unix", "valkey+unix")


def masked(url: str) -> str:
    """A URL for screens and logs, without its password and other secrets.

    If it is unclear where the password ends, only the scheme is shown.
    """
    if "://" not in url:
        url = _SECRET_WORDS.sub(r"\1***", url)
    scheme, user, place = _parts(url)
    if not _unambiguous(user):
        return f"{scheme}***"
    name, colon, _ = user.partition(":")
    shown = f"{name}:***@" if colon else user
    return scheme + shown + _SECRET_OPTIONS.sub(r"\1\2***", place)


def shown(scheme: str, user: object, password: object, place: str) -> str:
    """A URL for screens and logs, made from a driver's settings."""
    name = quote(str(user or ""), safe="") + (":***" if password else "")
    return f"{scheme}://{name}{'@' if name else ''}{place}"


def check_user_part(url: str) -> None:
    """Raise `StoreURLError` for a URL that parsers may split at different places.

    A driver might take half of a password for a host name, and show it in an error.
    """
    if not _unambiguous(_parts(url)[1]):
        raise StoreURLError(
            masked(url),
            "it is unclear where the password ends; percent-encode the password "
            "(urllib.parse.quote(password, safe='')), and an @ anywhere else",
        )


def has_secret_options(url: str) -> bool:
    """Whether the query has a secret."""
    return _SECRET_OPTIONS.search(url) is not None


def _parts(url: str) -> tuple[str, str, str]:
    """The scheme, the user part with its @, and the rest; paths have no user part."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
        if ":" not in rest.partition("/")[0]:
            return "", "", rest
    of_path = scheme.lower() in ("", *_OF_PATHS) or "@" not in rest.partition("?")[0]
    if rest.startswith("/") and of_path:
        return scheme + separator, "", rest
    user, at, place = rest.rpartition("@")
    return scheme + separator, user + at, place


def _unambiguous(user: str) -> bool:
    # Python and some drivers normalise it, and some characters become others.
    return _USER_PART.fullmatch(unicodedata.normalize("NFKC", user.removesuffix("@"))) is not None


def as_flag(value: str | bool) -> bool:
    """Text of an option that is true or false."""
    if isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise ValueError(f"must be true or false, not {value!r}")
        return value.lower() in ("true", "1", "yes")
    return value
