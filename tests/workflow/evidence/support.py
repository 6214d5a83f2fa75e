"""What tests of evidence in workflows share: a flow that writes files, and ways to resume it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import StepCompleted
from holdfast.evidence import (
    EvidenceVerifier,
    Policy,
)
from holdfast.workflow import Workflow, step, workflow
from tests.engine.desk import Desk
from tests.evidence.support import reply
from tests.workflow.support import Flow, collect, stop_at

every_store = pytest.mark.parametrize("url", ["memory", "sqlite"], indirect=True)


def line(desk: Desk, names: str = "abc") -> Workflow[..., Any]:
    """One step after another, each of which writes a file."""

    @workflow("line")
    def flow() -> Flow:
        texts = []
        for name in names:
            made = step(name).python(desk.write, args=(name,), outputs=desk / name)
            texts.append((yield made))
        return " ".join(texts)

    return flow


def fine(request: BaseHTTPRequestHandler) -> None:
    reply(request, 200)


def silent(request: BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def local() -> EvidenceVerifier:
    """May ask this machine, and is not patient."""
    return EvidenceVerifier(policy=Policy(private_addresses=True), attempts=1)


WHOLE = "this is a this is b this is c"


def stopped(engine: hf.Engine, flow: Workflow[..., Any], desk: Desk, last: str) -> None:
    """Execute a run until a step is finished, and leave it there as a process that dies does."""
    asyncio.run(_stopped(engine, flow, last))
    desk.take()


async def _stopped(engine: hf.Engine, flow: Workflow[..., Any], last: str) -> None:
    await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, last)


Resume = Callable[[hf.Engine, Workflow[..., Any]], Any]


def by_run(engine: hf.Engine, flow: Workflow[..., Any]) -> Any:
    return asyncio.run(engine.run(flow(), run_id="r", resume=True))


def by_run_sync(engine: hf.Engine, flow: Workflow[..., Any]) -> Any:
    return engine.run_sync(flow(), run_id="r", resume=True)


def by_stream(engine: hf.Engine, flow: Workflow[..., Any]) -> Any:
    asyncio.run(collect(engine.resume_stream("r", flow=flow)))
    return engine.outcome_sync("r")


WAYS = [by_run, by_run_sync, by_stream]


def nested(desk: Desk) -> Workflow[..., Any]:
    def part(name: str) -> Any:
        return step(name).python(desk.write, args=(name,), outputs=desk / name)

    @workflow("inner")
    def inner() -> Flow:
        yield part("i1")
        return (yield part("i2"))

    @workflow("middle")
    def middle() -> Flow:
        yield part("m1")
        text = yield step("deep").subworkflow(inner)
        return text + (yield part("m2"))

    @workflow("outer")
    def outer() -> Flow:
        yield part("o1")
        text = yield step("sub").subworkflow(middle)
        return text + (yield part("o2"))

    return outer
