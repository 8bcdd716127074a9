"""The walk of a proof that partitions do not mix: from the leaves of a plan to its root, a state at each node.

What each kind of node needs is in `_mixing`. Whatever is not proven ends the walk: `Mixed` says why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from arco.spark._keying import Mark, State, plain, renamed
from arco.spark._nodes import relation_of
from arco.spark._plans import Expression, Plan, bottom_up
from arco.spark._traces import Ledger

__all__ = ["Keys", "Mixed", "Proof", "Rule", "output"]

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


class Mixed(Exception):
    """Not proven, and why."""


class Proof:
    """Goes through one plan from its leaves to its root."""

    def __init__(self, keys: Keys, rules: "Mapping[str, Rule]") -> None:
        self._keys = keys
        self._rules = rules
        self.dimensions = sorted({dimension for columns in keys.values() for dimension in columns})
        self.names: dict[int | None, str] = {}
        self._defined: dict[int | None, State] = {}

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
            if node.kind not in self._rules:
                raise Mixed(f"the plan has a node {node.kind}, which is not known here")
            done.append(self._rules[node.kind](self, node, children))
        return done.pop()

    def mark(self, state: State) -> Mark:
        """The only mark of a keyed relation."""
        if len(state.marks) > 1:
            raise Mixed(f"a join brings rows of several partitions together: join also on {self.key()}")
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
            raise Mixed(otherwise.format(key=self.key(missing)))

    def need_shared(self, query: Plan, what: str) -> State:
        """Refuse a query inside an expression unless all partitions share what it reads."""
        if not any(self._keys.get(name) for name in _inputs(query)):
            state = self.state(query)
            if not state.keyed:  # it may be, by a common table expression
                return state
        raise Mixed(f"{what} reads a partitioned input: write it as a join, also on {self.key()}")

    def define(self, plan: Plan, state: State) -> State:
        self._defined[plan.id] = state
        return state

    def refer(self, plan: Plan) -> State:
        if plan.id not in self._defined:
            raise Mixed("the plan refers to a query that it does not show")
        return renamed(self._defined[plan.id], output(plan))

    def _input(self, node: Plan, name: str) -> State:
        if name not in self._keys:
            raise Mixed(f"partitions read the input {name} in another way than by a key")
        columns = relation_of(node, Ledger()).columns
        self.names.update((column.id, column.name) for column in columns)
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
                raise Mixed(f"the input {name} has no column for the dimension {dimension}")
        return State(ids, (Mark(sure),))

    def _look_at(self, plan: Plan) -> None:
        """Note names, and refuse expressions whose value depends on more than the row."""
        rows = [item for row in plan.projections or () for item in row]
        for items in (*plan.lists.values(), rows):
            for item in items:
                if item.id is not None and item.name:
                    self.names[item.id] = item.name
                for part in bottom_up(item):
                    self._look_at_part(part)

    def _look_at_part(self, part: Expression) -> None:
        if part.kind == "Text":
            raise Mixed("the text of a plan does not say enough to prove anything")
        if part.kind in _CHANCE or (not part.deterministic and part.kind != "PythonUDTF"):
            name = part.name or part.kind
            raise Mixed(f"{name} is not deterministic: make the value of columns, or the row's own key")
        if part.evaluation in _ITERATORS:
            raise Mixed(f"{part.name} may carry something from batch to batch of rows: write it for one row or batch")
        if part.plan is not None:
            self.need_shared(part.plan, "a lateral query" if part.kind == "LateralSubquery" else "a subquery")


Rule = Callable[[Proof, Plan, Sequence[State]], State]


def _inputs(plan: Plan) -> Iterable[str]:
    """The inputs that a plan reads, also in expressions."""
    waiting = [plan]
    while waiting:
        for node in bottom_up(waiting.pop(), stop=lambda node: node.input is not None):
            if node.input is not None:
                yield node.input
            for items in node.lists.values():
                waiting += [part.plan for item in items for part in bottom_up(item) if part.plan is not None]


def output(plan: Plan) -> tuple[int | None, ...]:
    """Ids of the columns that a node says it has."""
    return tuple(item.id for item in plan.lists.get("output", ()))
