"""The trace of an expression: what its value depends on, given what its columns depend on.

Most expressions are computed of their children: a TRANSFORMATION of all of them. The others are in `_RULES`, by class:
what passes a value on, what picks one of several, what aggregates, what looks into structs, what runs a query, and what
nobody can look into.
"""

from collections.abc import Callable, Mapping, Sequence

from arco.spark._plans import Expression, Plan, bottom_up
from arco.spark._traces import EMPTY, Certainty, Kind, Ledger, Trace

__all__ = ["Columns", "Expressions", "Subquery", "is_foreign"]

Columns = Mapping[int | None, Trace]
"""Traces of the columns in reach, by expression id."""

Subquery = Callable[[Plan, Columns], tuple[Sequence[Trace], Trace]]
"""Traces of the columns a query gives, and of what decides about its rows, given the columns around it."""

Rule = Callable[["Expressions", Expression, Sequence[Trace]], Trace]

_KEEPING = frozenset(
    {
        "Cast",
        "Coalesce",
        "CollectList",
        "CollectSet",
        "Concat",
        "CreateArray",
        "ElementAt",
        "First",
        "Flatten",
        "GetArrayItem",
        "Lag",
        "Last",
        "Lead",
        "Reverse",
        "Slice",
    }
)
"""What a struct comes out of as it went in, or in a collection."""

_FOREIGN = frozenset(
    {
        "ApplyFunctionExpression",
        "HiveGenericUDF",
        "HiveSimpleUDF",
        "HiveUDAFFunction",
        "PythonUDAF",
        "PythonUDF",
        "PythonUDTF",
        "ScalaAggregator",
        "ScalaUDAF",
        "ScalaUDF",
        "UserDefinedTableFunction",
        "V2Aggregator",
    }
)


def is_foreign(expression: Expression) -> bool:
    """Whether somebody's own code computes it."""
    return expression.kind in _FOREIGN


class Expressions:
    """Traces expressions over the columns of one relation, and of the queries around it."""

    def __init__(self, ledger: Ledger, subquery: Subquery, columns: Columns, outer: Columns) -> None:
        self.ledger = ledger
        self._subquery = subquery
        self._columns = columns
        self._outer = outer

    def trace(self, root: Expression) -> Trace:
        if root.kind == "AttributeReference":  # the bulk of wide plans
            return self.column(root)
        done: list[Trace | list[Trace]] = []
        for node in bottom_up(root):
            count = len(node.children)
            children = done[len(done) - count :]
            del done[len(done) - count :]
            rule = _RULES.get(node.kind)
            if (
                rule is None
                and node.kind in _KEEPING
                and any(isinstance(child, Trace) and child.fields for child in children)
            ):
                rule = _one_of
            if rule is None:
                done.append(_gathered(children))
            else:
                done.append(rule(self, node, [self._computed(child) for child in children]))
        return self._computed(done.pop())

    def _computed(self, value: Trace | list[Trace]) -> Trace:
        """The trace of what is computed of several values."""
        return self.all_of(value, Kind.TRANSFORMATION) if isinstance(value, list) else value

    def column(self, attribute: Expression) -> Trace:
        """What a column depends on. Ids are unique in a plan, but an outer reference means the outer column."""
        near, far = self._columns, self._outer
        if attribute.kind == "OuterReference":
            near, far = far, near
        for columns in (near, far):
            if attribute.id in columns:
                return columns[attribute.id]
        return self.ledger.doubted(EMPTY, Certainty.UNKNOWN, "uses a column that the plan does not show")

    def run(self, query: Plan) -> tuple[Sequence[Trace], Trace]:
        """The traces of a subquery; it sees the columns here and around."""
        return self._subquery(query, {**self._outer, **self._columns})

    def all_of(self, traces: Sequence[Trace], kind: Kind) -> Trace:
        return self.ledger.after(self.ledger.merged(traces), kind)

    def split(self, traces: Sequence[Trace], kinds: Sequence[Kind]) -> Trace:
        """Each child by its own kind; what is a struct stays one."""
        return self.ledger.alike(traces, kinds)

    def built(self, fields: Sequence[Trace]) -> Trace:
        """A struct of these values."""
        whole = self.ledger.merged(fields)
        return Trace(whole.masks, whole.doubts, tuple(fields))


def _gathered(children: Sequence[Trace | list[Trace]]) -> list[Trace]:
    """All that a value is computed of, in one list however deep the expression is: merging at each step would cost
    the square of its size."""
    first = children[0] if children else []
    values = first if isinstance(first, list) else [first]
    for child in children[1:]:
        if isinstance(child, list):
            values.extend(child)
        else:
            values.append(child)
    return values


def _passed_on(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return children[0] if children else EMPTY


def _nothing(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return EMPTY


def _column(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.column(node)


def _if(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.split(children, (Kind.CONDITIONAL, Kind.TRANSFORMATION, Kind.TRANSFORMATION))


def _case(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """Condition and value in turn; a last one without condition is the else."""
    pairs = len(children) // 2 * 2
    kinds = [Kind.TRANSFORMATION if at % 2 or at == pairs else Kind.CONDITIONAL for at in range(len(children))]
    return here.split(children, kinds)


def _sieve(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """What of a collection stays, by a function."""
    return here.split(children, (Kind.TRANSFORMATION, Kind.CONDITIONAL))


def _one_of(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """One of the children, a part of one, or a collection of them; what else is a child says which."""
    return here.split(children, [Kind.TRANSFORMATION] * len(children))


def _aggregate(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """The function, then what its rows are filtered by."""
    return here.split(children, (Kind.AGGREGATION, Kind.FILTER)[: len(children)])


def _one_of_many(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.split(children, [Kind.AGGREGATION] * len(children))


def _foreign_aggregate(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return _foreign(here, node, [here.all_of(children, Kind.AGGREGATION)])


def _extreme_by(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.split(children, (Kind.AGGREGATION, Kind.SORT))


def _pivoted(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.split(children, (Kind.CONDITIONAL, Kind.AGGREGATION))


def _sorted(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.all_of(children, Kind.SORT)


def _windowed(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """The function, then partitions, order and frame."""
    return here.split(children, (Kind.IDENTITY, Kind.WINDOW))


def _ranked(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """A window's definition, and a rank: Spark gives it what the window is ordered by as arguments."""
    return here.all_of(children, Kind.WINDOW)


def _struct(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """Name and value in turn."""
    return here.built([_part(here, value) for value in children[1::2]])


def _zipped(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """A struct of the elements at the same place of each collection."""
    return here.built([_part(here, child) for child in children])


def _each(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """What a function, the last child, makes of each element of collections."""
    given, made = here.all_of(children[:-1], Kind.TRANSFORMATION), children[-1]
    if made.fields is None:
        return here.all_of([given, made], Kind.TRANSFORMATION)
    return here.built([here.ledger.either([field, given]) for field in made.fields])


def _field(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    of = children[0]
    known = of.fields is not None and 0 <= node.ordinal < len(of.fields)
    return _part(here, of.fields[node.ordinal]) if of.fields and known else _part(here, of, whole=True)


def _part(here: Expressions, value: Trace, *, whole: bool = False) -> Trace:
    """A value that was put into a struct or taken out of one; structs in structs keep their fields apart."""
    return value if value.fields is not None and not whole else here.ledger.after(value, Kind.TRANSFORMATION)


def _foreign(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    given = here.all_of(children, Kind.TRANSFORMATION)
    name = node.name or "a function"
    return here.ledger.doubted(given, Certainty.APPROXIMATE, f"{name} is somebody's own code: any argument may count")


def _with(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """What is computed, then what it uses several times. Spark does not say which use means which of several."""
    value = here.ledger.merged(children[1:])
    if len(children) > 2:
        value = here.ledger.doubted(value, Certainty.APPROXIMATE, "shares several values in one expression")
    return here.ledger.bound(children[0], value)


def _shared(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    return here.ledger.common()


def _scalar(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """The value of the only row, and what decides which row that is."""
    columns, rows = _query(here, node)
    return here.ledger.either([*columns[:1], rows])


def _listed(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """Values to compare with, and what decides which there are."""
    columns, rows = _query(here, node)
    return here.ledger.merged([here.all_of(columns, Kind.TRANSFORMATION), rows])


def _exists(here: Expressions, node: Expression, children: Sequence[Trace]) -> Trace:
    """Only whether there are rows counts, not what is in them."""
    return _query(here, node)[1]


def _query(here: Expressions, node: Expression) -> tuple[Sequence[Trace], Trace]:
    if node.plan is None:
        doubt = here.ledger.doubted(EMPTY, Certainty.UNKNOWN, "uses a subquery that the plan does not show")
        return [doubt], EMPTY
    return here.run(node.plan)


_RULES: dict[str, Rule] = {
    "AttributeReference": _column,
    "OuterReference": _column,
    "Literal": _nothing,
    "NamedLambdaVariable": _nothing,  # runs over a collection that is an argument itself
    **dict.fromkeys(
        ("Alias", "AssertNotNull", "CommonExpressionDef", "KnownNotNull", "KnownNullable", "TempResolvedColumn"),
        _passed_on,
    ),
    "If": _if,
    "CaseWhen": _case,
    **dict.fromkeys(("ArrayFilter", "MapFilter"), _sieve),
    "AggregateExpression": _aggregate,
    "NthValue": _one_of_many,
    **dict.fromkeys(("MaxBy", "MinBy"), _extreme_by),
    "PivotFirst": _pivoted,
    "SortOrder": _sorted,
    "WindowExpression": _windowed,
    "WindowSpecDefinition": _ranked,
    **dict.fromkeys(("Rank", "DenseRank", "PercentRank"), _ranked),
    "CreateNamedStruct": _struct,
    "ArraysZip": _zipped,
    **dict.fromkeys(("ArrayTransform", "ZipWith"), _each),
    "LambdaFunction": _passed_on,  # the variables come after what it computes
    **dict.fromkeys(("GetArrayStructFields", "GetStructField"), _field),
    "With": _with,
    "CommonExpressionRef": _shared,
    "ScalarSubquery": _scalar,
    "ListQuery": _listed,
    "Exists": _exists,
    **dict.fromkeys(_FOREIGN, _foreign),
    **dict.fromkeys(
        ("HiveUDAFFunction", "PythonUDAF", "ScalaAggregator", "ScalaUDAF", "V2Aggregator"), _foreign_aggregate
    ),
}
