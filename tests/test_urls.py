from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import urls
from holdfast.stores.memory import MemoryStore
from holdfast.stores.mysql.store import MySQLStore
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.redis.store import RedisStore


def test_urls_and_paths_open_the_store_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    opened = {
        "sqlite:///relative.db": f"sqlite:///{tmp_path}/relative.db",
        f"sqlite:///{tmp_path}/absolute.db": f"sqlite:///{tmp_path}/absolute.db",
        "sqlite:///with%20space.db": f"sqlite:///{tmp_path}/with space.db",
        "plain.sqlite3": f"sqlite:///{tmp_path}/plain.sqlite3",
        "deep/er/plain.db": f"sqlite:///{tmp_path}/deep/er/plain.db",
        f"file://{tmp_path}/files": f"file://{tmp_path}/files",
        "there": f"file://{tmp_path}/there",
        "new/": f"file://{tmp_path}/new",
        "memory://": "memory://",
    }
    for name, url in opened.items():
        store = hf.open_store(name)
        assert store.url == url
        store.close()
    store = hf.open_store("sqlite:///q.db?survives=process-crash")
    assert store.survives() == "process-crash"
    store.close()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("mongo://x", "known are .*file, .*sqlite"),
        ("sqlite://x.db", "sqlite:///relative.db"),
        ("sqlite:///", "sqlite:///relative.db"),
        ("sqlite:///:memory:", "memory://"),
        ("file://host/path", "file:///absolute"),
        ("no-such-directory", "name a .db file"),
        ("sqlite:///x.db?color=red", "option"),
        ("x.duckdb", "use duckdb:///x.duckdb"),
        ("postgresql+psycopg://db/runs", "use postgresql://"),
        ("mysql+pymysql://db/runs", "use mysql://"),
        ("postgresql://db/runs?connections=abc", "connections must be a number, not 'abc'"),
        ("sqlite:///x.db?busy_seconds=abc", "busy_seconds must be a number, not 'abc'"),
        ("redis://db?ttl=soon", "ttl must be a number, not 'soon'"),
        ("redis://db?tttl=3", "no option of this store: tttl"),
        ("redis://db?tttl=3&cluster=true", "no option of this store: tttl"),
        ("redis://db?socket_timeout=soon", "socket_timeout"),
        ("redis://db/abc", "the number of a database"),
        ("mongodb://db:port/runs", "[Pp]ort"),
        ("postgresql://db/runs?color=red", "color"),
        ("memory://?survives=everything", "survives must be one of"),
    ],
)
def test_what_names_no_store_is_refused_with_a_way_out(
    wrong: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hf.StoreURLError, match=hint):
        hf.open_store(wrong)


def test_a_new_directory_is_made_as_the_error_advises(tmp_path: Path) -> None:
    new = tmp_path / "new runs"  # a Path, which never ends in a slash
    with pytest.raises(hf.StoreURLError, match="file:///absolute/path makes a directory"):
        hf.open_store(new)
    hf.open_store(new.as_uri()).close()
    assert new.is_dir()
    hf.open_store(new).close()


def test_a_path_may_hold_what_is_special_in_a_url(tmp_path: Path) -> None:
    for name in ("100%.db", "a?survives=x.db", "a#b.db", "a b.db", "\udcff.db"):
        hf.open_store(tmp_path / name).close()
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("value", ["true", "1", "yes", "false", "0", "no"])
def test_an_option_that_is_yes_or_no_is_read_from_the_url(value: str) -> None:
    store = hf.open_store(f"redis://127.0.0.1:1?cluster={value}&connections=3&ttl=1.5")
    assert store.url.endswith("ttl=1.5")
    store.close()
    with pytest.raises(hf.StoreURLError, match="cluster must be true or false, not 'maybe'"):
        hf.open_store("redis://127.0.0.1:1?cluster=maybe")


SCHEMES = ("postgresql", "mysql", "redis", "rediss", "mongodb", "mongodb+srv")


@given(
    st.sampled_from(SCHEMES),
    st.lists(st.sampled_from(["q7Zx", "@", "/", "?", "#", "%", "[", ":", "&", "=", " ", "\u2100"])),
)
@example("postgresql", ["q7Zx", ":", "q7Zx", "/", "1"])
def test_a_password_that_was_not_encoded_is_refused_and_never_shown(
    scheme: str, parts: list[str]
) -> None:
    password = "q7Zx" + "".join(parts)
    url = f"{scheme}://app:{password}@127.0.0.1:1/runs"
    try:
        hf.open_store(url).close()
    except hf.StoreURLError as error:
        shown = f"{error} {error.__cause__}"
        assert "q7Zx" not in shown
        if set(password) & set("@/?#"):
            assert "percent-encode the password (urllib.parse.quote" in shown
    else:
        assert not set(password) & set("@/?#%")
    assert "q7Zx" not in urls.masked(url)


@pytest.mark.parametrize(
    "wrong",
    [
        "mysql:///app:q7Zx@127.0.0.1/runs",
        "postgresql:///app:q7Zx@127.0.0.1/runs",
        "redis:///:q7Zx@127.0.0.1/0",
        "mongodb:///app:q7Zx@127.0.0.1/runs",
        "mongodb://127.0.0.1/?tls=true;tlsCertificateKeyFilePassword=q7Zx",
        "host=127.0.0.1 password=q7Zx",
        "host=127.0.0.1 password = 'q7Zx x'",
    ],
)
def test_no_mistake_in_a_url_shows_its_password(wrong: str) -> None:
    with pytest.raises(hf.StoreURLError) as caught:
        hf.open_store(wrong)
    assert "q7Zx" not in f"{caught.value} {caught.value.__cause__} {urls.masked(wrong)}"


@pytest.mark.parametrize("password", ["p%ss", "p@ss", "p/ss", "p?ss"])
def test_a_store_that_is_given_the_url_itself_refuses_it_as_well(password: str) -> None:
    for kind, scheme in (
        (PostgresStore, "postgresql"),
        (MySQLStore, "mysql"),
        (RedisStore, "redis"),
    ):
        with pytest.raises(hf.StoreURLError, match="percent-encode the password") as caught:
            kind(f"{scheme}://app:{password}@127.0.0.1:1/1")
        assert "ss" not in caught.value.url


def test_an_encoded_password_is_taken_as_it_was_meant() -> None:
    for scheme in ("postgresql", "mysql", "redis", "mongodb"):
        store = hf.open_store(f"{scheme}://app:{quote('p@ss/w?rd%', safe='')}@127.0.0.1:1/1")
        assert "app:***@127.0.0.1:1/1" in store.url
        store.close()


def test_a_dynamodb_table_has_no_user_and_no_password() -> None:
    with pytest.raises(hf.StoreURLError, match="use dynamodb://table") as caught:
        hf.open_store("dynamodb://app:q7Zx@runs")
    assert "q7Zx" not in str(caught.value)


def test_a_secret_in_the_query_is_not_repeated_by_what_the_driver_says() -> None:
    for url in (
        "postgresql://db/runs?password=q7&x7Zx=1",
        "mongodb://db/runs?authMechanismProperties=q7Zx&w=1",
        "dynamodb://runs?endpoint=http:%2F%2Fkey:q7Zx%40db",
    ):
        with pytest.raises(hf.StoreURLError) as caught:
            hf.open_store(url)
        assert "7Zx" not in f"{caught.value} {caught.value.__cause__}".replace("&x7Zx=1", "")


def test_what_a_store_must_survive_may_stand_in_its_url(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/a.db", f"file://{tmp_path}/a", "memory://"):
        hf.open_store(f"{url}?survives=nothing" if url == "memory://" else url).close()
    with pytest.raises(hf.DurabilityError, match="use a store on a real disk, or require less"):
        hf.open_store("memory://?survives=power-loss")
    with pytest.raises(hf.DurabilityError):
        hf.SyncCheckpointer("memory://?survives=process-crash")


def test_your_own_store_opens_by_your_own_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.urls._openers", dict(__import__("holdfast.urls").urls._openers))
    hf.register_store("mine", lambda url, **options: MemoryStore())
    assert isinstance(hf.open_store("mine://anything"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db:5432/runs", "postgresql://ann:***@db:5432/runs"),
        ("postgresql://ann:p@ss/w:rd@db/runs", "postgresql://***"),
        (
            "postgresql:///runs?host=/run/db&password=p@ss&x=1",
            "postgresql:///runs?host=/run/db&password=***&x=1",
        ),
        ("ann:s3cret@db/runs", "ann:***@db/runs"),
        ("here/me@home.db", "here/me@home.db"),
        ("redis://:s3cret@db/0", "redis://:***@db/0"),
        (
            "mysql://db/runs?user=ann&password=s3cret&x=1",
            "mysql://db/runs?user=ann&password=***&x=1",
        ),
        (
            "mongodb://db/runs?tls=true&tlsCertificateKeyFilePassword=s3cret",
            "mongodb://db/runs?tls=true&tlsCertificateKeyFilePassword=***",
        ),
        (
            "mongodb://id:s3cret@db/runs?authMechanismProperties=AWS_SESSION_TOKEN:s3cret&w=1",
            "mongodb://id:***@db/runs?authMechanismProperties=***&w=1",
        ),
        ("x://db/runs?aws_secret_access_key=s3cret", "x://db/runs?aws_secret_access_key=***"),
        ("postgresql://db:5432/runs", "postgresql://db:5432/runs"),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert urls.masked(url) == shown


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a.db", "a.db"),
        ("sqlite:////x/a%20b.db?survives=power-loss", "/x/a b.db"),
        ("file:///x/y", "/x/y"),
        ("a.db", "a.db"),
        ("ann:s3cret@db/runs", None),
        ("a.duckdb", None),
        ("memory://", None),
        ("postgresql://db/runs", None),
    ],
)
def test_the_path_of_a_local_store_is_known(url: str, path: str | None) -> None:
    assert urls.local_path(url) == (None if path is None else Path(path))
