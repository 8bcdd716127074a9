"""Reading the catalog: namespaces, tables, columns, schemas and what they were called, as they travel.

Everything here reads one view of the log `catalog` and answers with models of `arco.wire`. Lists go page by page
through `names`, one group of which holds what is in a namespace, so that a page costs the same however much there is.
"""

from typing import Any, cast

from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor
from arco.catalog._names import (
    NAMESPACE,
    TABLE,
    Resolved,
    View,
    changes_of,
    last_path,
    parse_ref,
    position_of_view,
    resolve_namespace,
    resolve_table,
)
from arco.core import NotFound, Refused, Stale, format_path, format_time
from arco.domains.catalog import (
    COLUMNS,
    CONTRACTS,
    NAMES,
    NAMESPACES,
    ROOT,
    SCHEMA_VERSIONS,
    SLAS,
    TABLES,
    Column,
    Contract,
    Declared,
    Name,
    Namespace,
    Ref,
    SchemaColumn,
    SchemaVersion,
    Sla,
    TableRow,
    is_iceberg,
)
from arco.state import Table
from arco.wire import (
    AnyFormat,
    ColumnInfo,
    ContractInfo,
    DeclaredInfo,
    FormerColumnNameInfo,
    HistoryEntry,
    NamespaceInfo,
    Page,
    SchemaColumnInfo,
    SchemaDiff,
    SchemaVersionInfo,
    SlaInfo,
    TableInfo,
    TableSummary,
)

__all__ = [
    "list_columns",
    "list_namespaces",
    "list_tables",
    "namespace_history",
    "namespace_info",
    "schema_diff",
    "schema_versions",
    "table_history",
    "table_info",
]


def _at(view: View) -> str:
    return str(position_of_view(view))


async def _row(view: View, table: Table, id: str) -> Any:
    """A row whose id was just found. If it is gone, the live state moved under us."""
    row = await view.get(table, id, id)
    if row is None:
        raise Stale(f"the catalog changed while {id} was read; try again")
    return row


# Namespaces


async def namespace_info(view: View, ref: Ref | str) -> NamespaceInfo:
    """One namespace, by its path, an old path or its id."""
    resolved = await resolve_namespace(view, ref)
    return _namespace(await _row(view, NAMESPACES, resolved.id), resolved)


def _namespace(row: Namespace, resolved: Resolved) -> NamespaceInfo:
    return NamespaceInfo(
        id=row.namespace_id,
        name=format_path(resolved.path),
        parent=format_path(resolved.path[:-1]) or None,
        description=row.description,
        properties=row.properties,
        version=row.version,
        created_by=row.created_by,
        created_at=format_time(row.created_at),
        updated_by=row.updated_by,
        updated_at=format_time(row.updated_at),
        renamed_from=_old(resolved),
    )


def _old(resolved: Resolved) -> str | None:
    return None if resolved.renamed_from is None else format_path(resolved.renamed_from)


async def list_namespaces(
    view: View, parent: Ref | str | None = None, cursor: str | None = None, limit: int = 100
) -> Page[NamespaceInfo]:
    """The namespaces directly in `parent`, or those at the top, by name."""
    above = Resolved(ROOT, ()) if parent is None else await resolve_namespace(view, parent)
    names, following = await _named(view, above.id, NAMESPACE, cursor, limit)
    items = []
    for name in names:
        row = await _row(view, NAMESPACES, name.object_id)
        items.append(_namespace(row, Resolved(name.object_id, (*above.path, name.name))))
    return Page[NamespaceInfo](items=items, next_cursor=following, position=_at(view))


async def _named(view: View, parent: str, kind: str, cursor: str | None, limit: int) -> tuple[list[Name], str | None]:
    """One page of the names of a kind in a namespace, and the cursor of the next one."""
    place = f"{kind}/{parent}"
    after = decode_cursor(place, cursor, 1) or ("",)
    found: list[Name] = await view.page(NAMES, parent, (parent, kind, after[0]), check_limit(limit) + 1)
    names = [name for name in found if name.kind == kind]
    if len(names) <= limit:
        return names, None
    return names[:limit], encode_cursor(place, (names[limit - 1].name,))


async def namespace_history(view: View, ref: Ref | str) -> Page[HistoryEntry]:
    """What a namespace was called, oldest first. By its id also of one that was dropped."""
    return await _history(view, ref, NAMESPACE)


async def table_history(view: View, ref: Ref | str) -> Page[HistoryEntry]:
    """What a table was called, oldest first. By its id also of one that was dropped."""
    return await _history(view, ref, TABLE)


async def _history(view: View, ref: Ref | str, kind: str) -> Page[HistoryEntry]:
    ref = parse_ref(ref) if isinstance(ref, str) else ref
    if ref.id:
        found = ref.id
    else:
        resolve = resolve_namespace if kind == NAMESPACE else resolve_table
        found = (await resolve(view, ref)).id
    changes = [change for change in await changes_of(view, found) if change.kind == kind]
    if not changes:
        raise NotFound(f"there is no {kind} with the id {found}")
    parents = {change.parent_id: await last_path(view, change.parent_id) for change in changes}
    items = [
        HistoryEntry(
            name=change.name,
            parent=format_path(parents[change.parent_id] or ()) or None,
            change=cast(Any, change.change),
            changed_by=change.changed_by,
            changed_at=format_time(change.changed_at),
        )
        for change in changes
    ]
    return Page[HistoryEntry](items=items, position=_at(view))


# Tables


async def table_info(view: View, ref: Ref | str) -> TableInfo:
    """One table with its active columns, its contract and its SLA, by its path, an old path or its id."""
    resolved = await resolve_table(view, ref)
    id = resolved.id
    row: TableRow = await _row(view, TABLES, id)
    columns = [column for column in await _columns(view, id) if column.status == "active"]
    return TableInfo(
        id=id,
        name=format_path(resolved.path),
        namespace=format_path(resolved.path[:-1]),
        format=cast(AnyFormat, row.format),
        location=row.location,
        description=row.description,
        owners=list(row.owners),
        tags=row.tags,
        properties=row.properties,
        code=_declared(row.code),
        ui=_declared(row.ui),
        columns=[_column(column) for column in columns],
        pii_columns=[column.name for column in columns if column.pii_type is not None],
        schema_version=row.schema_version,
        schema_hash=row.schema_hash,
        contract=_contract(await view.get(CONTRACTS, id, id)),
        sla=_sla(await view.get(SLAS, id, id)),
        version=row.version,
        created_by=row.created_by,
        created_at=format_time(row.created_at),
        updated_by=row.updated_by,
        updated_at=format_time(row.updated_at),
        renamed_from=_old(resolved),
    )


async def list_tables(
    view: View, namespace: Ref | str, cursor: str | None = None, limit: int = 100
) -> Page[TableSummary]:
    """The tables directly in a namespace, by name."""
    above = await resolve_namespace(view, namespace)
    names, following = await _named(view, above.id, TABLE, cursor, limit)
    text = format_path(above.path)
    items = [
        TableSummary(
            id=name.object_id,
            name=f"{text}.{format_path((name.name,))}",
            namespace=text,
            format=cast(AnyFormat, name.format),
            description=name.description,
            updated_at=format_time(name.updated_at),
        )
        for name in names
    ]
    return Page[TableSummary](items=items, next_cursor=following, position=_at(view))


def _declared(declared: Declared) -> DeclaredInfo:
    return DeclaredInfo(description=declared.description, owners=list(declared.owners), tags=declared.tags)


def _contract(row: Contract | None) -> ContractInfo | None:
    if row is None:
        return None
    return ContractInfo(
        compatibility=cast(Any, row.compatibility),
        status=row.status,
        description=row.description,
        terms=row.terms,
        version=row.version,
        updated_by=row.updated_by,
        updated_at=format_time(row.updated_at),
    )


def _sla(row: Sla | None) -> SlaInfo | None:
    if row is None:
        return None
    return SlaInfo(
        freshness_seconds=row.freshness_seconds,
        availability_percent=row.availability_percent,
        description=row.description,
        version=row.version,
        updated_by=row.updated_by,
        updated_at=format_time(row.updated_at),
    )


# Columns and schemas


async def list_columns(view: View, ref: Ref | str, *, inactive: bool = False) -> Page[ColumnInfo]:
    """The columns of a table in order; with `inactive` also the dropped ones, after the others."""
    resolved = await resolve_table(view, ref)
    columns = [column for column in await _columns(view, resolved.id) if inactive or column.status == "active"]
    return Page[ColumnInfo](items=[_column(column) for column in columns], position=_at(view))


async def _columns(view: View, table_id: str) -> list[Column]:
    rows: list[Column] = await view.rows(COLUMNS, table_id)
    return sorted(rows, key=lambda row: (row.status != "active", row.ordinal_position, row.column_id))


def _column(row: Column) -> ColumnInfo:
    return ColumnInfo(
        id=row.column_id,
        name=row.name,
        type=row.data_type,
        position=row.ordinal_position,
        nullable=row.is_nullable,
        description=row.description,
        code_description=row.code_description,
        ui_description=row.ui_description,
        pii_type=row.pii_type,
        sensitivity=row.sensitivity,
        status=cast(Any, row.status),
        former_names=[
            FormerColumnNameInfo(name=former.name, until_version=former.until_version, inferred=former.inferred)
            for former in row.former_names
        ],
        added_in_version=row.added_in_version,
        dropped_in_version=row.dropped_in_version,
        created_at=format_time(row.created_at),
        updated_at=format_time(row.updated_at),
    )


async def schema_versions(
    view: View, ref: Ref | str, cursor: str | None = None, limit: int = 20
) -> Page[SchemaVersionInfo]:
    """The schemas a table has had, oldest first."""
    resolved = await _versioned(view, ref)
    place = f"versions/{resolved.id}"
    last = decode_cursor(place, cursor, 1)
    rows: list[SchemaVersion] = await view.page(
        SCHEMA_VERSIONS, resolved.id, last[0] if last else None, check_limit(limit) + 1
    )
    items = [
        SchemaVersionInfo(
            version=row.version,
            schema_hash=row.schema_hash,
            columns=[_schema_column(column) for column in row.columns],
            registered_by=row.registered_by,
            registered_at=format_time(row.registered_at),
        )
        for row in rows[:limit]
    ]
    following = encode_cursor(place, (rows[limit - 1].schema_version_id,)) if len(rows) > limit else None
    return Page[SchemaVersionInfo](items=items, next_cursor=following, position=_at(view))


async def _versioned(view: View, ref: Ref | str) -> Resolved:
    """A table whose schemas the catalog decides. Those of Iceberg tables are in their metadata."""
    resolved = await resolve_table(view, ref)
    row: TableRow | None = await view.get(TABLES, resolved.id, resolved.id)
    if row is not None and is_iceberg(row.format):
        raise Refused(
            f"{format_path(resolved.path)} has its schemas in its Iceberg metadata, not in the catalog; its commits "
            "say when they changed: `arco table commits`, GET /api/v1/tables/{table}/commits"
        )
    return resolved


async def _versions(view: View, table_id: str) -> list[SchemaVersion]:
    rows: list[SchemaVersion] = await view.rows(SCHEMA_VERSIONS, table_id)
    return sorted(rows, key=lambda row: row.version)


def _schema_column(column: SchemaColumn) -> SchemaColumnInfo:
    return SchemaColumnInfo(id=column.column_id, name=column.name, type=column.data_type, nullable=column.is_nullable)


async def schema_diff(view: View, ref: Ref | str, from_version: int, to_version: int) -> SchemaDiff:
    """What is different in the second of two schema versions, by column id.

    A column that has another type or may be null now is retyped; one that has another name as well is in both lists.
    """
    resolved = await _versioned(view, ref)
    known = {row.version: row for row in await _versions(view, resolved.id)}
    for version in (from_version, to_version):
        if version not in known:
            raise NotFound(
                f"{format_path(resolved.path)} has no schema version {version}; it has "
                f"{f'{min(known)} to {max(known)}' if known else 'none'}"
            )
    old = {column.column_id: column for column in known[from_version].columns}
    new = {column.column_id: column for column in known[to_version].columns}
    both = [(old[id], column) for id, column in new.items() if id in old]
    return SchemaDiff(
        from_version=from_version,
        to_version=to_version,
        added=[_schema_column(column) for id, column in new.items() if id not in old],
        removed=[_schema_column(column) for id, column in old.items() if id not in new],
        renamed=[_pair(was, now) for was, now in both if was.name != now.name],
        retyped=[
            _pair(was, now) for was, now in both if (was.data_type, was.is_nullable) != (now.data_type, now.is_nullable)
        ],
    )


def _pair(was: SchemaColumn, now: SchemaColumn) -> tuple[SchemaColumnInfo, SchemaColumnInfo]:
    return _schema_column(was), _schema_column(now)
