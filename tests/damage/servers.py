"""Where entries are stored by servers, and by stores that one process has for itself."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import psycopg
from redis import Redis as Client

import holdfast as hf
from holdfast.model import Entry
from holdfast.store import Store
from holdfast.stores._shared.document import Document, Item
from holdfast.stores._shared.documents import Documents
from holdfast.stores._shared.fields import digits
from holdfast.stores.dynamodb.store import DynamoDBStore, _shard
from holdfast.stores.dynamodb.table import wire
from holdfast.stores.mongodb import MongoDBStore
from holdfast.stores.redis.keys import packed
from tests.damage.vaults import FileVault, MemoryVault, SQLiteVault, TableVault, Vault
from tests.servers import dynamodb, mariadb, postgres, redis
from tests.servers.mongodb import MongoClient

Statements = tuple[str, Sequence[Sequence[Any]]]


class PostgresVault(TableVault):
    """The tables of a schema."""

    mark = "%s"

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.url = postgres.new_url()
        with self.opened() as store:
            store.append([])
            store.stats()
        (schema,) = parse_qs(urlsplit(self.url).query)["schema"]
        self.entries = f"{schema}.entries"
        found = self.execute(
            ("SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
             "AND table_type = 'BASE TABLE'", [(schema,)]),
        )  # fmt: skip
        self.tables = [f"{schema}.{name}" for (name,) in found]

    def open(self) -> Store:
        return hf.open_store(self.url)

    def execute(self, *statements: Statements) -> list[Any]:
        found: list[Any] = []
        with psycopg.connect(postgres.server_url()) as db:
            for statement, rows in statements:
                for row in rows:
                    cursor = db.execute(statement.encode(), row)
                    found = cursor.fetchall() if cursor.description else []
        return found


class MySQLVault(TableVault):
    """The tables of a database."""

    mark = "%s"
    entries = "holdfast_entries"

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.url = mariadb.new_url()
        with self.opened() as store:
            store.stats()
        names = self.execute(("SHOW FULL TABLES WHERE table_type = 'BASE TABLE'", [()]))
        self.tables = [name for name, _ in names]
        self._columns: dict[str, str] = {}

    def open(self) -> Store:
        return hf.open_store(self.url)

    def columns(self, table: str) -> str:
        if table not in self._columns:
            found = self.execute((f"SHOW COLUMNS FROM {table}", [()]))
            made = [f"`{name}`" for name, *_, extra in found if "GENERATED" not in extra]
            self._columns[table] = ", ".join(made)
        return self._columns[table]

    def execute(self, *statements: Statements) -> list[Any]:
        found: list[Any] = []
        with mariadb.connect(self.url) as db, db.cursor() as cursor:
            for statement, rows in statements:
                for row in rows:
                    cursor.execute(statement, row)
                    found = list(cursor.fetchall())
        return found


class DuckDBVault(TableVault):
    """The tables of a file that one process has for itself."""

    entries = "entries"

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.path = place / "runs.duckdb"
        with self.opened() as store:
            store.stats()
        names = self.execute(
            ("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'", [()])
        )
        self.tables = [name for (name,) in names]

    def open(self) -> Store:
        return hf.open_store(f"duckdb:///{self.path}")

    def quoted(self, name: str) -> str:
        return f'"{name}"'

    def execute(self, *statements: Statements) -> list[Any]:
        found: list[Any] = []
        with duckdb.connect(str(self.path)) as db:
            db.execute("BEGIN")
            for statement, rows in statements:
                for row in rows:
                    found = db.execute(statement, row).fetchall()
            db.execute("COMMIT")
        return found


class RedisVault(Vault):
    """The members of sorted sets, and the fields of hashes."""

    def __init__(self, place: Path) -> None:
        self.url = redis.new_url()
        server, _, self._prefix = self.url.partition("?prefix=")
        self._client: Any = Client.from_url(server)
        self._kept: dict[bytes, bytes] = {}

    def open(self) -> Store:
        return hf.open_store(self.url)

    def keep(self) -> None:
        self._kept = {key: self._client.dump(key) for key in self._keys("*")}

    def restore(self) -> None:
        with self._client.pipeline() as pipe:
            if found := self._keys("*"):
                pipe.delete(*found)
            for key, value in self._kept.items():
                pipe.restore(key, 0, value)
            pipe.execute()

    def put(self, entry: Entry) -> None:
        self.remove(entry.run, entry.seq)
        seq, member, body = packed(entry)
        self._client.zadd(self._key("e", entry.run), {member: 0})
        if body:
            self._client.hset(self._key("b", entry.run), seq, body)

    def remove(self, run: str, seq: int) -> None:
        at = b"%019d" % seq
        key = self._key("e", run)
        for member in self._client.zrange(key, 0, -1):
            if member.startswith(at):
                self._client.zrem(key, member)
        self._client.hdel(self._key("b", run), at)

    def _key(self, kind: str, run: str) -> bytes:
        found = [key for key in self._kept if key.endswith(f":{kind}:{run}".encode())]
        return found[0]

    def _keys(self, pattern: str) -> list[bytes]:
        return list(self._client.keys(f"{self._prefix}:{pattern}"))


class DocumentVault(Vault):
    """A document for each run with its newest entries, and items for the older ones."""

    def put(self, entry: Entry) -> None:
        item = Item.of(entry)
        if not self._change(entry.run, entry.seq, item):
            self.put_item(entry.run, item)

    def remove(self, run: str, seq: int) -> None:
        if not self._change(run, seq, None):
            self.remove_item(run, seq)

    def _change(self, run: str, seq: int, new: Item | None) -> bool:
        """Change an entry that is part of its run's document, if it is."""
        with self.opened() as store:
            assert isinstance(store, Documents)
            document = store._get(run)
        assert document is not None
        old = Document.unpack(document, "", run)
        if all(item.seq != seq for item in old.newest):
            return False
        newest = [item for item in old.newest if item.seq != seq or new is not None]
        if new is not None:
            newest = [
                new._replace(trims=item.trims) if item.seq == seq else item for item in newest
            ]
        self.put_document(run, replace(old, newest=tuple(newest)).pack())
        return True

    @abstractmethod
    def put_document(self, run: str, document: bytes) -> None:
        """Replace a run's document."""

    @abstractmethod
    def put_item(self, run: str, item: Item) -> None:
        """Replace an item's fields and body."""

    @abstractmethod
    def remove_item(self, run: str, seq: int) -> None:
        """Take an item away."""


class SmallDocuments(MongoDBStore):
    """Has few entries in its documents."""

    heavy_bytes = 6000
    crowded = 4


class MongoVault(DocumentVault):
    """The collections of mongomock, which stands in for a server."""

    def __init__(self, place: Path) -> None:
        self._client: Any = MongoClient()
        self._kept: dict[str, list[Any]] = {}

    def open(self) -> Store:
        return SmallDocuments(self._client)

    def keep(self) -> None:
        database = self._client.holdfast
        self._kept = {
            name: [copy.deepcopy(row) for row in database[name].find()]
            for name in database.list_collection_names()
        }

    def restore(self) -> None:
        database = self._client.holdfast
        for name in database.list_collection_names():
            database[name].delete_many({})
        for name, rows in self._kept.items():
            if rows:
                database[name].insert_many(copy.deepcopy(rows))

    def put_document(self, run: str, document: bytes) -> None:
        self._in("runs").update_one({"_id": run}, {"$set": {"d": document}})

    def put_item(self, run: str, item: Item) -> None:
        new = {"f": item.fields, "b": item.body, "o": ""}
        self._in("entries").update_one({"_id": _key(run, item.seq)}, {"$set": new})

    def remove_item(self, run: str, seq: int) -> None:
        self._in("entries").delete_one({"_id": _key(run, seq)})

    def _in(self, name: str) -> Any:
        return self._client.holdfast[f"holdfast_{name}"]


class DynamoVault(DocumentVault):
    """The items of moto, which stands in for the service."""

    def __init__(self, place: Path) -> None:
        self._client: Any = dynamodb.DirectClient()
        self._table = dynamodb.new_table()
        self._kept: list[Any] = []

    def open(self) -> Store:
        return DynamoDBStore(self._table, client=self._client)

    def keep(self) -> None:
        self._kept = self._all()

    def restore(self) -> None:
        wanted = {self._key(item): item for item in self._kept}
        for item in self._all():
            if self._key(item) not in wanted:
                key = {name: item[name] for name in ("pk", "sk")}
                self._client.delete_item(TableName=self._table, Key=key)
        for item in self._kept:
            self._client.put_item(TableName=self._table, Item=item)

    def put_document(self, run: str, document: bytes) -> None:
        self._put(_shard(run), run, wire(d=document))

    def put_item(self, run: str, item: Item) -> None:
        self._put(f"e{run}", digits(item.seq), wire(f=item.fields, b=item.body, o=""))

    def remove_item(self, run: str, seq: int) -> None:
        self._client.delete_item(TableName=self._table, Key=wire(pk=f"e{run}", sk=digits(seq)))

    def _put(self, pk: str, sk: str, new: dict[str, Any]) -> None:
        found = self._client.get_item(TableName=self._table, Key=wire(pk=pk, sk=sk))
        self._client.put_item(TableName=self._table, Item=found["Item"] | new)

    def _all(self) -> list[Any]:
        return list(self._client.scan(TableName=self._table)["Items"])

    @staticmethod
    def _key(item: Any) -> tuple[str, str]:
        return item["pk"]["S"], item["sk"]["S"]


def _key(run: str, seq: int) -> str:
    return f"{run}\x00{digits(seq)}"


VAULTS: dict[str, Callable[[Path], Vault]] = {
    "memory": MemoryVault,
    "sqlite": SQLiteVault,
    "file": FileVault,
    "duckdb": DuckDBVault,
    "postgres": PostgresVault,
    "mysql": MySQLVault,
    "redis": RedisVault,
    "mongodb": MongoVault,
    "dynamodb": DynamoVault,
}
