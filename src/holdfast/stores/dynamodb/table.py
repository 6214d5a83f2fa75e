"""The table of a `DynamoDBStore`: how it is made and asked, and what its errors mean."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.extras import missing_extra
from holdfast.seams import on_fork
from holdfast.stores._shared.document_index import IndexedDocumentStore
from holdfast.stores._shared.errors import Translated

try:
    import boto3
    from botocore import exceptions as bx
    from botocore.config import Config
except ModuleNotFoundError as error:
    raise missing_extra("dynamodb", error, "this store") from error

NEWEST: Final = "newest"
DUE: Final = "due"
_INDEXES: Final = {NEWEST: "ho", DUE: "hd"}  # and the sort keys of these secondary indexes
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


class Table(IndexedDocumentStore):
    """A store in one table, with two secondary indexes for the rows of the heads index."""

    def __init__(self, table: str, region: str | None, endpoint: str | None, client: Any) -> None:
        super().__init__()
        self._table = table
        self._region = region
        self._endpoint = endpoint
        self._given = client
        self._client: Any = None
        self._made = False  # whether the table is known to be there
        self._finds = False  # whether its secondary indexes are
        on_fork(self._disconnect)

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
        self._db.delete_item(TableName=self._table, Key=wire(pk=pk, sk=sk))

    def _query(
        self,
        pk: str,
        low: str,
        high: str,
        fields: str,
        limit: int | None = None,
        *,
        forward: bool = True,
        index: str = "",
    ) -> list[dict[str, Any]]:
        """These fields of the items with low <= sk <= high; or, of an index, its sort key."""
        if low > high:
            return []
        key = _INDEXES.get(index, "sk")
        chosen: dict[str, Any] = {"IndexName": index} if index else {"ConsistentRead": True}
        chosen |= {"ProjectionExpression": fields} if fields else {}
        with self._translated():
            pages = self._db.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression=f"pk = :pk AND {key} BETWEEN :low AND :high",
                ExpressionAttributeValues=wire(**{":pk": pk, ":low": low, ":high": high}),
                **chosen,
                ScanIndexForward=forward,
                PaginationConfig={"MaxItems": limit, "PageSize": min(limit or 1000, 1000)},
            )
            return [item for page in pages for item in page["Items"]]

    def _get_all(self, keys: Sequence[dict[str, Any]], fields: str) -> list[dict[str, Any]]:
        """These fields of the items with these keys, as they are now."""
        found: list[dict[str, Any]] = []
        asked: Any = {
            self._table: {"Keys": keys, "ProjectionExpression": fields, "ConsistentRead": True}
        }
        with self._translated():
            while asked:
                answer = self._db.batch_get_item(RequestItems=asked)
                found += answer["Responses"].get(self._table, ())
                asked = answer.get("UnprocessedKeys")
        return found

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

    def _can_find(self) -> bool:
        """Whether the secondary indexes are there; make those of a table from before.

        That takes a while, and one is made at a time. Without the right to, there are none.
        """
        while not self._finds:
            with self._translated():
                found = self._db.describe_table(TableName=self._table)["Table"]
                given = found.get("GlobalSecondaryIndexes", ())
                ready = [index["IndexName"] for index in given if index["IndexStatus"] == "ACTIVE"]
                self._finds = set(ready) >= set(_INDEXES)
                missing = [name for name in _INDEXES if name not in ready]
                if missing:
                    try:
                        self._db.update_table(
                            TableName=self._table,
                            AttributeDefinitions=_attributes(),
                            GlobalSecondaryIndexUpdates=[{"Create": _index(missing[0])}],
                        )
                    except bx.ClientError:  # it is being made, or may not be
                        return False
        return True

    def _make_table(self, client: Any) -> None:
        if not self._has_table(client):
            with suppress(client.exceptions.ResourceInUseException):  # another process makes it
                client.create_table(
                    TableName=self._table,
                    BillingMode="PAY_PER_REQUEST",
                    AttributeDefinitions=_attributes(),
                    KeySchema=_key_schema("sk"),
                    GlobalSecondaryIndexes=[_index(name) for name in _INDEXES],
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


def wire(**values: str | bytes | int) -> dict[str, dict[str, Any]]:
    """Values as DynamoDB takes them, with their types."""
    return {
        name: {"N": str(value)}
        if isinstance(value, int)
        else {"S" if isinstance(value, str) else "B": value}
        for name, value in values.items()
    }


def _attributes() -> list[dict[str, str]]:
    names = ("pk", "sk", *_INDEXES.values())
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def _key_schema(sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


def _index(name: str) -> dict[str, Any]:
    projected = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["h"]}
    return {
        "IndexName": name,
        "KeySchema": _key_schema(_INDEXES[name]),
        "Projection": projected,
    }
