"""Hides what looks like a secret from those who look at values on pages, over HTTP and elsewhere.

A field counts as secret by its name alone: `password`, `client_secret`, `apiKey`, `Authorization`.
Numbers, booleans and None are shown whatever their name is: `tokens_used: 12` is no secret. Besides
fields, the passwords in URLs are hidden. What stands for a `Secret` is shown: it says its name. This
is about what is shown: the store has the values as they are, and so do exports and most commands.
"""

import re
from typing import Any, Final

from holdfast.codec.readable import HIDDEN_TAGS


class AsIs(dict[str, Any]):
    """A JSON Schema: it says what values have to be, and its only values are defaults and such."""


HIDDEN: Final = "•••••"
"""Shown instead of a secret."""

_SECRETS: Final = frozenset(
    (
        *("password", "passwords", "passwd", "passphrase", "pwd", "passcode"),
        *("secret", "secrets", "credential", "credentials", "token", "jwt", "bearer"),
        *("authorization", "cookie", "cookies", "apikey", "apikeys", "authtoken", "accesstoken"),
        *("refreshtoken", "secretkey", "privatekey", "accesskey", "clientsecret", "otp"),
    )
)
_KEYS: Final = frozenset(
    ("api", "private", "secret", "access", "signing", "encryption", "auth", "master", "ssh", "hmac")
)
_TOKENS: Final = frozenset(("access", "api", "auth", "bearer", "refresh", "session", "id"))
_SUFFIXES: Final = frozenset(
    ("hash", "hashed", "value", "text", "plain", "raw", "encoded", "base64", "b64", "pem", "json")
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# The password ends at the last @ of a word, and a port is none. It has a limit: texts may be long.
_IN_URL: Final = re.compile(
    r"(\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s/?#:@]{0,100}:)(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>]{1,300}(?=@)"
)
MAP: Final = "$map"
"""Of the readable form: pairs of a key and a value."""

_NAMES: Final = ("name", "key", "header")
_VALUES: Final = ("default", "examples", "const", "enum")  # of a JSON Schema


def is_secret(name: str) -> bool:
    """Whether a field of this name looks like a secret, however it is written."""
    words = [word.lower() for word in _WORD.findall(name[:200])]
    while words and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _SECRETS:
        return True
    if last in ("key", "keys"):
        return before in _KEYS
    return last == "tokens" and before in _TOKENS


def redacted(value: Any) -> Any:
    """A value in JSON's form, with what looks like a secret hidden at any depth."""
    match value:
        case str():
            return _IN_URL.sub(rf"\1{HIDDEN}", value) if "://" in value else value
        case AsIs():
            return _schema(value, secret=False)
        case dict() if is_placeholder(value):
            return value
        case dict():
            named = value_of_a_secret(value)
            return {
                key: hidden(item) if is_secret(key) or key == named else _below(key, item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [redacted(item) for item in value]
    return value


def _below(key: str, item: Any) -> Any:
    if key != MAP or not isinstance(item, list):
        return redacted(item)
    return [_pair(pair) for pair in item]


def _pair(pair: Any) -> Any:
    match pair:
        case [str() as key, value] if is_secret(key):
            return [key, hidden(value)]
    return redacted(pair)


def _schema(schema: Any, *, secret: bool) -> Any:
    """A JSON Schema; of a field that is a secret, without the values in it."""
    match schema:
        case dict():
            return {
                key: hidden(item)
                if secret and key in _VALUES
                else {name: _schema(one, secret=is_secret(name)) for name, one in item.items()}
                if key == "properties" and isinstance(item, dict)
                else _schema(item, secret=secret)
                for key, item in schema.items()
            }
        case list():
            return [_schema(item, secret=secret) for item in schema]
    return schema


def is_placeholder(value: Any) -> bool:
    """Whether this stands for a secret, or for a field that is withheld or encrypted."""
    return isinstance(value, dict) and len(value) == 1 and not value.keys().isdisjoint(HIDDEN_TAGS)


def value_of_a_secret(fields: dict[str, Any]) -> str | None:
    """The field with the value where another has the name, as lists of headers have them."""
    if "value" not in fields:
        return None
    names = (fields.get(name) for name in _NAMES)
    return "value" if any(isinstance(name, str) and is_secret(name) for name in names) else None


def hidden(value: Any) -> Any:
    """What to show of a secret: that it is one, if it is text or holds anything."""
    if is_placeholder(value):
        return value
    return HIDDEN if isinstance(value, str | list | tuple | dict) and value else value
