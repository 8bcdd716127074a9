"""Requests as they are sent."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import BadRequest
from arco.iceberg.metadata import (
    Doc,
    Identifier,
    parse_commit,
    parse_create,
    parse_create_view,
    parse_register,
    parse_rename,
    parse_transaction,
    parse_view_commit,
)
from tests.iceberg.metadata.examples import COLUMNS, REQUIREMENTS, create_body, schema, table_updates, version
from tests.iceberg.metadata.test_updates import corruptions

CHANGE: Doc = {
    "identifier": {"namespace": ["a", "b"], "name": "t"},
    "requirements": [{"type": kind, **body} for kind, body in REQUIREMENTS.items()],
    "updates": list(table_updates().values()),
}
VIEW: Doc = {"name": "v", "schema": schema(*COLUMNS), "view-version": version(), "properties": {"a": "b"}}


def test_create() -> None:
    order = {"order-id": 0, "fields": []}
    body = create_body(**{"location": "s3://x", "stage-create": True, "write-order": order, "later": 1})
    request = parse_create(body)
    assert (request.name, request.location, request.stage_create) == ("t", "s3://x", True)
    assert request.write_order == order
    assert request.partition_spec is None
    assert request.properties == {"format-version": "2"}


def test_null_is_as_good_as_nothing() -> None:
    nulls = {"location": None, "partition-spec": None, "write-order": None, "properties": None, "stage-create": None}
    request = parse_create({"name": "t", "schema": schema(*COLUMNS), **nulls})
    assert request.properties == {}
    assert not request.stage_create


def test_commit() -> None:
    request = parse_commit(CHANGE)
    assert request.identifier == Identifier("t", ("a", "b"))
    assert len(request.requirements) == 8
    assert len(request.updates) == 23


def test_an_empty_commit() -> None:
    request = parse_commit({"requirements": None})
    assert (request.identifier, request.requirements, request.updates) == (None, (), ())


def test_transaction() -> None:
    other = {**CHANGE, "identifier": {"namespace": ["a"], "name": "t"}}
    one, two = parse_transaction({"table-changes": [CHANGE, other]})
    assert one.identifier == Identifier("t", ("a", "b"))
    assert two.identifier == Identifier("t", ("a",))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([], "Invalid table changes: empty"),
        ([{"updates": []}], "Invalid table changes: table identifier is required"),
        ([CHANGE, CHANGE], r"Invalid table changes: a\.b\.t is changed twice"),
        ([5], r"table-changes\[0\]"),
        (None, "Expected `array`"),
    ],
)
def test_what_is_no_transaction(changes: Any, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        parse_transaction({"table-changes": changes})


def test_register_and_rename() -> None:
    assert not parse_register({"name": "t", "metadata-location": "s3://x"}).overwrite
    assert parse_register({"name": "t", "metadata-location": "s3://x", "overwrite": True}).overwrite
    with pytest.raises(BadRequest, match="empty metadata file location"):
        parse_register({"name": "t", "metadata-location": ""})
    names = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["b"], "name": "u"}}
    assert parse_rename(names).destination == Identifier("u", ("b",))


def test_create_view() -> None:
    assert parse_create_view(VIEW).view_version == version()


@pytest.mark.parametrize(
    ("representations", "text"),
    [
        ([], "Cannot create view without specifying a query"),
        ([{"type": "graph"}], "Found unsupported view representations: graph"),
        ([{"type": "sql", "sql": "x"}], "missing required field `dialect`"),
        (
            [{"type": "sql", "sql": "x", "dialect": "trino"}, {"type": "sql", "sql": "y", "dialect": "Trino"}],
            "Invalid view version: Cannot add multiple queries for dialect trino",
        ),
    ],
)
def test_queries_that_make_no_view(representations: list[Doc], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        parse_create_view({**VIEW, "view-version": {**version(), "representations": representations}})


BODIES: list[tuple[Callable[[Any], Any], Doc]] = [
    (parse_create, create_body(**{"partition-spec": {"fields": []}, "write-order": {"order-id": 0, "fields": []}})),
    (parse_commit, {**CHANGE, "updates": [], "requirements": []}),
    (parse_view_commit, {"requirements": [{"type": "assert-view-uuid", "uuid": "x"}], "updates": []}),
    (parse_transaction, {"table-changes": [{**CHANGE, "updates": []}]}),
    (parse_create_view, VIEW),
    (parse_register, {"name": "t", "metadata-location": "s3://x", "overwrite": True}),
    (parse_rename, {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["b"], "name": "u"}}),
]


@pytest.mark.parametrize(("parse", "body"), BODIES)
def test_no_corruption_does_harm(parse: Callable[[Any], Any], body: Doc) -> None:
    parse(body)
    for corrupt in (5, None, [], "x", {}, *corruptions(body)):
        with suppress(Invalid):
            parse(corrupt)
