"""Filters of scans: Iceberg's expressions in JSON, bound to a schema and without `not`.

Both notations are read: `{"type": "eq", "term": "a", "value": 1}` and the newer one with `left`, `right` and `child`,
references and literals as objects. What is valid and cannot be judged here (a function, two columns, a rounded number)
becomes `ALWAYS`: no file is dropped for it, and the client evaluates the filter anyway.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from arco.core import shown
from arco.iceberg._errors import BadRequest
from arco.iceberg._planning._schema import Column, Schema
from arco.iceberg._planning._transforms import Condition, Transform, parse_transform
from arco.iceberg._planning._types import is_float, literal

__all__ = ["ALWAYS", "NEVER", "Both", "Constant", "Either", "Filter", "Predicate", "parse_filter", "predicates"]

MAX_DEPTH = 200
MAX_VALUES = 100_000

_NEGATED = {
    "eq": "not-eq", "lt": "gt-eq", "gt": "lt-eq", "in": "not-in", "is-null": "not-null", "is-nan": "not-nan",
    "starts-with": "not-starts-with",
}  # fmt: skip
_NEGATED |= {negated: op for op, negated in _NEGATED.items()}
_UNARY = ("is-null", "not-null", "is-nan", "not-nan")
_SETS = ("in", "not-in")
_PREFIXES = ("starts-with", "not-starts-with")
_FLIPPED = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool


@dataclass(frozen=True, slots=True)
class Both:
    left: "Filter"
    right: "Filter"


@dataclass(frozen=True, slots=True)
class Either:
    left: "Filter"
    right: "Filter"


@dataclass(frozen=True, slots=True)
class Predicate:
    column: Column
    condition: Condition
    transform: Transform | None = None
    """Of the column's value, if it is not compared itself."""


Filter = Constant | Both | Either | Predicate
ALWAYS, NEVER = Constant(True), Constant(False)


def parse_filter(document: Any, schema: Schema, *, case_sensitive: bool) -> Filter:
    """The filter, or `BadRequest`."""
    return _Parser(schema, case_sensitive).parse(document, False, 0)


def predicates(node: Filter) -> Iterator[Predicate]:
    if isinstance(node, Predicate):
        yield node
    elif isinstance(node, Both | Either):
        yield from predicates(node.left)
        yield from predicates(node.right)


@dataclass(frozen=True, slots=True)
class _Parser:
    schema: Schema
    case_sensitive: bool

    def parse(self, node: Any, negate: bool, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise BadRequest(f"the filter is nested more than {MAX_DEPTH} deep")
        if isinstance(node, bool):
            return Constant(node != negate)
        op = _type(node)
        if op in ("true", "false"):
            return Constant((op == "true") != negate)
        if op == "literal" and isinstance(node.get("value"), bool):
            return Constant(node["value"] != negate)
        if op == "not":
            return self.parse(_part(node, "child"), not negate, depth + 1)
        if op in ("and", "or"):
            left, right = (self.parse(_part(node, name), negate, depth + 1) for name in ("left", "right"))
            return Both(left, right) if (op == "and") != negate else Either(left, right)
        if op not in _NEGATED:
            raise BadRequest(f"the filter has the operation {shown(op)}, which is not known here")
        found = self._leaf(op, node)
        if isinstance(found, Constant):
            return found
        return self._negated(found) if negate else _simplified(found)

    def _negated(self, found: Predicate) -> Filter:
        op = _NEGATED[found.condition.op]
        other = _simplified(Predicate(found.column, Condition(op, found.condition.values), found.transform))
        if op in ("lt", "lt-eq") and found.transform is None and is_float(found.column.type):
            # Where NaN is above nothing, it is what remains of `not x > 1`.
            return Either(other, Predicate(found.column, Condition("is-nan")))
        return other

    def _leaf(self, op: str, node: dict[str, Any]) -> Predicate | Constant:
        if op in _UNARY:
            return self._bound(op, _either(node, "child", "term"), [])
        if op in _SETS:
            return self._bound(op, _either(node, "child", "term"), _literals(_part(node, "values")))
        left, right = _either(node, "left", "term"), _either(node, "right", "value")
        if _is_literal(left, "left" in node) and not _is_literal(right, True) and op in _FLIPPED:
            op, left, right = _FLIPPED[op], right, left
        if not _is_literal(right, True):
            for side in (left, right):
                self._term(side)
            return ALWAYS
        return self._bound(op, left, [right])

    def _bound(self, op: str, term: Any, values: list[Any]) -> Predicate | Constant:
        found = self._term(term)
        if found is None:
            return ALWAYS
        column, transform = found
        kind = transform.result_type(column.type) if transform else column.type
        if op in ("is-nan", "not-nan") and not is_float(kind):
            raise BadRequest(f"the filter asks whether {shown(column.name)} is NaN, but it is of type {kind}")
        if op in _PREFIXES and kind != "string":
            raise BadRequest(f"the filter asks how {shown(column.name)} starts, but it is of type {kind}")
        bound = []
        for value in values:
            raw, declared = _value(value)
            known = None if declared not in (None, kind) else literal(kind, raw)
            if known is None:
                return ALWAYS
            bound.append(known)
        return Predicate(column, Condition(op, tuple(bound)), transform)

    def _term(self, term: Any) -> tuple[Column, Transform | None] | None:
        """The column that is compared, and what is made of its value; None for what is not a column."""
        if isinstance(term, str):
            return self._column(term), None
        kind = _type(term)
        if kind == "reference":
            if "id" in term:
                column = self.schema.get(term["id"]) if isinstance(term["id"], int) else None
                if column is None:
                    raise BadRequest(f"Cannot find field with id {shown(str(term['id']))}")
                return _comparable(column), None
            return self._column(_text(_either(term, "name", "term"))), None
        if kind == "transform":
            inner = self._term(_part(term, "term"))
            transform = parse_transform(_text(_part(term, "transform")), strict=True)
            if inner is None:
                return None
            if inner[1] is not None:
                raise BadRequest("the filter applies a transform to a transform")
            return inner[0], None if transform.name == "identity" else transform
        if kind in ("apply", "literal"):
            return None
        raise BadRequest(f"Cannot parse type as a reference: {shown(kind)}")

    def _column(self, name: str) -> Column:
        return _comparable(self.schema.find(name, case_sensitive=self.case_sensitive))


def _comparable(column: Column) -> Column:
    if column.repeated:
        raise BadRequest(f"the filter names {shown(column.name)}, which is inside of a list or a map")
    return column


def _simplified(found: Predicate) -> Filter:
    """Of structs only their absence can be asked, and no file keeps counts of it."""
    if found.column.type in ("struct", "list", "map"):
        return ALWAYS
    op, values = found.condition.op, found.condition.values
    if op in _SETS and not values:
        return NEVER if op == "in" else ALWAYS
    return found


def _type(node: Any) -> str:
    kind = node.get("type") if isinstance(node, dict) else None
    if not isinstance(kind, str):
        raise BadRequest("a filter is true, false or an object with a type; see Iceberg's REST specification")
    return kind.lower().replace("_", "-")


def _part(node: dict[str, Any], name: str) -> Any:
    if node.get(name) is None:
        raise BadRequest(f"the filter has a part of type {shown(str(node.get('type')))} without {name!r}")
    return node[name]


def _either(node: dict[str, Any], name: str, older: str) -> Any:
    if name in node and older in node:
        raise BadRequest(f"a part of the filter has both {name!r} and {older!r}")
    return _part(node, older if older in node else name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRequest("a name in the filter is no text")
    return value


def _is_literal(node: Any, texts_are: bool) -> bool:
    """A bare text is a literal in the newer form's `left`, and a column in the older form's `term`."""
    if isinstance(node, dict):
        return node.get("type") == "literal"
    return texts_are or not isinstance(node, str)


def _literals(node: Any) -> list[Any]:
    """The values of a set; those of a typed set carry its type each."""
    found = node
    if isinstance(node, dict):
        kind, values = node.get("data-type"), node.get("values")
        if node.get("type") != "literals" or not isinstance(values, list):
            raise BadRequest("the values of a set are a list, or an object of type literals")
        found = [{"type": "literal", "value": value, "data-type": kind} for value in values]
    if not isinstance(found, list) or len(found) > MAX_VALUES:
        raise BadRequest(f"the values of a set are a list of at most {MAX_VALUES}")
    return found


def _value(node: Any) -> tuple[Any, Any]:
    """A literal's value, and its type if it names one."""
    if isinstance(node, dict):
        if node.get("type") != "literal" or "value" not in node:
            raise BadRequest("a literal of the filter is a value, or an object of type literal with one")
        return node["value"], node.get("data-type")
    return node, None
