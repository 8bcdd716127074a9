"""Whether one plan over many partitions gives each of them what a plan over it alone would give.

A batch of partitions may run as one Spark job if no row of the output depends on rows of two partitions. The analysed
plan can prove it: the *key* (one column of each partitioned input per dimension) must be part of every grouping,
window, distinct, join and set operation above its input, and must reach the output, where it tells to which partition
a row belongs. What cannot be proven is refused with a reason that says what to change, and so is every node that is not
known here.

The proof is about the plan. It says nothing of a function that runs Spark actions while it makes the plan, such as
collecting a maximum to compare with: whoever asks must know that none ran.
"""

from collections.abc import Mapping, Sequence

import msgspec

from arco.core import ArcoError
from arco.spark._expressions import is_foreign
from arco.spark._keying import Mark, State, linked, made, plain, positional
from arco.spark._plans import Expression, Plan, parse_plan
from arco.spark._proof import Keys, Mixed, Proof, Rule, output
from arco.spark._relations import needed

__all__ = ["Keys", "Verdict", "partition_mixing"]


class Verdict(msgspec.Struct, frozen=True):
    proven: bool
    """Partitions do not mix."""
    reason: str = ""
    """Why that is not proven, and what to change."""
    columns: Mapping[str, str] = {}
    """By dimension the column of the output that tells the partition of a row."""


def partition_mixing(plan: str | Plan, keys: Keys) -> Verdict:
    """Whether partitions provably do not mix in a plan.

    Args:
        plan: as `toJSON` wrote it, or read from that. What is read from an explain does not say enough.
        keys: of every input. An input that is missing here differs between partitions in another way (a partition reads
            several of it, say), and nothing is proven of what uses it.
    """
    try:
        return _verdict(Proof(keys, _RULES), parse_plan(plan) if isinstance(plan, str) else plan)
    except Mixed as mixed:
        return Verdict(False, str(mixed))
    except ArcoError as error:
        return Verdict(False, error.message)
    except (LookupError, TypeError, ValueError) as error:
        return Verdict(False, f"the plan is not understood ({type(error).__name__})")


def _verdict(proof: Proof, plan: Plan) -> Verdict:
    state = proof.state(plan)
    if not state.keyed:
        raise Mixed("the output is made of no partitioned input, so it is the same for every partition")
    mark = proof.mark(state)
    columns = {}
    for dimension in proof.dimensions:
        held = [id for id in state.columns if id in mark.sure[dimension]]
        if not held:
            name = proof.key([dimension])
            raise Mixed(f"the output does not tell to which partition a row belongs: keep {name} in it")
        columns[dimension] = proof.names.get(held[0], "")
    return Verdict(True, columns=columns)


def _same(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return children[0]


def _last(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return children[-1]


def _definition(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return proof.define(plan, children[0])


def _reference(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return proof.refer(plan)


def _shared_leaf(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return State(output(plan))


def _project(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    return made(children[0], needed(plan, "projectList"))


def _filter(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    """A condition may make the keys of a join equal that had none (`from x, y where x.date = y.date`)."""
    (child,) = children
    return State(child.columns, linked(child.marks, needed(plan, "condition")))


def _aggregate(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = needed(plan, "groupingExpressions")
    what = "a grouping" if keys else "an aggregate over all rows"
    proof.need(children[0], keys, f"{what} brings rows of several partitions together: group by also {{key}}")
    return made(children[0], needed(plan, "aggregateExpressions"))


def _window(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = plan.lists.get("partitionSpec", ())
    proof.need(children[0], keys, "a window looks at rows of several partitions: partition it also by {key}")
    return children[0].with_columns(item.id for item in needed(plan, "windowExpressions"))


def _expand(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    """Grouping sets and unpivot: a column holds the key if it does in every copy of the row."""
    (child,) = children
    if not child.keyed:
        return State(output(plan))
    if plan.projections is None:
        raise Mixed("Spark does not say what an unpivot is made of: use stack or UNPIVOT in SQL")
    mark = proof.mark(child)
    sure = {
        dimension: frozenset(
            id
            for id, *items in zip(output(plan), *plan.projections, strict=True)
            if all(plain(item) in held for item in items)
        )
        for dimension, held in mark.sure.items()
    }
    return State(output(plan), (Mark(sure),))


def _generate(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    # A table function may keep rows until it terminates, even if it is called for one row at a time.
    if any(is_foreign(item) for item in needed(plan, "generator")):
        raise Mixed("a table function of somebody's own may look at rows of several partitions: use explode")
    return children[0].with_columns(item.id for item in needed(plan, "generatorOutput"))


def _distinct(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    (child,) = children
    every = [Expression("AttributeReference", (), id) for id in child.columns]
    proof.need(child, every, "distinct compares rows of several partitions: keep {key} among its columns")
    return child


def _deduplicate(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = needed(plan, "keys")
    proof.need(children[0], keys, "dropping duplicates compares rows of several partitions: add {key} to its columns")
    return children[0]


def _join(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    left, right = children
    kind, conditions = plan.name, plan.lists.get("condition", ())
    both = (*left.columns, *right.columns)
    if kind in ("Inner", "Cross"):
        return State(both, linked((*left.marks, *right.marks), conditions))
    if kind == "RightOuter":
        return State(both, _kept(proof, right, left, conditions))
    if kind == "LeftOuter":
        return State(both, _kept(proof, left, right, conditions))
    if kind in ("LeftSemi", "LeftAnti"):
        return State(left.columns, _kept(proof, left, right, conditions))
    if kind != "FullOuter":
        raise Mixed(f"a join of the kind {kind} is not known here")
    if left.keyed != right.keyed:
        raise Mixed("a full join keeps rows that all partitions share, once for all of them: join from the keyed side")
    if not left.keyed:
        return State(both)
    _kept(proof, left, right, conditions)
    sides = {name: (held, proof.mark(right).sure[name]) for name, held in proof.mark(left).sure.items()}
    return State(both, (Mark(dict.fromkeys(sides, frozenset()), sides),))


def _kept(proof: Proof, kept: State, other: State, conditions: Sequence[Expression]) -> tuple[Mark, ...]:
    """The marks of the side whose rows stay, whether the other side has a match or not."""
    if not other.keyed:
        return (proof.mark(kept),) if kept.keyed else ()
    if not kept.keyed:
        raise Mixed("a join keeps rows that all partitions share, once for all of them: join from the keyed side")
    if len(linked((proof.mark(kept), proof.mark(other)), conditions)) > 1:
        raise Mixed(f"a join brings rows of several partitions together: join also on {proof.key()}")
    return (proof.mark(kept),)  # the condition need not hold in rows without a match


def _lateral_join(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    (left,) = children
    (subquery,) = needed(plan, "right")
    if subquery.plan is None:
        raise Mixed("the plan does not show a query that it uses")
    return left.with_columns(proof.need_shared(subquery.plan, "a lateral query").columns)


def _union(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    keyed = [child for child in children if child.keyed]
    if not keyed:
        return children[0]
    if len(keyed) < len(children):
        raise Mixed("a union adds rows that all partitions share, once for all of them: cross join them with the keys")
    for child in children:
        proof.mark(child)
    return State(children[0].columns, (Mark(positional(children)),))


def _set_operation(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    left, right = children
    if not left.keyed and right.keyed:
        raise Mixed(f"{plan.kind.lower()} takes rows that all partitions share: put the keyed side first")
    if not left.keyed:
        return left
    _distinct(proof, plan, [left])
    if right.keyed:
        proof.mark(right)
        same = positional([left, right])
        missing = [dimension for dimension in proof.dimensions if not same[dimension]]
        if missing:
            name = proof.key(missing)
            raise Mixed(
                f"{plan.kind.lower()} compares rows of several partitions: put {name} at the same place on both sides"
            )
    return left


def _limit(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    if children[0].keyed:
        window = f"number the rows in a window partitioned by {proof.key()} and filter by that"
        raise Mixed(f"{_LIMITS[plan.kind]} counts the rows of all partitions together: {window}")
    return children[0]


def _sample(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    raise Mixed("a sample is not deterministic: filter by a hash of the row's own key")


def _over_rows(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    if any(child.keyed for child in children):
        raise Mixed(
            f"{plan.kind} runs somebody's own code, which may look at rows of several partitions "
            "and may change the key: use expressions or a function of one row"
        )
    return State(output(plan))


def _recursion(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    if any(child.keyed for child in children):
        raise Mixed("a recursion reads a partitioned input, which nothing is proven of: join its result instead")
    return State(plan.ids)


def _rdd(proof: Proof, plan: Plan, children: Sequence[State]) -> State:
    raise Mixed("an RDD hides whether it is made of a partitioned input: use VALUES in SQL, or an input of its own")


_LIMITS = {"GlobalLimit": "limit", "LocalLimit": "limit", "Offset": "offset", "Tail": "tail"}

_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "CollectMetrics",
            "PipeOperator",
            "RebalancePartitions",
            "Repartition",
            "RepartitionByExpression",
            "ResolvedHint",
            "Sort",
            "SubqueryAlias",
            "View",
        ),
        _same,
    ),
    "WithCTE": _last,
    "CTERelationDef": _definition,
    "CTERelationRef": _reference,
    **dict.fromkeys(
        (
            "DataSourceV2Relation",
            "LocalRelation",
            "LogicalRelation",
            "OneRowRelation",
            "Range",
            "UnionLoopRef",
        ),
        _shared_leaf,
    ),
    **dict.fromkeys(("ExternalRDD", "LogicalRDD"), _rdd),
    "Project": _project,
    "Filter": _filter,
    "Aggregate": _aggregate,
    "Window": _window,
    "Expand": _expand,
    "Generate": _generate,
    "Distinct": _distinct,
    "Deduplicate": _deduplicate,
    "Join": _join,
    "LateralJoin": _lateral_join,
    "Union": _union,
    **dict.fromkeys(("Except", "Intersect"), _set_operation),
    **dict.fromkeys(_LIMITS, _limit),
    "Sample": _sample,
    **dict.fromkeys(
        (
            "FlatMapCoGroupsInArrow",
            "FlatMapCoGroupsInPandas",
            "FlatMapGroupsInArrow",
            "FlatMapGroupsInPandas",
            "MapInArrow",
            "MapInPandas",
            "PythonMapInArrow",
        ),
        _over_rows,
    ),
    "UnionLoop": _recursion,
}
