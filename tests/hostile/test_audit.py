"""Nothing that a store holds is imported or executed: Python itself is asked, by an audit hook."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.audited import CANARY, LIBRARIES
from tests.waiting import run_process

ROOT = Path(__file__).parents[2]
LOADING = {"find", "import", "compile", "exec", "marshal.loads", "ctypes.dlopen"}
"""What importing a library looks like."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("audited")
    command = [sys.executable, "-m", "tests.hostile.audited", str(place)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run_process(command, check=False, capture_output=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_look_at_a_hostile_store_imports_what_it_names(told: Any) -> None:
    for event, arguments, stack in told["first"]["seen"]:
        assert CANARY not in arguments, f"{event} {arguments}\n{stack}"
        assert event in LOADING, f"{event} {arguments}\n{stack}"
    sought = {name.partition(".")[0] for event, name, _ in told["first"]["seen"] if event == "find"}
    own = {"holdfast", "click", "tzdata", *LIBRARIES}
    assert not sought - own - sys.stdlib_module_names
    assert not told["first"]["sprung"]


def test_once_libraries_are_loaded_nothing_is_compiled_executed_or_started(told: Any) -> None:
    assert not told["second"]["seen"], "\n".join(told["second"]["seen"][0])
    assert not told["second"]["sprung"]


def test_a_hostile_store_raises_documented_errors_alone(told: Any) -> None:
    assert told["first"]["problems"] == []
    assert told["second"]["problems"] == []


def test_the_hook_sees_what_must_not_happen(told: Any) -> None:
    seen = {event for event, _, _ in told["control"]["seen"]}
    assert {"find", "exec", "pickle.find_class", "os.system"} <= seen
    assert any(CANARY in arguments for _, arguments, _ in told["control"]["seen"])
    assert told["control"]["sprung"]
