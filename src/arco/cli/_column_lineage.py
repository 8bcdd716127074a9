"""Lineage by column as people read it: what one column is made of, and how much is known of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from arco.cli._output import grid, say, visible
from arco.core import NotFound, parse_ulid
from arco.wire import ColumnEdgeInfo, LineageEdgeInfo, LineageGraph

__all__ = ["COVERAGE", "ColumnTree", "Covered", "coverage_parts", "exact_columns"]

KINDS: Final = {
    "DIRECT": "as it is",
    "EXPRESSION": "computed",
    "CAST": "converted",
    "AGGREGATE": "aggregated",
    "CASE": "decides",
    "WINDOW": "window",
    "JOIN": "joined by",
    "FILTER": "filtered by",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
}
UNTOLD: Final = "UNKNOWN"
"""The kind of what somebody says, and of what other producers record without one."""
SURE: Final = "high"
DEEPEST: Final = 50

# The columns of an asset are those of the files of its newest good versions. A column of which an edge says nothing
# depends on no column, such as a count or a literal, which is as exact as anything. Which edges and columns are of
# former code is what `catalog/_former.py` says.
_JUDGED: Final = """
WITH newest AS (
    SELECT p.asset_id, max(p.last_success_at) AS made_at, max_by(m.code_version, p.last_success_at) AS code
    FROM system.partitions p JOIN system.materializations m ON m.materialization_id = p.current_materialization_id
    GROUP BY p.asset_id
),
recorded AS (
    SELECT e.target_id, e.column_lineage AS lineage, d.last_seen_at < n.made_at AS unused,
        d.last_seen_at > e.recorded_lineage_at AND e.recorded_lineage_code IS NOT NULL AS untold,
        e.parameter <> '' AND n.code <> '' AND n.code IS DISTINCT FROM e.recorded_lineage_code AS changed
    FROM system.lineage_edges e
    LEFT JOIN system.lineage_metadata d ON d.edge_id = e.edge_id
    LEFT JOIN newest n ON n.asset_id = e.target_id
    WHERE e.recorded
),
edges AS (
    SELECT target_id, CASE WHEN changed AND untold THEN NULL ELSE lineage END AS lineage
    FROM recorded WHERE NOT coalesce(changed AND unused, false)
),
assets AS (SELECT a.asset_id, a.key FROM system.assets a WHERE a.asset_id IN (SELECT target_id FROM edges)),
files AS (
    SELECT m.asset_id, unnest(m.files) AS file FROM system.materializations m
    JOIN system.partitions p ON p.current_materialization_id = m.materialization_id
    WHERE m.asset_id IN (SELECT asset_id FROM assets)
),
stats AS (SELECT asset_id, unnest(file.stats) AS stat FROM files),
columns AS (SELECT DISTINCT asset_id, stat."column" AS name FROM stats),
mappings AS (SELECT target_id, unnest(lineage.mappings) AS mapping FROM edges),
unmapped AS (SELECT target_id, unnest(lineage.unmapped_columns) AS missing FROM edges),
unsure AS (
    SELECT target_id, mapping.target_column.name AS name, mapping.mapping_confidence = 'low' AS unknown,
        mapping.reason AS reason
    FROM mappings WHERE mapping.mapping_confidence <> 'high'
    UNION ALL SELECT target_id, missing.name, true, NULL FROM unmapped
    UNION ALL SELECT c.asset_id, c.name, true, 'no lineage was told' FROM columns c
        JOIN edges e ON e.target_id = c.asset_id WHERE e.lineage IS NULL
),
judged AS (
    SELECT target_id, name, bool_or(unknown) AS unknown, min(reason) AS reason FROM unsure GROUP BY ALL
)
"""

COVERAGE: Final = f"""{_JUDGED}
SELECT a.key, count(*) AS columns, count(*) FILTER (j.name IS NULL) AS exact,
    count(*) FILTER (NOT j.unknown) AS approximate, count(*) FILTER (j.unknown) AS unknown, min(j.reason) AS reason
FROM columns c JOIN assets a ON a.asset_id = c.asset_id
LEFT JOIN judged j ON j.target_id = c.asset_id AND j.name = c.name
GROUP BY a.key ORDER BY a.key
"""


def exact_columns(asset_id: str) -> str:
    """The query for the columns of an asset of which everything is known, those that are made of none included."""
    return f"""{_JUDGED}
SELECT c.name FROM columns c LEFT JOIN judged j ON j.target_id = c.asset_id AND j.name = c.name
WHERE c.asset_id = '{parse_ulid(asset_id)}' AND j.name IS NULL ORDER BY c.name
"""


@dataclass(frozen=True)
class Covered:
    """How far the columns of an asset are known."""

    asset: str
    columns: int
    exact: int
    approximate: int
    unknown: int
    reason: str | None


def coverage_parts(covered: Sequence[Covered]) -> list[RenderableType]:
    rows = [[one.asset, one.columns, one.exact, one.approximate, one.unknown, one.reason] for one in covered]
    whole = sum(one.columns for one in covered)
    counts = {
        "exact": sum(one.exact for one in covered),
        "approximate": sum(one.approximate for one in covered),
        "unknown": sum(one.unknown for one in covered),
    }
    told = ", ".join(f"{count:,} {word} ({count / whole:.0%})" for word, count in counts.items())
    columns = "1 column" if whole == 1 else f"{whole:,} columns"
    assets = "1 asset" if len(covered) == 1 else f"{len(covered):,} assets"
    end = say(f"{columns} of {assets}: {told}.", "green" if not counts["unknown"] else "")
    has_reasons = any(one.reason for one in covered)
    headers = ["asset", "columns", "exact", "approximate", "unknown", "why"]
    shown = rows if has_reasons else [row[:-1] for row in rows]
    return [grid(headers if has_reasons else headers[:-1], shown), end]


class ColumnTree:
    """What a column of the root is made of, step by step, and what decides about its rows."""

    def __init__(self, graph: LineageGraph, column: str) -> None:
        self._root = graph.root
        self._column = column
        self._names = {node.id: node.name or f"id:{node.id}" for node in (graph.root, *graph.nodes)}
        self._above: dict[str, list[tuple[LineageEdgeInfo, ColumnEdgeInfo]]] = {}
        for edge in graph.edges:
            self._above.setdefault(edge.target_id, []).extend((edge, one) for one in edge.mappings)

    @property
    def mapped(self) -> list[str]:
        """The columns of the root that are made of others."""
        return sorted({one.target for _, one in self._of(self._root.id) if one.target is not None})

    def check(self, exact: Sequence[str]) -> None:
        """`NotFound` unless it is known what the column is made of; of an exact one that may be no column."""
        known = sorted({*self.mapped, *exact})
        if self._column not in known:
            none = "nor of any other column of it, as before something is made for the first time"
            others = f"only of {', '.join(known)}" if known else none
            raise NotFound(
                f"nothing is known about what {self._name(self._root.id, self._column)} is made of, {others}; "
                "`arco lineage coverage` says of how many columns it is known, and why not of others"
            )

    def document(self) -> dict[str, object]:
        made_of = [
            self._name(edge.source_id, name)
            for edge, one in self._of(self._root.id)
            for name in (one.sources if one.target == self._column else ())
        ]
        return {"name": self._column, "made_of": list(dict.fromkeys(made_of)), "rows": self._rows()}

    def parts(self) -> list[RenderableType]:
        name = Text(visible(self._name(self._root.id, self._column)), "bold")
        rows = [say(f"Its rows are {', '.join(self._rows())}.", "dim")] if self._rows() else []
        if self._column not in self.mapped:
            return [Text.assemble(name, ("  made of no column", "dim")), *rows]
        tree = Tree(name)
        self._grow(tree, self._root.id, self._column, {(self._root.id, self._column)}, 0)
        return [tree, *rows]

    def _rows(self) -> list[str]:
        """What decides about the rows of the root, and in which way."""
        told = (
            f"{_kind(edge, one)} {self._name(edge.source_id, name)}"
            for edge, one in self._of(self._root.id)
            for name in (one.sources if one.target is None else ())
        )
        return list(dict.fromkeys(told))

    def _grow(self, branch: Tree, id: str, column: str, seen: set[tuple[str, str]], depth: int) -> None:
        for edge, one in self._of(id):
            source_id = edge.source_id
            for name in one.sources if one.target == column else ():
                told = _kind(edge, one)
                if one.confidence != SURE:
                    told += f", {one.confidence} confidence{f': {one.reason}' if one.reason else ''}"
                again = (source_id, name) in seen and any(above.target == name for _, above in self._of(source_id))
                twig = branch.add(
                    Text.assemble(
                        visible(self._name(source_id, name)), (f"  {told}{'  (see above)' if again else ''}", "dim")
                    )
                )
                if not again and depth < DEEPEST:
                    seen.add((source_id, name))
                    self._grow(twig, source_id, name, seen, depth + 1)

    def _of(self, id: str) -> Sequence[tuple[LineageEdgeInfo, ColumnEdgeInfo]]:
        return self._above.get(id, ())

    def _name(self, id: str, column: str) -> str:
        return f"{self._names.get(id, id)}.{column}"


def _kind(edge: LineageEdgeInfo, one: ColumnEdgeInfo) -> str:
    return f"formerly {_kind_now(edge, one)}" if edge.former else _kind_now(edge, one)


def _kind_now(edge: LineageEdgeInfo, one: ColumnEdgeInfo) -> str:
    """In which way, or who says that it is so."""
    if one.kind != UNTOLD:
        return KINDS.get(one.kind, one.kind.lower())
    if edge.capture_method != "annotation":
        return "in a way that was not told"
    return "stated by hand" if edge.manual else "as its author says"
