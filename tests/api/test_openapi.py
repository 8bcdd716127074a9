"""The OpenAPI document: it is what the code says, it tells a client's author everything, and breaking it is noticed."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arco.api._permissions import ROUTES
from tests.api.compatibility import breaking_changes
from tests.api.openapi import DOCUMENT, current, main, text_of

Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(text_of(current()))


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


# The document


def test_the_document_in_docs_is_what_the_code_says() -> None:
    assert main(["--check"]) == 0, "run `python -m tests.api.openapi --write`"


def test_it_has_every_public_route_and_no_other(document: dict[str, Any]) -> None:
    assert {(method, path) for method, path, _ in _operations(document)} == set(ROUTES)


def test_it_is_openapi_3_1_with_a_key(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["security"] == [{"key": []}]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert {tag["name"] for tag in document["tags"]} == {
        tag for _, _, operation in _operations(document) for tag in operation["tags"]
    }


def test_every_operation_says_what_it_is_for_and_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in _operations(document)]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() and name == name.lower() for name in names)
    for method, path, operation in _operations(document):
        assert 10 <= len(operation["summary"]) <= 120, (method, path)
        assert operation["description"].endswith("."), (method, path)


def test_every_parameter_is_described(document: dict[str, Any]) -> None:
    for method, path, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (method, path, parameter["name"])
            assert "anyOf" not in parameter["schema"], (method, path, parameter["name"])


def test_every_operation_documents_its_problems_with_their_headers(document: dict[str, Any]) -> None:
    responses = document["components"]["responses"]
    for method, path, operation in _operations(document):
        for status in ("400", "401", "403", "404", "413", "429", "500", "503"):
            found = responses[operation["responses"][status]["$ref"].rpartition("/")[2]]
            assert found["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }, (method, path, status)
            assert "X-Request-Id" in found["headers"]
            assert ("Retry-After" in found["headers"]) is (status in ("429", "503"))
        assert ("409" in operation["responses"]) is (method != "GET"), (method, path)


def test_conditional_requests_are_documented_on_both_sides(document: dict[str, Any]) -> None:
    for _, path, operation in _operations(document):
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        assert ("If-None-Match" in names) is ("304" in operation["responses"]), path
        compared = "If-Match" in names or operation["operationId"] in ("create_deployment", "rollback_deployment")
        assert compared is ("412" in operation["responses"]), path
        if "304" in operation["responses"]:
            assert {"ETag", "Arco-Position"} <= operation["responses"]["200"]["headers"].keys()


def test_every_reference_leads_somewhere_and_every_schema_is_used(document: dict[str, Any]) -> None:
    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    used = set(references(document))
    for reference in used:
        target = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
    for name in document["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in used, f"{name} is used nowhere"


# Changes


def _edited(document: dict[str, Any], edit: Edit) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    edit(changed)
    assert changed != document, "the edit changed nothing"
    return changed


def _schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document["components"]["schemas"][name]


def _parameter(document: dict[str, Any], path: str, method: str, name: str) -> dict[str, Any]:
    [found] = [item for item in document["paths"][path][method]["parameters"] if item["name"] == name]
    return found


TABLES = "/api/v1/tables"
TABLE = "/api/v1/tables/{table}"

BREAKING: dict[str, Edit] = {
    "a path is gone": lambda d: d["paths"].pop(TABLES),
    "a method is gone": lambda d: d["paths"][TABLE].pop("delete"),
    "an operation has another name": lambda d: d["paths"][TABLE]["get"].update(operationId="show_table"),
    "a parameter is gone": lambda d: d["paths"][TABLE]["get"]["parameters"].remove(
        _parameter(d, TABLE, "get", "as_of")
    ),
    "a new parameter is required": lambda d: d["paths"][TABLE]["get"]["parameters"].append(
        {"name": "reason", "in": "query", "required": True, "schema": {"type": "string"}}
    ),
    "a parameter becomes required": lambda d: _parameter(d, TABLE, "get", "as_of").update(required=True),
    "a limit of a parameter is lower": lambda d: _parameter(d, TABLES, "get", "limit")["schema"].update(maximum=10),
    "a parameter gets a limit": lambda d: _parameter(d, TABLES, "get", "limit")["schema"].update(
        multipleOf=1, minimum=5
    ),
    "a parameter has another default": lambda d: _parameter(d, TABLES, "get", "limit")["schema"].update(default=5),
    "a parameter has another type": lambda d: _parameter(d, TABLES, "get", "cursor")["schema"].update(type="integer"),
    "a word that could be sent is gone": lambda d: _schema(d, "TableCreate")["properties"]["format"]["enum"].remove(
        "CSV"
    ),
    "a field that could be sent is gone": lambda d: _schema(d, "TableCreate")["properties"].pop("tags"),
    "a new field must be sent": lambda d: (
        _schema(d, "TableCreate")["properties"].update(reason={"type": "string"}),
        _schema(d, "TableCreate")["required"].append("reason"),
    ),
    "a field must be sent": lambda d: _schema(d, "TableCreate")["required"].append("columns"),
    "null may not be sent any more": lambda d: (
        _schema(d, "TableCreate")["properties"]["description"].pop("anyOf")
        and _schema(d, "TableCreate")["properties"]["description"].update(type="string")
    ),
    "a text that is sent gets a pattern": lambda d: _schema(d, "TableCreate")["properties"]["name"].update(
        pattern="^[a-z]+$"
    ),
    "a list that is sent has a limit": lambda d: _schema(d, "TableCreate")["properties"]["columns"].update(maxItems=3),
    "a list that is sent needs more": lambda d: _schema(d, "TableAlter")["properties"]["changes"].update(minItems=2),
    "unknown fields are refused": lambda d: _schema(d, "EventIn")["properties"]["data"].update(
        additionalProperties=False
    ),
    "one kind of change is gone": lambda d: _schema(d, "TableAlter")["properties"]["changes"]["items"]["oneOf"].pop(),
    "a body is not JSON any more": lambda d: d["paths"][TABLES]["post"]["requestBody"].update(
        content={"text/plain": {"schema": {"type": "string"}}}
    ),
    "an answered field is gone": lambda d: (
        _schema(d, "TableInfo")["properties"].pop("owners"),
        _schema(d, "TableInfo")["required"].remove("owners"),
    ),
    "an optional answered field is gone": lambda d: _schema(d, "TableInfo")["properties"].pop("renamed_from"),
    "an answered field may be absent": lambda d: _schema(d, "TableInfo")["required"].remove("owners"),
    "an answered field may be null": lambda d: _schema(d, "TableInfo")["properties"].update(
        id={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "an answered field has another type": lambda d: _schema(d, "TableInfo")["properties"].update(
        version={"type": "string"}
    ),
    "an answered word is gone": lambda d: _schema(d, "OperationInfo")["properties"]["status"]["enum"].remove("unknown"),
    "an answered word is new": lambda d: _schema(d, "OperationInfo")["properties"]["status"]["enum"].append("lost"),
    "an answered word may be anything": lambda d: _schema(d, "OperationInfo")["properties"]["status"].pop("enum"),
    "the values of an answered map are others": lambda d: _schema(d, "TableInfo")["properties"]["tags"].update(
        additionalProperties={"type": "integer"}
    ),
    "a success has another status": lambda d: d["paths"][TABLES]["post"]["responses"].update(
        {"200": d["paths"][TABLES]["post"]["responses"].pop("201")}
    ),
    "a problem is answered no more": lambda d: d["paths"][TABLE]["get"]["responses"].pop("404"),
    "a header is gone": lambda d: d["paths"][TABLE]["get"]["responses"]["200"]["headers"].pop("ETag"),
    "a field of problems is gone": lambda d: _schema(d, "Problem")["properties"].pop("hint"),
    "the key is another one": lambda d: d.update(security=[]),
    "the scheme of the key is another one": lambda d: d["components"]["securitySchemes"]["key"].update(scheme="basic"),
}

ADDITIVE: dict[str, Edit] = {
    "a new path": lambda d: d["paths"].update({"/api/v1/new": d["paths"][TABLES]}),
    "a new method": lambda d: d["paths"][TABLES].update(put=d["paths"][TABLES]["post"]),
    "a new parameter": lambda d: d["paths"][TABLE]["get"]["parameters"].append(
        {"name": "reason", "in": "query", "required": False, "schema": {"type": "string"}}
    ),
    "a higher limit": lambda d: _parameter(d, TABLES, "get", "limit")["schema"].update(maximum=5000),
    "a limit less": lambda d: _parameter(d, TABLES, "get", "limit")["schema"].pop("maximum"),
    "a field that may be sent": lambda d: _schema(d, "TableCreate")["properties"].update(reason={"type": "string"}),
    "a field that need not be sent": lambda d: _schema(d, "RoleGrant")["required"].remove("role"),
    "a word that may be sent": lambda d: _schema(d, "TableCreate")["properties"]["format"]["enum"].append("ORC"),
    "null may be sent": lambda d: _schema(d, "TableRename")["properties"].update(
        new_name={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "a new answered field": lambda d: (
        _schema(d, "TableInfo")["properties"].update(rows={"type": "integer"}),
        _schema(d, "TableInfo")["required"].append("rows"),
    ),
    "an answered field is never null": lambda d: _schema(d, "TableInfo")["properties"].update(
        description={"type": "string"}
    ),
    "an answered field is always there": lambda d: _schema(d, "TableInfo")["required"].append("renamed_from"),
    "a new problem": lambda d: d["paths"][TABLE]["get"]["responses"].update(
        {"410": {"$ref": "#/components/responses/NotFound"}}
    ),
    "a new header": lambda d: d["paths"][TABLE]["get"]["responses"]["200"]["headers"].update(
        Age={"schema": {"type": "string"}}
    ),
    "other words": lambda d: d["paths"][TABLE]["get"].update(summary="Look at a table", description="Look at it."),
    "another version": lambda d: d["info"].update(version="9.9.9"),
}


@pytest.mark.parametrize("change", BREAKING)
def test_a_change_that_breaks_a_client_is_noticed(document: dict[str, Any], change: str) -> None:
    assert breaking_changes(document, _edited(document, BREAKING[change]))


@pytest.mark.parametrize("change", ADDITIVE)
def test_an_addition_breaks_nobody(document: dict[str, Any], change: str) -> None:
    assert breaking_changes(document, _edited(document, ADDITIVE[change])) == []


def test_a_document_does_not_break_itself(document: dict[str, Any]) -> None:
    assert breaking_changes(document, copy.deepcopy(document)) == []


def test_writing_refuses_to_break_a_client_unless_forced(
    document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "openapi.json"
    assert main(["--write"], path, document) == 0
    assert main(["--check"], path, document) == 0
    broken = _edited(document, BREAKING["a path is gone"])
    assert main(["--check"], path, broken) == 1
    assert main(["--write"], path, broken) == 1
    assert "/api/v1/tables is gone" in capsys.readouterr().out
    assert path.read_text() == text_of(document)
    assert main(["--write", "--force"], path, broken) == 0
    assert path.read_text() == text_of(broken)


def test_writing_takes_additions(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(text_of(document))
    added = _edited(document, ADDITIVE["a new path"])
    assert main(["--check"], path, added) == 1
    assert main(["--write"], path, added) == 0
    assert path.read_text() == text_of(added)


def test_the_stored_document_ends_with_a_line_end_and_has_its_keys_in_order() -> None:
    text = DOCUMENT.read_text()
    assert text.endswith("}\n")
    assert text == text_of(json.loads(text))
