"""Text of others: it forges no line of a log, and sends nothing to a terminal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.main import _print_error
from holdfast.errors.base import one_line
from holdfast.evidence import Evidence, EvidencePack
from holdfast.logs import logger
from holdfast.manager import CheckpointManager

HOSTILE = "a\nERROR forged\x1b[2J\u202e\u2028b"


def test_nothing_invisible_is_left() -> None:
    assert one_line("plain, größer, 東京 🌊") == "plain, größer, 東京 🌊"
    assert one_line(HOSTILE).isprintable()
    assert one_line(HOSTILE) == "a\\nERROR forged\\x1b[2J\\u202e\\u2028b"


def test_a_logged_message_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("holdfast", "holdfast.evidence"):
        logger(name).warning("run %s failed: %s", "r", HOSTILE)
    assert caplog.messages == [f"run r failed: {one_line(HOSTILE)}"] * 2


def test_a_claim_can_not_forge_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    claim = Evidence("artifact_exists", HOSTILE, {"path": f"{tmp_path}/x\nERROR forged"})
    with CheckpointManager("memory://") as manager:
        begun = manager.begin_step("task", "iteration_end", {})
        manager.commit_step(begun, EvidencePack([claim]))
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


def test_every_logger_of_the_library_escapes() -> None:
    wrong = [
        path
        for path in Path(holdfast.__file__).parent.rglob("*.py")
        if "getLogger" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "getLogger"
        if path.name != "logs.py"
    ]
    assert wrong == []


def test_a_traceback_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError(HOSTILE)
    _print_error(ValueError, error, None)
    shown = capsys.readouterr().err
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\\x1b[2J" in shown
