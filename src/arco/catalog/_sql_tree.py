"""What a query refers to, read off the syntax tree that DuckDB's own parser makes of it. Pure functions.

A *reference* is a table name of the query that is not one of its own `WITH` names. Each distinct one is placed under
a schema of its own (`_arco.q0.system.tables`), so that names which DuckDB would mix up (in upper and lower case, or
called like its own schemas) stay apart, while `system.tables.name` still names a column.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from arco.core import Invalid, format_path, shown

__all__ = ["ONLY_QUERIES", "Query", "inspect_tree", "quoted", "rewrite_tree"]

ONLY_QUERIES = (
    "only queries are allowed here: SELECT, WITH, VALUES, FROM, DESCRIBE, SUMMARIZE or EXPLAIN of one of them"
)

_TABLE_FUNCTIONS = frozenset(
    {"generate_series", "generate_subscripts", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)
_REFUSED_FUNCTIONS = frozenset(
    {
        "current_query",
        "current_setting",
        "getvariable",
        "json_serialize_plan",
        "pg_get_viewdef",
        "pg_sleep",
        "sleep_ms",
        "write_log",
    }
)
"""They tell of the engine's surroundings, or only pass time."""
_ALL_COLUMNS = frozenset({"STAR", "POSITIONAL_REFERENCE", "PIVOT", "SHOW_REF"})

Tree = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """What is to be loaded before a query runs."""

    references: tuple[tuple[str, ...], ...]
    """Distinct names in the order in which the text has them."""
    columns: frozenset[str] | None
    """Every column the text mentions, in lower case; None if it may mean any column of what it reads."""
    describes: bool
    """It asks for the columns of something and reads no row."""


def inspect_tree(tree: Tree) -> Query:
    """Check what the query uses and find what it reads."""
    statements = tree["statements"]
    if len(statements) != 1:
        found = "no statement" if not statements else f"{len(statements)} statements"
        raise Invalid(f"the text has {found}; send exactly one query")
    nodes = list(_nodes(tree))
    own = _own_names(nodes)
    references: dict[tuple[str, ...], None] = {}
    for node in nodes:
        _check(node)
        if _is_reference(node, own):
            references[tuple(node["qualified_name"]["path"])] = None
    return Query(tuple(references), _columns(nodes), _describes(statements[0]))


def rewrite_tree(tree: Tree, places: dict[tuple[str, ...], tuple[str, ...]]) -> None:
    """Point every reference to where it has been placed."""
    nodes = list(_nodes(tree))
    own = _own_names(nodes)
    for node in nodes:
        if _is_reference(node, own):
            path = places[tuple(node["qualified_name"]["path"])]
            node["catalog_name"], node["schema_name"], node["table_name"] = path[0], path[-2], path[-1]
            node["qualified_name"] = {"path": list(path)}
        elif node.get("type") == "SHOW_REF" and node["show_type"] == "SHOW":
            node["show_type"], node["table_name"], node["qualified_name"] = "DESCRIBE", "", {"path": []}


def quoted(path: tuple[str, ...]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)


def _nodes(tree: Any) -> Iterator[Tree]:
    """Every object of the tree, in the order of the text."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(reversed(item.values()))
        elif isinstance(item, list):
            stack.extend(reversed(item))


def _own_names(nodes: list[Tree]) -> frozenset[str]:
    """Names that `WITH` defines anywhere in the text.

    Where each is visible is DuckDB's business: a name of one part is never ours, so what it means outside that
    place is an error either way.
    """
    maps = (node["cte_map"]["map"] for node in nodes if isinstance(node.get("cte_map"), dict))
    return frozenset(entry["key"].lower() for entries in maps for entry in entries)


def _is_reference(node: Tree, own: frozenset[str]) -> bool:
    if node.get("type") != "BASE_TABLE":
        return False
    path = node["qualified_name"]["path"]
    return not (len(path) == 1 and path[0].lower() in own)


def _check(node: Tree) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE" and node.get("at_clause") is not None:
        name = format_path(node["qualified_name"]["path"])
        raise Invalid(f"AT after {name} is not supported; the whole query can be asked as of a time, run or position")
    if kind == "SHOW_REF" and node.get("query") is None:
        raise Invalid("SHOW is not supported; query system.tables or system.namespaces instead")
    if kind == "TABLE_FUNCTION":
        function = node["function"].get("function_name", "").lower()
        if function not in _TABLE_FUNCTIONS:
            allowed = ", ".join(sorted(_TABLE_FUNCTIONS))
            raise Invalid(
                f"the table function {shown(function)} is not available; query tables by name, or use {allowed}"
            )
    if node.get("class") == "FUNCTION" and node.get("function_name", "").lower() in _REFUSED_FUNCTIONS:
        raise Invalid(f"the function {node['function_name']} is not available in queries; remove it")


def _describes(statement: Tree) -> bool:
    source = statement["node"].get("from_table") or {}
    return source.get("type") == "SHOW_REF" and source["show_type"] in ("DESCRIBE", "SHOW")


def _columns(nodes: list[Tree]) -> frozenset[str] | None:
    mentioned: set[str] = set()
    tables: set[str] = set()
    alone: set[str] = set()
    for node in nodes:
        kind = node.get("type")
        if kind in _ALL_COLUMNS or node.get("ref_type") == "NATURAL" or node.get("column_name_alias"):
            return None
        if kind == "COLUMN_REF":
            names = [name.lower() for name in node["column_names"]]
            mentioned.update(names)
            if len(names) == 1:
                alone.update(names)
        elif kind == "BASE_TABLE":
            tables.update((node["alias"].lower(), node["qualified_name"]["path"][-1].lower()))
        mentioned.update(name.lower() for name in node.get("using_columns") or ())
    return None if alone & tables else frozenset(mentioned)  # the name of a table alone is a row of it
