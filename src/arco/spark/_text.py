"""Expressions read from the text that Spark prints for people.

A text is cut at its brackets and commas. What stands in it by name and id is a column, if the id is that of a column
below, and something made here otherwise. Of functions only those matter that do not simply compute: aggregates,
windows, conditions, subqueries. The names of Spark's classes are used for them, so that one set of rules serves all.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from arco.core import Invalid
from arco.spark._plans import LITERAL, Expression, Plan

__all__ = ["Group", "Parser"]

_TOKEN = re.compile(r"#(\d+)L?(?![\w#])|([()\[\]{}])|(,)|(\s+)|([^\s()\[\]{},#]+|#)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SIGNS = ("-", "+", "~", "!")
_MAX_DEPTH = 150

# fmt: off
_AGGREGATES = frozenset({
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "approx_top_k_accumulate",
    "approx_top_k_combine", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg",
    "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_frequent_items", "collect_list",
    "collect_set", "corr", "count", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first",
    "first_value", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kurtosis", "last", "last_value",
    "listagg", "max", "mean", "median", "min", "mode", "percentile", "percentile_approx", "percentile_cont",
    "percentile_disc", "product", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "skewness", "some", "std", "stddev", "stddev_pop",
    "stddev_samp", "string_agg", "sum", "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg",
    "try_avg", "try_sum", "var_pop", "var_samp", "variance",
})
# fmt: on
_AGGREGATES_OF_TWO = {"max_by": "MaxBy", "min_by": "MinBy", "pivotfirst": "PivotFirst"}
_FUNCTIONS = {
    "array": "CreateArray",
    "dense_rank": "DenseRank",
    "nth_value": "NthValue",
    "percent_rank": "PercentRank",
    "rank": "Rank",
    "stack": "Stack",
    "windowspecdefinition": "WindowSpecDefinition",
}
_FUNCTIONS_OF_TWO = {"filter": "ArrayFilter", "map_filter": "MapFilter"}
_SUBQUERIES = {
    "scalar-subquery": "ScalarSubquery",
    "exists": "Exists",
    "list": "ListQuery",
    "lateral-subquery": "LateralSubquery",
}


class Group(NamedTuple):
    """One of several texts between commas."""

    text: str

    @property
    def is_list(self) -> bool:
        return self.text.strip().startswith("[") and self.text.strip().endswith("]")

    @property
    def inside(self) -> str:
        """What stands in its brackets."""
        text = self.text.strip()
        return text[1:-1] if self.is_list else text


class _Item(NamedTuple):
    """A word, or an expression with the name that was called."""

    word: str = ""
    expression: Expression | None = None
    bracket: str = ""
    called: str = ""
    parts: tuple[Expression, ...] = ()


class Parser:
    """Reads the expressions of one node."""

    def __init__(self, defined: set[int], queries: Sequence[Plan]) -> None:
        self._defined = defined
        self._queries = list(queries)

    @property
    def unused(self) -> int:
        """Subqueries of the node that none of the expressions read so far has."""
        return len(self._queries)

    def arguments(self, text: str) -> list[Group]:
        """The text cut at commas that stand in no bracket."""
        found, start, closing = [], 0, []
        for token in _TOKEN.finditer(text):
            bracket = token.group(2)
            if bracket in _CLOSING:
                closing.append(_CLOSING[bracket])
            elif bracket and (not closing or closing.pop() != bracket):
                raise Invalid("a literal in the plan makes its text unreadable")
            elif token.group(3) and not closing:
                found.append(Group(text[start : token.start()]))
                start = token.end()
        if closing:
            raise Invalid("a literal in the plan makes its text unreadable")
        rest = Group(text[start:])
        return [*found, rest] if rest.text.strip() else found

    def columns(self, group: Group) -> tuple[Expression, ...]:
        """Names and ids, such as a leaf has."""
        return tuple(_attribute(item.text) for item in self.arguments(group.inside))

    def expressions(self, group: Group, *, known: bool = False) -> tuple[Expression, ...]:
        """A list of them, named where they make a column, unless they only stand for one that is known."""
        read = self.expression if known else self._named
        return tuple(read(item) for item in self.arguments(group.inside))

    def expression(self, group: Group) -> Expression:
        tokens = list(_TOKEN.finditer(group.text))
        parts, end = self._parts(tokens, 0, "", 0)
        if end != len(tokens):
            raise Invalid("a literal in the plan makes its text unreadable")
        return parts[0] if len(parts) == 1 else Expression("Text", parts)

    def _named(self, group: Group) -> Expression:
        text = group.text.strip()
        made = re.search(r"#(\d+)L?$", text)
        if made is None:
            return self.expression(group)
        id = int(made.group(1))
        if id in self._defined:
            return _attribute(text)
        head, _, name = text[: made.start()].rpartition(" AS ")
        return Expression("Alias", (self.expression(Group(head)),), id, name) if head else _attribute(text)

    def _parts(
        self, tokens: Sequence[re.Match[str]], at: int, closing: str, depth: int
    ) -> tuple[tuple[Expression, ...], int]:
        """The expressions between commas up to a closing bracket, and where that stands."""
        if depth > _MAX_DEPTH:
            raise Invalid(f"the text of the plan nests expressions more than {_MAX_DEPTH} deep")
        parts: list[Expression] = []
        items: list[_Item] = []
        while at < len(tokens):
            id, bracket, comma, blank, word = tokens[at].groups()
            if bracket and bracket == closing:
                break
            if id is not None:
                self._identify(items, int(id))
            elif bracket in _CLOSING:
                inner, at = self._parts(tokens, at + 1, _CLOSING[bracket], depth + 1)
                if at == len(tokens):
                    raise Invalid("a literal in the plan makes its text unreadable")
                self._call(items, bracket, inner)
            elif bracket:
                raise Invalid("a literal in the plan makes its text unreadable")
            elif comma:
                parts.append(_folded(items))
                items = []
            elif blank:
                items.append(_Item())
            else:
                items.append(_Item(word))
            at += 1
        if any(item.word or item.expression for item in items):
            parts.append(_folded(items))
        return tuple(parts), at

    def _identify(self, items: list[_Item], id: int) -> None:
        """What the id belongs to: the name right before it, a subquery, a variable, or a function's result."""
        last = items.pop() if items else _Item()
        if last.word in _SUBQUERIES and id not in self._defined:
            plan = self._queries.pop(0) if self._queries else None
            items.append(_Item(expression=Expression(_SUBQUERIES[last.word], plan=plan), called="subquery"))
        elif len(items) > 1 and items[-2].word == "lambda":
            items.append(_Item(expression=LITERAL))
        elif id in self._defined:
            column = Expression("AttributeReference", (), id)
            signed = last.word[:1] in _SIGNS
            items.append(_Item(expression=Expression("Text", (column,)) if signed else column))
        elif last.bracket:
            items.append(_Item(expression=Expression("PythonUDF", last.parts, name=last.called)))
        else:
            items.append(_Item(expression=Expression("AttributeReference", (), id)))

    def _call(self, items: list[_Item], bracket: str, inner: tuple[Expression, ...]) -> None:
        """A bracket: arguments of the name before it, or only a bracket."""
        subquery = next((item for item in reversed(items) if item.word or item.expression), _Item())
        if bracket == "[" and subquery.called == "subquery":
            items.append(_Item())  # the columns around it, which its own plan names too
            return
        name = items[-1].word.lstrip("".join(_SIGNS)) if items and bracket == "(" else ""
        if items and name:
            items.pop()
        items.append(_Item(expression=_function(name, inner), bracket=bracket, called=name, parts=inner))


def _attribute(text: str) -> Expression:
    found = re.search(r"#(\d+)L?\s*$", text)
    if found is None:
        raise Invalid("the text of the plan cannot be read")
    return Expression("AttributeReference", (), int(found.group(1)), text[: found.start()].strip())


def _function(name: str, arguments: tuple[Expression, ...]) -> Expression:
    name = name.lower()
    if name == "outer" and len(arguments) == 1 and arguments[0].kind == "AttributeReference":
        return arguments[0]._replace(kind="OuterReference")
    if name in _AGGREGATES:
        return Expression("AggregateExpression", (Expression("Text", arguments),))
    if name in _AGGREGATES_OF_TWO:
        return Expression("AggregateExpression", (Expression(_AGGREGATES_OF_TWO[name], arguments[:2]),))
    if name in _FUNCTIONS or (name in _FUNCTIONS_OF_TWO and len(arguments) == 2):
        return Expression((_FUNCTIONS | _FUNCTIONS_OF_TWO)[name], arguments)
    if not name and len(arguments) == 1:
        return arguments[0]
    return Expression("Text", arguments)


def _folded(items: Sequence[_Item]) -> Expression:
    """One expression of words and expressions in a row."""
    found: list[Expression] = []
    words, role = 0, ""
    for item in items:
        if item.expression is None:
            words += bool(item.word)
            role = _ROLES.get(item.word, role)
            if item.word in ("ASC", "DESC") and found:
                found[-1] = Expression("SortOrder", (found[-1],))
        elif role in ("WHEN", "if"):
            found.append(Expression("If", (item.expression, LITERAL, LITERAL)))
        elif role == "FILTER":
            found.append(Expression("AggregateExpression", (LITERAL, item.expression)))
        else:
            found.append(item.expression)
        if item.expression is not None and role != "WHEN":
            role = ""  # the others are about what follows at once
    if len(found) == 1 and not words:
        return found[0]
    if len(found) == 2 and not words and found[1].kind == "WindowSpecDefinition":
        return Expression("WindowExpression", tuple(found))
    return Expression("Text", tuple(found)) if found else LITERAL


_ROLES = {"WHEN": "WHEN", "THEN": "", "ELSE": "", "if": "if", "else": "", "FILTER": "FILTER"}
"""What words say of what follows: a condition until the next word, a condition at once, what rows are filtered by."""
