"""The OpenAPI document of the public routes, as somebody who writes a client wants it.

What the framework derives from the code is kept: parameters, bodies, answers. Added or replaced is what it cannot know:
problems instead of its own errors, each status once with its headers, 304, the key, and what every operation is for.
"""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from arco.api._problems import MEDIA_TYPE, title_of
from arco.api._reading import POSITION_HEADERS
from arco.core import (
    ArcoError,
    Conflict,
    Corrupt,
    Forbidden,
    Invalid,
    NotFound,
    PreconditionFailed,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from arco.wire import Problem

__all__ = ["openapi_document"]

_ALWAYS: Final = (Invalid, Unauthenticated, Forbidden, NotFound, TooLarge, RateLimited, Corrupt, Unavailable)
_RETRIED: Final = (RateLimited, Unavailable)
_COMPARED: Final = ("create_deployment", "rollback_deployment")
"""Refused if somebody else was faster, without `If-Match`."""

_TAGS: Final = {
    "namespaces": "Namespaces, which hold tables and other namespaces.",
    "tables": "Tables, their names, schemas, contracts and SLAs.",
    "columns": "Columns of tables. A column keeps its id when it is renamed.",
    "lineage": "What is made of what: recorded by runs, or added by people.",
    "assets": "Assets: what the current code version defines, and how their partitions stand.",
    "versions": "Versions of partitions: how they stand, quarantine and release.",
    "maintenance": "Maintenance: old versions of data, old history, files of nobody, statistics, small files.",
    "deployments": "Code versions: store, deploy, compare, go back; keys of dynamic partitions.",
    "runs": "Plans and runs, their tasks, and what those printed.",
    "events": "Facts of other producers.",
    "query": "SQL that only reads.",
    "states": "The past: differences, revisions, audit, operations; files for readers of their own.",
    "access": "Keys, roles, settings.",
}


def _header(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string", **schema}}


_HEADERS: Final = {
    "X-Request-Id": _header(
        "The request's id: the one that was sent, or a new one. Name it when you report a problem."
    ),
    "Arco-Position": _header("The position of the catalog that the answer holds for.", pattern="^[0-9]+$"),
    "Arco-Activity-Position": _header("The position of the log of runs that the answer holds for.", pattern="^[0-9]+$"),
    "ETag": _header("Changes with the object. Send it in `If-Match` to change only what you have seen."),
    "Retry-After": _header("Seconds to wait before trying again.", pattern="^[0-9]+$"),
    "WWW-Authenticate": _header("How to say who asks: with a bearer token."),
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 of the public routes, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
            tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        )
        for path in document["paths"].values():
            for method, operation in path.items():
                _complete(method, operation)
        document["components"] = _components(document.get("components", {}))
        document["security"] = [{"key": []}]
        app.openapi_schema = _untitled(document)
    return app.openapi_schema


def _components(found: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, Any] = found.get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _, problem = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
    schemas.update(problem["$defs"])
    responses = {kind.__name__: _response(kind) for kind in (*_ALWAYS, Conflict, PreconditionFailed)}
    key = {"type": "http", "scheme": "bearer", "bearerFormat": "arco_...", "description": "An API key."}
    return {
        "headers": _HEADERS,
        "responses": dict(sorted(responses.items())),
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": {"key": key},
    }


def _response(kind: type[ArcoError]) -> dict[str, Any]:
    headers = ["X-Request-Id"]
    if kind in _RETRIED:
        headers.append("Retry-After")
    if kind is Unauthenticated:
        headers.append("WWW-Authenticate")
    return {
        "description": f"{title_of(kind)[1]}.",
        "headers": _refs(headers),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _refs(headers: list[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in headers}


def _complete(method: str, operation: dict[str, Any]) -> None:
    """Say what one operation is for, what it takes, and everything it may answer."""
    operation["summary"] = operation["description"].partition(".")[0]
    names = set()
    for parameter in operation.get("parameters", ()):
        names.add(parameter["name"])
        _tidy(parameter)
    headers = ["X-Request-Id"]
    if "min_position" in names or operation["operationId"] == "run_query":
        headers.append(POSITION_HEADERS["activity" if "runs" in operation["tags"] else "catalog"])
    responses = operation["responses"]
    responses.pop("422", None)
    if "If-None-Match" in names:
        headers.append("ETag")
        responses["304"] = {"description": "It is as `If-None-Match` says.", "headers": _refs(headers)}
    for status, response in responses.items():
        if status in ("200", "201"):
            response["description"] = "Created." if status == "201" else "Done."
            response["headers"] = _refs(headers)
    kinds = list(_ALWAYS)
    if method != "get":
        kinds.append(Conflict)
    if "If-Match" in names or operation["operationId"] in _COMPARED:
        kinds.append(PreconditionFailed)
    for kind in kinds:
        responses[str(title_of(kind)[0])] = {"$ref": f"#/components/responses/{kind.__name__}"}
    operation["responses"] = dict(sorted(responses.items()))


def _tidy(parameter: dict[str, Any]) -> None:
    """A parameter is absent or has a value; null is nothing that an address or a header can carry."""
    schema = parameter["schema"]
    schema.pop("description", None)
    given = [option for option in schema.pop("anyOf", ()) if option != {"type": "null"}]
    for option in given:
        schema.update(option)


def _untitled(node: Any) -> Any:
    """Without the titles that the framework makes of names; the document's own stays."""
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = "version" not in node and isinstance(node.get("title"), str)
    return {key: _untitled(value) for key, value in node.items() if not (key == "title" and made)}
