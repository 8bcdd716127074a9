"""Partition specs."""

from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import IllegalArgument, ValidationFailed
from arco.iceberg.metadata import Doc
from arco.iceberg.metadata._schemas import index_schema
from arco.iceberg.metadata._specs import check_spec, parse_spec, same_spec, with_field_ids
from tests.iceberg.metadata.examples import column, schema, spec_field

SCHEMA = index_schema(
    schema(
        column(1, "id"),
        column(2, "ts", "timestamp"),
        column(3, "s", schema(column(4, "x", "int"))),
        column(5, "l", {"type": "list", "element-id": 6, "element": "int", "element-required": True}),
        column(7, "v", "variant"),
    )
)


def spec(*fields: Doc) -> Doc:
    return {"spec-id": 0, "fields": list(fields)}


def test_specs_that_go_with_the_schema() -> None:
    check_spec(spec(), SCHEMA, 2)
    check_spec(spec(spec_field("id", "identity", 1, 1000), spec_field("d", "day", 2, 1001)), SCHEMA, 1)
    check_spec(spec(spec_field("s.x", "identity", 4, 1007)), SCHEMA, 2)
    check_spec(spec(spec_field("gone", "void", 99, 1000)), SCHEMA, 2)
    check_spec(spec(spec_field("later", "zorder[2]", 1, 1000)), SCHEMA, 2)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (spec_field("a", "identity", 99, 1000), "Cannot find source column for partition field: 1000: 'a'"),
        (spec_field("a", "identity", 3, 1000), "Cannot partition by non-primitive source field: struct"),
        (spec_field("a", "identity", 7, 1000), "Cannot partition by non-primitive source field: variant"),
        (spec_field("a", "day", 1, 1000), "Invalid source type long for transform: day"),
        (spec_field("a", "identity", 6, 1000), "Invalid partition field parent: list"),
    ],
)
def test_fields_that_do_not(field: Doc, text: str) -> None:
    with pytest.raises(ValidationFailed, match=text):
        check_spec(spec(field), SCHEMA, 2)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([spec_field("", "identity", 1, 1000)], "Cannot use empty partition name"),
        ([spec_field("a", "day", 2, 1000), spec_field("a", "year", 2, 1001)], "partition name more than once: 'a'"),
        ([spec_field("id", "day", 2, 1000)], "Cannot create identity partition sourced from different field"),
    ],
)
def test_names_that_cannot_be(fields: list[Doc], text: str) -> None:
    with pytest.raises(IllegalArgument, match=text):
        check_spec(spec(*fields), SCHEMA, 2)


def test_ids_are_used_once() -> None:
    with pytest.raises(ValidationFailed, match="id more than once"):
        check_spec(spec(spec_field("a", "day", 2, 1000), spec_field("b", "year", 2, 1000)), SCHEMA, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "Expected `object`"),
        ({}, "missing required field `fields`"),
        ({"fields": [{"name": "a", "transform": "day"}]}, "missing required field `source-id`"),
        (spec({**spec_field("a", "day", 2), "field-id": "x"}), "field-id"),
        (spec(spec_field("a", "day", 2, 1000), spec_field("b", "day", 2)), "1 missing of 2 fields"),
        (spec(spec_field("a", "bucket[0]", 2)), "Invalid number of buckets: 0"),
        ({"spec-id": True, "fields": []}, "spec-id"),
    ],
)
def test_what_is_no_spec(value: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        parse_spec(value)


def test_same_specs() -> None:
    one = spec(spec_field("a", "day", 2, 1000))
    assert same_spec(one, {**spec(spec_field("a", "DAY", 2, 1009)), "spec-id": 4})
    assert not same_spec(one, spec(spec_field("b", "day", 2, 1000)))
    assert not same_spec(one, spec(spec_field("a", "month", 2, 1000)))
    assert not same_spec(one, spec())


def test_ids_for_fields_that_have_none() -> None:
    others = [spec(spec_field("a", "day", 2, 1004))]
    wanted = spec(spec_field("x", "day", 2), spec_field("y", "day", 2), spec_field("z", "identity", 1))
    made = with_field_ids(wanted, others, 1010, 2)
    assert [field["field-id"] for field in made["fields"]] == [1004, 1011, 1012]
    assert [field["field-id"] for field in with_field_ids(wanted, others, 1010, 1)["fields"]] == [1000, 1001, 1002]
    with pytest.raises(ValidationFailed, match="no partition field id is left"):
        with_field_ids(wanted, [], 2**31 - 1, 2)
