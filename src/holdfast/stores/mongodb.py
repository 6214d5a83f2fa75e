"""Journals in MongoDB; see `_shared/document_store.py` for how they are stored.

PREFIX_runs     _id the run                       its document
PREFIX_entries  _id the run, NUL, seq in 19 digits   an entry
PREFIX_bodies   _id the run, NUL, name, NUL, part    a large body, in parts: one holds 16 MB
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.seams import on_fork
from holdfast.store import Survives
from holdfast.stores._shared.address import (
    check_user_part,
    has_secret_options,
    masked,
    missing_extra,
)
from holdfast.stores._shared.document import Item
from holdfast.stores._shared.document_store import DocumentStore
from holdfast.stores._shared.errors import Translated
from holdfast.stores._shared.fields import digits

try:
    import pymongo
    from pymongo import errors as px
    from pymongo.read_preferences import ReadPreference
    from pymongo.uri_parser import parse_uri
    from pymongo.write_concern import WriteConcern
except ModuleNotFoundError as error:
    raise missing_extra("mongodb", error) from error

CONNECT_MILLISECONDS: Final = 5_000
ANSWER_MILLISECONDS: Final = 30_000  # unless the URL has a time of its own
_PART: Final = 8 << 20
_LOST: Final = (px.ConnectionFailure, px.ExecutionTimeout, px.WTimeoutError, px.WriteConcernError)


class MongoDBStore(DocumentStore):
    """Journals in a MongoDB database, for any number of processes anywhere.

    `where` is a URL, whose path names the database, or a client of your own, which stays yours to
    close. Every save waits for the journals of a majority of the servers. Entries of different
    runs, and more than about a hundred of one run, are not saved atomically.
    """

    lasting = "use a persistent storage engine, and grant `clusterMonitor` so that it can be seen"

    def __init__(
        self, where: str | pymongo.MongoClient[Any], *, database: str = "", prefix: str = "holdfast"
    ) -> None:
        super().__init__()
        if isinstance(where, str):
            check_user_part(where)
            _check_url(where)
        self._url = where if isinstance(where, str) else None
        self._client: Any = None if isinstance(where, str) else where
        self._name = database
        self._prefix = prefix
        self.url = (
            masked(where) if isinstance(where, str) else f"mongodb://{database or 'holdfast'}"
        )
        on_fork(self._disconnect)

    def survives(self) -> Survives:
        self._check_open()
        try:
            with self._translated():
                status = self._database().command("serverStatus")
        except StoreUnavailableError:
            raise
        except (HoldfastError, NotImplementedError):  # not allowed to ask
            return "nothing"
        return "power-loss" if status.get("storageEngine", {}).get("persistent") else "nothing"

    def exists(self) -> bool:
        self._check_open()
        with self._translated():
            return f"{self._prefix}_runs" in self._database().list_collection_names()

    def close(self) -> None:
        super().close()
        if self._url is not None and self._client is not None:
            self._client.close()
            self._client = None

    # documents

    def _get(self, run: str) -> bytes | None:
        with self._translated():
            found = self._in("runs").find_one({"_id": run}, {"d": 1})
            return None if found is None else _bytes(found["d"])

    def _swap(self, run: str, old: int, new: int, packed: bytes, top: bytes) -> bool:
        document = {"v": new, "d": packed, "t": top}
        with self._translated(run):
            if old:
                wanted = {"_id": run, "v": old}
                done = self._in("runs").update_one(wanted, {"$set": document})
                return bool(done.matched_count)
            try:
                self._in("runs").insert_one({"_id": run, **document})
            except px.DuplicateKeyError:
                return False
            return True

    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        wanted = {"_id": {"$gte": low, "$gt": above, "$lt": high}}
        with self._translated():
            found = self._in("runs").find(wanted, {"t": 1}).sort("_id", 1).limit(limit)
            return [(row["_id"], _bytes(row["t"])) for row in found]

    # entries

    def _put(self, run: str, item: Item) -> None:
        wanted = {"_id": _key(run, item.seq), "m": {"$lt": item.trims}}
        row = {"m": item.trims, "f": item.fields, "b": item.body, "o": item.blob}
        with self._translated():
            try:
                self._in("entries").update_one(wanted, {"$set": row}, upsert=True)
            except px.DuplicateKeyError:
                return  # the one that is there is as new, or newer

    def _items(
        self, run: str, low: int, high: int, limit: int, *, newest_first: bool, bodies: bool
    ) -> list[Item]:
        wanted = {"_id": {"$gte": _key(run, low), "$lte": _key(run, high)}}
        fields = {"m": 1, "f": 1, "o": 1} | ({"b": 1} if bodies else {})
        with self._translated():
            found = self._in("entries").find(wanted, fields)
            return [
                Item(int(row["_id"][-19:]), int(row["m"]), _bytes(row["f"]), _bytes(row.get("b", b"")), row["o"])
                for row in found.sort("_id", -1 if newest_first else 1).limit(limit)
            ]  # fmt: skip

    def _delete(self, run: str, seqs: Collection[int]) -> None:
        with self._translated():
            self._in("entries").delete_many({"_id": {"$in": [_key(run, seq) for seq in seqs]}})

    # large bodies

    def _put_blob(self, run: str, name: str, body: bytes) -> None:
        with self._translated():
            for part, at in enumerate(range(0, len(body), _PART)):
                row = {"_id": f"{run}\x00{name}\x00{part:06}", "b": body[at : at + _PART]}
                self._in("bodies").insert_one(row)

    def _get_blob(self, run: str, name: str) -> bytes | None:
        with self._translated():
            found = self._in("bodies").find(_parts(run, name)).sort("_id", 1)
            parts = [_bytes(row["b"]) for row in found]
        return b"".join(parts) if parts else None

    def _delete_blob(self, run: str, name: str) -> None:
        with self._translated():
            self._in("bodies").delete_many(_parts(run, name))

    # the client

    def _in(self, collection: str) -> Any:
        return self._database()[f"{self._prefix}_{collection}"].with_options(
            write_concern=WriteConcern("majority", j=True, wtimeout=ANSWER_MILLISECONDS),
            read_preference=ReadPreference.PRIMARY,
        )

    def _database(self) -> Any:
        if self._client is None:
            limits: dict[str, Any] = {"serverSelectionTimeoutMS": CONNECT_MILLISECONDS}
            if self._url is not None and not re.search(
                r"[?&](?:socketT|t)imeoutMS=", self._url, re.IGNORECASE
            ):
                limits["socketTimeoutMS"] = ANSWER_MILLISECONDS
            self._client = pymongo.MongoClient(self._url, **limits)
        if self._name:
            return self._client[self._name]
        return self._client.get_default_database("holdfast")

    def _disconnect(self) -> None:
        if self._url is not None:
            self._client = None  # a child can't use its parent's client

    def _translated(self, run: str | None = None) -> AbstractContextManager[None]:
        """Let no driver error escape. With a run, a lost reply leaves the outcome unknown."""
        strange = (KeyError, TypeError, ValueError)  # a document that holdfast did not write
        return Translated(self.url, (px.PyMongoError, *strange), partial(self._translate, run))

    def _translate(self, run: str | None, error: Exception) -> HoldfastError:
        text = f"{self.url}: {error}"
        if isinstance(error, px.ServerSelectionTimeoutError | px.WaitQueueTimeoutError):
            return StoreUnavailableError(text)
        if isinstance(error, _LOST):
            return StoreUnavailableError(text) if run is None else OutcomeUnknownError(run, text)
        if isinstance(error, px.PyMongoError | UnicodeError):
            return StoreError(text)
        return CheckpointCorruptedError(self.url, None, repr(error))


def _check_url(url: str) -> None:
    """Raise `ValueError` for a URL that the driver would refuse at the first call."""
    if url.startswith("mongodb+srv:"):  # to parse it, the driver asks a name server
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # they come again when it connects
            parse_uri(url)
    except (px.PyMongoError, ValueError, TypeError) as error:
        if has_secret_options(url):  # the message may repeat it
            raise ValueError("pymongo can't read it; check its options") from None
        raise ValueError(str(error)) from None


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r:.99} should be bytes")
    return bytes(value)


def _key(run: str, seq: int) -> str:
    return f"{run}\x00{digits(seq)}"


def _parts(run: str, name: str) -> dict[str, Any]:
    return {"_id": {"$gte": f"{run}\x00{name}\x00", "$lt": f"{run}\x00{name}\x01"}}
