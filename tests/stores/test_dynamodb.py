from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial

import boto3
import ormsgpack
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, settings

import holdfast as hf
from holdfast.store import Store
from holdfast.stores.dynamodb import DynamoDBStore, table
from holdfast.testing.contract import PersistentStoreContract, check_store, entry
from holdfast.testing.machine import make_store_machine
from tests.effort import examples
from tests.servers.dynamodb import DirectClient, new_table, new_url, server
from tests.servers.proxy import Proxy


class TestDynamoDBStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Store]:
        return partial(hf.open_store, new_url())

    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        """What concerns this process alone needs no requests: these cost most of the time."""
        return new_opener()


def new_opener() -> Callable[[], Store]:
    return partial(DynamoDBStore, new_table(), client=DirectClient())


TestDynamoDBAgainstADict = make_store_machine(new_opener).TestCase
TestDynamoDBAgainstADict.settings = settings(
    max_examples=examples(3),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_a_batch_with_much_metadata_is_saved_in_parts() -> None:
    with closing(new_opener()()) as store:
        meta = json.dumps({"metadata": {"x": "a" * 4000}})
        batch = [entry("run", seq, meta=meta) for seq in range(128)]
        assert store.append(batch) == [True] * 128
        assert store.read("run", bodies=False) == batch


def test_an_item_that_others_wrote_is_damage() -> None:
    client = DirectClient()
    table = new_table()
    with closing(DynamoDBStore(table, client=client)) as store:
        store.append([entry("run", 0)])
        (row,) = [row for row in client.scan(TableName=table)["Items"] if "d" in row]
        client.put_item(TableName=table, Item={"pk": row["pk"], "sk": row["sk"]})
        with pytest.raises(hf.CheckpointCorruptedError):
            store.read("run")
        with pytest.raises(hf.CheckpointCorruptedError):
            store.runs()


def as_before_the_index(client: DirectClient, table: str) -> None:
    """Make the table anew, with documents as an older holdfast wrote them and no secondary index."""
    rows = client.scan(TableName=table)["Items"]
    client.delete_table(TableName=table)
    keys = (("pk", "HASH"), ("sk", "RANGE"))
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    )
    for row in rows:
        if "d" in row:
            _, *fields, _ = ormsgpack.unpackb(row["d"]["B"])
            document = {"B": ormsgpack.packb([1, *fields])}
            kept = {name: row[name] for name in ("pk", "sk", "v", "t")}
            client.put_item(TableName=table, Item={**kept, "d": document})


@pytest.mark.parametrize("allowed", [True, False])
def test_a_table_without_an_index_gets_one_or_is_read_through(allowed: bool) -> None:
    class Limited(DirectClient):
        def update_table(self, **asked: object) -> object:
            if allowed:
                return self._client.update_table(**asked)
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "UpdateTable")

    client, table = Limited(), new_table()
    with closing(DynamoDBStore(table, client=client)) as store:
        for number in range(5):
            store.append([entry(f"run-{number}", seq, flow="f") for seq in range(2)])
        as_before_the_index(client, table)
    with closing(DynamoDBStore(table, client=client)) as store:
        store.append([entry("run-0", 2, flow="f", status="failed", meta='{"due":5}')])
        assert store.counts() == {"open": 4, "failed": 1}
        assert [row.run for row in store.due(9)] == ["run-0"]
        assert len(store.listed()) == 5
        assert store.rebuild() == (0 if allowed else 4)
        assert check_store(store) == []
        described = client.describe_table(TableName=table)["Table"]
        assert len(described.get("GlobalSecondaryIndexes", ())) == (2 if allowed else 0)


def test_a_wrong_row_is_found_and_repaired() -> None:
    client, table = DirectClient(), new_table()
    with closing(DynamoDBStore(table, client=client)) as store:
        store.append([entry("run", 0), entry("other", 0)])
        (row,) = [row for row in client.scan(TableName=table)["Items"] if row["sk"]["S"] == "run"]
        for wrong in (
            {"h": {"B": b"junk"}},
            {"ho": {"S": "x"}},
            {"hd": {"S": "x"}},
            {"h": {"S": "x"}},
        ):
            client.put_item(TableName=table, Item={**row, **wrong})
            assert store.rebuild(write=False) == 1
            assert store.rebuild() == 1
            assert store.rebuild() == 0
            assert check_store(store) == []


def test_an_outage_is_an_error_and_never_an_absence() -> None:
    new_url()  # the credentials of tests
    url = "dynamodb://runs?region=eu-central-1&endpoint=http://127.0.0.1:9"
    with closing(hf.open_store(url)) as store:
        calls: list[Callable[[], object]] = [
            lambda: store.append([entry("run", 0)]),
            lambda: store.read("run"),
            lambda: store.runs(),
            lambda: store.stats(),
            lambda: store.survives(),
        ]
        for call in calls:
            with pytest.raises(hf.StoreUnavailableError):
                call()


def test_a_swallowed_answer_is_an_unknown_outcome_and_leaves_no_duplicate() -> None:
    endpoint = server()
    with Proxy(endpoint) as proxy:
        url = new_url().replace(endpoint, proxy.url)
        with hf.SyncCheckpointer(url) as cp:
            cp.save("run", -1)
            for n in range(6):
                proxy.swallow()
                cp.save("run", n)
            assert proxy.swallowed == 6
            found = [ck.seq for ck in cp.list_checkpoints("run", oldest_first=True)]
            assert found == list(range(1, 8))
            assert cp.verify("run").ok


def test_nobody_knows_what_a_stand_in_survives() -> None:
    with closing(new_opener()()) as store:
        assert store.survives() == "nothing"
    client = boto3.client("dynamodb", region_name="eu-central-1")
    with closing(DynamoDBStore("runs", client=client)) as amazons:
        amazons._made = True  # nobody is there to be asked for a table
        assert amazons.survives() == "power-loss"


def test_a_client_of_ones_own_stays_open() -> None:
    client = boto3.client("dynamodb", region_name="eu-central-1", endpoint_url=server())
    store = DynamoDBStore(new_url()[11:30], client=client)
    assert store.append([entry("run", 0)]) == [True]
    store.close()
    assert client.list_tables()["TableNames"]


def test_missing_credentials_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_url()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(table, "_session", boto3.session.Session)
    with closing(hf.open_store(url)) as store, pytest.raises(hf.StoreError, match="redentials"):
        store.read("run")
