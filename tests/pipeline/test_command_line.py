"""Pipelines on the command line: run, answer, resume."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import holdfast

JOBS = """
from holdfast.pipeline import HumanInputStep, Pipeline

pipeline = Pipeline(
    [
        {"id": "draft", "function": lambda data: f"All about {data['topic']}"},
        HumanInputStep("review", prompt="Publish {{ draft }}?", choices=["yes", "no"]),
    ],
    {
        "start_at": "draft",
        "paths": [
            {"from": "draft", "to": "review"},
            {"from": "review", "to": "end", "condition":
                {"type": "expression", "config": {"source": "review", "value": "yes"}}},
            {"from": "review", "to": "end_with_failure"},
        ],
    },
    name="articles",
)
"""


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1)])
def test_a_pipeline_is_started_answered_and_resumed(
    answer: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    Path("articles.py").write_text(JOBS)

    def call(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(holdfast, words)
        return done.exit_code, done.stdout

    flow = "articles.py:pipeline"
    assert call("run", flow, "-i", "topic=kelp", "--run-id", "r")[0] == 5
    assert "Publish All about kelp?" in call("questions", "--json")[1]
    assert call("answer", "r", "--with", json.dumps(answer))[0] == 0
    stopped, out = call("resume", "r", "--flow", flow, "--json")
    assert stopped == code
    events = [json.loads(line) for line in out.splitlines()]
    assert events[-1]["event"] == ("RunCompleted" if code == 0 else "RunFailed")
