"""The friendly views of `system.*`: raw tables with the names that ids stand for.

`{name}` is the raw table of that name. A path is written as `core.format_path` writes it: names joined by dots, one
that has a dot itself in double quotes. Rows keep all their columns; what is added stands before `_position`.

- `system.namespaces` has `path`.
- `system.tables` has `namespace` (its path) and `full_name`.
- `system.columns` has `table_name`, the full name of its table; None for a table that was dropped. Columns of Iceberg
  tables and views are among them: they come from the other log, and what only the catalog keeps of a column is null.
- `system.materializations` has `written_status`, which is how a version was written; its `status` is how it stands now.
"""

from dataclasses import dataclass

from arco.domains.catalog import ROOT

__all__ = ["VIEWS", "SystemView"]


@dataclass(frozen=True)
class SystemView:
    """A view instead of the raw table of the same name."""

    text: str
    sources: tuple[str, ...]
    added: tuple[str, ...]
    """Columns beside those of the raw table; all of them text."""
    uses: frozenset[str]
    """Columns of the sources that the text names."""


def _part(name: str) -> str:
    return f"CASE WHEN contains({name}, '.') THEN '\"' || {name} || '\"' ELSE {name} END"


_PATHS = f"""
WITH RECURSIVE paths AS (
    SELECT namespace_id, {_part("name")} AS path FROM {{namespaces}} WHERE parent_id = '{ROOT}'
    UNION ALL
    SELECT inside.namespace_id, paths.path || '.' || {_part("inside.name")}
    FROM {{namespaces}} inside JOIN paths ON inside.parent_id = paths.namespace_id
)
"""

_FULL_NAME = f"paths.path || '.' || {_part('tables.name')}"

VIEWS = {
    "namespaces": SystemView(
        f"""{_PATHS}
SELECT namespaces.* EXCLUDE (_position), paths.path, namespaces._position
FROM {{namespaces}} namespaces LEFT JOIN paths ON paths.namespace_id = namespaces.namespace_id""",
        ("namespaces",),
        ("path",),
        frozenset({"namespace_id", "parent_id", "name", "_position"}),
    ),
    "tables": SystemView(
        f"""{_PATHS}
SELECT tables.* EXCLUDE (_position), paths.path AS namespace, {_FULL_NAME} AS full_name, tables._position
FROM {{tables}} tables LEFT JOIN paths ON paths.namespace_id = tables.namespace_id""",
        ("namespaces", "tables"),
        ("namespace", "full_name"),
        frozenset({"namespace_id", "parent_id", "name", "_position"}),
    ),
    "columns": SystemView(
        f"""{_PATHS}, full_names AS (
    SELECT tables.table_id, {_FULL_NAME} AS full_name
    FROM {{tables}} tables JOIN paths ON paths.namespace_id = tables.namespace_id
)
SELECT columns.* EXCLUDE (_position), full_names.full_name AS table_name, columns._position
FROM (
    FROM {{columns}} UNION ALL BY NAME
    SELECT * EXCLUDE (field_id, schema_number), updated_at AS created_at, 'active' AS status FROM {{table_columns}}
) columns LEFT JOIN full_names ON full_names.table_id = columns.table_id""",
        ("namespaces", "tables", "columns", "table_columns"),
        ("table_name",),
        frozenset(
            {"namespace_id", "parent_id", "name", "table_id", "updated_at", "field_id", "schema_number", "_position"}
        ),
    ),
    "materializations": SystemView(
        """
SELECT made.* EXCLUDE (_position) REPLACE (coalesce(stands.status, made.status) AS status),
    made.status AS written_status, made._position
FROM {materializations} made
LEFT JOIN {version_status} stands ON stands.materialization_id = made.materialization_id""",
        ("materializations", "version_status"),
        ("written_status",),
        frozenset({"materialization_id", "status", "_position"}),
    ),
}
