"""A stand-in for DynamoDB: moto's server, one request at a time, as the real one treats each item."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final, Self

import boto3
from botocore.exceptions import ClientError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.exceptions import ConditionalCheckFailed
from moto.dynamodb.models import dynamodb_backends
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server

from holdfast.seams import new_id
from tests.servers.server import HOST

REGION: Final = "eu-central-1"
Row = dict[str, dict[str, Any]]
_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def server() -> str:
    """The endpoint of the one that all tests of this process use."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "testing")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "testing")
    application = create_backend_app("dynamodb")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = make_server(HOST, 0, application, threaded=False)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return f"http://{HOST}:{made.port}"


def new_url() -> str:
    """A table that is not there yet."""
    return f"dynamodb://{new_table()}?region={REGION}&endpoint={server()}"


def new_table() -> str:
    """Its name."""
    return f"t-{new_id()}"


class DirectClient:
    """A client that hands items to moto itself, without HTTP: its server spends most time on that.

    Tables are made by the server, which is in this process and keeps them in the same place.
    """

    def __init__(self) -> None:
        self._client = _client()
        self._backend = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_item(self, **asked: Any) -> None:
        try:
            with _ONE_AT_A_TIME:
                self._backend.put_item(
                    asked["TableName"],
                    asked["Item"],
                    condition_expression=asked.get("ConditionExpression"),
                    expression_attribute_values=asked.get("ExpressionAttributeValues"),
                )
        except ConditionalCheckFailed as error:
            code = {"Code": "ConditionalCheckFailedException", "Message": str(error)}
            raise ClientError({"Error": code}, "PutItem") from error

    def get_item(self, **asked: Any) -> dict[str, Any]:
        with _ONE_AT_A_TIME:
            found = self._backend.get_item(asked["TableName"], asked["Key"])
            return {} if found is None else {"Item": _plain(found)}

    def delete_item(self, **asked: Any) -> None:
        with _ONE_AT_A_TIME:
            self._backend.delete_item(asked["TableName"], asked["Key"])

    def batch_get_item(self, **asked: Any) -> dict[str, Any]:
        ((table, wanted),) = asked["RequestItems"].items()
        found = [self.get_item(TableName=table, Key=key) for key in wanted["Keys"]]
        return {"Responses": {table: [each["Item"] for each in found if each]}}

    def update_item(self, **asked: Any) -> None:
        with _ONE_AT_A_TIME:
            self._backend.update_item(
                asked["TableName"],
                asked["Key"],
                update_expression=asked["UpdateExpression"],
                expression_attribute_names={},
                expression_attribute_values=asked["ExpressionAttributeValues"],
            )

    def get_paginator(self, name: str) -> Self:
        assert name == "query"
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        """As the paginator of boto3 does: pages of this size, and so many items at most."""
        config = asked["PaginationConfig"]
        left = config["MaxItems"] or sys.maxsize
        start = None
        while left > 0:
            items, start = self._query(asked, config["PageSize"], start)
            yield {"Items": [_plain(item) for item in items[:left]]}
            left -= len(items)
            if not start:
                return

    def _query(self, asked: dict[str, Any], limit: int, start: Any) -> tuple[list[Any], Any]:
        condition = re.fullmatch(
            r"pk = :pk AND (\w+) BETWEEN :low AND :high", asked["KeyConditionExpression"]
        )
        assert condition
        values = asked["ExpressionAttributeValues"]
        projected = asked.get("ProjectionExpression")
        with _ONE_AT_A_TIME:
            items, _, last = self._backend.query(
                asked["TableName"],
                values[":pk"],
                "BETWEEN",
                [values[":low"], values[":high"]],
                limit,
                start,
                asked["ScanIndexForward"],
                [[name] for name in projected.split(", ")] if projected else None,
                asked.get("IndexName"),
                hash_key_conditions=[("pk", values[":pk"])],
                range_key_conditions=[(condition[1], "BETWEEN", [values[":low"], values[":high"]])],
            )
        return items, last


@functools.cache
def _client() -> Any:
    return boto3.client("dynamodb", region_name=REGION, endpoint_url=server())


def _plain(item: Any) -> Row:
    return {name: {value.type: value.value} for name, value in item.attrs.items()}
