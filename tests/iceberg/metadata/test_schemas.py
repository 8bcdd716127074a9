"""Schemas: what is one, how its fields are found, which are the same."""

from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import BadRequest, IllegalArgument, ValidationFailed
from arco.iceberg.metadata import Doc
from arco.iceberg.metadata._reading import MAX_DEPTH
from arco.iceberg.metadata._schemas import index_schema, schema_key
from tests.iceberg.metadata.examples import column, schema

LIST = {"type": "list", "element-id": 30, "element": schema(column(31, "x", "int")), "element-required": True}
MAP = {
    "type": "map",
    "key-id": 40,
    "key": "string",
    "value-id": 41,
    "value": schema(column(42, "y", "int")),
    "value-required": False,
}


def test_fields_are_found_by_full_and_by_short_names() -> None:
    index = index_schema(schema(column(1, "l", LIST), column(2, "m", MAP)))
    assert index.by_name == {
        "l": 1,
        "l.element": 30,
        "l.element.x": 31,
        "l.x": 31,
        "m": 2,
        "m.key": 40,
        "m.value": 41,
        "m.value.y": 42,
        "m.y": 42,
    }
    assert index.highest_id == 42
    assert index.by_id[42].parent == 41
    assert index.by_id[41].parent == 2
    assert index.find("nope") is None


def test_a_full_name_goes_before_a_short_one() -> None:
    inner = {**LIST, "element": schema(column(31, "element", "int"))}
    index = index_schema(schema(column(1, "l", inner)))
    assert index.by_name["l.element"] == 30


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "Expected `object`, got `int`"),
        ({}, "`fields`|`type`"),
        ({"type": "list", "fields": []}, "not a struct type"),
        ({"type": "struct", "fields": {}}, "Expected `array`"),
        (schema(5), "Expected `object`, got `int`"),  # type: ignore[arg-type]
        (schema({"id": 1, "name": "a", "type": "int"}), "missing required field `required`"),
        (schema({**column(1, "a"), "id": "1"}), "Expected `int`, got `str` - at `\\$.id`"),
        (schema({**column(1, "a"), "id": 2**31}), "Expected `int` <= 2147483647"),
        (schema(column(1, "a", 5)), "at `\\$.type`"),
        (schema(column(1, "a", "integer")), "Cannot parse type string to primitive: 'integer'"),
        (schema(column(1, "a", {})), "the `type` of a nested type is struct, list or map"),
        (schema(column(1, "a", {"type": []})), "the `type` of a nested type is struct, list or map"),
        (schema(column(1, "a", {"type": "struct"})), "`fields` of a struct"),
        (schema(column(1, "a", {**LIST, "element-id": None})), "at `\\$.element-id`"),
        (schema(column(1, "a", {"type": "map", "key-id": 1})), "missing required field `key`"),
        (schema(column(1, "a"), column(1, "b")), "multiple fields for id 1: a and b"),
        (schema(column(1, "a"), column(2, "a")), "multiple fields for name a: 1 and 2"),
        (schema(column(1, "a.b"), column(2, "a", schema(column(3, "b")))), "multiple fields for name a.b: 1 and 3"),
        (schema(column(1, "a"), **{"identifier-field-ids": ["1"]}), "Expected `int`, got `str`"),
        (schema(column(1, "a", doc=5)), "at `\\$.doc`"),
    ],
)
def test_what_is_no_schema(value: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        index_schema(value)


def test_types_nested_too_deeply() -> None:
    kind: Any = "int"
    for depth in range(MAX_DEPTH + 2):
        kind = schema(column(depth, "x", kind))
    with pytest.raises(BadRequest, match="nested more than"):
        index_schema(kind)


def test_types_nested_as_deeply_as_they_may() -> None:
    kind: Any = "int"
    for depth in range(MAX_DEPTH):
        kind = {"type": "list", "element-id": depth + 10, "element": kind, "element-required": False}
    value = schema(column(1, "x", kind))
    index_schema(value)
    assert schema_key(value) == schema_key(value)


@pytest.mark.parametrize(
    ("fields", "wanted", "text"),
    [
        ([column(1, "a")], 7, "Cannot add fieldId 7 as an identifier field: field does not exist"),
        ([column(1, "a")], 1, "not a required field"),
        ([column(1, "a", "float", required=True)], 1, "must not be float or double field"),
        ([column(1, "l", LIST, required=True)], 1, "not a primitive type field"),
        ([column(1, "v", "variant", required=True)], 1, "not a primitive type field"),
        ([column(1, "s", schema(column(2, "x", required=True)))], 2, "must not be nested in an optional field s"),
        (
            [column(1, "l", {**LIST, "element": schema(column(31, "x", required=True))}, required=True)],
            31,
            "must not be nested in l",
        ),
    ],
)
def test_fields_that_identify_no_row(fields: list[Doc], wanted: int, text: str) -> None:
    with pytest.raises(IllegalArgument, match=text):
        index_schema(schema(*fields, **{"identifier-field-ids": [wanted]}))


def test_fields_in_structs_may_identify_rows() -> None:
    index_schema(schema(column(1, "s", schema(column(2, "x", required=True)), True), **{"identifier-field-ids": [2]}))


def test_no_required_field_of_unknown_type() -> None:
    with pytest.raises(IllegalArgument, match="Cannot create required field with unknown type"):
        index_schema(schema(column(1, "a", "unknown", required=True)))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (column(1, "a", "decimal(9,2)"), column(1, "a", "Decimal( 9 , 2 )"), True),
        (column(1, "a", doc=None), column(1, "a"), True),
        (column(1, "a", "int", **{"write-default": 1}), column(1, "a", "int", **{"write-default": 2}), False),
        (column(1, "a", tomorrow=1), column(1, "a"), True),
        (column(1, "a", LIST), column(1, "a", {**LIST, "element-required": False}), False),
        (column(1, "a", MAP), column(1, "a", {**MAP, "value-id": 77}), False),
        (column(1, "a", MAP), column(1, "a", dict(reversed(MAP.items()))), True),
    ],
)
def test_which_schemas_are_the_same(one: Doc, two: Doc, same: bool) -> None:
    assert (schema_key(schema(one)) == schema_key(schema(two))) is same


def test_defaults_of_nested_columns() -> None:
    with pytest.raises(IllegalArgument, match="Invalid default value for list"):
        index_schema(schema(column(1, "l", LIST, **{"initial-default": []})))
    with pytest.raises(IllegalArgument, match="Cannot parse default of 'a' as a int value: 'x'"):
        index_schema(schema(column(1, "a", "int", **{"write-default": "x"})))


def test_duplicates_are_the_tables_fault_not_the_requests() -> None:
    with pytest.raises(ValidationFailed):
        index_schema(schema(column(1, "a"), column(1, "b")))
