"""The trace of a plan: what each of its columns depends on, and what decides about its rows.

A *relation* is what a node of the plan gives: columns in order, each with its expression id and trace, and one trace of
what decides which rows there are (`rows`): conditions of filters and joins, keys of groups, order. That is true of all
columns alike, so it is kept once and not under each of them.

Inputs are the aliases `arco_input_<parameter>`; what is below one is how it was read, and nobody's business here.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from arco.core import Invalid
from arco.spark._expressions import Columns, Expressions, is_foreign
from arco.spark._plans import Expression, Plan, bottom_up
from arco.spark._traces import EMPTY, Certainty, Kind, Ledger, Source, Trace

__all__ = ["Column", "Relation", "Walk"]

_MAX_ROUNDS = 64
"""Of following a recursion until nothing new turns up; each adds at least one dependency."""

_METADATA = "_metadata"
"""The hidden column of files: where a row was read, nothing that the table holds."""


class Column(NamedTuple):
    id: int | None
    name: str
    trace: Trace


class Relation(NamedTuple):
    columns: tuple[Column, ...]
    rows: Trace = EMPTY

    @property
    def by_id(self) -> Columns:
        return {column.id: column.trace for column in self.columns}


Rule = Callable[["Walk", Plan, Sequence[Relation], Columns], Relation]


class Walk:
    """Goes through one plan from its leaves to its root."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._shared: dict[int | None, Relation] = {}
        self._loops: dict[int | None, Relation] = {}

    def relation(self, root: Plan, outer: Columns | None = None) -> Relation:
        around: Columns = outer or {}
        done: list[Relation] = []
        for node in bottom_up(root, stop=lambda node: node.kind == "UnionLoop"):
            if node.kind == "UnionLoop":
                done.append(self._loop(node, around))
                continue
            count = len(node.children)
            children = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(_RULES.get(node.kind, _unknown)(self, node, children, around))
        return done.pop()

    def expressions(self, over: Iterable[Relation], outer: Columns) -> Expressions:
        columns: dict[int | None, Trace] = {}
        for relation in over:
            columns.update(relation.by_id)
        return Expressions(self.ledger, self._subquery, columns, outer)

    def decided(self, relation: Relation, by: Iterable[Trace], kind: Kind) -> Relation:
        """The relation, its rows also decided by these values."""
        rows = [self.ledger.after(trace, kind) for trace in by]
        return Relation(relation.columns, self.ledger.merged([relation.rows, *rows]))

    def positional(self, relations: Sequence[Relation]) -> tuple[Column, ...]:
        """The columns of the first, each merged with those at the same place of the others."""
        return tuple(
            Column(same[0].id, same[0].name, self.ledger.merged([column.trace for column in same]))
            for same in zip(*(relation.columns for relation in relations), strict=False)
        )

    def define(self, node: Plan, relation: Relation) -> Relation:
        self._shared[node.id] = relation
        return relation

    def refer(self, node: Plan) -> Relation:
        known = self._loops if node.kind == "UnionLoopRef" else self._shared
        made = needed(node, "output")
        if node.id not in known:
            missing = self.ledger.doubted(EMPTY, Certainty.UNKNOWN, "refers to a query that the plan does not show")
            return Relation(tuple(Column(column.id, column.name, missing) for column in made))
        of = known[node.id]
        columns = zip(made, of.columns, strict=False)
        return Relation(tuple(Column(mine.id, mine.name, its.trace) for mine, its in columns), of.rows)

    def _subquery(self, plan: Plan, outer: Columns) -> tuple[Sequence[Trace], Trace]:
        found = self.relation(plan, outer)
        return [column.trace for column in found.columns], found.rows

    def _loop(self, node: Plan, outer: Columns) -> Relation:
        """A recursion: its columns are those of the start and of every round, which reads what was there before."""
        start, again = node.children
        first = self.relation(start, outer)
        ids = node.ids or tuple(column.id or 0 for column in first.columns)
        now = Relation(
            tuple(Column(id, column.name, column.trace) for id, column in zip(ids, first.columns, strict=False)),
            first.rows,
        )
        for _ in range(_MAX_ROUNDS):
            self._loops[node.id] = now
            more = self.relation(again, outer)
            then = Relation(self.positional([now, more]), self.ledger.merged([now.rows, more.rows]))
            if then.rows.same_as(now.rows) and all(
                new.trace.same_as(old.trace) for new, old in zip(then.columns, now.columns, strict=False)
            ):
                return then
            now = then
        return _doubted(self, now, Certainty.UNKNOWN, "a recursion was not followed to its end")


def needed(plan: Plan, field: str) -> tuple[Expression, ...]:
    """Expressions without which a node cannot be understood."""
    if field not in plan.lists:
        raise Invalid(f"the plan does not show {field} of {plan.kind}")
    return plan.lists[field]


def _doubted(walk: Walk, relation: Relation, certainty: Certainty, reason: str) -> Relation:
    columns = tuple(
        Column(column.id, column.name, walk.ledger.doubted(column.trace, certainty, reason))
        for column in relation.columns
    )
    return Relation(columns, relation.rows)


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
        tuple(Column(column.id, column.name, walk.ledger.merged(traces)) for column, traces in columns),
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
    if kind == "Explode" and width == 1:
        return [Trace(whole.masks, whole.doubts, fields)], rows
    return [whole] * width, rows


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
        return _doubted(walk, children[0], Certainty.UNKNOWN, reason)
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
    "LocalRelation": _leaf(Certainty.APPROXIMATE, "comes from rows that the program gave itself"),
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
