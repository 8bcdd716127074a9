"""The analysed plan read from the text of an extended explain: all that Spark Connect tells of it.

The text is meant for people. It shows columns as `name#id`, subqueries as extra branches, functions by name only, and
literals without quotes, so that brackets in a literal can make it unreadable. What is read here has the shape that
`parse_plan` gives, with the classes of expressions that matter and `Text` for all others.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from arco.core import Invalid, TooLarge
from arco.spark._plans import MAX_PLAN_CHARACTERS, Expression, Plan, Projections, bottom_up
from arco.spark._text import Group, Parser

__all__ = ["parse_explain", "projections_of"]

_SECTION = re.compile(r"^== (.*) ==$", re.MULTILINE)
_BRANCH = re.compile(r"^((?:[: ]  )*)([:+]- )?")
_KIND = re.compile(r"[A-Za-z]\w*")
_ID = re.compile(r"#(\d+)")
_CUT = re.compile(r"\.\.\. \d+ more fields")

_NAMES = {"Relation": "LogicalRelation", "RelationV2": "DataSourceV2Relation"}
_OUTPUTS = frozenset({"CTERelationRef", "LocalRelation", "LogicalRDD", "ScriptTransformation", "UnionLoopRef"})
_FUNCTIONS_OVER_ROWS = ("FlatMap", "MapIn", "PythonMapIn")


class _Line(NamedTuple):
    depth: int
    text: str


def parse_explain(text: str) -> Plan:
    """The plan in the section `Analyzed Logical Plan`. `Invalid` if it cannot be read."""
    if len(text) > MAX_PLAN_CHARACTERS:
        raise TooLarge(f"the plan has {len(text):,} characters, of which at most {MAX_PLAN_CHARACTERS:,} are looked at")
    lines = _lines(_section(text))
    if not lines:
        raise Invalid("the text has no analysed plan")
    try:
        return _Tree(lines).plan()
    except (RecursionError, LookupError, ValueError) as error:
        raise Invalid(f"the text of the plan cannot be read ({type(error).__name__})") from None


def projections_of(text: str) -> Projections:
    """What the `Expand` nodes in the text of a plan are made of; nothing if it cannot be read."""
    try:
        plan = parse_explain(text)
    except (Invalid, TooLarge):
        return {}
    found = {}
    waiting = [plan]
    while waiting:
        for node in bottom_up(waiting.pop()):
            if node.kind == "Expand" and node.projections is not None:
                found[tuple(column.id for column in node.lists["output"])] = node.projections
            expressions = [item for items in node.lists.values() for item in items]
            waiting += [part.plan for item in expressions for part in bottom_up(item) if part.plan is not None]
    return found


def _section(text: str) -> str:
    parts = _SECTION.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=False):
        if name == "Analyzed Logical Plan":
            # The first line is the schema: it shows names, and no ids.
            return str(body).lstrip("\n").partition("\n")[2] if not body.startswith("\n\n") else str(body)[2:]
    raise Invalid("the text has no section `Analyzed Logical Plan`")


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    if _CUT.search(text):
        raise Invalid("Spark shortened the plan; set spark.sql.debug.maxToStringFields higher")
    for line in text.rstrip().split("\n"):
        branch = _BRANCH.match(line)
        prefix, mark = branch.groups() if branch else ("", None)
        rest = line[len(prefix) + len(mark or "") :]
        if found and (mark is None or not _KIND.match(rest)):
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line}")  # a literal with a line break
        else:
            found.append(_Line(len(prefix) // 3 + (mark is not None), rest))
    return found


class _Tree:
    """Lines by depth. A branch two levels below its node is a subquery in an expression of that node."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        self._lines = lines
        self._defined: set[int] = set()
        """Ids of columns below: whatever else ends in an id is made there."""

    def plan(self) -> Plan:
        children: list[list[int]] = [[] for _ in self._lines]
        inner: list[list[int]] = [[] for _ in self._lines]
        path: list[int] = []
        for at, line in enumerate(self._lines):
            while path and self._lines[path[-1]].depth >= line.depth:
                path.pop()
            if path:
                close = self._lines[path[-1]].depth == line.depth - 1
                (children if close else inner)[path[-1]].append(at)
            path.append(at)
        done: list[Plan | None] = [None] * len(self._lines)
        # Lines below come after, but what stands left must be read first: it may define what the right refers to.
        for at in self._order(children, inner):
            below = tuple(plan for index in children[at] if (plan := done[index]) is not None)
            queries = [plan for index in inner[at] if (plan := done[index]) is not None]
            done[at] = self._node(self._lines[at].text, below, queries)
        root = done[0]
        if root is None:
            raise Invalid("the text has no analysed plan")
        return root

    def _order(self, children: Sequence[list[int]], inner: Sequence[list[int]]) -> list[int]:
        order, waiting = [], [0]
        while waiting:
            at = waiting.pop()
            order.append(at)
            waiting += [*children[at], *inner[at]]
        return order[::-1]

    def _node(self, text: str, children: tuple[Plan, ...], queries: list[Plan]) -> Plan:
        name = _KIND.match(text)
        if name is None:
            raise Invalid("the text of the plan cannot be read")
        kind = _NAMES.get(name.group(), name.group())
        parser = Parser(self._defined, queries)
        if kind in ("SQLFunctionNode", "SubqueryAlias", "View", "Range"):
            return Plan(kind, children, text[name.end() :].strip())
        arguments = parser.arguments(text[name.end() :])
        if kind == "Project" and children[0].kind == "UnionLoop":
            children = (self._loop(children[0], arguments[0], parser),)
        node = _READERS.get(kind, _plain)(kind, children, arguments, parser)
        if kind in _READERS and parser.unused:
            raise Invalid("the text of the plan does not show where a subquery is used")
        for items in (*node.lists.values(), *(node.projections or ())):
            self._defined.update(item.id for item in items if item.id is not None)
        return node

    def _loop(self, loop: Plan, above: Group, parser: Parser) -> Plan:
        """A recursion does not show the ids of its columns. What is above it names them all, in order."""
        made = [_ID.search(item.text) for item in parser.arguments(above.inside)]
        ids = tuple(int(found.group(1)) for found in made if found is not None)
        self._defined.update(ids)
        return loop._replace(ids=ids)


# Each kind of node by the order in which Spark prints its fields, empty lists left out


def _plain(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    lists = [argument for argument in arguments if argument.is_list]
    if kind in _OUTPUTS or kind.startswith(_FUNCTIONS_OVER_ROWS):
        made = {"output": parser.columns(lists[-1] if lists else Group(""))}
        if kind.startswith("FlatMap") and len(lists) > 1:
            made["groupingAttributes"] = parser.expressions(lists[0])
        return Plan(kind, children, id=_number(arguments), lists=made)
    return Plan(kind, children, id=_number(arguments))


def _relation(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    """A table: perhaps its name, its columns in brackets, what it is."""
    text = ", ".join(argument.text for argument in arguments)
    found = re.search(r"\[.*\]", text)
    return Plan(kind, children, lists={"output": parser.columns(Group(found.group())) if found else ()})


def _cogroup(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    counts = [int(argument.text) for argument in arguments[:2]]
    facts = dict(zip(("leftGroupingLen", "rightGroupingLen"), counts, strict=True))
    return Plan(kind, children, lists={"output": parser.columns(arguments[-1])}, facts=facts)


def _project(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, lists={"projectList": parser.expressions(arguments[0])})


def _aggregate(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    keys = parser.expressions(arguments[0]) if len(arguments) > 1 else ()
    return Plan(
        kind, children, lists={"groupingExpressions": keys, "aggregateExpressions": parser.expressions(arguments[-1])}
    )


def _window(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, lists={"windowExpressions": parser.expressions(arguments[0])})


def _condition(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, lists={"condition": (parser.expression(arguments[0]),)})


def _sort(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, lists={"order": parser.expressions(arguments[0])})


def _keys(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, lists={"keys": parser.expressions(arguments[0]) if arguments else ()})


def _join(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    given = [argument for argument in arguments[1:] if "Hint=" not in argument.text]
    lists = {"condition": (parser.expression(given[0]),)} if given else {}
    return Plan(kind, children, arguments[0].text.strip(), lists=lists)


def _lateral_join(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    lists = {"right": (parser.expression(arguments[0]),)}
    if len(arguments) > 2:
        lists["condition"] = (parser.expression(arguments[2]),)
    return Plan(kind, children, arguments[1].text.strip(), lists=lists)


def _generate(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    generator = parser.expression(arguments[0])
    if generator.kind == "AttributeReference":
        generator = Expression("Text", (generator,))
    return Plan(kind, children, lists={"generator": (generator,), "generatorOutput": parser.columns(arguments[-1])})


def _expand(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    rows = tuple(parser.expressions(row, known=True) for row in parser.arguments(arguments[0].inside))
    return Plan(kind, children, lists={"output": parser.columns(arguments[1])}, projections=rows)


def _set_operation(kind: str, children: tuple[Plan, ...], arguments: Sequence[Group], parser: Parser) -> Plan:
    return Plan(kind, children, facts={"isAll": arguments[0].text.strip().endswith("true")})


def _number(arguments: Sequence[Group]) -> int | None:
    first = arguments[0].text.strip() if arguments else ""
    return int(first) if first.isdigit() else None


_READERS = {
    **dict.fromkeys(("DataSourceV2Relation", "LogicalRelation"), _relation),
    **dict.fromkeys(("FlatMapCoGroupsInArrow", "FlatMapCoGroupsInPandas"), _cogroup),
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Filter": _condition,
    "Sort": _sort,
    **dict.fromkeys(("Deduplicate", "DeduplicateWithinWatermark"), _keys),
    "Join": _join,
    "LateralJoin": _lateral_join,
    "Generate": _generate,
    "Expand": _expand,
    **dict.fromkeys(("Except", "Intersect"), _set_operation),
}
