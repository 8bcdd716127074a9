"""Partition specs: how rows are divided into partitions, as a list of fields made of columns by transforms.

A spec is *bound* to a schema when each of its fields leads to a column that its transform goes with. Ids of partition
fields start at 1000 and are never used for another field of the table; format 1 numbers them by their place.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, UnsetType

from arco.core import shown
from arco.iceberg._errors import BadRequest, IllegalArgument, ValidationFailed
from arco.iceberg.metadata._reading import Doc, Int, Shape, convert
from arco.iceberg.metadata._schemas import SchemaIndex
from arco.iceberg.metadata._types import Primitive, can_transform, parse_transform

__all__ = ["FIRST_FIELD_ID", "check_names", "check_spec", "last_field_id", "parse_spec", "same_spec", "with_field_ids"]

FIRST_FIELD_ID = 1000


class _SpecField(Shape, frozen=True):
    name: str
    transform: str
    source_id: Int
    field_id: Int | UnsetType = UNSET


class _Spec(Shape, frozen=True):
    fields: list[_SpecField]
    spec_id: Int | UnsetType = UNSET


def parse_spec(value: Any, what: str = "partition spec") -> Doc:
    """The spec, if it has the form of one."""
    shape = convert(value, _Spec, what)
    given = sum(field.field_id is not UNSET for field in shape.fields)
    if given not in (0, len(shape.fields)):
        missing = len(shape.fields) - given
        raise BadRequest(f"Cannot parse spec with missing field IDs: {missing} missing of {len(shape.fields)} fields.")
    for field in shape.fields:
        parse_transform(field.transform)
    spec: Doc = value
    return spec


def with_field_ids(spec: Doc, others: Iterable[Doc], last: int, version: int) -> Doc:
    """The spec with ids for its fields, if it has none: those of the same fields in other specs, else new ones."""
    if all("field-id" in field for field in spec["fields"]):
        return spec
    known: dict[tuple[int, str], int] = {}
    if version > 1:
        for other in others:
            for field in other["fields"]:
                known[_made_of(field)] = max(field["field-id"], known.get(_made_of(field), 0))
    last = max(last, FIRST_FIELD_ID - 1) if version > 1 else FIRST_FIELD_ID - 1
    fields = []
    for field in spec["fields"]:
        field_id = known.pop(_made_of(field), None)
        if field_id is None:
            field_id = last = last + 1
        fields.append({**field, "field-id": field_id})
    if last >= 2**31:
        raise ValidationFailed("Cannot add a partition spec: no partition field id is left")
    return {**spec, "fields": fields}


def check_spec(spec: Doc, schema: SchemaIndex, version: int) -> None:
    """`Invalid` unless the spec can be used with the schema."""
    check_names(spec, schema)
    check_columns(spec, schema)
    ids = [field["field-id"] for field in spec["fields"]]
    if len(set(ids)) < len(ids):
        raise ValidationFailed(f"Cannot use a partition field id more than once: {ids}")
    if version == 1 and ids != list(range(FIRST_FIELD_ID, FIRST_FIELD_ID + len(ids))):
        raise ValidationFailed(f"Spec does not use sequential IDs that are required in v1: {_shown(spec)}")


def check_names(spec: Doc, schema: SchemaIndex) -> None:
    """Names of partition fields are unique, and a column of the same name is the field's own source."""
    names = set()
    for field in spec["fields"]:
        name, column = field["name"], schema.find(field["name"])
        if column is not None and field["source-id"] in schema.by_id and column.id != field["source-id"]:
            raise IllegalArgument(
                f"Cannot create identity partition sourced from different field in schema: {shown(name)}"
            )
        if not name:
            raise IllegalArgument("Cannot use empty partition name: ")
        if name in names:
            raise IllegalArgument(f"Cannot use partition name more than once: {shown(name)}")
        names.add(name)


def check_columns(spec: Doc, schema: SchemaIndex) -> None:
    """Each field has a source column that its transform goes with, in structs only. Void fields need none."""
    for field in spec["fields"]:
        transform = parse_transform(field["transform"])
        if transform.name == "void":
            continue
        column = schema.by_id.get(field["source-id"])
        if column is None:
            raise ValidationFailed(f"Cannot find source column for partition field: {_shown_field(field)}")
        if not column.is_primitive or not isinstance(column.type, Primitive):
            raise ValidationFailed(f"Cannot partition by non-primitive source field: {column.type}")
        if not can_transform(transform, column.type):
            raise ValidationFailed(f"Invalid source type {column.type} for transform: {transform}")
        parent = column.parent
        while parent is not None:
            if schema.by_id[parent].type != "struct":
                raise ValidationFailed(f"Invalid partition field parent: {schema.by_id[parent].type}")
            parent = schema.by_id[parent].parent


def same_spec(one: Doc, two: Doc) -> bool:
    """Whether two specs make the same partitions with the same names; ids do not matter."""
    if len(one["fields"]) != len(two["fields"]):
        return False
    pairs = zip(one["fields"], two["fields"], strict=True)
    return all(_made_of(a) == _made_of(b) and a["name"] == b["name"] for a, b in pairs)


def last_field_id(spec: Doc) -> int:
    return max((field["field-id"] for field in spec["fields"]), default=FIRST_FIELD_ID - 1)


def _made_of(field: Doc) -> tuple[int, str]:
    return field["source-id"], parse_transform(field["transform"]).text


def _shown_field(field: Doc) -> str:
    return f"{field.get('field-id')}: {shown(field['name'])}: {field['transform']}({field['source-id']})"


def _shown(spec: Doc) -> str:
    return "[" + ", ".join(_shown_field(field) for field in spec["fields"]) + "]"
