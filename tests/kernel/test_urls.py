from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast import urls
from holdfast.stores.memory import MemoryStore


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
    for given, url in opened.items():
        store = hf.open_store(given)
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
        ("sqlite:///x.db?colour=red", "option"),
    ],
)
def test_what_names_no_store_is_refused_with_a_way_out(
    wrong: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hf.StoreURLError, match=hint):
        hf.open_store(wrong)


def test_your_own_store_opens_by_your_own_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.urls._openers", dict(__import__("holdfast.urls").urls._openers))
    hf.register_store("mine", lambda url, **options: MemoryStore())
    assert isinstance(hf.open_store("mine://anything"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db:5432/runs", "postgresql://ann:***@db:5432/runs"),
        ("postgresql://ann:p@ss/w:rd@db/runs", "postgresql://ann:***@db/runs"),
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
        ("memory://", None),
        ("postgresql://db/runs", None),
    ],
)
def test_the_path_of_a_local_store_is_known(url: str, path: str | None) -> None:
    assert urls.local_path(url) == (None if path is None else Path(path))
