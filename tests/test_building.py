"""What is built from the sources: the same bytes everywhere, and a wheel that says what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
_HERE = {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
_ELSEWHERE = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}
_VENDOR = "holdfast/web/static/vendor/"


@dataclass(frozen=True)
class Built:
    """What one build made."""

    sdist: Path
    wheel: Path

    def digests(self) -> dict[str, str]:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.sdist, self.wheel)
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return _build(ROOT, tmp_path_factory.mktemp("built"), umask=0o022, **_HERE)


def _build(sources: Path, to: Path, *, umask: int, **environment: str) -> Built:
    """With the hatchling that is installed: nothing is downloaded."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(to)]
    inherited = {name: text for name, text in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        command, cwd=sources, env=inherited | environment, umask=umask, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    (sdist,), (wheel,) = to.glob("*.tar.gz"), to.glob("*.whl")
    return Built(sdist, wheel)


def test_the_sources_give_the_same_bytes_wherever_and_whenever_they_are_built(
    built: Built, tmp_path: Path
) -> None:
    """Another directory, other times and modes of files, another umask, time zone and locale."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (elsewhere,) = tmp_path.iterdir()
    for number, path in enumerate(sorted(elsewhere.rglob("*"))):
        os.utime(path, (1e9 + number, 1e9 + number))
        if path.is_file():
            path.chmod(0o600)
    again = _build(elsewhere, tmp_path / "made", umask=0o077, **_ELSEWHERE)
    assert again.digests() == built.digests()


def test_an_archive_holds_nothing_that_tests_and_tools_left_behind(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist, zipfile.ZipFile(built.wheel) as wheel:
        names = [*sdist.getnames(), *wheel.namelist()]
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_needs_nothing_but_what_it_declares(built: Built, tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    venv.create(clean)
    (packages,) = clean.glob("lib/python3.*/site-packages")
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(packages)
    for needed in _declared(built):
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            _copy(needed.name, packages)
    done = subprocess.run(
        [clean / "bin/python", "-m", "holdfast", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "No finished step ran twice" in done.stdout


def _declared(built: Built) -> list[Requirement]:
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith("/METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    return [Requirement(line) for line in metadata.get_all("Requires-Dist", ())]


def _copy(name: str, packages: Path) -> None:
    """Copy an installed distribution: nothing is downloaded."""
    for file in distribution(name).files or ():
        if ".." not in file.parts:
            to = packages / file
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(file.read_binary())


@pytest.fixture
def bill(built: Built) -> dict[str, Any]:
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (each for each in wheel.namelist() if "/sboms/" in each)
        assert name.endswith(".dist-info/sboms/holdfast.cdx.json")
        content: dict[str, Any] = json.loads(wheel.read(name))
    return content


def test_the_wheel_has_a_bill_of_materials_that_fits_its_schema(bill: dict[str, Any]) -> None:
    from cyclonedx import schema
    from cyclonedx.validation import json as cyclonedx

    validator = cyclonedx.JsonStrictValidator(schema.SchemaVersion.V1_7)
    assert validator.validate_str(json.dumps(bill)) is None
    assert "timestamp" not in bill["metadata"]
    assert "serialNumber" not in bill


def test_the_bill_lists_every_vendored_file_with_the_digest_of_its_bytes(
    built: Built, bill: dict[str, Any]
) -> None:
    listed = {
        file["name"]: (file["hashes"][0]["content"], package["purl"], package["licenses"])
        for package in bill["components"]
        for file in package.get("components", ())
    }
    with zipfile.ZipFile(built.wheel) as wheel:
        manifest = json.loads(wheel.read(f"{_VENDOR}manifest.json"))
        for name, (digest, _, _) in listed.items():
            assert hashlib.sha256(wheel.read(name)).hexdigest() == digest
        scripts = {
            name
            for name in wheel.namelist()
            if name.startswith(_VENDOR) and name.endswith((".js", ".css"))
        }
    assert set(listed) == scripts
    assert listed == {
        f"{_VENDOR}{item['file']}": (
            item["sha256"],
            f"pkg:npm/{item['npm'].replace('@', '%40')}@{item['version']}",
            [{"license": {"id": item["license"]}}],
        )
        for item in manifest
    }


def test_the_bill_lists_every_declared_dependency(built: Built, bill: dict[str, Any]) -> None:
    declared = _declared(built)
    external = [each for each in bill["components"] if each.get("isExternal")]
    assert {each["name"] for each in external} == {canonicalize_name(r.name) for r in declared}
    assert {each["name"] for each in external if each["scope"] == "required"} == {
        canonicalize_name(r.name) for r in declared if not r.marker or "extra" not in str(r.marker)
    }
    (click,) = (each for each in external if each["name"] == "click")
    assert click["versionRange"].startswith("vers:pypi/>=")
    (whole,) = bill["dependencies"]
    assert len(whole["dependsOn"]) == len(bill["components"])
