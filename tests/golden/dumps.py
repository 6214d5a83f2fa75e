"""What a store keeps, as its own driver sees it: written once, and put back into an empty one."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import boto3
import mongomock
import psycopg
import redis
from bson import json_util

import holdfast as hf
from holdfast.stores.mongodb import MongoDBStore
from tests.servers import dynamodb, mariadb, postgres
from tests.servers import redis as redis_server

Place = str | hf.Store


class Kind(NamedTuple):
    """A kind of store whose content can be dumped to a file, and loaded from one."""

    file: str
    new: Callable[[], Place]
    dump: Callable[[Any], str]
    load: Callable[[Any, str], None]


def _dump_postgres(url: str) -> str:
    made = subprocess.run(
        ["pg_dump", "--inserts", "--no-owner", "--no-privileges", url],
        capture_output=True,
        text=True,
        check=True,
    )
    kept = (line for line in made.stdout.splitlines() if not line.startswith(("--", "\\", "SET ")))
    text = re.sub(r"\n{2,}", "\n", "\n".join(kept)).strip()
    return f"SET check_function_bodies = false;\n{text}\n"


def _load_postgres(url: str, text: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(text.encode())


def _dump_mysql(url: str) -> str:
    tables: dict[str, Any] = {}
    views: list[str] = []
    own = f"`{urlsplit(url).path[1:]}`."
    for name, kind in mariadb.sql(url, "SHOW FULL TABLES"):
        (made,) = mariadb.sql(url, f"SHOW CREATE TABLE `{name}`")
        if kind == "VIEW":
            views.append(re.sub(r"ALGORITHM.*?VIEW", "VIEW", made[1]).replace(own, ""))
            continue
        found = mariadb.sql(url, f"SHOW COLUMNS FROM `{name}`")
        columns = [row[0] for row in found if "GENERATED" not in row[5]]
        shown = ", ".join(f"hex(cast(`{column}` AS BINARY))" for column in columns)
        rows = mariadb.sql(url, f"SELECT {shown} FROM `{name}` ORDER BY 1, 2")
        tables[name] = {"made": made[1], "columns": columns, "rows": rows}
    return json.dumps({"tables": tables, "views": views}, indent=1) + "\n"


def _load_mysql(url: str, text: str) -> None:
    found = json.loads(text)
    with mariadb.connect(url) as db, db.cursor() as cursor:
        for name, table in found["tables"].items():
            cursor.execute(table["made"])
            places = ", ".join(["unhex(%s)"] * len(table["columns"]))
            columns = ", ".join(f"`{column}`" for column in table["columns"])
            added = f"INSERT INTO `{name}` ({columns}) VALUES ({places})"
            cursor.executemany(added, table["rows"])
        for view in found["views"]:
            cursor.execute(view)


def _prefix(url: str) -> str:
    return parse_qs(urlsplit(url).query)["prefix"][0]


def _dump_redis(url: str) -> str:
    prefix = _prefix(url)
    with redis.Redis.from_url(url.partition("?")[0]) as client:
        keys = sorted(client.scan_iter(match=f"*{prefix}*"))
        found = {key.decode(): base64.b64encode(client.dump(key)).decode() for key in keys}
    return json.dumps({"prefix": prefix, "keys": found}, indent=1) + "\n"


def _load_redis(url: str, text: str) -> None:
    found = json.loads(text)
    with redis.Redis.from_url(url.partition("?")[0]) as client:
        for key, value in found["keys"].items():
            place = key.replace(found["prefix"], _prefix(url))
            client.restore(place, 0, base64.b64decode(value))


def _mongo(store: Any) -> Any:
    return store._client


def _dump_mongo(store: Any) -> str:
    client = _mongo(store)
    found = {
        f"{database}.{name}": list(client[database][name].find())
        for database in client.list_database_names()
        for name in client[database].list_collection_names()
    }
    return json_util.dumps(found, indent=1, sort_keys=True) + "\n"


def _load_mongo(store: Any, text: str) -> None:
    for place, rows in json_util.loads(text).items():
        database, _, name = place.partition(".")
        if rows:
            _mongo(store)[database][name].insert_many(rows)


def _dynamo(url: str) -> tuple[Any, str]:
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    client = boto3.client(
        "dynamodb", region_name=options["region"][0], endpoint_url=options["endpoint"][0]
    )
    return client, parts.netloc


class _Bytes(json.JSONEncoder):
    def default(self, o: object) -> object:
        assert isinstance(o, bytes)
        return {"bytes": base64.b64encode(o).decode()}


def _from_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if set(value) == {"bytes"} else value


def _dump_dynamo(url: str) -> str:
    client, table = _dynamo(url)
    shape = client.describe_table(TableName=table)["Table"]
    kept = {
        name: shape[name]
        for name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
        if name in shape
    }
    for index in kept.get("GlobalSecondaryIndexes", []):
        for name in set(index) - {"IndexName", "KeySchema", "Projection"}:
            del index[name]
    items = client.scan(TableName=table)["Items"]
    items.sort(key=lambda item: json.dumps(item, cls=_Bytes, sort_keys=True))
    return json.dumps({"table": kept, "items": items}, cls=_Bytes, indent=1) + "\n"


def _load_dynamo(url: str, text: str) -> None:
    found = json.loads(text, object_hook=_from_bytes)
    client, table = _dynamo(url)
    client.create_table(TableName=table, BillingMode="PAY_PER_REQUEST", **found["table"])
    for item in found["items"]:
        client.put_item(TableName=table, Item=item)


KINDS: Final = {
    "postgresql": Kind("postgresql.sql", postgres.new_database, _dump_postgres, _load_postgres),
    "mysql": Kind("mysql.json", mariadb.new_url, _dump_mysql, _load_mysql),
    "redis": Kind("redis.json", redis_server.new_url, _dump_redis, _load_redis),
    "mongodb": Kind(
        "mongodb.json",
        lambda: MongoDBStore(mongomock.MongoClient()),
        _dump_mongo,
        _load_mongo,
    ),
    "dynamodb": Kind("dynamodb.json", dynamodb.new_url, _dump_dynamo, _load_dynamo),
}


def write(directory: Path, live: Callable[[Place], None]) -> None:
    """Write a dump of each kind of store in which this life was lived."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS.values():
        place = kind.new()
        live(place)
        (directory / kind.file).write_text(kind.dump(place))


def loaded(name: str, directory: Path) -> Place:
    """A new store with what was dumped."""
    kind = KINDS[name]
    place = kind.new()
    kind.load(place, (directory / kind.file).read_text())
    return place


os.environ.setdefault("AWS_ACCESS_KEY_ID", "testing")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "testing")
