"""Tables, columns and schema versions as people read them."""

from rich.table import Table
from rich.text import Text

from arco.cli._answers import facts
from arco.cli._output import grid, say, shown_size, shown_time
from arco.wire import (
    ColumnInfo,
    ContractInfo,
    FormerColumnNameInfo,
    IcebergInfo,
    SchemaColumnInfo,
    SchemaVersionInfo,
    SlaInfo,
    TableCommitInfo,
    TableInfo,
)

__all__ = ["COMMIT_HEADERS", "column_text", "columns_grid", "commit_row", "table_facts", "version_row"]


def table_facts(found: TableInfo) -> Text:
    """What there is to say of a table beside its columns."""
    return facts(
        [
            ("id", found.id),
            ("format", found.format),
            ("location", found.location),
            ("description", found.description),
            ("owners", found.owners),
            ("tags", found.tags),
            ("properties", found.properties),
            ("contract", _contract(found.contract)),
            ("SLA", _sla(found.sla)),
            ("PII in", found.pii_columns),
            *_iceberg(found.iceberg),
            ("schema", _schema(found)),
            ("version", str(found.version)),
            ("created", f"{shown_time(found.created_at)} by {found.created_by}"),
            ("updated", f"{shown_time(found.updated_at)} by {found.updated_by}"),
            ("renamed from", found.renamed_from),
        ]
    )


def _schema(found: TableInfo) -> str:
    if found.iceberg is not None:
        return f"Iceberg's {found.iceberg.schema_id}"
    return f"version {found.schema_version}, {found.schema_hash[:16]}"


def _iceberg(found: IcebergInfo | None) -> list[tuple[str, str | None]]:
    if found is None:
        return []
    counts = [
        None if found.row_count is None else f"{found.row_count:,} rows",
        None if found.file_count is None else f"{found.file_count:,} files",
        None if found.byte_size is None else shown_size(found.byte_size),
    ]
    return [
        ("Iceberg", f"v{found.format_version}, commit {found.number}, {found.uuid}"),
        ("metadata", found.metadata_location),
        ("snapshot", found.snapshot_id),
        ("holds", ", ".join(count for count in counts if count) or None),
        ("committed", f"{shown_time(found.committed_at)} by {found.last_actor} ({found.last_source})"),
    ]


COMMIT_HEADERS = ["commit", "when", "by", "source", "lineage", "quality", "operation", "rows", "snapshot"]


def commit_row(found: TableCommitInfo) -> list[object]:
    """A commit; what its writer did not count is left out."""
    changes = [
        None if not found.added_rows else f"+{found.added_rows:,}",
        None if not found.deleted_rows else f"-{found.deleted_rows:,}",
    ]
    what = found.operation or ("schema" if found.schema_changed else None)
    return [
        str(found.number),
        shown_time(found.committed_at),
        found.actor,
        f"run {found.run_id}" if found.run_id else found.source,
        found.lineage_confidence.replace("_", " "),
        found.quality_status.replace("_", " "),
        what if found.state == "live" else say(found.state, "red"),
        " ".join(change for change in changes if change) or None,
        found.snapshot_id,
    ]


def columns_grid(columns: list[ColumnInfo]) -> Table:
    """Columns; what none of them has is left out."""
    rows = [
        {
            "column": column.name,
            "type": column.type,
            "null": "yes" if column.nullable else "no",
            "description": column.description,
            "PII": column.pii_type,
            "sensitivity": column.sensitivity,
            "status": None if column.status == "active" else say(f"dropped in {column.dropped_in_version}", "red"),
            "was": ", ".join(_former(former) for former in column.former_names) or None,
        }
        for column in columns
    ]
    headers = [name for name in rows[0] if name in ("column", "type", "null") or any(row[name] for row in rows)]
    return grid(headers, [[row[name] for name in headers] for row in rows])


def _former(former: FormerColumnNameInfo) -> str:
    return f"{former.name} (inferred)" if former.inferred else former.name


def _contract(contract: ContractInfo | None) -> str | None:
    if contract is None:
        return None
    terms = "".join(f", {name}={value}" for name, value in contract.terms.items())
    return f"{contract.compatibility}, {contract.status}{terms}"


def _sla(sla: SlaInfo | None) -> str | None:
    if sla is None:
        return None
    fresh = None if sla.freshness_seconds is None else f"at most {sla.freshness_seconds:,} s old"
    available = None if sla.availability_percent is None else f"{sla.availability_percent:g} % available"
    return ", ".join(part for part in (fresh, available, sla.description) if part)


def version_row(found: SchemaVersionInfo) -> list[object]:
    columns = ", ".join(column_text(column) for column in found.columns)
    return [str(found.version), shown_time(found.registered_at), found.registered_by, found.schema_hash[:16], columns]


def column_text(column: SchemaColumnInfo) -> str:
    return f"{column.name} {column.type}{'' if column.nullable else ' not null'}"
