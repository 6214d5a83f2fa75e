"""Where journals are kept: one module or package for each backend of `holdfast.store.Store`.

Nothing here knows checkpoints, states or encodings: a store keeps bytes and index fields.
`from holdfast.stores import SQLiteStore` and so on import a driver only when it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.stores.duckdb.store import DuckDBStore as DuckDBStore
    from holdfast.stores.dynamodb import DynamoDBStore as DynamoDBStore
    from holdfast.stores.files.store import FileStore as FileStore
    from holdfast.stores.memory import MemoryStore as MemoryStore
    from holdfast.stores.mongodb import MongoDBStore as MongoDBStore
    from holdfast.stores.mysql.store import MySQLStore as MySQLStore
    from holdfast.stores.postgres.store import PostgresStore as PostgresStore
    from holdfast.stores.redis.store import RedisStore as RedisStore
    from holdfast.stores.sqlite.store import SQLiteStore as SQLiteStore

_MODULES: Final = {
    "DuckDBStore": "duckdb.store",
    "DynamoDBStore": "dynamodb",
    "FileStore": "files.store",
    "MemoryStore": "memory",
    "MongoDBStore": "mongodb",
    "MySQLStore": "mysql.store",
    "PostgresStore": "postgres.store",
    "RedisStore": "redis.store",
    "SQLiteStore": "sqlite.store",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
