"""From a URL, a path or nothing at all to a store.

A scheme is a row of the table at the end. A store's options, as arguments or in a URL, are the
keyword-only parameters of its class: to add an option, add a parameter.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast import stores
from holdfast.errors import HoldfastError, StoreURLError
from holdfast.project import project_settings
from holdfast.store import Store, require
from holdfast.stores._shared.address import as_flag, check_user_part
from holdfast.stores._shared.address import masked as masked

DEFAULT_URL: Final = "sqlite:///.holdfast/holdfast.db"
_SQLITE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
_RELATIVE: Final = ("sqlite", "duckdb")  # schemes whose URLs may have a relative path

Opener = Callable[..., Store]
_openers: dict[str, Opener] = {}


def open_store(where: str | os.PathLike[str] | None = None, **options: Any) -> Store:
    """Open the store at a URL or path; None is the default store.

    `sqlite:///relative.db`, `sqlite:////absolute.db`, `file:///absolute/directory`, `memory://`,
    `postgresql://user:password@host/database`, `mysql://user:password@host/database`; a path
    ending in .db, .sqlite or .sqlite3 is SQLite, a directory is a file store. Options may also
    be given in the URL's query. The default is `$HOLDFAST_STORE`, then `store` under
    `[tool.holdfast]` in the nearest pyproject.toml, then `.holdfast/holdfast.db` here.

    `survives=` is what the store must survive, as for a `Checkpointer`.

    Raises `StoreURLError` for anything else, `DurabilityError` if the store survives less.
    """
    text, url, scheme, opener, query = _found(where)
    if "survives" in query:
        url = _without(url, {"survives"})
    options = query | options
    required = options.pop("survives", None)
    if required is not None and scheme == "sqlite":  # SQLite's durability is an option
        options["survives"] = required
    try:
        return _surviving(required, opener(url, **options))
    except HoldfastError:
        raise
    except ImportError as error:  # the driver is an extra, and the error says which
        raise StoreURLError(f"{scheme}://", str(error)) from error
    except TypeError as error:
        raise StoreURLError(masked(text), f"an option does not fit this store: {error}") from None
    except ValueError as error:
        raise StoreURLError(masked(text), str(error)) from None


def store_of(given: Store | str | os.PathLike[str] | None, survives: str | None = None) -> Store:
    """The store that is given, or opened at a URL or path, if it survives this."""
    if not isinstance(given, Store):
        return open_store(given, **({} if survives is None else {"survives": survives}))
    if survives is not None:
        require(given, survives)
    return given


def check_place(where: str | os.PathLike[str] | None) -> None:
    """Raise `StoreURLError` if this names no store. Opens nothing."""
    found = _found(where)
    if isinstance(found.opener, _Opener):
        try:
            found.opener.place_in(found.url)
        except StoreURLError:
            raise
        except ValueError as error:
            raise StoreURLError(masked(found.text), str(error)) from None


def is_shared(where: str | os.PathLike[str] | None) -> bool | None:
    """Whether several processes may use this store; None if only opening it would tell.

    Raises `StoreURLError` if it names none.
    """
    check_place(where)
    opener = _found(where).opener
    if not isinstance(opener, _Opener):
        return None
    try:
        store: type[Store] = getattr(stores, opener.store)
    except ImportError:  # its driver is not installed here
        return None
    return store.shared


class _Found(NamedTuple):
    text: str  # as it was given
    url: str
    scheme: str
    opener: Opener
    query: dict[str, str]


def _found(where: str | os.PathLike[str] | None) -> _Found:
    """What a URL or path names. Raises `StoreURLError`."""
    text = os.fspath(where) if where is not None else default_url()
    url = text if "://" in text else _url_of_path(text)
    scheme = url.partition("://")[0].lower()
    opener = _openers.get(scheme)
    if opener is None:
        known = scheme.partition("+")[0]
        use = f"use {known}://" if known in _openers else f"known are {', '.join(sorted(_openers))}"
        raise StoreURLError(masked(text), f"there is no store for {scheme}://; {use}")
    try:
        query = dict(parse_qsl(urlsplit(url).query))
    except ValueError:  # its message may repeat what is in the URL
        check_user_part(text)
        reason = "it is not a valid URL; percent-encode special characters (urllib.parse.quote)"
        raise StoreURLError(masked(text), reason) from None
    return _Found(text, url, scheme, opener, query)


def _surviving(required: str | None, store: Store) -> Store:
    """The store, if it survives what is required; otherwise it is closed."""
    try:
        if required is not None:
            require(store, required)
    except BaseException:
        store.close()
        raise
    return store


def register_store(scheme: str, opener: Opener) -> None:
    """Open URLs of a scheme with your own function: `opener(url, **options)` returns a store."""
    _openers[scheme] = opener


def default_url() -> str:
    """The URL of the default store, from the environment, pyproject.toml or the built-in one."""
    from_environment = os.environ.get("HOLDFAST_STORE")
    if from_environment:
        return from_environment
    project, tool = project_settings()
    if project is None or "store" not in tool:
        return DEFAULT_URL
    store = tool["store"]
    if not isinstance(store, str):
        raise StoreURLError(str(project), f"store must be a URL or path, not {store!r}")
    return absolute(store, project.parent)  # not relative to the working directory


def default_heads_file() -> str | None:
    """Where heads of the default store are remembered, as pyproject.toml says."""
    project, tool = project_settings()
    if project is None or "remember" not in tool:
        return None
    path = tool["remember"]
    if not isinstance(path, str) or "://" in path:
        raise StoreURLError(str(project), f"remember must be a path, not {path!r}")
    return os.fspath(project.parent / Path(path).expanduser())


def local_path(where: str) -> Path | None:
    """The file or directory that a URL or path of a local store names; None for any other store."""
    scheme, separator, _ = where.partition("://")
    if not separator:
        path = Path(where).expanduser()
        return None if _is_no_path(where) or path.suffix.lower() == ".duckdb" else path
    if scheme.lower() not in ("sqlite", "duckdb", "file"):
        return None
    local = unquote(urlsplit(where).path)
    local = local if scheme.lower() == "file" else local[1:]
    return Path(local) if local else None


def absolute(where: str, directory: Path) -> str:
    """A store's URL or path, which names the same store everywhere.

    If it is relative, it is relative to this directory. A directory keeps the slash at its end.
    """
    scheme, separator, place = where.partition("://")
    if not separator:
        return f"{directory / Path(where).expanduser()}{'/' if where.endswith('/') else ''}"
    path = place.removeprefix("/")
    if scheme.lower() in _RELATIVE and path != place and not path.startswith("/"):
        return f"{scheme}:///{quote(os.fsencode(directory))}/{path}"
    return where


def _url_of_path(text: str) -> str:
    path = Path(text).expanduser().absolute()
    suffix = path.suffix.lower()
    quoted = quote(os.fsencode(path))
    if suffix == ".duckdb":
        raise StoreURLError(masked(text), f"use duckdb:///{masked(text)}")
    if _is_no_path(text):
        raise StoreURLError(masked(text), "name a .db file, a directory or a URL")
    if suffix in _SQLITE_SUFFIXES:
        return f"sqlite:///{quoted}"
    if path.is_dir() or text.endswith(("/", os.sep)):
        return f"file://{quoted}"
    reason = (
        "name a .db file, an existing directory or a URL; file:///absolute/path makes a directory"
    )
    raise StoreURLError(masked(text), reason)


def _is_no_path(text: str) -> bool:
    """Whether it may be a URL without its scheme, and hold a password."""
    return not text or ":" in text.partition("/")[0]


@dataclass(frozen=True)
class _Opener:
    """Opens URLs of one of our stores.

    `place` finds what the URL names, or None if it is not as in the `example`. Without it, the
    driver reads the URL, with what is left of the query when our options are taken out.
    """

    store: str
    example: str = ""
    place: Callable[[SplitResult], str | None] | None = None

    def place_in(self, url: str) -> str | None:
        """What a URL names, if that can be told here. Raises `StoreURLError`, `ValueError`."""
        check_user_part(url)
        if self.place is None:
            return None
        place = self.place(urlsplit(url))
        if place is None:
            raise StoreURLError(masked(url), f"use {self.example}")
        return place

    def __call__(self, url: str, **options: Any) -> Store:
        check_user_part(url)
        store: Opener = getattr(stores, self.store)
        kinds = _kinds(store)
        parts = urlsplit(url)
        if self.place is None:
            drivers = dict(parse_qsl(parts.query)).keys() - kinds.keys()
            options = {name: value for name, value in options.items() if name not in drivers}
            return store(_without(url, kinds.keys()), **_converted(options, kinds))
        place = self.place_in(url)
        return store(*([place] if place else ()), **_converted(options, kinds))


def _kinds(store: Opener) -> dict[str, Callable[[str], object]]:
    """The options of a store, each with the function that makes its value from text."""
    kinds: dict[str, Callable[[str], object]] = {
        "int": int,
        "float": float,
        "float | None": float,
        "bool": as_flag,
    }
    return {
        parameter.name: kinds.get(parameter.annotation, str)
        for parameter in inspect.signature(store).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def _converted(
    options: dict[str, Any], kinds: dict[str, Callable[[str], object]]
) -> dict[str, Any]:
    converted = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and name in kinds:
            try:
                converted[name] = kinds[name](value)
            except ValueError:
                wanted = "true or false" if kinds[name] is as_flag else "a number"
                raise ValueError(f"{name} must be {wanted}, not {value!r}") from None
    return converted


def _without(url: str, names: Collection[str]) -> str:
    """The URL without these options in its query."""
    place, _, query = url.partition("?")
    rest = [(name, value) for name, value in parse_qsl(query) if name not in names]
    return f"{place}?{urlencode(rest, quote_via=quote)}" if rest else place


def _file(parts: SplitResult) -> str | None:
    path = unquote(parts.path, errors="surrogateescape")
    if path == "/:memory:":
        raise ValueError("it would keep nothing; use memory://")
    return None if parts.netloc or len(path) < 2 else path[1:]


def _directory(parts: SplitResult) -> str | None:
    path = unquote(parts.path, errors="surrogateescape")
    return path if parts.netloc in ("", "localhost") and len(path) > 1 else None


def _table(parts: SplitResult) -> str | None:
    table = unquote(parts.netloc)
    return None if parts.path.strip("/") or "@" in table else table or None


_openers.update(
    {
        "sqlite": _Opener("SQLiteStore", "sqlite:///relative.db or sqlite:////absolute.db", _file),
        "duckdb": _Opener("DuckDBStore", "duckdb:///a.duckdb or duckdb:////absolute.duckdb", _file),
        "file": _Opener("FileStore", "file:///absolute/directory", _directory),
        "memory": _Opener(
            "MemoryStore",
            "memory://; a memory store has no name",
            lambda parts: None if parts.netloc or parts.path.strip("/") else "",
        ),
        "dynamodb": _Opener("DynamoDBStore", "dynamodb://table?region=eu-central-1", _table),
        **dict.fromkeys(("postgresql", "postgres"), _Opener("PostgresStore")),
        **dict.fromkeys(("mysql", "mariadb"), _Opener("MySQLStore")),
        **dict.fromkeys(
            ("redis", "rediss", "redis+unix", "valkey", "valkeys"), _Opener("RedisStore")
        ),
        **dict.fromkeys(("mongodb", "mongodb+srv"), _Opener("MongoDBStore")),
    }
)
