"""What is said when an extra is missing: a command that works, from where holdfast came."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from holdfast import extras

Installed = Callable[[dict[str, Any] | None], None]


@pytest.fixture
def installed_from(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Pretend that pip recorded this, or nothing, where it installed holdfast."""

    class Distribution:
        def __init__(self, direct_url: dict[str, Any] | None) -> None:
            self._text = None if direct_url is None else json.dumps(direct_url)

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return self._text

    def install(direct_url: dict[str, Any] | None) -> None:
        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(direct_url))
        extras._direct_url.cache_clear()

    monkeypatch.setattr(extras, "_is_installed", lambda package: True)
    monkeypatch.setattr("shutil.which", lambda name: str(Path(sys.executable).parent / name))
    yield install
    extras._direct_url.cache_clear()


def test_from_a_clone_the_clone_is_named(installed_from: Installed, tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed_from({"url": clone.as_uri(), "dir_info": {}})
    assert extras.install_command("ui") == f"pip install '{clone}[ui]'"


def test_in_the_clone_it_is_the_working_directory(
    installed_from: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    installed_from({"url": tmp_path.as_uri(), "dir_info": {}})
    assert extras.install_command("ui") == "pip install '.[ui]'"


def test_an_editable_install_stays_editable(installed_from: Installed, tmp_path: Path) -> None:
    installed_from({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert extras.install_command("ui") == f"pip install -e '{tmp_path}[ui]'"


def test_from_a_wheel_the_wheel_is_named(
    installed_from: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / "dist" / "holdfast-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed_from({"url": wheel.as_uri(), "archive_info": {}})
    assert extras.install_command("ui") == f"pip install './dist/{wheel.name}[ui]'"


@pytest.mark.parametrize("direct_url", [None, {"url": "file:///no/such/clone", "dir_info": {}}])
def test_from_an_index_or_a_clone_that_is_gone_it_is_the_name(
    installed_from: Installed, direct_url: dict[str, Any] | None
) -> None:
    installed_from(direct_url)
    assert extras.install_command("ui") == "pip install 'holdfast[ui]'"


def test_from_a_repository_its_revision_is_named(installed_from: Installed) -> None:
    info = {"vcs": "git", "commit_id": "abc123", "requested_revision": "main"}
    installed_from({"url": "https://git.example/holdfast", "vcs_info": info})
    wanted = "'holdfast[ui] @ git+https://git.example/holdfast@main'"
    assert extras.install_command("ui") == f"pip install {wanted}"


def test_from_an_address_the_address_is_named(installed_from: Installed) -> None:
    url = "https://files.example/holdfast-0.1.0-py3-none-any.whl"
    installed_from({"url": url, "archive_info": {}})
    assert extras.install_command("ui") == f"pip install 'holdfast[ui] @ {url}'"


def test_a_pip_of_another_environment_is_not_called(
    installed_from: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(None)
    monkeypatch.setattr("shutil.which", lambda name: f"/elsewhere/{name}")
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    monkeypatch.setattr(extras, "_is_installed", lambda package: True)
    assert extras.install_command("ui") == "/opt/venv/bin/python -m pip install 'holdfast[ui]'"


def test_without_pip_uv_installs_into_this_environment(
    installed_from: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(None)
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    monkeypatch.setattr(extras, "_is_installed", lambda package: False)
    wanted = "uv pip install --python=/opt/venv/bin/python 'holdfast[ui]'"
    assert extras.install_command("ui") == wanted


def test_the_error_says_what_is_missing_and_how_to_install_it(installed_from: Installed) -> None:
    installed_from(None)
    error = extras.missing_extra("ui", ImportError("no", name="uvicorn"))
    assert str(error) == "this needs uvicorn; install it with: pip install 'holdfast[ui]'"
    assert error.name == "uvicorn"
    assert isinstance(error, extras.MissingExtraError), "commands tell it from an import of yours"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"url": 1}', '{"dir_info": null}', '{"vcs_info": "git"}']
)
def test_a_record_that_makes_no_sense_is_passed_by(
    text: str, installed_from: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Distribution:
        def read_text(self, name: str) -> str:
            return text

    installed_from(None)
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution())
    assert extras.install_command("ui") == "pip install 'holdfast[ui]'"


def test_no_password_is_shown(installed_from: Installed) -> None:
    installed_from({"url": "https://ann:s3cret@host/holdfast.whl", "archive_info": {}})
    assert (
        extras.install_command("ui") == "pip install 'holdfast[ui] @ https://ann@host/holdfast.whl'"
    )
