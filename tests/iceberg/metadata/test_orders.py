"""Sort orders."""

from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import ValidationFailed
from arco.iceberg.metadata import Doc
from arco.iceberg.metadata._orders import check_order, order_key, parse_order
from arco.iceberg.metadata._schemas import index_schema
from tests.iceberg.metadata.examples import column, schema, sort_field

SCHEMA = index_schema(schema(column(1, "id"), column(2, "s", schema(column(3, "x", "date")))))


def order(*fields: Doc) -> Doc:
    return {"order-id": 1 if fields else 0, "fields": list(fields)}


def test_orders_that_go_with_the_schema() -> None:
    check_order(order(), SCHEMA)
    check_order(order(sort_field(1), sort_field(3, "month")), SCHEMA)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (sort_field(9), r"Cannot find source column for sort field: identity\(9\) asc"),
        (sort_field(2), "Cannot sort by non-primitive source field: struct"),
        (sort_field(1, "day"), "Invalid source type long for transform: day"),
    ],
)
def test_orders_that_do_not(field: Doc, text: str) -> None:
    with pytest.raises(ValidationFailed, match=text):
        check_order(order(field), SCHEMA)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "Expected `object`"),
        ({"fields": []}, "missing required field `order-id`"),
        ({"order-id": 3, "fields": []}, "Unsorted order ID must be 0"),
        ({"order-id": 0, "fields": [sort_field(1)]}, "Sort order ID 0 is reserved for unsorted order"),
        (order({**sort_field(1), "direction": "up"}), "`direction`: 'up'"),
        (order({**sort_field(1), "null-order": "first"}), "`null-order`: 'first'"),
        (order({**sort_field(1), "transform": 5}), "transform"),
        (order({**sort_field(1), "transform": "truncate[0]"}), "Invalid truncate width: 0"),
    ],
)
def test_what_is_no_order(value: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        parse_order(value)


def test_same_orders() -> None:
    one = order_key(order(sort_field(1)))
    assert one == order_key({"order-id": 7, "fields": [{**sort_field(1), "direction": "ASC", "transform": "Identity"}]})
    assert one != order_key(order({**sort_field(1), "direction": "desc"}))
    assert one != order_key(order())
