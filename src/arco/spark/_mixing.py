"""Whether one plan over many partitions gives each of them what a plan over it alone would give.

A batch of partitions may run as one Spark job if no row of the output depends on rows of two partitions. The analysed
plan can prove it: the *key* (one column of each partitioned input per dimension) must be part of every grouping,
window, distinct, join and set operation above its input, and must reach the output, where it tells to which partition
a row belongs. What cannot be proven is refused with a reason that says what to change, and so is every node that is not
known here.

The proof is about the plan. It says nothing of a function that runs Spark actions while it makes the plan, such as
collecting a maximum to compare with: whoever asks must know that none ran.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from arco.core import ArcoError
from arco.spark._expressions import is_foreign
from arco.spark._keying import Mark, State, linked, made, plain, positional, renamed
from arco.spark._plans import Expression, Plan, bottom_up, parse_plan
from arco.spark._relations import Walk
from arco.spark._traces import Ledger

__all__ = ["Keys", "Verdict", "partition_mixing"]

Keys = Mapping[str, Mapping[str, str]]
"""By input: its column for each dimension of the partitions; none at all for an input that all partitions share."""

_CHANCE = frozenset(
    {
        "CallMethodViaReflection",
        "MonotonicallyIncreasingID",
        "Rand",
        "RandStr",
        "Randn",
        "Shuffle",
        "SparkPartitionID",
        "TryReflect",
        "Uniform",
        "Uuid",
    }
)
_ITERATORS = (204, 251)
"""Python functions that see batch after batch and may carry something over: iterators of pandas and of Arrow."""


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
        return _Proof(keys).verdict(parse_plan(plan) if isinstance(plan, str) else plan)
    except _Mixed as mixed:
        return Verdict(False, str(mixed))
    except ArcoError as error:
        return Verdict(False, error.message)


class _Mixed(Exception):
    """Not proven, and why."""


class _Proof:
    """Goes through one plan from its leaves to its root."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.dimensions = sorted({dimension for columns in keys.values() for dimension in columns})
        self._names: dict[int | None, str] = {}
        self._defined: dict[int | None, State] = {}

    def verdict(self, plan: Plan) -> Verdict:
        state = self.state(plan)
        if not state.keyed:
            raise _Mixed("the output is made of no partitioned input, so it is the same for every partition")
        mark = self.mark(state)
        columns = {}
        for dimension in self.dimensions:
            held = [id for id in state.columns if id in mark.sure[dimension]]
            if not held:
                name = self.key([dimension])
                raise _Mixed(f"the output does not tell to which partition a row belongs: keep {name} in it")
            columns[dimension] = self._names.get(held[0], "")
        return Verdict(True, columns=columns)

    def state(self, root: Plan) -> State:
        done: list[State] = []
        for node in bottom_up(root, stop=lambda node: node.input is not None):
            if node.input is not None:
                done.append(self._input(node, node.input))
                continue
            count = len(node.children)
            children = done[len(done) - count :]
            del done[len(done) - count :]
            self._look_at(node)
            done.append(_RULES.get(node.kind, _unknown)(self, node, children))
        return done.pop()

    def mark(self, state: State) -> Mark:
        """The only mark of a keyed relation."""
        if len(state.marks) > 1:
            raise _Mixed(f"a join brings rows of several partitions together: join also on {self.key()}")
        return state.marks[0]

    def key(self, dimensions: Iterable[str] | None = None) -> str:
        """The key columns as the inputs call them."""
        wanted = self.dimensions if dimensions is None else dimensions
        names = [dict.fromkeys(key[name] for key in self._keys.values() if name in key) for name in wanted]
        return ", ".join(" or ".join(found) for found in names)

    def need(self, state: State, items: Iterable[Expression], otherwise: str) -> None:
        """Refuse unless the key is among what rows are brought together by."""
        if not state.keyed:
            return
        mark = self.mark(state)
        ids = {plain(item) for item in items}
        missing = [dimension for dimension in self.dimensions if not mark.sure[dimension] & ids]
        if missing:
            raise _Mixed(otherwise.format(key=self.key(missing)))

    def define(self, plan: Plan, state: State) -> State:
        self._defined[plan.id] = state
        return state

    def refer(self, plan: Plan) -> State:
        if plan.id not in self._defined:
            raise _Mixed("the plan refers to a query that it does not show")
        return renamed(self._defined[plan.id], _output(plan))

    def _input(self, node: Plan, name: str) -> State:
        if name not in self._keys:
            raise _Mixed(f"partitions read the input {name} in another way than by a key")
        columns = Walk(Ledger()).relation(node).columns
        self._names.update((column.id, column.name) for column in columns)
        ids, key = tuple(column.id for column in columns), self._keys[name]
        if not key:
            return State(ids)
        sure = {
            dimension: frozenset(column.id for column in columns if column.name.lower() == key[dimension].lower())
            if dimension in key
            else frozenset()
            for dimension in self.dimensions
        }
        for dimension, held in sure.items():
            if not held:
                raise _Mixed(f"the input {name} has no column for the dimension {dimension}")
        return State(ids, (Mark(sure),))

    def _look_at(self, plan: Plan) -> None:
        """Note names, and refuse expressions whose value depends on more than the row."""
        rows = [item for row in plan.projections or () for item in row]
        for items in (*plan.lists.values(), rows):
            for item in items:
                if item.id is not None and item.name:
                    self._names[item.id] = item.name
                for part in bottom_up(item):
                    self._look_at_part(part)

    def _look_at_part(self, part: Expression) -> None:
        if part.kind in _CHANCE or not part.deterministic:
            name = part.name or part.kind
            raise _Mixed(f"{name} is not deterministic: make the value of columns, or the row's own key")
        if part.evaluation in _ITERATORS:
            raise _Mixed(f"{part.name} may carry something from batch to batch of rows: write it for one row or batch")
        if part.plan is not None and part.kind != "LateralSubquery" and self.state(part.plan).keyed:
            raise _Mixed(f"a subquery reads a partitioned input: write it as a join, also on {self.key()}")


Rule = Callable[[_Proof, Plan, Sequence[State]], State]


def _output(plan: Plan) -> tuple[int | None, ...]:
    return tuple(item.id for item in plan.lists.get("output", ()))


def _same(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return children[0]


def _last(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return children[-1]


def _definition(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return proof.define(plan, children[0])


def _reference(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return proof.refer(plan)


def _shared_leaf(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return State(_output(plan))


def _project(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    return made(children[0], plan.lists["projectList"])


def _filter(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    """A condition may make the keys of a join equal that had none (`from x, y where x.date = y.date`)."""
    (child,) = children
    return State(child.columns, linked(child.marks, plan.lists["condition"]))


def _aggregate(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = plan.lists["groupingExpressions"]
    what = "a grouping" if keys else "an aggregate over all rows"
    proof.need(children[0], keys, f"{what} brings rows of several partitions together: group by also {{key}}")
    return made(children[0], plan.lists["aggregateExpressions"])


def _window(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = plan.lists.get("partitionSpec", ())
    proof.need(children[0], keys, "a window looks at rows of several partitions: partition it also by {key}")
    return children[0].with_columns(item.id for item in plan.lists["windowExpressions"])


def _expand(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    """Grouping sets and unpivot: a column holds the key if it does in every copy of the row."""
    (child,) = children
    if not child.keyed:
        return State(_output(plan))
    if plan.projections is None:
        raise _Mixed("Spark does not say what an unpivot is made of: use stack or UNPIVOT in SQL")
    mark = proof.mark(child)
    sure = {
        dimension: frozenset(
            id
            for id, *items in zip(_output(plan), *plan.projections, strict=True)
            if all(plain(item) in held for item in items)
        )
        for dimension, held in mark.sure.items()
    }
    return State(_output(plan), (Mark(sure),))


def _generate(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    (child,) = children
    if child.keyed and any(is_foreign(item) for item in plan.lists["generator"]):
        raise _Mixed("a table function of somebody's own may look at rows of several partitions: use explode")
    return child.with_columns(item.id for item in plan.lists["generatorOutput"])


def _distinct(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    (child,) = children
    every = [Expression("AttributeReference", (), id) for id in child.columns]
    proof.need(child, every, "distinct compares rows of several partitions: keep {key} among its columns")
    return child


def _deduplicate(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    keys = plan.lists["keys"]
    proof.need(children[0], keys, "dropping duplicates compares rows of several partitions: add {key} to its columns")
    return children[0]


def _join(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
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
        raise _Mixed(f"a join of the kind {kind} is not known here")
    if left.keyed != right.keyed:
        raise _Mixed("a full join keeps rows that all partitions share, once for all of them: join from the keyed side")
    if not left.keyed:
        return State(both)
    _kept(proof, left, right, conditions)
    sides = {name: (held, proof.mark(right).sure[name]) for name, held in proof.mark(left).sure.items()}
    return State(both, (Mark(dict.fromkeys(sides, frozenset()), sides),))


def _kept(proof: _Proof, kept: State, other: State, conditions: Sequence[Expression]) -> tuple[Mark, ...]:
    """The marks of the side whose rows stay, whether the other side has a match or not."""
    if not other.keyed:
        return (proof.mark(kept),) if kept.keyed else ()
    if not kept.keyed:
        raise _Mixed("a join keeps rows that all partitions share, once for all of them: join from the keyed side")
    if len(linked((proof.mark(kept), proof.mark(other)), conditions)) > 1:
        raise _Mixed(f"a join brings rows of several partitions together: join also on {proof.key()}")
    return (proof.mark(kept),)  # the condition need not hold in rows without a match


def _lateral_join(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    (left,) = children
    (subquery,) = plan.lists["right"]
    if subquery.plan is None:
        raise _Mixed("the plan does not show a query that it uses")
    right = proof.state(subquery.plan)
    if right.keyed:
        raise _Mixed(f"a lateral query reads a partitioned input: write it as a join, also on {proof.key()}")
    return left.with_columns(right.columns)


def _union(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    keyed = [child for child in children if child.keyed]
    if not keyed:
        return children[0]
    if len(keyed) < len(children):
        raise _Mixed("a union adds rows that all partitions share, once for all of them: cross join them with the keys")
    for child in children:
        proof.mark(child)
    return State(children[0].columns, (Mark(positional(children)),))


def _set_operation(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    left, right = children
    if not left.keyed and right.keyed:
        raise _Mixed(f"{plan.kind.lower()} takes rows that all partitions share: put the keyed side first")
    if not left.keyed:
        return left
    _distinct(proof, plan, [left])
    if right.keyed:
        proof.mark(right)
        same = positional([left, right])
        missing = [dimension for dimension in proof.dimensions if not same[dimension]]
        if missing:
            name = proof.key(missing)
            raise _Mixed(
                f"{plan.kind.lower()} compares rows of several partitions: put {name} at the same place on both sides"
            )
    return left


def _limit(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    if children[0].keyed:
        window = f"number the rows in a window partitioned by {proof.key()} and filter by that"
        raise _Mixed(f"{_LIMITS[plan.kind]} counts the rows of all partitions together: {window}")
    return children[0]


def _sample(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    raise _Mixed("a sample is not deterministic: filter by a hash of the row's own key")


def _over_rows(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    if any(child.keyed for child in children):
        raise _Mixed(
            f"{plan.kind} runs somebody's own code, which may look at rows of several partitions "
            "and may change the key: use expressions or a function of one row"
        )
    return State(_output(plan))


def _recursion(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    if any(child.keyed for child in children):
        raise _Mixed("a recursion reads a partitioned input, which nothing is proven of: join its result instead")
    return State(plan.ids)


def _rdd(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    raise _Mixed("an RDD hides whether it is made of a partitioned input: use VALUES in SQL, or an input of its own")


def _unknown(proof: _Proof, plan: Plan, children: Sequence[State]) -> State:
    raise _Mixed(f"the plan has a node {plan.kind}, which is not known here")


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
