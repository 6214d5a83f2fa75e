from __future__ import annotations

import sys

import pytest

import holdfast as hf
from holdfast import stores
from holdfast.store import Store
from tests.waiting import run_process


@pytest.mark.parametrize("name", dir(stores))
def test_every_store_has_its_name(name: str) -> None:
    assert issubclass(getattr(stores, name), Store)


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="OracleStore"):
        _ = stores.OracleStore


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("redis://localhost", "redis", "redis"),
        ("valkey://localhost", "redis", "redis"),
        ("postgresql://localhost/x", "psycopg", "postgres"),
        ("mariadb://localhost/x", "pymysql", "mysql"),
        ("duckdb:///x.duckdb", "duckdb", "duckdb"),
        ("mongodb://localhost/x", "pymongo", "mongodb"),
        ("dynamodb://x", "boto3", "dynamodb"),
    ],
)
def test_a_store_whose_driver_is_not_installed_says_what_to_install(
    url: str, driver: str, extra: str
) -> None:
    program = f"""
import sys
sys.modules[{driver!r}] = None
import holdfast
try:
    holdfast.open_store({url!r})
except holdfast.StoreURLError as error:
    print(error)
"""
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    assert f"[{extra}]'" in done.stdout
    assert done.stdout.startswith(f"{url.partition('://')[0]}://: ")


def test_importing_holdfast_imports_no_driver() -> None:
    program = "import sys, holdfast; print(*{m.split('.')[0] for m in sys.modules})"
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    drivers = {"redis", "duckdb", "pymongo", "boto3", "botocore", "psycopg", "pymysql"}
    assert not drivers & set(done.stdout.split())


def test_urls_that_name_nothing_are_refused() -> None:
    for url in ("duckdb://", "duckdb://host/x", "dynamodb://", "dynamodb://a/b"):
        with pytest.raises(hf.StoreURLError):
            hf.open_store(url)
