"""What log records say of the run and the step that they come from."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.engine.context import StepInfo, in_step
from holdfast.logs import about, logger
from holdfast.telemetry import StepFilter
from holdfast.workflow import for_each, step, workflow

users = logging.getLogger("users.own")


class Keeping(logging.Handler):
    """Keeps what passes its filter."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(StepFilter())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    """What a handler with the filter is given."""
    caplog.set_level(logging.INFO)
    handler = Keeping()
    logging.getLogger().addHandler(handler)
    yield handler.records
    logging.getLogger().removeHandler(handler)


def said(record: logging.LogRecord) -> tuple[object, ...]:
    return tuple(record.__dict__[name] for name in ("run_id", "flow", "step", "attempt"))


def test_a_line_that_a_step_logs_says_which_step(records: list[logging.LogRecord]) -> None:
    @step
    async def awaited() -> None:
        users.info("here")

    @step(retry=2)
    def in_thread(number: int) -> None:
        users.info("there")
        if hf.current_step().attempt == 1:
            raise ValueError

    @workflow
    async def tide() -> None:
        users.info("between")
        await awaited()
        await for_each([1], in_thread)

    users.info("before")
    with hf.Engine("memory://") as engine:
        engine.run_sync(tide(), run_id="r")
    found = {record.getMessage(): said(record) for record in records}
    assert found["before"] == ("", "", "", "")
    assert found["between"] == ("r", "", "", "")
    assert found["here"] == ("r", "tide", "awaited", 1)
    run_id, flow, name, attempt = found["there"]
    assert (run_id, flow, attempt) == ("r", "tide", 2)
    assert "in_thread" in str(name)


def test_a_line_of_the_library_keeps_what_it_says(records: list[logging.LogRecord]) -> None:
    logger().warning("%s", hf.CheckpointSaveError("run-1", "no disk"))
    logger().warning("run %s", "run-2", extra={"run_id": "run-2", "step": "fetch"})
    assert [said(record)[0] for record in records] == ["run-1", "run-2"]
    assert said(records[1])[2] == "fetch"


def test_what_a_name_holds_forges_no_line(records: list[logging.LogRecord]) -> None:
    info = StepInfo("r", "a\nERROR forged", "a", 1)
    with in_step(info):
        users.info("here")
    logger().warning("here", extra=about("r", "a\nERROR forged"))
    assert len(records) == 2
    assert all(str(part).isprintable() for record in records for part in said(record))


def test_every_line_about_a_run_says_which_run_it_is_about() -> None:
    """So that logs can be searched by `run_id`, whatever their words."""
    wrong = []
    for path in Path(hf.__file__).parent.rglob("*.py"):
        if "log." not in (source := path.read_text()):
            continue
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = node.func.value
            if not (of.attr if isinstance(of, ast.Attribute) else ast.unparse(of)).endswith("log"):
                continue
            text = ast.unparse(node.args[0]) if node.args else ""
            if "run %s" in text and "extra" not in {one.arg for one in node.keywords}:
                wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []
