"""Every method of the clients against the API's own document: name, path, method, parameters, bodies, answers.

A method has the name of the operation. It is called with every argument it has, and what it sends is compared.
"""

import inspect
import json
import re
import types
import typing
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import pytest
from pydantic import BaseModel

from arco.client import AsyncClient, AsyncPages, Client, Pages
from arco.core import ArcoError
from tests.client.conftest import Script

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}

BESIDE = {"close", "health", "ready", "positions", "url"}
"""What a client has that is no operation: its own, and the health that the document leaves out."""

NOT_SENT = {"if-none-match", "x-request-id", "traceparent"}
"""Headers for caches and tracing; a client has no use for them."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - BESIDE


@pytest.mark.parametrize("kind", [AsyncClient, Client])
def test_every_operation_has_a_method_and_every_method_an_operation(kind: type) -> None:
    assert public(kind) == set(OPERATIONS)


def schema_name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def model_name(kind: Any) -> str:
    """The name a model has in the document; of a list that of its page."""
    if get_origin(kind) in (AsyncPages, Pages):
        return f"Page_{get_args(kind)[0].__name__}_"
    return str(re.sub(r"[^A-Za-z0-9]", "_", kind.__name__))


def sample(kind: Any) -> Any:
    """Some value of an annotation. A model only has to be sent, not to make sense."""
    if get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is typing.Literal:
        return get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_construct()
    return {str: "7", int: 7, bool: True, bytes: b"7"}[kind]


def arguments(method: Any) -> tuple[dict[str, Any], Any]:
    """A value for each parameter, options included, and the model that is sent."""
    hints = get_type_hints(method)
    given: dict[str, Any] = {}
    body = None
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name == "self":
            continue
        kind = hints[parameter.name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options = get_args(kind)[0]
            given |= {name: sample(option) for name, option in get_type_hints(options).items()}
            given |= {"key": "01ARZ3NDEKTSV4RRFFQ69G5FAV"} if "key" in given else {}
            continue
        given[parameter.name] = sample(kind)
        if parameter.name == "request":
            body = kind
    return given, body


def parameters(operation: dict[str, Any], where: str) -> set[str]:
    return {found["name"] for found in operation.get("parameters", []) if found["in"] == where}


def sent(server: Script, name: str) -> tuple[httpx.Request, Any]:
    """The request a method makes when it is given everything, and the model in it."""
    method = getattr(AsyncClient if server.kind == "async" else Client, name)
    given, body = arguments(method)
    server.answers(httpx.Response(400))
    listed = get_origin(get_type_hints(method)["return"]) in (AsyncPages, Pages)

    def call(client: Any) -> Any:
        found = getattr(client, name)(**given)
        return found.page("c") if listed else found

    with pytest.raises(ArcoError):
        server.ask(call)
    return server.requests[0], body


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_method_sends_what_the_operation_takes(server: Script, name: str) -> None:
    method, path, operation = OPERATIONS[name]
    request, body = sent(server, name)
    pattern = re.sub(r"\\{(\w+)\\}", "[^/]+", re.escape(path))
    assert request.method == method
    assert re.fullmatch(pattern, request.url.path)
    declared = {header.lower() for header in parameters(operation, "header")} - NOT_SENT
    headers = {header for header in ("idempotency-key", "if-match") if header in request.headers}
    assert headers == declared
    # Some lists come whole; a cursor is only sent where the server hands one out.
    queried = set(request.url.params) - ({"cursor"} - parameters(operation, "query"))
    assert queried == parameters(operation, "query")
    content = operation.get("requestBody", {}).get("content", {})
    declared_body = content.get("application/json", {}).get("schema")
    assert (model_name(body) if body else None) == (schema_name(declared_body) if declared_body else None)
    assert {request.headers["content-type"]} == set(content) if content else "content-type" not in request.headers


@pytest.mark.parametrize("kind", [AsyncClient, Client])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_method_returns_what_the_operation_answers(name: str, kind: type) -> None:
    _, _, operation = OPERATIONS[name]
    (success,) = [status for status in operation["responses"] if status.startswith("2")]
    schema = operation["responses"][success]["content"]["application/json"]["schema"]
    assert model_name(get_type_hints(getattr(kind, name))["return"]) == schema_name(schema)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_body_has_the_fields_the_document_names(name: str) -> None:
    _, _, operation = OPERATIONS[name]
    if "application/json" not in operation.get("requestBody", {}).get("content", {}):
        return
    hints = get_type_hints(getattr(AsyncClient, name))
    schema = DOCUMENT["components"]["schemas"][model_name(hints["request"])]
    assert set(hints["request"].model_fields) == set(schema["properties"])


def test_every_refusal_of_the_document_is_a_problem_the_client_reads() -> None:
    answers = DOCUMENT["components"]["responses"]
    refusals = {
        schema_name(answer)
        for _, _, operation in OPERATIONS.values()
        for status, answer in operation["responses"].items()
        if int(status) >= 400
    }
    assert refusals
    for name in refusals:
        assert schema_name(answers[name]["content"]["application/problem+json"]["schema"]) == "Problem"
