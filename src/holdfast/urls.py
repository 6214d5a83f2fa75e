"""From a URL, a path or nothing at all to a store."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast import stores
from holdfast.errors import HoldfastError, StoreURLError
from holdfast.store import Store, require
from holdfast.stores._shared.address import check_user_part
from holdfast.stores._shared.address import masked as masked

SETTINGS: Final = frozenset({"store", "flows"})
"""What `[tool.holdfast]` in pyproject.toml may say."""
DEFAULT_URL: Final = "sqlite:///.holdfast/holdfast.db"
_POOLED: Final = ("connections", "pool_seconds", "answer_seconds", "work_seconds")
_NUMBERS: Final = {
    "connections": int, "replicas": int, "ttl": float, "pool_seconds": float,
    "answer_seconds": float, "work_seconds": float, "busy_seconds": float, "lock_seconds": float,
}  # fmt: skip
_LOCAL: Final = ("sqlite", "duckdb", "file")
_SQLITE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")

Opener = Callable[..., Store]
_openers: dict[str, Opener] = {}


def open_store(where: str | os.PathLike[str] | None = None, **options: Any) -> Store:
    """Open the store that a URL or path names; None is the default store.

    `sqlite:///relative.db`, `sqlite:////absolute.db`, `file:///absolute/directory`, `memory://`,
    `postgresql://user:password@host/database`, `mysql://user:password@host/database`; a path
    ending in .db, .sqlite or .sqlite3 is SQLite, a directory is a file store. Options may also
    stand in the URL's query. The default is `$HOLDFAST_STORE`, then `store` under
    `[tool.holdfast]` in the nearest pyproject.toml, then `.holdfast/holdfast.db` here.

    `survives=` is what it must survive, as for a `Checkpointer`.

    Raises `StoreURLError` for anything else, `DurabilityError` if it survives less.
    """
    text = os.fspath(where) if where is not None else default_url()
    scheme, separator, _ = text.partition("://")
    scheme = scheme.lower()
    if not separator:
        return _open_path(text, options)
    opener = _openers.get(scheme)
    if opener is None:
        known = scheme.partition("+")[0]
        use = f"use {known}://" if known in _openers else f"known are {', '.join(sorted(_openers))}"
        raise StoreURLError(masked(text), f"no store speaks {scheme}://; {use}")
    try:
        query = dict(parse_qsl(urlsplit(text).query))
    except ValueError:  # which may say what stands in the URL
        check_user_part(text)
        reason = "it is no URL; percent-encode what is special in it (urllib.parse.quote)"
        raise StoreURLError(masked(text), reason) from None
    required = options.pop("survives", query.pop("survives", None))
    url = _without(text, {}, "survives")[0] if "survives=" in text else text
    if required is not None and scheme == "sqlite":  # which can be told to
        options["survives"] = required
    try:
        return _requiring(required, opener(url, **query | options))
    except HoldfastError:
        raise
    except ImportError as error:  # the driver is an extra, and the error says which
        raise StoreURLError(f"{scheme}://", str(error)) from error
    except TypeError as error:
        raise StoreURLError(masked(text), f"an option does not fit this store: {error}") from None
    except ValueError as error:
        raise StoreURLError(masked(text), str(error)) from None


def register_store(scheme: str, opener: Opener) -> None:
    """Let URLs of a scheme open your own store: `opener(url, **options)` returns it."""
    _openers[scheme] = opener


def default_url() -> str:
    """The URL of the default store, from the environment, pyproject.toml or the built-in one."""
    from_environment = os.environ.get("HOLDFAST_STORE")
    if from_environment:
        return from_environment
    project, tool = project_settings()
    if project is None or "store" not in tool:
        return DEFAULT_URL
    return _beside(project.parent, tool["store"])


def project_settings() -> tuple[Path | None, dict[str, Any]]:
    """The nearest pyproject.toml, and what it says under `[tool.holdfast]`."""
    for directory in (Path.cwd(), *Path.cwd().parents):
        project = directory / "pyproject.toml"
        if project.is_file():
            try:
                tool = tomllib.loads(project.read_text()).get("tool", {}).get("holdfast", {})
            except (tomllib.TOMLDecodeError, OSError) as error:
                raise StoreURLError(str(project), f"can't be read: {error}") from error
            return project, tool
    return None, {}


def unknown_settings() -> list[str]:
    """The keys under `[tool.holdfast]` that nothing reads: most likely misspelt."""
    return sorted(project_settings()[1].keys() - SETTINGS)


def local_path(where: str) -> Path | None:
    """The file or directory that a URL or path of a local store names; None for any other store."""
    scheme, separator, _ = where.partition("://")
    if not separator:
        path = Path(where).expanduser()
        return None if _is_no_path(where) or path.suffix.lower() == ".duckdb" else path
    if scheme.lower() not in _LOCAL:
        return None
    local = unquote(urlsplit(where).path)
    local = local if scheme.lower() == "file" else local[1:]
    return Path(local) if local else None


def _beside(project: Path, store: str) -> str:
    """A relative path in a project's file is relative to that file, wherever we stand."""
    for prefix in ("sqlite:///", ""):
        path = store.removeprefix(prefix)
        if store.startswith(prefix) and "://" not in path and not path.startswith("/"):
            return f"{prefix}{project / path}" + ("/" if path.endswith("/") else "")
    return store


def _open_path(text: str, options: dict[str, Any]) -> Store:
    path = Path(text).expanduser()
    suffix = path.suffix.lower()
    if suffix == ".duckdb":
        raise StoreURLError(masked(text), f"use duckdb:///{masked(text)}")
    if _is_no_path(text):
        pass
    elif suffix in _SQLITE_SUFFIXES:
        required = options.get("survives")
        return _requiring(required, _store_class("SQLiteStore")(path, **options))
    elif path.is_dir() or text.endswith(("/", os.sep)):
        required = options.pop("survives", None)
        return _requiring(required, _store_class("FileStore")(path, **options))
    raise StoreURLError(
        masked(text),
        "name a file that ends in .db, a directory that exists, or a URL such as file:///directory; "
        "in text, a new directory ends in /",
    )


def _is_no_path(text: str) -> bool:
    """A URL that lacks its scheme, perhaps, with a password in it."""
    return not text or ":" in text.partition("/")[0]


def _requiring(required: str | None, store: Store) -> Store:
    """The store, if it survives what is required of it; else it is closed."""
    try:
        if required is not None:
            require(store, required)
    except BaseException:
        store.close()
        raise
    return store


def _open_sqlite(url: str, **options: Any) -> Store:
    path = unquote(urlsplit(url).path)
    if urlsplit(url).netloc or len(path) < 2:
        raise StoreURLError(masked(url), "use sqlite:///relative.db or sqlite:////absolute.db")
    if path == "/:memory:":
        raise StoreURLError(masked(url), "an in-memory SQLite keeps nothing; use memory://")
    _check_numbers(options)
    return _store_class("SQLiteStore")(path[1:], **options)


def _open_file(url: str, **options: Any) -> Store:
    path = unquote(urlsplit(url).path)
    if urlsplit(url).netloc not in ("", "localhost") or len(path) < 2:
        raise StoreURLError(masked(url), "use file:///absolute/directory")
    _check_numbers(options)
    return _store_class("FileStore")(path, **options)


def _open_memory(url: str, **options: Any) -> Store:
    if url.rstrip("/") != "memory:":
        raise StoreURLError(
            masked(url), "a memory store has no name and is shared by nobody: use memory://"
        )
    return _store_class("MemoryStore")(**options)


def _open_postgres(url: str, **options: Any) -> Store:
    where, own = _without(url, options, "schema", *_POOLED)
    return _store_class("PostgresStore")(where, **own)


def _open_duckdb(url: str, **options: Any) -> Store:
    path = unquote(urlsplit(url).path)
    if urlsplit(url).netloc or len(path) < 2:
        raise StoreURLError(
            masked(url), "use duckdb:///relative.duckdb or duckdb:////absolute.duckdb"
        )
    return _store_class("DuckDBStore")(path[1:], **options)


def _open_dynamodb(url: str, **options: Any) -> Store:
    check_user_part(url)
    table = unquote(urlsplit(url).netloc)
    if not table or urlsplit(url).path.strip("/"):
        raise StoreURLError(masked(url), "use dynamodb://table?region=eu-central-1")
    return _store_class("DynamoDBStore")(table, **options)


def _open_mongodb(url: str, **options: Any) -> Store:
    where, own = _without(url, options, "prefix", "database")
    return _store_class("MongoDBStore")(where, **own)


def _open_redis(url: str, **options: Any) -> Store:
    own = ("prefix", "ttl", "replicas", "cluster", *_POOLED[:-1])
    where, options = _without(url, options, *own)
    return _store_class("RedisStore")(where, **options)


def _open_mysql(url: str, **options: Any) -> Store:
    where, own = _without(url, options, "prefix", *_POOLED)
    return _store_class("MySQLStore")(where, **own)


def _without(url: str, options: dict[str, Any], *names: str) -> tuple[str, dict[str, Any]]:
    """A URL without the options that are ours, and those; what is left in its query is the driver's."""
    check_user_part(url)
    query = dict(parse_qsl(urlsplit(url).query))
    rest = {name: value for name, value in query.items() if name not in names}
    own = {name: value for name, value in options.items() if name in names or name not in query}
    _check_numbers(own)
    place = url.partition("?")[0]
    return (f"{place}?{urlencode(rest, quote_via=quote)}" if rest else place), own


def _check_numbers(options: dict[str, Any]) -> None:
    """What stands in a URL is text: name the option that should have been a number."""
    for name, kind in _NUMBERS.items():
        try:
            kind(options.get(name, 0) or 0)
        except ValueError:
            raise ValueError(f"{name} must be a number, not {options[name]!r}") from None


def _store_class(name: str) -> Opener:
    opener: Opener = getattr(stores, name)
    return opener


register_store("sqlite", _open_sqlite)
register_store("file", _open_file)
register_store("memory", _open_memory)
register_store("postgresql", _open_postgres)
register_store("postgres", _open_postgres)
register_store("mysql", _open_mysql)
register_store("mariadb", _open_mysql)
for _scheme in ("redis", "rediss", "redis+unix", "valkey", "valkeys"):
    register_store(_scheme, _open_redis)
register_store("duckdb", _open_duckdb)
register_store("dynamodb", _open_dynamodb)
register_store("mongodb", _open_mongodb)
register_store("mongodb+srv", _open_mongodb)
