"""The OpenAPI document is true: of every answer, and of every request that is generated from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.openapi import from_asgi
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from holdfast import SyncCheckpointer
from holdfast.web.api.declaring import JSON
from holdfast.web.api.routes import ENDPOINTS
from tests.effort import examples
from tests.web.api.conftest import API
from tests.web.conftest import Serving

OPAQUE = {"after", "label"}
"""Parameters of which no schema says all that they have to be."""

WHERE = {
    "/runs": "?counts=true&children=true",
    "/tally": "?since=2h",
    "/runs/{run_id}/diff": "?a=1&b=2",
}


def answers(client: TestClient, path: str) -> Iterator[Any]:
    """What the endpoints that read answer for each run that they can be asked about."""
    listed = client.get(f"{API}/runs?limit=500&children=true").json()["runs"]
    names = [run["run_id"] for run in listed] if "{run_id}" in path else [""]
    for name in names:
        filled = path.replace("{run_id}", quote(name, safe="")).replace("{seq}", "1")
        filled = filled.replace("{step}", "fetch")
        yield client.get(f"{API}{filled}{WHERE.get(path, '')}")


@pytest.mark.parametrize(
    "path", sorted({e.path for e in ENDPOINTS if e.method == "GET" and e.media == JSON})
)
def test_answers_have_the_schema_that_is_declared(writing: TestClient, path: str) -> None:
    document = writing.get(f"{API}/openapi.json").json()
    response = document["paths"][path]["get"]["responses"]["200"]
    schema = {**response["content"][JSON]["schema"], "components": document["components"]}
    found = 0
    for answer in answers(writing, path):
        if answer.status_code == 200:
            found += 1
            problems = list(Draft202012Validator(schema).iter_errors(answer.json()))
            assert not problems, problems[:3]
    assert found


def test_the_document_has_every_route_and_no_other(client: TestClient) -> None:
    document = client.get(f"{API}/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    declared = {(e.path, e.method.lower()) for e in ENDPOINTS}
    listed = {(path, method) for path, found in document["paths"].items() for method in found}
    assert listed == declared
    for found in document["paths"].values():
        for operation in found.values():
            assert operation["summary"].endswith(".")


def test_generated_requests_are_answered_as_the_document_says(
    filled: SyncCheckpointer, serving: Serving
) -> None:
    """Every operation, with requests that fit its schema and requests that do not."""
    client = serving(allow_writes=True, names=["testserver"])
    schema = from_asgi(f"{API}/openapi.json", client.app)
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.path == "/events":
            continue  # it does not end
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=examples(6),
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def one(case: Any) -> None:
                nonlocal tried
                tried += 1
                known = OPAQUE.isdisjoint(case.query or {})
                case.call_and_validate(excluded_checks=[] if known else [positive_data_acceptance])

            with suppress(Unsatisfiable):  # what takes anything can't be given anything else
                one()
    assert tried >= 5 * len(ENDPOINTS)


def test_the_guide_lists_what_there_is() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/rest.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith(("| `GET", "| `POST"))]
    assert listed == [
        f"| `{one.method} {one.path}` | {one.text.partition(chr(10))[0]} |" for one in ENDPOINTS
    ]
