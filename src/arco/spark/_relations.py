"""The trace of a plan: what each of its columns depends on, and what decides about its rows.

A *relation* is what a node of the plan gives: columns in order, each with its expression id and trace, and one trace of
what decides which rows there are (`rows`): conditions of filters and joins, keys of groups, order. That is true of all
columns alike, so it is kept once and not under each of them.

The walk goes from the leaves to the root; what each kind of node does is in `_nodes`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from arco.core import Invalid
from arco.spark._expressions import Columns, Expressions
from arco.spark._plans import Expression, Plan, bottom_up
from arco.spark._traces import EMPTY, Certainty, Kind, Ledger, Trace

__all__ = ["Column", "Relation", "Rule", "Walk", "needed"]

_MAX_ROUNDS = 64
"""Of following a recursion until nothing new turns up; each adds at least one dependency."""


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

    def __init__(self, ledger: Ledger, rules: Mapping[str, Rule], otherwise: Rule) -> None:
        self.ledger = ledger
        self._rules = rules
        self._otherwise = otherwise
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
            done.append(self._rules.get(node.kind, self._otherwise)(self, node, children, around))
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
            Column(same[0].id, same[0].name, self.ledger.either(column.trace for column in same))
            for same in zip(*(relation.columns for relation in relations), strict=False)
        )

    def doubted(self, relation: Relation, certainty: Certainty, reason: str) -> Relation:
        columns = tuple(
            Column(column.id, column.name, self.ledger.doubted(column.trace, certainty, reason))
            for column in relation.columns
        )
        return Relation(columns, relation.rows)

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
        return self.doubted(now, Certainty.UNKNOWN, "a recursion was not followed to its end")


def needed(plan: Plan, field: str) -> tuple[Expression, ...]:
    """Expressions without which a node cannot be understood."""
    if field not in plan.lists:
        raise Invalid(f"the plan does not show {field} of {plan.kind}")
    return plan.lists[field]
