"""Journals in a DynamoDB table: `store` has what is stored, `table` the table and its requests."""

from holdfast.stores.dynamodb.store import DynamoDBStore as DynamoDBStore
