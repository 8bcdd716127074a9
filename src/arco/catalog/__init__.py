"""Product logic over an open workspace: names, readers, points in the past, differences, lineage, SQL. No HTTP here."""

from arco.catalog._activity import check_results, run_outputs
from arco.catalog._audit import audit_page
from arco.catalog._browser import browser_urls
from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor, number_in
from arco.catalog._data_files import current_data, lost_data
from arco.catalog._diff import Changed, Difference, compare, diff_snapshots
from arco.catalog._footer import column_facts, read_footer
from arco.catalog._iceberg import ICEBERG_FORMATS, iceberg_columns, table_commits, with_iceberg
from arco.catalog._lineage import downstream_of, walk
from arco.catalog._names import (
    Namer,
    Resolved,
    View,
    find_asset,
    name_of,
    namespace_path,
    parse_ref,
    position_of_view,
    resolve_namespace,
    resolve_table,
    table_or_asset,
    table_path,
)
from arco.catalog._plain import Row, plain_rows
from arco.catalog._points import NOW, AsOf, Points, parse_as_of
from arco.catalog._reader import (
    list_columns,
    list_namespaces,
    list_tables,
    namespace_history,
    namespace_info,
    schema_diff,
    schema_versions,
    table_history,
    table_info,
)
from arco.catalog._register import Found, FoundColumn, inspect
from arco.catalog._relations import CatalogResolver, SystemRelations
from arco.catalog._revisions import revisions_page
from arco.catalog._sql import Limits, QueryResult, Sandbox
from arco.catalog._sql_files import Wanted, decode_file
from arco.catalog._sql_relation import Relation, select_columns
from arco.catalog._sql_types import arrow_type
from arco.catalog._tables import find_table
from arco.catalog._type_text import type_text

__all__ = [
    "ICEBERG_FORMATS",
    "NOW",
    "AsOf",
    "CatalogResolver",
    "Changed",
    "Difference",
    "Found",
    "FoundColumn",
    "Limits",
    "Namer",
    "Points",
    "QueryResult",
    "Relation",
    "Resolved",
    "Row",
    "Sandbox",
    "SystemRelations",
    "View",
    "Wanted",
    "arrow_type",
    "audit_page",
    "browser_urls",
    "check_limit",
    "check_results",
    "column_facts",
    "compare",
    "current_data",
    "decode_cursor",
    "decode_file",
    "diff_snapshots",
    "downstream_of",
    "encode_cursor",
    "find_asset",
    "find_table",
    "iceberg_columns",
    "inspect",
    "list_columns",
    "list_namespaces",
    "list_tables",
    "lost_data",
    "name_of",
    "namespace_history",
    "namespace_info",
    "namespace_path",
    "number_in",
    "parse_as_of",
    "parse_ref",
    "plain_rows",
    "position_of_view",
    "read_footer",
    "resolve_namespace",
    "resolve_table",
    "revisions_page",
    "run_outputs",
    "schema_diff",
    "schema_versions",
    "select_columns",
    "table_commits",
    "table_history",
    "table_info",
    "table_or_asset",
    "table_path",
    "type_text",
    "walk",
    "with_iceberg",
]
