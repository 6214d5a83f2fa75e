"""Journals in one DynamoDB table; see `_shared/document_store.py` for how they are stored.

pk rNN   sk the run       its document; NN of 4 by a hash, so that no partition has them all
pk e RUN sk seq, 19 digits   an entry
pk b RUN sk name, part       a large body, in parts: an item holds 400 KB
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit
from zlib import crc32

from holdfast.changes import Change, poll_heads
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.seams import on_fork
from holdfast.store import Survives
from holdfast.stores._shared.address import missing_extra
from holdfast.stores._shared.document import Item
from holdfast.stores._shared.document_store import DocumentStore
from holdfast.stores._shared.errors import Translated
from holdfast.stores._shared.fields import digits

try:
    import boto3
    from botocore import exceptions as bx
    from botocore.config import Config
except ModuleNotFoundError as error:
    raise missing_extra("dynamodb", error) from error

SHARDS: Final = 4
_PART: Final = 350_000
_POLLED: Final = 25  # heads a second: every read is paid for
_UNSENT: Final = (bx.EndpointConnectionError, bx.ConnectTimeoutError, bx.ProxyConnectionError)
_NOT_CONFIGURED: Final = (bx.NoCredentialsError, bx.NoRegionError, bx.PartialCredentialsError)
_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION, or open the store with "
    "region= or with a client="
)
_ERRORS: Final = (bx.ClientError, bx.BotoCoreError, KeyError, ValueError, TypeError)
_TEMPORARY: Final = (
    "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
    "LimitExceededException", "InternalServerError", "ServiceUnavailable", "TransactionConflictException",
    "ResourceInUseException",
)  # fmt: skip


class DynamoDBStore(DocumentStore):
    """Journals in a DynamoDB table, for any number of processes anywhere.

    The table is created if it is missing, and paid per request. Boto3 finds the credentials. Or give
    `client`, a DynamoDB client of your own. Entries of different runs, and more than about a
    hundred of one run, are not saved atomically.
    """

    lasting = "use Amazon's own service; what others survive is not known"

    inline_bytes = 8 << 10  # a write is paid for by the kilobyte
    heavy_bytes = 16 << 10
    document_bytes = 390_000  # of an item, and it has more to hold

    def __init__(
        self,
        table: str = "holdfast",
        *,
        region: str | None = None,
        endpoint: str | None = None,
        client: Any = None,
    ) -> None:
        super().__init__()
        if endpoint is not None and "@" in endpoint:
            raise ValueError(
                "endpoint must not contain a user; give credentials to boto3, as in AWS_ACCESS_KEY_ID"
            )
        self._table = table
        self._region = region
        self._endpoint = endpoint
        self._given = client
        self._client: Any = None
        self._made = False  # whether the table is known to be there
        self.url = f"dynamodb://{table}" + (f"?region={region}" if region else "")
        on_fork(self._disconnect)

    def survives(self) -> Survives:
        self._check_open()
        with self._translated():
            host = urlsplit(self._db.meta.endpoint_url).hostname or ""
        # Amazon stores what it acknowledged on disks in several places.
        amazons = host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))
        return "power-loss" if amazons else "nothing"

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        return poll_heads(self, mark, _POLLED)

    def exists(self) -> bool:
        self._check_open()
        with self._translated():
            return self._has_table(self._connected())

    def close(self) -> None:
        super().close()
        client, self._client = self._client, None
        if client is not None and self._given is None:
            client.close()

    # documents

    def _get(self, run: str) -> bytes | None:
        with self._translated():
            key = _wire(pk=_shard(run), sk=run)
            found = self._db.get_item(TableName=self._table, Key=key, ConsistentRead=True)
            document: bytes | None = found["Item"]["d"]["B"] if "Item" in found else None
        return document

    def _swap(self, run: str, old: int, new: int, packed: bytes, top: bytes) -> bool:
        item = _wire(pk=_shard(run), sk=run, v=new, d=packed, t=top)
        with self._translated(run):
            if old:
                return self._put_if("v = :old", item, _wire(**{":old": old}))
            return self._put_if("attribute_not_exists(pk)", item)

    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        pages = []
        for shard in range(SHARDS):
            found = self._query(f"r{shard:02}", max(low, above), high, "sk, t", limit + 1)
            with self._translated():
                tops = [(i["sk"]["S"], i["t"]["B"]) for i in found]
            tops = [top for top in tops if above < top[0] < high]
            pages.append(tops[:limit])
        return list(islice(merge(*pages), limit))

    # entries

    def _put(self, run: str, item: Item) -> None:
        row = _wire(
            pk=f"e{run}", sk=digits(item.seq), m=item.trims, f=item.fields, b=item.body, o=item.blob
        )
        with self._translated():
            self._put_if("attribute_not_exists(pk) OR m < :m", row, {":m": row["m"]})

    def _items(
        self, run: str, low: int, high: int, limit: int, *, newest_first: bool, bodies: bool
    ) -> list[Item]:
        fields = "sk, m, f, o" + (", b" if bodies else "")
        found = self._query(
            f"e{run}", digits(low), digits(high), fields, limit, forward=not newest_first
        )
        with self._translated():
            return [
                Item(
                    seq=int(i["sk"]["S"]),
                    trims=int(i["m"]["N"]),
                    fields=i["f"]["B"],
                    body=i["b"]["B"] if bodies else b"",
                    blob=i["o"]["S"],
                )
                for i in found
            ]

    def _delete(self, run: str, seqs: Collection[int]) -> None:
        with self._translated():
            for seq in seqs:
                self._delete_key(f"e{run}", digits(seq))

    # large bodies

    def _put_blob(self, run: str, name: str, body: bytes) -> None:
        with self._translated():
            for part, at in enumerate(range(0, len(body), _PART)):
                item = _wire(pk=f"b{run}", sk=f"{name}:{part:06}", b=body[at : at + _PART])
                self._db.put_item(TableName=self._table, Item=item)

    def _get_blob(self, run: str, name: str) -> bytes | None:
        parts = self._query(f"b{run}", f"{name}:", f"{name};", "b")
        with self._translated():
            return b"".join(part["b"]["B"] for part in parts) if parts else None

    def _delete_blob(self, run: str, name: str) -> None:
        found = self._query(f"b{run}", f"{name}:", f"{name};", "sk")
        with self._translated():
            # The last first, so that what is left never looks whole.
            for part in reversed(found):
                self._delete_key(f"b{run}", part["sk"]["S"])

    # requests

    def _put_if(
        self, condition: str, item: dict[str, Any], values: dict[str, Any] | None = None
    ) -> bool:
        given = {"ExpressionAttributeValues": values} if values else {}
        try:
            self._db.put_item(
                TableName=self._table, Item=item, ConditionExpression=condition, **given
            )
        except bx.ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True

    def _delete_key(self, pk: str, sk: str) -> None:
        self._db.delete_item(TableName=self._table, Key=_wire(pk=pk, sk=sk))

    def _query(
        self,
        pk: str,
        low: str,
        high: str,
        fields: str,
        limit: int | None = None,
        *,
        forward: bool = True,
    ) -> list[dict[str, Any]]:
        """These fields of the items with low <= sk <= high."""
        if low > high:
            return []
        with self._translated():
            pages = self._db.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
                ExpressionAttributeValues=_wire(**{":pk": pk, ":low": low, ":high": high}),
                ProjectionExpression=fields,
                ConsistentRead=True,
                ScanIndexForward=forward,
                PaginationConfig={"MaxItems": limit, "PageSize": min(limit or 1000, 1000)},
            )
            return [item for page in pages for item in page["Items"]]

    @property
    def _db(self) -> Any:
        client = self._connected()
        if not self._made:
            self._make_table(client)
            self._made = True
        return client

    def _connected(self) -> Any:
        if self._client is None:
            self._client = self._given or _session().client(
                "dynamodb",
                region_name=self._region,
                endpoint_url=self._endpoint,
                # A save that was sent twice would take its own first try for another's.
                config=Config(
                    retries={"total_max_attempts": 1}, read_timeout=10, connect_timeout=5
                ),
            )
        return self._client

    def _has_table(self, client: Any) -> bool:
        try:
            client.describe_table(TableName=self._table)
        except client.exceptions.ResourceNotFoundException:
            return False
        return True

    def _make_table(self, client: Any) -> None:
        if not self._has_table(client):
            with suppress(client.exceptions.ResourceInUseException):  # another process makes it
                client.create_table(
                    TableName=self._table,
                    BillingMode="PAY_PER_REQUEST",
                    AttributeDefinitions=[
                        {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")
                    ],
                    KeySchema=[
                        {"AttributeName": "pk", "KeyType": "HASH"},
                        {"AttributeName": "sk", "KeyType": "RANGE"},
                    ],
                )
            client.get_waiter("table_exists").wait(TableName=self._table)

    def _disconnect(self) -> None:
        self._client = None

    def _translated(self, run: str | None = None) -> Translated:
        """Let no driver error escape. With a run, a lost reply leaves the outcome unknown."""
        return Translated(self.url, _ERRORS, functools.partial(self._translate, run))

    def _translate(self, run: str | None, error: Exception) -> HoldfastError:
        text = f"{self.url}: {error}"
        if isinstance(error, bx.ClientError):
            code = error.response["Error"]["Code"]
            failed = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
            if run is not None and failed:
                return OutcomeUnknownError(run, text)
            return StoreUnavailableError(text) if failed or code in _TEMPORARY else StoreError(text)
        if isinstance(error, _NOT_CONFIGURED):
            return StoreError(f"{text}; {_CREDENTIALS}")
        if isinstance(error, bx.HTTPClientError | bx.ConnectionError):
            if run is None or isinstance(error, _UNSENT):
                return StoreUnavailableError(text)
            return OutcomeUnknownError(run, text)
        if isinstance(error, KeyError):
            reason = f"an item that holdfast did not write: it lacks {error}"
            return CheckpointCorruptedError(self.url, None, reason)
        return StoreError(text)


@functools.cache
def _session() -> Any:
    """Cached, as loading the service's description is slow."""
    return boto3.session.Session()


def _wire(**values: str | bytes | int) -> dict[str, dict[str, Any]]:
    """Values as DynamoDB takes them, with their types."""
    return {
        name: {"N": str(value)}
        if isinstance(value, int)
        else {"S" if isinstance(value, str) else "B": value}
        for name, value in values.items()
    }


def _shard(run: str) -> str:
    return f"r{crc32(run.encode()) % SHARDS:02}"
