from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, Policy, refuse_unverifiable
from tests.waiting import PATIENCE

from .support import (
    ERROR,
    FAILED,
    INCONCLUSIVE,
    VERIFIED,
    claim,
    http_server,
    reply,
    status,
    verifier,
)

ID = "4f1d2c3b5a69" + "0" * 52


def container(**state: Any) -> Any:
    told = {
        "Id": ID,
        "Image": "sha256:abc",
        "Config": {"Image": "nginx:1.29"},
        "State": {"Running": True, "Paused": False, "Restarting": False, "Status": "running"}
        | state,
    }
    return lambda request: reply(request, 200, json.dumps(told).encode())


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "docker.sock"
    answers = {
        "/containers/web/json": container(Health={"Status": "healthy"}),
        "/containers/ill/json": container(Health={"Status": "unhealthy"}),
        "/containers/ended/json": container(Running=False, Status="exited"),
        "/containers/paused/json": container(Paused=True, Status="paused"),
        "/containers/again/json": container(Restarting=True, Status="restarting"),
        "/containers/odd/json": lambda request: reply(request, 200, b'{"State": {"Running": "yes"}}'),
        "/containers/list/json": lambda request: reply(request, 200, b"[]"),
        "/containers/text/json": lambda request: reply(request, 200, b"running"),
        "/containers/busy/json": lambda request: reply(request, 500),
        "/containers/slow/json": lambda request: time.sleep(1),
        "/containers/long/json": lambda request: reply(request, 200, b"x" * (2 << 20)),
    }  # fmt: skip
    with http_server(answers, unix=str(path)):
        yield path


@pytest.mark.parametrize(
    ("name", "more", "found"),
    [
        ("web", {}, VERIFIED),
        ("/web", {}, VERIFIED),
        ("web", {"image": "nginx:1.29"}, VERIFIED),
        ("web", {"image": "sha256:abc"}, VERIFIED),
        ("web", {"image": "nginx:1.30"}, FAILED),
        ("web", {"id": ID}, VERIFIED),
        ("web", {"id": ID[:12]}, VERIFIED),
        ("web", {"id": ID[:4]}, FAILED),
        ("web", {"id": "5" + ID[1:]}, FAILED),
        ("web", {"health": "healthy"}, VERIFIED),
        ("ill", {"health": "healthy"}, FAILED),
        ("ended", {}, FAILED),
        ("paused", {}, FAILED),
        ("again", {}, FAILED),
        ("gone", {}, FAILED),
        ("odd", {}, INCONCLUSIVE),
        ("list", {}, INCONCLUSIVE),
        ("text", {}, INCONCLUSIVE),
        ("busy", {}, INCONCLUSIVE),
        ("slow", {}, INCONCLUSIVE),
        ("long", {}, INCONCLUSIVE),
        ("", {}, ERROR),
        ("../images", {}, ERROR),
        ("web/json?x=", {}, ERROR),
        ("web\r\nX: y", {}, ERROR),
        ("web\n", {}, ERROR),
        ("web", {"id": 7}, ERROR),
        ("web", {"state": "up"}, ERROR),
    ],
)
def test_docker_says_whether_it_runs(docker: Path, name: str, more: Any, found: str) -> None:
    seconds = 0.3 if name == "slow" else PATIENCE
    checker = verifier(docker_socket=docker, check_seconds=seconds)
    assert status(checker, claim("container_running", container=name, **more)) == found


def test_nobody_is_asked_unless_the_program_says_so(docker: Path) -> None:
    evidence = claim("container_running", container="web")
    assert status(EvidenceVerifier(), evidence) == ERROR
    with pytest.raises(hf.EvidencePolicyError):
        refuse_unverifiable(EvidencePack([evidence]), Policy())


def test_without_docker_it_is_inconclusive(tmp_path: Path) -> None:
    evidence = claim("container_running", container="web")
    assert status(verifier(docker_socket=tmp_path / "none"), evidence) == INCONCLUSIVE
    (tmp_path / "file").write_text("")
    assert status(verifier(docker_socket=tmp_path / "file"), evidence) == INCONCLUSIVE
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        checker = verifier(docker_socket=tmp_path / "silent", check_seconds=0.2)
        assert status(checker, evidence) == INCONCLUSIVE
