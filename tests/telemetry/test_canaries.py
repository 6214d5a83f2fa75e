"""Canaries go into a run by every way: none is found in what is stored, logged, sent or shown."""

from __future__ import annotations

import asyncio
import logging
import re
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.events import Event
from holdfast.graph import END, Graph
from holdfast.integrations.otel import Tracing
from holdfast.pipeline import Pipeline
from holdfast.telemetry import Metrics
from holdfast.web.app import make_app
from holdfast.web.site import Settings, Site
from holdfast.workflow import ask, for_each, step, workflow

RUNS = ("r", "failed", "saved", "g", "p")
CANARY = re.compile(rb"canary-\w+")


def secret(name: str) -> hf.Secret[str]:
    return hf.Secret(f"canary-{name}-4711", name=name)


@step(retry=2)
def fail(given: hf.Secret[str], text: str) -> None:
    raise ValueError(f"refused {given.reveal()}: {text}")


@step
def renew(given: hf.Secret[str]) -> dict[str, Any]:
    hf.current_step().emit({"got": given})
    return {"token": secret("result"), "given": given, "text": str(given)}


def far_away(given: hf.Secret[str]) -> hf.Secret[str]:
    if given.name == "input":
        raise ValueError(f"far away: {given.reveal()}")
    return given


far = step(run_on=lambda: ProcessPoolExecutor(1))(far_away)


@workflow
async def child(given: hf.Secret[str]) -> dict[str, Any]:
    return await renew(given)


@workflow
async def everything(given: hf.Secret[str], user: dict[str, Any]) -> dict[str, Any]:
    made = await child(given)
    await for_each([given, made["token"]], renew)
    await far(made["token"])
    with suppress(hf.StepFailedError):
        await far(given)
    with suppress(hf.StepFailedError):
        await fail(given, f"{user['token']} {made['token'].reveal()}")
    answer = await ask(f"Is it {given}?", returns=dict, show={"token": given})
    return {"answer": answer, "user": user, "made": made}


@workflow
async def failing(given: hf.Secret[str]) -> None:
    raise RuntimeError(f"the flow itself says {given.reveal()}")


def use(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "n": state["n"] + len(state["key"].reveal())}


GRAPH = Graph(dict, name="graph").add_node("use", use).add_edge("use", END).set_entry("use")
PIPELINE = Pipeline(
    steps=[
        {"id": "use", "function": lambda data: {"key": data["key"], "text": str(data["key"])}},
        {"id": "tell", "function": len, "inputs": "got {steps.use.output.key}"},
    ],
    flow={
        "start_at": "use",
        "paths": [{"from": "use", "to": "tell"}, {"from": "tell", "to": "end"}],
    },
    name="pipe",
)


async def run_all(url: str, listeners: list[Any], heard: list[str]) -> None:
    user = {"name": "ann", "token": "canary-path-4711"}
    options: dict[str, Any] = {
        "secrets": ["user.token", "**.password"],
        "secrets_from": lambda name: f"canary-provided-{name}",
        "flows": [everything, failing],
        "listeners": listeners,
    }
    async with hf.Engine(url, **options) as engine:
        async for event in engine.stream(everything(secret("input"), user), run_id="r"):
            heard.append(str(event.to_dict()))
        assert await engine.status("r") == "paused"
    async with hf.Engine(url, **options) as engine:  # a resume asks the provider
        await engine.answer("r", {"token": secret("answer"), "password": "canary-answer"})
        await engine.resume("r")
        origin: Any = engine.checkpointer
        await origin.fork("r", run_id="fork")
        with pytest.raises(RuntimeError):
            await engine.run(failing(secret("flow")), run_id="failed")
        await engine.run(GRAPH.compile()({"n": 1, "key": secret("graph")}), run_id="g")
        await engine.run(PIPELINE({"key": secret("pipeline")}), run_id="p")
        cp: Any = engine.checkpointer
        await cp.save("saved", {"key": secret("state")}, metadata={"key": secret("metadata")})
        await cp.save("saved", {"key": secret("state"), "n": 1})


def pages_of(url: str) -> dict[str, str]:
    """The pages of the UI and the answers of the API that can be reached from the first ones."""
    found: dict[str, str] = {}
    todo = ["/", "/runs", "/runs/r", "/runs/saved", "/inbox"]
    todo += [
        f"/api/v1/runs/{run}{rest}" for run in RUNS for rest in ("", "/checkpoints", "/timeline")
    ]
    with hf.SyncCheckpointer(url) as cp:
        cp.core.journals.keep_coded()
        app = make_app(Site(cp, url, Settings()))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            while todo and len(found) < 80:
                path = todo.pop(0)
                if path not in found:
                    found[path] = client.get(path).text
                    links = re.findall(r'(?:href|data-get|hx-get)="(/[^"#]*)"', found[path])
                    todo += [link.replace("&amp;", "&") for link in links if "/static" not in link]
    assert sum("secret" in text for text in found.values()) >= 5
    return found


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_no_canary_is_stored_logged_sent_or_shown(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    place = tmp_path / "store"
    place.mkdir()
    url = f"sqlite:///{place}/runs.db" if kind == "sqlite" else f"file://{place}"
    exporter, metrics, heard = InMemorySpanExporter(), Metrics(), list[str]()
    traces = TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(exporter))

    def listener(event: Event) -> None:
        heard.append(str(event.to_dict()))

    asyncio.run(run_all(url, [listener, metrics, Tracing(traces)], heard))
    shown = {"events": "".join(heard), "metrics": metrics.prometheus(), "logs": caplog.text}
    shown["spans"] = "".join(span.to_json() for span in exporter.get_finished_spans())
    traces.shutdown()
    for words in (
        *("show r", "show r --json", "show failed", "show saved --json", "show g", "show p"),
        *("diff saved 1 2", "diff saved 1 2 --json", "runs --json", "questions", "verify"),
        f"export r --to {tmp_path}/r.jsonl",
    ):
        done = CliRunner().invoke(holdfast, [*words.split(), "--store", url])
        shown[words] = done.output
        assert done.exit_code in (0, 1), done.output
    shown |= pages_of(url)
    assert "secret" in shown["show saved --json"]
    assert "<secret input>" in shown["events"]
    files = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert len(files) >= 2
    found = {name: CANARY.findall(text.encode()) for name, text in shown.items()}
    found |= {name: CANARY.findall(data) for name, data in files.items()}
    assert {name: sorted(set(all_)) for name, all_ in found.items() if all_} == {}
