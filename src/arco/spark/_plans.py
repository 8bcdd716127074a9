"""Spark's analysed plan as a tree: what `LogicalPlan.toJSON` says, without the values that stand in it.

A *plan* is one relational node (`Project`, `Join`, ...), an *expression* one node of what it computes. Both are named
by the last part of their Scala class. Attributes and aliases carry an expression id: the same id is the same column, so
that nobody has to resolve names. `toJSON` writes a tree as a flat list in pre-order, each node with its number of
children, and so trees are built and walked here without recursion: a plan may be thousands of nodes deep.

Literals are dropped while reading: nothing that is made of a plan can repeat a value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from arco.core import Invalid, TooLarge

__all__ = [
    "INPUT_PREFIX",
    "LITERAL",
    "MAX_PLAN_CHARACTERS",
    "Expression",
    "Plan",
    "Projections",
    "bottom_up",
    "is_complete",
    "parse_plan",
]

INPUT_PREFIX = "arco_input_"
"""What the alias of an input starts with; the parameter follows."""

MAX_PLAN_CHARACTERS = 64 << 20
"""Of plan text; 5,000 columns take about 2 million a node."""

MAX_NESTING = 32
"""Of subqueries in expressions, the only part of a plan that is read recursively."""


class Expression(NamedTuple):
    kind: str
    children: "tuple[Expression, ...]" = ()
    id: int | None = None
    """Of attributes, outer references and aliases."""
    name: str = ""
    """Of attributes, aliases and functions that people wrote."""
    ordinal: int = -1
    """Of the field that is taken out of a struct."""
    deterministic: bool = True
    """Whether a function that somebody wrote is declared so."""
    type: Any = None
    """Of attributes and casts, as Spark writes it."""
    evaluation: int = 0
    """How Python code runs, by Spark's number for it."""
    plan: "Plan | None" = None
    """Of a subquery."""


class Plan(NamedTuple):
    kind: str
    children: "tuple[Plan, ...]" = ()
    name: str = ""
    """Of an alias; of a join its type."""
    id: int | None = None
    """Of a common table expression or a recursion, and of references to them."""
    lists: Mapping[str, tuple[Expression, ...]] = {}
    """Expressions by field. What Spark leaves out is not here; what is empty is."""
    projections: tuple[tuple[Expression, ...], ...] | None = None
    """Of `Expand`: what each copy of a row is made of."""
    ids: tuple[int, ...] = ()
    """Of the columns of a recursion."""
    facts: Mapping[str, int | bool] = {}
    """Flags and numbers by field."""

    @property
    def input(self) -> str | None:
        """The parameter, if this is where an input begins."""
        if self.kind == "SubqueryAlias" and self.name.startswith(INPUT_PREFIX):
            return self.name.removeprefix(INPUT_PREFIX)
        return None


Projections = Mapping[tuple[int | None, ...], tuple[tuple[Expression, ...], ...]]
"""Of `Expand` nodes, by the ids of the columns they make."""

LITERAL = Expression("Literal")

_TYPED = ("AttributeReference", "Cast")
_FIELD_OF = ("GetStructField", "GetArrayStructFields")

Node = TypeVar("Node", Plan, Expression)


def bottom_up(root: Node, stop: Callable[[Node], bool] = lambda node: False) -> Iterator[Node]:
    """Every node after its children, those from left to right; nothing below a node at which to stop."""
    order: list[Node] = []
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if not stop(node):
            waiting.extend(node.children)
    yield from reversed(order)


def is_complete(text: str) -> bool:
    """Whether `toJSON` wrote everything: the projections of some `Expand` nodes (`DataFrame.unpivot`) become null."""
    return '"projections":null' not in text


def parse_plan(text: str, projections: Projections | None = None) -> Plan:
    """The plan that `toJSON` wrote, with projections from elsewhere where it is not complete.

    `TooLarge` above the limits, `Invalid` if this is no plan.
    """
    if len(text) > MAX_PLAN_CHARACTERS:
        raise TooLarge(f"the plan has {len(text):,} characters, of which at most {MAX_PLAN_CHARACTERS:,} are looked at")
    try:
        return _Reader(projections or {}).plan(msgspec.json.decode(text), 0)
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"this is no analysed plan of Spark ({type(error).__name__})") from None


class _Reader:
    """Builds trees from flat lists."""

    def __init__(self, projections: Projections) -> None:
        self._projections = projections

    def plan(self, flat: Sequence[dict[str, Any]], nesting: int) -> Plan:
        if nesting > MAX_NESTING:
            raise TooLarge(f"the plan nests subqueries more than {MAX_NESTING} deep")
        stack: list[Plan] = []
        for raw in reversed(flat):
            children = tuple([stack.pop() for _ in range(raw["num-children"])])
            stack.append(self._plan_node(raw, children, nesting))
        (root,) = stack
        return root

    def _plan_node(self, raw: dict[str, Any], children: tuple[Plan, ...], nesting: int) -> Plan:
        lists: dict[str, tuple[Expression, ...]] = {}
        facts: dict[str, int | bool] = {}
        projections = None
        for field, value in raw.items():
            if isinstance(value, int):
                facts[field] = value
            elif not isinstance(value, list):
                continue
            elif _is_tree(value):
                lists[field] = (self._expression(value, nesting),)
            elif all(_is_tree(item) for item in value):
                lists[field] = tuple([self._expression(item, nesting) for item in value])
            elif field == "projections":
                projections = tuple(tuple(self._expression(item, nesting) for item in row) for row in value)
        kind = _short(raw["class"])
        if kind == "Expand" and projections is None:
            projections = self._projections.get(tuple(column.id for column in lists["output"]))
        name = raw["identifier"]["name"] if kind == "SubqueryAlias" else _join_type(raw.get("joinType"))
        id = next((facts[field] for field in ("cteId", "loopId", "id") if field in facts), None)
        ids = tuple(item["id"] for item in raw.get("outputAttrIds") or ())
        return Plan(kind, children, name, id, lists, projections, ids, facts)

    def _expression(self, flat: Sequence[dict[str, Any]], nesting: int) -> Expression:
        stack: list[Expression] = []
        for raw in reversed(flat):
            children = tuple([stack.pop() for _ in range(raw["num-children"])])
            stack.append(self._expression_node(raw, children, nesting))
        (root,) = stack
        return root

    def _expression_node(self, raw: dict[str, Any], children: tuple[Expression, ...], nesting: int) -> Expression:
        kind = _short(raw["class"])
        if kind == "Literal":
            return LITERAL
        if kind == "OuterReference":
            of = raw["e"][0]
            return Expression(kind, id=of["exprId"]["id"], name=of["name"])
        if kind == "Cast" and raw.get("dataType") == children[0].type is not None:
            return children[0]  # views cast every column, most to the type it has
        exact, ordinal, plan = raw.get("exprId"), raw.get("ordinal"), raw.get("plan")
        name = raw.get("name") or raw.get("udfName")
        return Expression(
            kind,
            children,
            exact["id"] if isinstance(exact, dict) else None,
            name if isinstance(name, str) else "",
            ordinal if kind in _FIELD_OF and isinstance(ordinal, int) else -1,
            raw.get("udfDeterministic") is not False,
            raw.get("dataType") if kind in _TYPED else None,
            raw.get("evalType") or 0,
            self.plan(plan, nesting + 1) if plan is not None and _is_tree(plan) else None,
        )


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "class" in value[0]


def _short(name: str) -> str:
    return name[name.rfind(".") + 1 :]


def _join_type(raw: Any) -> str:
    """`LeftOuter` of `{"object": "org.apache.spark.sql.catalyst.plans.LeftOuter$"}`."""
    if not isinstance(raw, dict):
        return ""
    return _short(str(raw.get("object") or raw.get("product-class") or "")).removesuffix("$")
