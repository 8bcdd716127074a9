"""Plans as `toJSON` writes them, for tests that need no Spark."""

import json
from typing import Any

__all__ = ["add", "alias", "attribute", "input_of", "literal", "node", "plan", "project"]

Flat = list[dict[str, Any]]

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def attribute(id: int, name: str = "c") -> Flat:
    return [_expression("AttributeReference", 0, name=name, dataType="integer", exprId=_id(id))]


def literal(value: str) -> Flat:
    return [_expression("Literal", 0, value=value, dataType="string")]


def alias(id: int, name: str, of: Flat) -> Flat:
    return [_expression("Alias", 1, child=0, name=name, exprId=_id(id)), *of]


def add(*terms: Flat) -> Flat:
    """A sum, nested to the left as Spark does it."""
    first, *others = terms
    return [
        *[_expression("Add", 2, left=0, right=1)] * len(others),
        *first,
        *(node for term in others for node in term),
    ]


def project(*items: Flat) -> dict[str, Any]:
    return node("Project", 1, projectList=list(items))


def input_of(name: str, *columns: str, start: int = 0) -> Flat:
    """An input whose columns have ids from `start` on."""
    output = [attribute(start + at, column) for at, column in enumerate(columns)]
    return [
        node("SubqueryAlias", 1, identifier={"name": f"arco_input_{name}"}),
        {"class": "org.apache.spark.sql.execution.LogicalRDD", "num-children": 0, "output": output},
    ]


def node(kind: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": _PLANS + kind, "num-children": children, **fields}


def plan(*nodes: dict[str, Any] | Flat) -> str:
    """Nodes from the root down, in the order of a walk."""
    flat = [part for item in nodes for part in (item if isinstance(item, list) else [item])]
    return json.dumps(flat, separators=(",", ":"))


def _expression(kind: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": _EXPRESSIONS + kind, "num-children": children, **fields}


def _id(number: int) -> dict[str, Any]:
    return {"product-class": _EXPRESSIONS + "ExprId", "id": number, "jvmId": "b3eb6729-0832-49e1-b9d6-179327b0b812"}
