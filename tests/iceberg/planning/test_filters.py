"""Filters in JSON: both notations, `not` pushed down, and what is refused or not judged."""

from typing import Any

import pytest

from arco.iceberg import BadRequest
from arco.iceberg._planning._filters import ALWAYS, NEVER, Both, Either, Filter, Predicate, parse_filter
from arco.iceberg._planning._schema import Schema
from arco.iceberg._planning._transforms import Condition, Transform

SCHEMA = Schema(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "a", "type": "long", "required": False},
            {"id": 2, "name": "S", "type": "string", "required": False},
            {"id": 3, "name": "x", "type": "double", "required": False},
            {"id": 4, "name": "ts", "type": "timestamp", "required": False},
            {
                "id": 5,
                "name": "in",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 6, "name": "b", "type": "int", "required": True}]},
            },
            {
                "id": 7,
                "name": "many",
                "required": False,
                "type": {"type": "list", "element-id": 8, "element": "int", "element-required": True},
            },
            {
                "id": 9,
                "name": "m",
                "required": False,
                "type": {"type": "map", "key-id": 10, "key": "string", "value-id": 11, "value": "int"},
            },
            {"id": 12, "name": "s", "type": "string", "required": False},
        ],
    }
)


def parse(document: Any, case_sensitive: bool = True) -> Filter:
    return parse_filter(document, SCHEMA, case_sensitive=case_sensitive)


def on(name: str, op: str, *values: Any, transform: Transform | None = None) -> Predicate:
    return Predicate(SCHEMA.find(name, case_sensitive=True), Condition(op, values), transform)


REFERENCE = {"type": "reference", "name": "a"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (True, ALWAYS),
        (False, NEVER),
        ({"type": "true"}, ALWAYS),
        ({"type": "literal", "value": False}, NEVER),
        ({"type": "eq", "term": "a", "value": 1}, on("a", "eq", 1)),
        ({"type": "EQ", "term": "a", "value": 1}, on("a", "eq", 1)),
        ({"type": "lt_eq", "term": "a", "value": 1}, on("a", "lt-eq", 1)),
        ({"type": "eq", "term": {"type": "reference", "term": "a"}, "value": 1}, on("a", "eq", 1)),
        ({"type": "eq", "left": REFERENCE, "right": 1}, on("a", "eq", 1)),
        ({"type": "eq", "left": {"type": "reference", "id": 1}, "right": 1}, on("a", "eq", 1)),
        ({"type": "lt", "left": REFERENCE, "right": {"type": "literal", "value": 1}}, on("a", "lt", 1)),
        ({"type": "lt", "left": 1, "right": REFERENCE}, on("a", "gt", 1)),
        ({"type": "lt", "left": {"type": "literal", "value": 1}, "right": REFERENCE}, on("a", "gt", 1)),
        ({"type": "is-null", "term": "a"}, on("a", "is-null")),
        ({"type": "not-null", "child": REFERENCE}, on("a", "not-null")),
        ({"type": "in", "term": "a", "values": [1, 2]}, on("a", "in", 1, 2)),
        ({"type": "in", "child": REFERENCE, "values": [{"type": "literal", "value": 1}]}, on("a", "in", 1)),
        (
            {
                "type": "not-in",
                "child": REFERENCE,
                "values": {"type": "literals", "values": [1], "data-type": "long"},
            },
            on("a", "not-in", 1),
        ),
        ({"type": "in", "term": "a", "values": []}, NEVER),
        ({"type": "not-in", "term": "a", "values": []}, ALWAYS),
        ({"type": "starts-with", "term": "s", "value": "x"}, on("s", "starts-with", "x")),
        ({"type": "eq", "term": "in.b", "value": 1}, on("in.b", "eq", 1)),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": "1970-01-02"},
            on("ts", "eq", 1, transform=Transform("day")),
        ),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "identity", "term": "a"}, "value": 1},
            on("a", "eq", 1),
        ),
    ],
)
def test_what_filters_mean(document: Any, expected: Filter) -> None:
    assert parse(document) == expected


BY_DAY = {"type": "transform", "transform": "day", "term": "ts"}
EQ, NULL = {"type": "eq", "term": "a", "value": 1}, {"type": "is-null", "term": "s"}


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (EQ, on("a", "not-eq", 1)),
        (NULL, on("s", "not-null")),
        ({"type": "lt", "term": "a", "value": 1}, on("a", "gt-eq", 1)),
        ({"type": "lt-eq", "term": "a", "value": 1}, on("a", "gt", 1)),
        ({"type": "in", "term": "a", "values": []}, ALWAYS),
        ({"type": "not", "child": EQ}, on("a", "eq", 1)),
        ({"type": "and", "left": EQ, "right": NULL}, Either(on("a", "not-eq", 1), on("s", "not-null"))),
        ({"type": "or", "left": EQ, "right": NULL}, Both(on("a", "not-eq", 1), on("s", "not-null"))),
        (True, NEVER),
        ({"type": "gt", "term": "x", "value": 1}, Either(on("x", "lt-eq", 1.0), on("x", "is-nan"))),
        ({"type": "lt", "term": "x", "value": 1}, on("x", "gt-eq", 1.0)),
    ],
)
def test_not_is_pushed_down(inner: Any, expected: Filter) -> None:
    assert parse({"type": "not", "child": inner}) == expected


@pytest.mark.parametrize(
    "document",
    [
        {"type": "eq", "left": REFERENCE, "right": {"type": "reference", "name": "x"}},
        {"type": "eq", "left": {"type": "apply", "function": "f", "arguments": [REFERENCE]}, "right": 1},
        {"type": "eq", "left": REFERENCE, "right": {"type": "apply", "function": "f", "arguments": []}},
        {"type": "eq", "left": REFERENCE, "right": {"type": "literal", "value": "1", "data-type": "string"}},
        {"type": "is-null", "term": "in"},
        {"type": "not-null", "term": "many"},
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_is_not_judged_drops_nothing(document: Any, negated: bool) -> None:
    assert parse({"type": "not", "child": document} if negated else document) == ALWAYS


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "a",
        {},
        {"type": 1},
        {"type": "xor", "left": EQ, "right": EQ},
        {"type": "and", "left": EQ},
        {"type": "not"},
        {"type": "eq", "term": "a"},
        {"type": "eq", "term": "a", "value": None},
        {"type": "eq", "term": "a", "left": REFERENCE, "value": 1},
        {"type": "eq", "term": "nope", "value": 1},
        {"type": "eq", "term": "A", "value": 1},
        {"type": "eq", "term": "a", "value": "x"},
        {"type": "eq", "term": "many.element", "value": 1},
        {"type": "eq", "term": "m.key", "value": "x"},
        {"type": "eq", "left": {"type": "reference", "id": 99}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "id": "1"}, "right": 1},
        {"type": "eq", "left": {"type": "reference", "name": 5}, "right": 1},
        {"type": "eq", "left": {"type": "wish"}, "right": 1},
        {"type": "in", "term": "a", "values": 1},
        {"type": "in", "term": "a", "values": {"type": "x", "values": []}},
        {"type": "in", "term": "a", "values": [{"type": "literal"}]},
        {"type": "in", "term": "a", "values": [1] * 100_001},
        {"type": "is-nan", "term": "a"},
        {"type": "starts-with", "term": "a", "value": "x"},
        {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "a"}, "value": 1},
        {
            "type": "eq",
            "term": {
                "type": "transform",
                "transform": "day",
                "term": {"type": "transform", "transform": "day", "term": "ts"},
            },
            "value": 1,
        },
    ],
)
def test_what_is_no_filter(document: Any) -> None:
    with pytest.raises(BadRequest):
        parse(document)


def test_names_of_any_case() -> None:
    assert parse({"type": "is-null", "term": "TS"}, case_sensitive=False) == on("ts", "is-null")
    with pytest.raises(BadRequest, match="more than one column"):
        parse({"type": "is-null", "term": "s"}, case_sensitive=False)


def test_a_filter_that_is_too_deep() -> None:
    document: Any = EQ
    for _ in range(300):
        document = {"type": "not", "child": document}
    with pytest.raises(BadRequest, match="200 deep"):
        parse(document)
