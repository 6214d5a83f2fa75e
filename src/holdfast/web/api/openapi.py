"""The OpenAPI document, made of the declared endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from holdfast import __version__
from holdfast.web.api import problems
from holdfast.web.api.declaring import JSON, Endpoint, Field, described
from holdfast.web.api.problems import PREFIX
from holdfast.web.api.schemas import COMPONENTS, named


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document, as OpenAPI 3.1 has it."""
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": __version__,
            "description": "Runs of long-running work, saved by holdfast: docs/reference/rest.md.",
        },
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    summary, _, text = endpoint.text.partition("\n")
    given = [_parameter(field, "path") for field in endpoint.in_path]
    given += [_parameter(field, "query") for field in endpoint.query]
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary,
        "description": " ".join(text.split()),
        "parameters": given,
        "responses": {
            "200": {
                "description": "What was asked for.",
                "content": {endpoint.media: {"schema": endpoint.answer}},
            },
            **{str(status): _problem(status) for status in sorted(endpoint.fails_with)},
            "default": {"description": "What is wrong.", "content": _PROBLEM},
        },
    }
    if endpoint.writes:
        needed = any(field.required for field in endpoint.body)
        found["requestBody"] = {
            "required": needed,
            "content": {JSON: {"schema": described(endpoint.body)}},
        }
    return found


_PROBLEM = {problems.MEDIA: {"schema": named("Problem")}}


def _problem(status: int) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": _PROBLEM}


def _parameter(field: Field, where: str) -> dict[str, Any]:
    found = {
        "name": field.name,
        "in": where,
        "required": field.required,
        "description": field.text,
        "schema": field.schema,
    }
    if field.schema.get("type") == "array":
        found |= {"style": "form", "explode": True}
    return found
