"""Sort orders: how rows lie in files. Order 0 is the unsorted one, which has no fields."""

from typing import Any

from arco.iceberg._errors import BadRequest, IllegalArgument, ValidationFailed
from arco.iceberg.metadata._reading import Doc, Int, Shape, convert
from arco.iceberg.metadata._schemas import SchemaIndex
from arco.iceberg.metadata._types import Primitive, can_transform, parse_transform

__all__ = ["FIRST_ORDER_ID", "UNSORTED", "check_order", "order_key", "parse_order"]

UNSORTED = 0
FIRST_ORDER_ID = 1
_DIRECTIONS = ("asc", "desc")
_NULLS = ("nulls-first", "nulls-last")


class _OrderField(Shape, frozen=True):
    transform: str
    source_id: Int
    direction: str
    null_order: str


class _Order(Shape, frozen=True):
    order_id: Int
    fields: list[_OrderField]


def parse_order(value: Any, what: str = "sort order") -> Doc:
    """The sort order, if it has the form of one."""
    shape = convert(value, _Order, what)
    if not shape.fields and shape.order_id != UNSORTED:
        raise IllegalArgument("Unsorted order ID must be 0")
    if shape.fields and shape.order_id == UNSORTED:
        raise IllegalArgument("Sort order ID 0 is reserved for unsorted order")
    for field in shape.fields:
        parse_transform(field.transform)
        if field.direction.lower() not in _DIRECTIONS:
            raise BadRequest(f"Cannot parse {what}: Invalid sort `direction`: {field.direction[:100]!r}")
        if field.null_order.lower() not in _NULLS:
            raise BadRequest(f"Cannot parse {what}: Unexpected `null-order`: {field.null_order[:100]!r}")
    order: Doc = value
    return order


def check_order(order: Doc, schema: SchemaIndex) -> None:
    """`ValidationFailed` unless every field sorts by a column its transform goes with."""
    for field in order["fields"]:
        transform, column = parse_transform(field["transform"]), schema.by_id.get(field["source-id"])
        if column is None:
            raise ValidationFailed(
                f"Cannot find source column for sort field: {transform}({field['source-id']}) {field['direction']}"
            )
        if not column.is_primitive or not isinstance(column.type, Primitive):
            raise ValidationFailed(f"Cannot sort by non-primitive source field: {column.type}")
        if not can_transform(transform, column.type):
            raise ValidationFailed(f"Invalid source type {column.type} for transform: {transform}")


def order_key(order: Doc) -> object:
    """What makes two orders the same; their ids do not matter."""
    return tuple(
        (
            parse_transform(field["transform"]).text,
            field["source-id"],
            field["direction"].lower(),
            field["null-order"].lower(),
        )
        for field in order["fields"]
    )
