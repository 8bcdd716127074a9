"""What each kind of node of a plan does to columns and rows, by the name of its class.

Inputs are the aliases `arco_input_<parameter>`; what is below one is how it was read, and nobody's business here. A
node that is not known is passed through with a doubt.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from arco.core import Invalid
from arco.spark._expressions import Columns, Expressions, is_foreign
from arco.spark._plans import Expression, Plan
from arco.spark._relations import Column, Relation, Rule, Walk, needed
from arco.spark._traces import EMPTY, Certainty, Kind, Ledger, Source, Trace

__all__ = ["relation_of"]

_METADATA = "_metadata"
"""The hidden column of files: where a row was read, nothing that the table holds."""


def relation_of(plan: Plan, ledger: Ledger, *, learned: bool = False) -> Relation:
    """What the columns and rows of a plan depend on. `learned` if rows that stand in it may be those of inputs."""
    return Walk(ledger, {**_RULES, **_LEARNED} if learned else _RULES, _unknown).relation(plan)


def _made(here: Expressions, items: Iterable[Expression]) -> tuple[Column, ...]:
    """Columns of named expressions."""
    return tuple(Column(item.id, item.name, here.trace(item)) for item in items)


# Nodes that pass rows and columns on


def _same(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return children[0]


def _last(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return children[-1]


def _alias(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    if plan.input is None:
        return children[0]
    return Relation(
        tuple(
            Column(
                column.id,
                column.name,
                EMPTY if column.name == _METADATA else walk.ledger.source(Source(plan.input, column.name)),
            )
            for column in children[0].columns
        )
    )


def _definition(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return walk.define(plan, children[0])


def _reference(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return walk.refer(plan)


# Nodes that make columns


def _project(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    return Relation(_made(here, needed(plan, "projectList")), children[0].rows)


def _aggregate(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    made = Relation(_made(here, needed(plan, "aggregateExpressions")), children[0].rows)
    return walk.decided(made, map(here.trace, needed(plan, "groupingExpressions")), Kind.GROUP_BY)


def _window(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    return Relation((*children[0].columns, *_made(here, needed(plan, "windowExpressions"))), children[0].rows)


def _expand(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    """Several rows of each: grouping sets and unpivot."""
    made = needed(plan, "output")
    if plan.projections is None:
        return _without_projections(walk, made, children[0])
    here = walk.expressions(children, outer)
    rows = [[here.trace(item) for item in row] for row in plan.projections]
    columns = zip(made, zip(*rows, strict=True), strict=False)
    return Relation(
        tuple(Column(column.id, column.name, walk.ledger.either(traces)) for column, traces in columns),
        children[0].rows,
    )


def _without_projections(walk: Walk, made: Sequence[Expression], child: Relation) -> Relation:
    known = child.by_id
    every = walk.ledger.after(walk.ledger.merged([column.trace for column in child.columns]), Kind.TRANSFORMATION)
    other = walk.ledger.doubted(every, Certainty.APPROXIMATE, "Spark does not say what an unpivot is made of")
    columns = tuple(Column(item.id, item.name, known.get(item.id, other)) for item in made)
    return Relation(columns, child.rows)


def _generate(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    """Rows of a collection beside the row that has it, as if joined to it."""
    here = walk.expressions(children, outer)
    (generator,) = needed(plan, "generator")
    made = needed(plan, "generatorOutput")
    traces, whole = _generated(here, generator, len(made))
    columns = tuple(Column(item.id, item.name, trace) for item, trace in zip(made, traces, strict=True))
    relation = Relation((*children[0].columns, *columns), children[0].rows)
    return walk.decided(relation, [whole], Kind.JOIN)


def _generated(here: Expressions, generator: Expression, width: int) -> tuple[Sequence[Trace], Trace]:
    """What each column of a generator depends on, and what the number of its rows does."""
    traces = [here.trace(child) for child in generator.children]
    kind = generator.kind
    if kind == "Stack":  # number of rows, then their values one row after the other
        return [here.all_of(traces[1 + at :: width], Kind.TRANSFORMATION) for at in range(width)], EMPTY
    if kind == "JsonTuple":  # the document, then a field for each column
        return [here.all_of([traces[0], field], Kind.TRANSFORMATION) for field in traces[1:]], EMPTY
    whole = here.trace(generator)
    fixed = generator.children and generator.children[0].kind == "CreateArray" and not is_foreign(generator)
    rows = EMPTY if fixed else whole
    fields = traces[0].fields if traces else None
    if kind == "Inline" and fields is not None and len(fields) == width:
        return fields, rows
    place = [rows] if kind == "PosExplode" else []
    if kind in ("Explode", "PosExplode") and width == len(place) + 1:
        return [*place, Trace(whole.masks, whole.doubts, fields)], rows
    return [*place, *[whole] * (width - len(place))], rows


# Nodes that decide about rows


def _filter(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    return walk.decided(children[0], map(here.trace, needed(plan, "condition")), Kind.FILTER)


def _sort(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    return walk.decided(children[0], map(here.trace, needed(plan, "order")), Kind.SORT)


def _distinct(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return walk.decided(children[0], [column.trace for column in children[0].columns], Kind.GROUP_BY)


def _deduplicate(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    return walk.decided(children[0], map(here.trace, needed(plan, "keys")), Kind.GROUP_BY)


# Nodes with several children


def _join(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    here = walk.expressions(children, outer)
    left, right = children
    columns = left.columns if plan.name in ("LeftSemi", "LeftAnti") else (*left.columns, *right.columns)
    both = Relation(columns, walk.ledger.merged([left.rows, right.rows]))
    conditions = [plan.lists.get(field, ()) for field in ("condition", "asOfCondition", "orderExpression")]
    return walk.decided(both, map(here.trace, chain.from_iterable(conditions)), Kind.JOIN)


def _lateral_join(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    """The right side is a query that sees the row of the left."""
    (left,) = children
    (subquery,) = needed(plan, "right")
    if subquery.plan is None:
        raise Invalid("the plan does not show the right side of LateralJoin")
    right = walk.relation(subquery.plan, {**outer, **left.by_id})
    both = Relation((*left.columns, *right.columns), walk.ledger.merged([left.rows, right.rows]))
    here = walk.expressions([left, right], outer)
    return walk.decided(both, map(here.trace, plan.lists.get("condition", ())), Kind.JOIN)


def _union(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    return Relation(walk.positional(children), walk.ledger.merged([child.rows for child in children]))


def _set_operation(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    """Rows of the left that are, or are not, on the right: a join over all columns, then distinct unless it is ALL."""
    left, right = children
    joined = walk.decided(
        Relation(left.columns, walk.ledger.merged([left.rows, right.rows])),
        [column.trace for column in (*left.columns, *right.columns)],
        Kind.JOIN,
    )
    if plan.facts.get("isAll"):
        return joined
    return walk.decided(joined, [column.trace for column in left.columns], Kind.GROUP_BY)


# Nodes that nobody can look into


def _opaque(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    """Somebody's own function over rows: every column it gets may count for every column it gives."""
    here = walk.expressions(children, outer)
    given = [here.trace(child) for function in plan.lists.get("functionExpr", ()) for child in function.children]
    if not given:
        given = [column.trace for child in children for column in child.columns]
    trace = walk.ledger.doubted(
        here.all_of(given, Kind.TRANSFORMATION),
        Certainty.APPROXIMATE,
        f"{plan.kind} runs somebody's own code over rows: any of its columns may count",
    )
    columns = tuple(Column(item.id, item.name, trace) for item in needed(plan, "output"))
    relation = Relation(columns, walk.ledger.merged([child.rows for child in children]))
    keys = [here.trace(key) for key in plan.lists.get("groupingAttributes", ())]
    for field, child in zip(("leftGroupingLen", "rightGroupingLen"), children, strict=False):
        keys += [column.trace for column in child.columns[: plan.facts.get(field, 0)]]
    return walk.decided(relation, keys, Kind.GROUP_BY)


def _numbered(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    number = [Column(item.id, item.name, EMPTY) for item in needed(plan, "sequenceAttr")]
    return Relation((*number, *children[0].columns), children[0].rows)


def _leaf(certainty: Certainty | None, reason: str) -> Rule:
    def rule(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
        trace = EMPTY if certainty is None else walk.ledger.doubted(EMPTY, certainty, reason)
        made = plan.lists.get("output", (*plan.lists.get("dataCols", ()), *plan.lists.get("partitionCols", ())))
        return Relation(tuple(Column(item.id, item.name, trace) for item in made))

    return rule


def _unknown(walk: Walk, plan: Plan, children: Sequence[Relation], outer: Columns) -> Relation:
    reason = f"passes through {plan.kind}, which is not known here"
    if "output" in plan.lists:
        every = walk.ledger.merged([column.trace for child in children for column in child.columns])
        trace = walk.ledger.doubted(walk.ledger.after(every, Kind.TRANSFORMATION), Certainty.UNKNOWN, reason)
        columns = tuple(Column(item.id, item.name, trace) for item in plan.lists["output"])
        return Relation(columns, walk.ledger.merged([child.rows for child in children]))
    if len(children) == 1:
        return walk.doubted(children[0], Certainty.UNKNOWN, reason)
    raise Invalid(f"the plan has a node {plan.kind}, which is not known here")


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "CollectMetrics",
            "EventTimeWatermark",
            "GlobalLimit",
            "LocalLimit",
            "Offset",
            "PipeOperator",
            "RebalancePartitions",
            "Repartition",
            "RepartitionByExpression",
            "ResolvedHint",
            "ReturnAnswer",
            "SQLFunctionNode",
            "Sample",
            "Subquery",
            "Tail",
            "View",
        ),
        _same,
    ),
    "WithCTE": _last,
    "CTERelationDef": _definition,
    **dict.fromkeys(("CTERelationRef", "UnionLoopRef"), _reference),
    "SubqueryAlias": _alias,
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Expand": _expand,
    "Generate": _generate,
    "Filter": _filter,
    "Sort": _sort,
    "Distinct": _distinct,
    **dict.fromkeys(("Deduplicate", "DeduplicateWithinWatermark"), _deduplicate),
    **dict.fromkeys(("AsOfJoin", "Join"), _join),
    "LateralJoin": _lateral_join,
    "Union": _union,
    **dict.fromkeys(("Except", "Intersect"), _set_operation),
    **dict.fromkeys(
        (
            "FlatMapCoGroupsInArrow",
            "FlatMapCoGroupsInPandas",
            "FlatMapGroupsInArrow",
            "FlatMapGroupsInPandas",
            "MapInArrow",
            "MapInPandas",
            "PythonMapInArrow",
            "ScriptTransformation",
        ),
        _opaque,
    ),
    "AttachDistributedSequence": _numbered,
    **dict.fromkeys(("OneRowRelation", "Range"), _leaf(None, "")),
    **dict.fromkeys(
        ("LocalRelation", "ResolvedInlineTable"),
        _leaf(Certainty.APPROXIMATE, "comes from rows that the program gave itself"),
    ),
    **dict.fromkeys(
        ("ExternalRDD", "LogicalRDD"), _leaf(Certainty.UNKNOWN, "comes from an RDD, which hides what it is made of")
    ),
    **dict.fromkeys(
        (
            "DataSourceV2Relation",
            "DataSourceV2ScanRelation",
            "HiveTableRelation",
            "LogicalRelation",
            "StreamingRelation",
        ),
        _leaf(Certainty.UNKNOWN, "is read from a table or from files that are no input"),
    ),
}

_LEARNED: dict[str, Rule] = {
    "LocalRelation": _leaf(Certainty.UNKNOWN, "comes from rows that the program gave itself, maybe those of an input"),
}
