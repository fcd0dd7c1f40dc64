"""OpenAPI 3.1 description of the HTTP API, generated from the table of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stuntbroker.control.http.answers import PROBLEM_ANSWER
from stuntbroker.control.http.operations import PROBLEM, Operation
from stuntbroker.control.http.schemas import NUMBER

TOKEN: Final = "token"


def openapi(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI description of operations."""
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stuntbroker control", "version": "1"},
        "paths": paths,
        "components": {
            "securitySchemes": {
                TOKEN: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of --control-token or of the ready line. On a loopback address no token is needed.",
                }
            }
        },
        "security": [{}, {TOKEN: []}],
    }


def _described(operation: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    parameters += [{"name": name, "in": "query", "schema": NUMBER} for name in operation.query]
    described: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": operation.returns}}},
            "default": {
                "description": "What is wrong, and what to do",
                "content": {PROBLEM: {"schema": PROBLEM_ANSWER}},
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {each: {"schema": operation.body} for each in operation.media_types},
        }
    return described
