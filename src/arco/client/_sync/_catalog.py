"""Calls on namespaces, tables and columns."""

from typing import Unpack

from arco.client._calls import Changing, Reading, Writing, path_of
from arco.client._sync._connection import Calls, Pages
from arco.wire import (
    ColumnInfo,
    ColumnUpdate,
    ContractSpec,
    HistoryEntry,
    NamespaceCreate,
    NamespaceInfo,
    NamespaceRename,
    NamespaceUpdate,
    NamespaceWritten,
    Page,
    SchemaDiff,
    SchemaVersionInfo,
    SlaSpec,
    TableAlter,
    TableCommitInfo,
    TableCreate,
    TableInfo,
    TableRegister,
    TableRename,
    TableSchema,
    TableSummary,
    TableUpdate,
    TableWritten,
    Written,
)

__all__ = ["NamespaceCalls", "TableCalls"]

NAMESPACES = "/api/v1/namespaces"
NAMESPACE = "/api/v1/namespaces/{namespace}"
TABLES = "/api/v1/tables"
TABLE = "/api/v1/tables/{table}"


class NamespaceCalls(Calls):
    """A namespace is named by its path (`sales.eu`) or by `id:` and its id."""

    def list_namespaces(
        self, parent: str | None = None, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> Pages[NamespaceInfo]:
        """Those directly below a namespace, or those at the top. `limit` is the size of a page."""
        query = {"parent": parent, "limit": limit}
        return Pages(self._connection, NAMESPACES, Page[NamespaceInfo], query, options)

    def create_namespace(self, request: NamespaceCreate, **options: Unpack[Writing]) -> NamespaceWritten:
        return self._connection.write("POST", NAMESPACES, NamespaceWritten, options, body=request)

    def get_namespace(self, namespace: str, **options: Unpack[Reading]) -> NamespaceInfo:
        return self._connection.read(path_of(NAMESPACE, namespace=namespace), NamespaceInfo, {}, options)

    def update_namespace(
        self, namespace: str, request: NamespaceUpdate, **options: Unpack[Changing]
    ) -> NamespaceWritten:
        """Only fields that were given to the request are changed; None clears."""
        path = path_of(NAMESPACE, namespace=namespace)
        return self._connection.write("PATCH", path, NamespaceWritten, options, body=request)

    def rename_namespace(
        self, namespace: str, request: NamespaceRename, **options: Unpack[Changing]
    ) -> NamespaceWritten:
        path = path_of(NAMESPACE + "/rename", namespace=namespace)
        return self._connection.write("POST", path, NamespaceWritten, options, body=request)

    def drop_namespace(
        self, namespace: str, *, if_exists: bool = False, cascade: bool = False, **options: Unpack[Changing]
    ) -> Written:
        query = {"if_exists": if_exists, "cascade": cascade}
        path = path_of(NAMESPACE, namespace=namespace)
        return self._connection.write("DELETE", path, Written, options, query=query)

    def get_namespace_history(self, namespace: str, **options: Unpack[Reading]) -> Pages[HistoryEntry]:
        """The names it has had."""
        path = path_of(NAMESPACE + "/history", namespace=namespace)
        return Pages(self._connection, path, Page[HistoryEntry], {}, options)


class TableCalls(Calls):
    """A table is named by its path (`sales.orders`) or by `id:` and its id."""

    def list_tables(
        self, namespace: str, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> Pages[TableSummary]:
        """The tables of one namespace. `limit` is the size of a page."""
        query = {"namespace": namespace, "limit": limit}
        return Pages(self._connection, TABLES, Page[TableSummary], query, options)

    def create_table(self, request: TableCreate, **options: Unpack[Writing]) -> TableWritten:
        return self._connection.write("POST", TABLES, TableWritten, options, body=request)

    def register_table(self, request: TableRegister, **options: Unpack[Writing]) -> TableWritten:
        """A table of files that are in the store already; its columns are read from them."""
        return self._connection.write("POST", TABLES + "/register", TableWritten, options, body=request)

    def get_table(self, table: str, **options: Unpack[Reading]) -> TableInfo:
        return self._connection.read(path_of(TABLE, table=table), TableInfo, {}, options)

    def update_table(self, table: str, request: TableUpdate, **options: Unpack[Changing]) -> TableWritten:
        """Only fields that were given to the request are changed; None clears."""
        return self._connection.write("PATCH", path_of(TABLE, table=table), TableWritten, options, body=request)

    def rename_table(self, table: str, request: TableRename, **options: Unpack[Changing]) -> TableWritten:
        path = path_of(TABLE + "/rename", table=table)
        return self._connection.write("POST", path, TableWritten, options, body=request)

    def alter_table(self, table: str, request: TableAlter, **options: Unpack[Changing]) -> TableWritten:
        """Several changes of columns, in order, as one new schema version."""
        path = path_of(TABLE + "/alter", table=table)
        return self._connection.write("POST", path, TableWritten, options, body=request)

    def replace_schema(self, table: str, request: TableSchema, **options: Unpack[Changing]) -> TableWritten:
        """The whole schema as it was found elsewhere; renames that nobody declared are inferred and marked."""
        path = path_of(TABLE + "/schema", table=table)
        return self._connection.write("PUT", path, TableWritten, options, body=request)

    def drop_table(self, table: str, *, if_exists: bool = False, **options: Unpack[Changing]) -> Written:
        """Its `warnings` say what reads from it."""
        path = path_of(TABLE, table=table)
        return self._connection.write("DELETE", path, Written, options, query={"if_exists": if_exists})

    def get_table_history(self, table: str, **options: Unpack[Reading]) -> Pages[HistoryEntry]:
        """The names it has had."""
        path = path_of(TABLE + "/history", table=table)
        return Pages(self._connection, path, Page[HistoryEntry], {}, options)

    def list_table_commits(
        self, table: str, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> Pages[TableCommitInfo]:
        """Commits of an Iceberg table, newest first. `limit` is the size of a page."""
        path = path_of(TABLE + "/commits", table=table)
        return Pages(self._connection, path, Page[TableCommitInfo], {"limit": limit}, options)

    def list_columns(self, table: str, *, inactive: bool = False, **options: Unpack[Reading]) -> Pages[ColumnInfo]:
        """Its columns, with `inactive` also those that were dropped."""
        path = path_of(TABLE + "/columns", table=table)
        return Pages(self._connection, path, Page[ColumnInfo], {"inactive": inactive}, options)

    def describe_column(
        self, table: str, column: str, request: ColumnUpdate, **options: Unpack[Changing]
    ) -> TableWritten:
        """Only fields that were given to the request are changed; None clears."""
        path = path_of(TABLE + "/columns/{column}", table=table, column=column)
        return self._connection.write("PATCH", path, TableWritten, options, body=request)

    def list_schema_versions(
        self, table: str, *, limit: int = 20, **options: Unpack[Reading]
    ) -> Pages[SchemaVersionInfo]:
        """Its schema versions, oldest first."""
        path = path_of(TABLE + "/versions", table=table)
        return Pages(self._connection, path, Page[SchemaVersionInfo], {"limit": limit}, options)

    def diff_schema_versions(
        self, table: str, from_version: int, to_version: int, **options: Unpack[Reading]
    ) -> SchemaDiff:
        path = path_of(TABLE + "/versions/diff", table=table)
        query = {"from": from_version, "to": to_version}
        return self._connection.read(path, SchemaDiff, query, options)

    def set_contract(self, table: str, request: ContractSpec, **options: Unpack[Writing]) -> TableWritten:
        path = path_of(TABLE + "/contract", table=table)
        return self._connection.write("PUT", path, TableWritten, options, body=request)

    def drop_contract(self, table: str, **options: Unpack[Writing]) -> TableWritten:
        path = path_of(TABLE + "/contract", table=table)
        return self._connection.write("DELETE", path, TableWritten, options)

    def set_sla(self, table: str, request: SlaSpec, **options: Unpack[Writing]) -> TableWritten:
        path = path_of(TABLE + "/sla", table=table)
        return self._connection.write("PUT", path, TableWritten, options, body=request)

    def drop_sla(self, table: str, **options: Unpack[Writing]) -> TableWritten:
        path = path_of(TABLE + "/sla", table=table)
        return self._connection.write("DELETE", path, TableWritten, options)
