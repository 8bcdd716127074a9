"""Whether a file, a partition or a whole manifest may hold a row that a filter matches. In doubt it may.

All three are judged alike, by what is *known* of a column's values: their bounds, and whether some may be null, NaN or
anything else. Semantics that engines differ in (NaN in comparisons, -0.0, the order of uuids, null and `not-eq`) drop
nothing.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arco.iceberg._planning._filters import Both, Constant, Either, Filter, Predicate
from arco.iceberg._planning._transforms import Condition, Transform
from arco.iceberg._planning._types import Value, decode_bound, is_float

__all__ = ["Known", "PartitionField", "may_match", "may_match_file", "may_match_partition", "of_value"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of some values of a type. The defaults are: nothing."""

    type: str
    lower: Value | None = None
    upper: Value | None = None
    null: bool = True
    """Some may be null."""
    nan: bool = True
    value: bool = True
    """Some may be neither."""
    exact: bool = False
    """All are the same one, `lower`."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    id: int
    source_id: int
    source_type: str
    transform: Transform
    type: str
    """Of the partition's values."""


def of_value(kind: str, value: Value | None) -> Known:
    """All values are this one."""
    if value is None:
        return Known(kind, nan=False, value=False)
    if isinstance(value, float) and math.isnan(value):
        return Known(kind, null=False, value=False)
    return Known(kind, value, value, null=False, nan=False, exact=True)


def may_match(condition: Condition, known: Known) -> bool:
    op, values = condition.op, condition.values
    nan = known.nan and is_float(known.type)
    if op == "is-null":
        return known.null
    if op == "not-null":
        return known.value or nan
    if op == "is-nan":
        return nan
    if op in ("not-eq", "not-in") and known.exact:
        return known.lower not in values
    if op in ("not-nan", "not-eq", "not-in", "not-starts-with"):
        return known.null or known.value or nan
    if nan and op in ("gt", "gt-eq"):  # many engines order NaN above all numbers
        return True
    if not known.value:
        return False
    if op in ("eq", "in"):
        return any(_between(known, value) for value in values)
    if op == "starts-with":
        return _starts(known, str(values[0]))
    return _ordered(op, known, values[0])


def _between(known: Known, value: Value) -> bool:
    if known.type == "uuid" and known.lower != known.upper:
        return True
    if known.type == "uuid":
        return known.lower in (None, value)
    return (known.lower is None or known.lower <= value) and (known.upper is None or value <= known.upper)  # type: ignore[operator]


def _ordered(op: str, known: Known, value: Value) -> bool:
    bound = known.lower if op.startswith("lt") else known.upper
    if bound is None or known.type == "uuid":
        return True
    if op == "lt" and not (isinstance(value, float) and value == 0):
        return bound < value  # type: ignore[operator]
    if op == "gt" and not (isinstance(value, float) and value == 0):
        return bound > value  # type: ignore[operator]
    return bound <= value if op.startswith("lt") else bound >= value  # type: ignore[operator]


def _starts(known: Known, prefix: str) -> bool:
    size = len(prefix)
    lower, upper = known.lower, known.upper
    above = isinstance(lower, str) and lower[:size] > prefix
    below = isinstance(upper, str) and upper[:size] < prefix
    return not above and not below


def _evaluate(node: Filter, leaf: Callable[[Predicate], bool]) -> bool:
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Both):
        return _evaluate(node.left, leaf) and _evaluate(node.right, leaf)
    if isinstance(node, Either):
        return _evaluate(node.left, leaf) or _evaluate(node.right, leaf)
    return leaf(node)


def may_match_partition(node: Filter, fields: tuple[PartitionField, ...], known: Callable[[int], Known]) -> bool:
    """`known` answers for the n-th field of the partition."""

    def leaf(predicate: Predicate) -> bool:
        for number, field in enumerate(fields):
            if field.source_id != predicate.column.id:
                continue
            if predicate.transform is None:
                # Of the column's type in that spec: a wider one of today reads the same numbers.
                condition = field.transform.project(field.source_type, predicate.condition)
            else:
                condition = predicate.condition if predicate.transform == field.transform else None
            if condition is not None and not may_match(condition, known(number)):
                return False
        return True

    return _evaluate(node, leaf)


def may_match_file(node: Filter, file: Mapping[str, Any], stats: Callable[[str, int], Any]) -> bool:
    """By a file's own statistics. `stats` gives the entry of a map of the manifest (`_109`) for a column, or None."""
    rows = file["_103"]
    if rows == 0:
        return False

    def leaf(predicate: Predicate) -> bool:
        if predicate.transform is not None:
            return True
        column = predicate.column
        values, nulls, nans = (stats(name, column.id) for name in ("_109", "_110", "_137"))
        counted = values is not None and nulls is not None and values >= 0 and nulls >= 0
        some = not counted or values - nulls - (nans or 0) > 0
        known = Known(
            column.type,
            decode_bound(column.type, stats("_125", column.id)),
            decode_bound(column.type, stats("_128", column.id)),
            null=nulls != 0,
            nan=nans != 0,
            value=some,
        )
        return may_match(predicate.condition, known)

    return _evaluate(node, leaf)
